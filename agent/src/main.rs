//! `agent`: see [`agent::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    agent::cli::run(
        std::env::args_os(),
        agent::process::Program::of_this_process(),
    )
}
