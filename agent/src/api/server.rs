//! Serving the API on a socket, with or without TLS, until the agent is asked to end.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use tokio_util::sync::CancellationToken;

use super::connections::Bounded;
use crate::config::TlsFiles;
use crate::run::Bench;

/// A client that connects and sends no request is let go: connections are few.
const FIRST_REQUEST_WAIT: Duration = Duration::from_secs(30);
/// After the run has ended: for event streams and answers on their way.
const DRAIN_WAIT: Duration = Duration::from_secs(2);

/// Serves until `shutdown`; then the run in progress is ended and spooled, and answers on their way
/// are finished.
pub async fn serve(
    bench: Arc<Bench>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let handle = Handle::new();
    let closing = tokio::spawn({
        let (bench, handle) = (Arc::clone(&bench), handle.clone());
        async move {
            shutdown.cancelled().await;
            // First the child: while it lives, its run can still be asked for.
            bench.close().await;
            handle.graceful_shutdown(Some(DRAIN_WAIT));
        }
    });
    let app = super::router(Arc::clone(&bench)).into_make_service();
    let server = axum_server::from_tcp(listener)
        .context("use the listening socket")?
        .handle(handle)
        .http1_only()
        .first_request_timeout(FIRST_REQUEST_WAIT);
    let served = match &bench.config.tls {
        None => server.acceptor(Bounded::new()).serve(app).await,
        Some(files) => {
            let tls = RustlsAcceptor::new(tls_config(files).await?).acceptor(Bounded::new());
            server.acceptor(tls).serve(app).await
        }
    };
    closing.abort();
    served.context("serve the agent's API")
}

/// Reads the certificate and its key.
///
/// # Errors
/// Both files are named.
pub(crate) async fn tls_config(files: &TlsFiles) -> anyhow::Result<RustlsConfig> {
    // An error says that the program has chosen a provider already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    RustlsConfig::from_pem_file(&files.cert, &files.key)
        .await
        .with_context(|| {
            format!(
                "TLS: certificate {} and key {}",
                files.cert.display(),
                files.key.display()
            )
        })
}
