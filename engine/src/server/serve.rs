//! A server's life on its socket: listening before the model is there, until told to stop or until
//! the engine fails.
//!
//! Told to stop, it listens no more. Requests that wait are refused with 503 at once, in a stream
//! that is open by an error event. Answers that have begun go on for [`SHUTDOWN_GRACE`], and are
//! then ended in the same way. So every answer ends in order; only a client that doesn't read it is
//! cut off, after [`CLOSE_GRACE`].

use std::{future::Future, net::TcpListener, time::Duration};

use axum::serve::ListenerExt;
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
};

use super::{Identity, app};
use crate::worker::{Phase, Worker};

/// How long answers that have begun may go on after the order to stop. Short: who stops a measured
/// server has what it wanted or has given up. With [`CLOSE_GRACE`] it must be within the agent's own
/// grace, 10 s.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// How long clients may take to read how their answers ended.
pub const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// How often it is looked whether an answer is still owed. Only a server that ends looks.
const HELD_POLL: Duration = Duration::from_millis(20);

/// The task that serves all connections.
type Server = JoinHandle<std::io::Result<()>>;

/// Why a server ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The engine could not load, or it died; one line.
    #[error("{0}")]
    Engine(String),
    /// The socket cannot be served.
    #[error("cannot serve the listening socket: {0}")]
    Socket(#[from] std::io::Error),
}

/// Serves until `shutdown` resolves (then `Ok`) or the engine fails.
///
/// # Errors
/// See [`ServeError`].
pub async fn serve(
    listener: TcpListener,
    worker: Worker,
    identity: Identity,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?.tap_io(|connection| {
        // A token must not wait for the ACK of the one before it.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY: {error}");
        }
    });
    let failed = failure(worker.phase());
    let (stop, stopped) = oneshot::channel::<()>();
    let server =
        axum::serve(listener, app(worker.clone(), identity)).with_graceful_shutdown(async {
            let _ = stopped.await;
        });
    let mut server = tokio::spawn(server.into_future());
    let outcome = tokio::select! {
        why = failed => Err(ServeError::Engine(why)),
        () = shutdown => {
            worker.drain();
            Ok(())
        }
        ended = &mut server => return match ended {
            Ok(result) => Ok(result?),
            Err(error) => Err(ServeError::Engine(format!("the server's task ended: {error}"))),
        },
    };
    drop(stop);
    if !ends_within(SHUTDOWN_GRACE, &mut server, &worker).await {
        if worker.held() > 0 {
            tracing::info!("{} answers are cut short", worker.held());
            worker.stop();
        }
        if tokio::time::timeout(CLOSE_GRACE, server).await.is_err() {
            tracing::info!("connections are dropped whose clients don't read or write");
        }
    }
    outcome
}

/// Whether all connections end within `grace`. Once no answer is owed only clients are waited for
/// that don't read or write, or never sent a whole request; those get no more than their own grace.
async fn ends_within(grace: Duration, server: &mut Server, worker: &Worker) -> bool {
    let owed = async {
        while worker.held() > 0 {
            tokio::time::sleep(HELD_POLL).await;
        }
    };
    tokio::select! {
        biased;
        _ = server => true,
        () = owed => false,
        () = tokio::time::sleep(grace) => false,
    }
}

/// Resolves when the engine has failed, and never otherwise.
async fn failure(mut phase: watch::Receiver<Phase>) -> String {
    match phase
        .wait_for(|phase| matches!(phase, Phase::Failed(_)))
        .await
        .as_deref()
    {
        Ok(Phase::Failed(why)) => why.to_string(),
        // The thread ended in order, which it does only when nobody can ask it any more.
        _ => std::future::pending().await,
    }
}
