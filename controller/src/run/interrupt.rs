//! Ctrl-C, SIGTERM and a terminal that went away: the first asks for an orderly end, the second
//! ends the process at once.

use std::io::Write as _;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// Signals this soon after the first are the same wish: timeout(1) sends each one twice, to its child and
/// to the group, and so do a terminal that closes and its shell. Nobody presses Ctrl-C twice so fast.
const SAME_WISH: Duration = Duration::from_millis(300);

/// Starts to listen. The token is set by the first signal.
///
/// # Errors
/// The handlers cannot be set.
pub fn listen() -> std::io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Under `nohup` the user wants us to outlive the terminal: a handler would undo that.
    let mut hangup = match hangup_is_ignored() {
        true => None,
        false => Some(signal(SignalKind::hangup())?),
    };
    let token = CancellationToken::new();
    let set = token.clone();
    tokio::spawn(async move {
        let mut first: Option<Instant> = None;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                () = next(&mut hangup) => {}
            }
            match first {
                Some(first) if first.elapsed() < SAME_WISH => continue,
                // Children die with us: their keepers see the pipe close.
                Some(_) => std::process::exit(i32::from(Exit::Interrupted.code())),
                None => first = Some(Instant::now()),
            }
            // A closed stderr is no reason not to stop.
            let _ = writeln!(std::io::stderr(), "stopping; once more to quit at once");
            set.cancel();
        }
    });
    Ok(token)
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether this process was started with SIGHUP ignored; see `SigIgn` in proc_pid_status(5).
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signal n is bit n − 1, and SIGHUP is 1.
    mask.unwrap_or(0) & 1 == 1
}
