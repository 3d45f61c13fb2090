//! The program `engine`: everything is in `engine::cli`.

use std::process::ExitCode;

/// As a child of the agent each of our binaries is started as `EXE engine …`; people leave the word out.
fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    args.next_if(|first| first == "engine");
    engine::cli::run(args)
}
