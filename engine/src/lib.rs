//! The engine: chapters, models, tokenizers, sampling, the OpenAI server, the offline loop.
//!
//! A chapter knows no HTTP; the server and the offline worker know no chapter.

pub mod chapters;
pub mod error;
pub mod inspect;
pub mod model;
pub mod sampling;
pub mod text;
