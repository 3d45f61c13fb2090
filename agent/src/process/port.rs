//! Ports of measured servers: handed over where the server is ours, checked where it is not.
//!
//! Our own server gets a listening socket from the agent, so no other program can take the port in
//! between. A foreign server can only be told a number; for it the number is checked before the
//! start, which also makes sure that no older server answers in its place.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

/// One attempt to connect: on a host's own address the answer is immediate.
const CONNECT_LIMIT: Duration = Duration::from_millis(500);
/// Pause between two attempts.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A listening socket on a loopback port that the system chose, for [`super::ChildSpec::fds`].
pub fn listen_for_child() -> io::Result<(OwnedFd, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let addr = listener.local_addr()?;
    Ok((listener.into(), addr))
}

/// A port that is free now, for a server that insists on opening it by itself.
pub fn free_port(host: IpAddr) -> io::Result<u16> {
    Ok(TcpListener::bind((host, 0))?.local_addr()?.port())
}

/// Whether a server could listen at `addr` now: an error of kind `AddrInUse` if somebody does.
/// (std sets SO_REUSEADDR, so connections of an earlier server in TIME_WAIT don't count.)
pub fn check_free(addr: SocketAddr) -> io::Result<()> {
    TcpListener::bind(addr).map(drop)
}

/// Waits until nobody accepts connections at `addr`, at most `within`. Whether that came true.
pub async fn port_refuses(addr: SocketAddr, within: Duration) -> bool {
    let begun = Instant::now();
    loop {
        let attempt = tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(addr)).await;
        if matches!(&attempt, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
        if begun.elapsed() > within {
            return false;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_is_taken_while_somebody_listens() {
        let (listener, addr) = listen_for_child().unwrap();
        assert_eq!(
            check_free(addr).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        assert!(!port_refuses(addr, Duration::from_millis(50)).await);
        drop(listener);
        assert!(port_refuses(addr, Duration::from_secs(5)).await);
        check_free(addr).unwrap();
        assert_ne!(free_port(addr.ip()).unwrap(), 0);
    }
}
