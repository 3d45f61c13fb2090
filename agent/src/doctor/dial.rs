//! Opens connections to the server, plain or by TLS. What goes over them is left to `exchange`.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::place::Place;

/// A byte stream of either kind.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// An open connection.
pub struct Line {
    /// Its bytes.
    pub io: Box<dyn Io>,
    /// Version of TLS, where there is one.
    pub tls: Option<String>,
}

/// Opens connections to one place.
pub struct Dialer {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dialer {
    /// Prepares TLS where the place needs it; connects to nothing.
    ///
    /// # Errors
    /// The machine has no certificates of authorities; a host that no certificate can name.
    pub fn new(place: &Place) -> Result<Self, String> {
        let tls = if place.tls {
            let name = ServerName::try_from(place.host.clone())
                .map_err(|_| format!("{} is no name for TLS", place.host))?;
            Some((TlsConnector::from(Arc::new(tls_config()?)), name))
        } else {
            None
        };
        Ok(Self {
            host: place.host.clone(),
            port: place.port,
            tls,
        })
    }

    /// Resolves and connects.
    ///
    /// # Errors
    /// One line; also when it takes longer than `within`.
    pub async fn dial(&self, within: Duration) -> Result<Line, String> {
        tokio::time::timeout(within, self.open())
            .await
            .unwrap_or_else(|_| Err(format!("no connection within {within:?}")))
    }

    async fn open(&self) -> Result<Line, String> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| error.to_string())?;
        // The two writes of a request must not wait for each other's acknowledgement.
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let Some((connector, name)) = &self.tls else {
            return Ok(Line {
                io: Box::new(tcp),
                tls: None,
            });
        };
        let stream = connector
            .connect(name.clone(), tcp)
            .await
            .map_err(|error| format!("TLS: {error}"))?;
        let version = stream.get_ref().1.protocol_version();
        let version = version.map_or("TLS".to_owned(), |version| {
            format!("{version:?}")
                .replace("TLSv", "TLS ")
                .replace('_', ".")
        });
        Ok(Line {
            io: Box::new(stream),
            tls: Some(version),
        })
    }
}

fn tls_config() -> Result<ClientConfig, String> {
    let words = |error: rustls::Error| format!("TLS: {error}");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(words)?
        .with_platform_verifier()
        .map_err(words)?;
    Ok(builder.with_no_client_auth())
}
