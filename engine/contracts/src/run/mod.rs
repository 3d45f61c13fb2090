//! What a run is asked to do ([`RunSpec`]) and how it stands ([`RunStatus`], [`RunEvent`]).

mod spec;
mod status;

pub use spec::*;
pub use status::*;
