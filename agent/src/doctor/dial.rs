//! Opens connections to the server, plain or by TLS. What goes over them is left to `exchange`.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::load::Target;
use crate::load::tls::{Tls, handshake_failure};

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

/// Opens connections to one server.
pub struct Dialer {
    target: Target,
    tls: Option<Tls>,
}

impl Dialer {
    /// Prepares TLS where the server needs it; connects to nothing.
    ///
    /// # Errors
    /// The machine has no certificates of authorities; a host that no certificate can name.
    pub fn new(target: Target) -> Result<Self, String> {
        let tls = match target.tls {
            true => Some(Tls::new(&target.host)?),
            false => None,
        };
        Ok(Self { target, tls })
    }

    /// Where it dials.
    pub fn target(&self) -> &Target {
        &self.target
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
        let tcp = TcpStream::connect((self.target.host.as_str(), self.target.port))
            .await
            .map_err(|error| error.to_string())?;
        // A request must not wait for the acknowledgement of the one before it.
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let Some(tls) = &self.tls else {
            return Ok(Line {
                io: Box::new(tcp),
                tls: None,
            });
        };
        let stream = tls
            .connect(tcp)
            .await
            .map_err(|error| handshake_failure(&error))?;
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
