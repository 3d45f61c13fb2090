//! TLS to a measured server: the machine's own trust (`SSL_CERT_FILE` and `SSL_CERT_DIR` in its
//! place where they are set), and what a failed handshake says.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What all connections of a run share of TLS.
pub struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// Reads the machine's certificates. The error is one line.
    pub fn new(host: &str) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .map_err(|e| format!("TLS cannot be set up: {e}"))?
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = match host.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(host.to_owned())
                .map_err(|_| format!("{host:?} is no name that a certificate can carry"))?,
        };
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }

    /// Shakes hands over `io`.
    pub async fn connect<S>(&self, io: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.connector.connect(self.name.clone(), io).await
    }
}

/// A failed handshake in words.
pub fn handshake_failure(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|e| e.downcast_ref());
    match cause {
        Some(rustls::Error::InvalidMessage(_)) => {
            format!("no TLS handshake ({error}); does the server speak https at all?")
        }
        Some(rustls::Error::InvalidCertificate(_)) => format!(
            "{error}; a certificate that this machine does not trust can be named by SSL_CERT_FILE"
        ),
        _ => format!("no TLS handshake: {error}"),
    }
}
