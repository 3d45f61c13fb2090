//! `EXE engine metronome …`: flags, the listening socket, the log's file.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{Backlog, listen};

use super::Schedule;
use super::server::Server;

/// Connections that may wait to be accepted: a client opens all of its own at once.
const BACKLOG: i32 = 4096;

/// A server on a known schedule, to measure a load generator with.
#[derive(Debug, Parser)]
#[command(name = "metronome", hide = true)]
struct Args {
    /// Address to listen on; port 0 takes a free one, which is said on stderr
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Listen on this descriptor, an open listening socket, instead
    #[arg(long, value_name = "N", conflicts_with = "listen")]
    listen_fd: Option<RawFd>,
    /// From receipt to the first token
    #[arg(long, value_name = "MS", default_value = "50", value_parser = milliseconds)]
    ttft: Duration,
    /// Between tokens
    #[arg(long, value_name = "MS", default_value = "10", value_parser = milliseconds)]
    itl: Duration,
    /// Tokens of an answer; a request may ask for fewer
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tokens: u32,
    /// Answers at once; others wait inside. 0 is no bound
    #[arg(long, default_value = "0")]
    parallel: u32,
    /// Tokens leave at multiples of this; 0 sends each on its own time
    #[arg(long, value_name = "MS", default_value = "1", value_parser = milliseconds)]
    tick: Duration,
    /// Where to write what was done, on SIGTERM or SIGINT; `GET /log` gives it, and forgets it
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

fn milliseconds(word: &str) -> Result<Duration, String> {
    let ms: f64 = word.parse().map_err(|_| "not a number".to_owned())?;
    if !(0.0..=60_000.0).contains(&ms) {
        return Err("0 to 60000".to_owned());
    }
    Ok(Duration::from_secs_f64(ms / 1e3))
}

/// Serves until a signal. `args` is what follows the word `metronome`.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args = match Args::try_parse_from(std::iter::once("metronome".into()).chain(args)) {
        Ok(args) => args,
        Err(error) => return engine::cli::refuse(&error),
    };
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "metronome: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: Args) -> anyhow::Result<()> {
    raise_open_files();
    let listener = match args.listen_fd {
        Some(number) => handed_over(number).with_context(|| format!("--listen-fd {number}"))?,
        None => {
            TcpListener::bind(args.listen).with_context(|| format!("--listen {}", args.listen))?
        }
    };
    // Again, for the queue: the library's own is shorter than a thousand clients.
    listen(&listener, Backlog::new(BACKLOG)?).context("the listening socket")?;
    let address = listener.local_addr().context("the listening socket")?;
    let schedule = Schedule {
        ttft: args.ttft,
        itl: args.itl,
        tokens: args.tokens,
        parallel: args.parallel,
        tick: args.tick,
    };
    let server = Server::new(listener, schedule).context("start")?;
    writeln!(io::stderr(), "metronome listens on http://{address}")?;
    let log = server.run().context("serve")?;
    match args.log {
        Some(path) => {
            std::fs::write(&path, log).with_context(|| format!("--log {}", path.display()))
        }
        None => Ok(()),
    }
}

/// A connection is a descriptor. Where the limit cannot be raised, clients beyond it wait.
fn raise_open_files() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn handed_over(fd: RawFd) -> anyhow::Result<TcpListener> {
    anyhow::ensure!(fd > 2, "0, 1 and 2 are stdin, stdout and stderr");
    // SAFETY: only asked whether it is open, within this call; a closed number makes fcntl fail.
    let asked = unsafe { BorrowedFd::borrow_raw(fd) };
    fcntl(asked, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).context("not open")?;
    // SAFETY: it is open, and our parent gave it to us by this number for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}
