//! The `controller` program: children first, then the command line.

use std::io::Write as _;
use std::process::ExitCode;

use controller::exit::Exit;
use controller::local::{self, Program};

fn main() -> ExitCode {
    // TLS has one provider for the whole process; a second install is refused and does no harm.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let mut args = std::env::args_os();
    if args.by_ref().nth(1).is_some_and(|word| word == "engine") {
        return local::engine_main(args);
    }
    // Opened once, before anything can replace the file: all children are this build.
    let program = match Program::of_this_process() {
        Ok(program) => program,
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "error: cannot open this program: {error}"
            );
            return Exit::Failed.into();
        }
    };
    controller::cli::main(std::env::args_os(), program)
}
