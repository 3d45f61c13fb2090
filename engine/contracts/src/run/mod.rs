//! What a run is asked to do ([`RunSpec`]) and how it stands ([`RunStatus`], [`RunEvent`]).

mod prompts;
mod sending;
mod spec;
mod status;
mod validity;

pub use prompts::*;
pub use spec::*;
pub use status::*;
pub use validity::*;
