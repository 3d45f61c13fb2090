//! `agent`: see [`agent::cli`].

use std::process::ExitCode;

use agent::process::Program;

fn main() -> ExitCode {
    agent::cli::run(std::env::args_os(), Program::of_this_process)
}
