//! The engine: chapters, models, tokenizers, sampling, the OpenAI server, the offline loop.
//!
//! A chapter knows no HTTP; the server and the offline worker know no chapter.

pub mod chapters;
pub mod cli;
pub mod decoder;
pub mod error;
pub mod inspect;
pub mod model;
pub mod offline;
pub mod sampling;
pub mod server;
pub mod text;
pub mod worker;
