//! Plans runs, dispatches them to agents, stores every raw number and compares.

pub mod record;
