//! `engine serve`: a chapter over HTTP, on an address of its own or on a socket handed over.

use std::{
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    os::fd::RawFd,
    time::Duration,
};

use contracts::defaults;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, args::EngineArgs, build_facts, fd};
use crate::{
    server::{
        Identity,
        serve::{ServeError, serve},
    },
    worker::{QUEUE_MAX, Worker},
};

/// How long the runtime's own tasks may take to end; the engine's thread is not waited for.
const RUNTIME_GRACE: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
    /// Address to listen on
    #[arg(long, default_value = default_listen().0)]
    host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value = default_listen().1)]
    port: u16,
    /// Listen on this descriptor, an open listening socket, instead
    #[arg(long, value_name = "N", conflicts_with_all = ["host", "port"])]
    listen_fd: Option<RawFd>,
    /// Say this id in /health, so that who started us knows us
    #[arg(long, value_name = "ID")]
    instance: Option<String>,
    /// The model's name in requests and answers [default: as in --model]
    #[arg(long, value_name = "NAME")]
    served_model_name: Option<String>,
    /// Requests held at once, in work and waiting; more are refused with 429
    #[arg(long, value_name = "N", default_value_t = QUEUE_MAX, value_parser = queue)]
    queue: usize,
}

/// Each held request has a prompt in memory: a limit on the limit.
const QUEUE_LIMIT: usize = 65_536;

fn queue(word: &str) -> Result<usize, String> {
    match word.parse() {
        Ok(number) if (1..=QUEUE_LIMIT).contains(&number) => Ok(number),
        _ => Err(format!("must be a number from 1 to {QUEUE_LIMIT}")),
    }
}

fn default_listen() -> (&'static str, &'static str) {
    defaults::SERVE_LISTEN
        .rsplit_once(':')
        .unwrap_or((defaults::SERVE_LISTEN, "0"))
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    let listener = match args.listen_fd {
        Some(number) => handed_over(number)?,
        None => bind(&args.host, args.port)?,
    };
    let address = listener
        .local_addr()
        .map_err(|error| Failure::Failed(format!("the listening socket: {error}")))?;
    let served_name = args
        .served_model_name
        .unwrap_or_else(|| args.engine.model().to_owned());
    let (chapter, setup) = args.engine.resolve()?;
    let title = chapter.title;
    let identity = Identity {
        chapter: chapter.id.to_owned(),
        served_name,
        instance: args.instance,
        build: build_facts(),
    };
    tracing::info!(
        "{} ({title}) listens on http://{address} and loads {}",
        chapter.id,
        setup.model.name
    );
    let thread = |error| Failure::Failed(format!("cannot start the engine's thread: {error}"));
    let worker = Worker::start(move || (chapter.build)(setup), args.queue).map_err(thread)?;

    // One thread for all of HTTP: a token goes from the engine's thread to the one that writes it,
    // and the cores are left to the engine.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start the server: {error}")))?;
    let outcome = runtime.block_on(async {
        let shutdown = ordered_to_stop()
            .map_err(|error| Failure::Failed(format!("cannot watch signals: {error}")))?;
        serve(listener, worker, identity, shutdown)
            .await
            .map_err(|error| match error {
                ServeError::Engine(why) => Failure::Failed(why),
                ServeError::Socket(_) => Failure::Failed(format!("{address}: {error}")),
            })
    });
    runtime.shutdown_timeout(RUNTIME_GRACE);
    outcome
}

/// SIGTERM or Ctrl-C.
fn ordered_to_stop() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn bind(host: &str, port: u16) -> Result<TcpListener, Failure> {
    let resolved = (host, port).to_socket_addrs();
    let addresses: Vec<SocketAddr> = resolved
        .map_err(|error| Failure::Usage(format!("--host {host}: {error}")))?
        .collect();
    TcpListener::bind(addresses.as_slice()).map_err(|error| {
        let advice = match error.kind() {
            std::io::ErrorKind::AddrInUse => "; stop what listens there or choose another --port",
            std::io::ErrorKind::PermissionDenied => "; choose a --port above 1023",
            _ => "",
        };
        Failure::Failed(format!("cannot listen on {host}:{port}: {error}{advice}"))
    })
}

fn handed_over(number: RawFd) -> Result<TcpListener, Failure> {
    let owned = fd::adopt(number, "--listen-fd")?;
    let listens = nix::sys::socket::getsockopt(&owned, nix::sys::socket::sockopt::AcceptConn);
    match listens {
        Ok(true) => Ok(TcpListener::from(owned)),
        _ => Err(Failure::Usage(format!(
            "--listen-fd {number}: not a listening socket"
        ))),
    }
}
