//! Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends the process at once.

use std::io::Write as _;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// Starts to listen. The token is set by the first signal.
///
/// # Errors
/// The handlers cannot be set.
pub fn listen() -> std::io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let token = CancellationToken::new();
    let set = token.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if set.is_cancelled() {
                // Children die with us: their keepers see the pipe close.
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
            // A closed stderr is no reason not to stop.
            let _ = writeln!(std::io::stderr(), "stopping; once more to quit at once");
            set.cancel();
        }
    });
    Ok(token)
}
