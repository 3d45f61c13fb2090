//! Servers over TLS: one that the machine trusts, one that it does not, one that speaks none.
//!
//! `certs/` holds a certificate for localhost and the authority that signed it. Trust is the
//! environment's matter, so the trusted case runs in a process of its own.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use agent::load::Clock;
use contracts::sample::ErrorClass;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::asking::{Asker, asker, config, failure_of, host_of};
use crate::support::{self, Script, chunked, usual_events};

const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/certs/ca.pem");

/// Answers every request on every connection with the usual stream.
async fn serve_tls() -> String {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("certs/leaf.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("certs/leaf.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(tcp).await else {
                    return;
                };
                let mut request = vec![0; 64 << 10];
                // A small request comes whole.
                while stream.read(&mut request).await.is_ok_and(|n| n > 0) {
                    let answer = support::stream_head() + &chunked(&usual_events()) + "0\r\n\r\n";
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    stream.flush().await.unwrap();
                }
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untrusted_certificate_fails_as_tls() {
    let url = serve_tls().await;
    let sample = Asker::new(config(&url), Clock::start()).ask().await;
    let (class, message) = failure_of(&sample, host_of(&url));
    assert_eq!((class, sample.sent_ns), (ErrorClass::Tls, None));
    assert!(message.contains("SSL_CERT_FILE"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_fails_as_tls() {
    // It takes the handshake for a request and says so in plain HTTP.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read(&mut request).await;
    });
    let sample = Asker::new(config(&url), Clock::start()).ask().await;
    let (class, message) = failure_of(&sample, host_of(&url));
    assert_eq!(class, ErrorClass::Tls);
    assert!(message.contains("does the server speak https"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_is_not_answered_has_a_bound() {
    let (server, _) = asker(|_| Script::default()).await;
    let url = server.url.replace("http://", "https://");
    let mut config = config(&url);
    config.timeouts.connect = Duration::from_millis(300);
    let sample = Asker::new(config, Clock::start()).ask().await;
    let (class, message) = failure_of(&sample, host_of(&url));
    assert_eq!(class, ErrorClass::ConnectTimeout);
    assert_eq!(message, "no TLS handshake within 300ms");
}

#[test]
fn a_trusted_server_is_measured_over_tls() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tls::with_the_authority_trusted", "--ignored"])
        .env("SSL_CERT_FILE", AUTHORITY)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by a_trusted_server_is_measured_over_tls, with its environment"]
async fn with_the_authority_trusted() {
    let url = serve_tls().await;
    let mut asker = Asker::new(config(&url), Clock::start());
    asker.client.connect().await.unwrap();
    for reused in [false, true] {
        let sample = asker.ask().await;
        assert_eq!(sample.error, None);
        assert_eq!(sample.text.as_deref(), Some("abc"));
        assert_eq!(sample.reused_connection, reused);
        let instants = [
            Some(sample.start_ns),
            sample.sent_ns,
            sample.headers_ns,
            sample.first_content_ns,
            sample.done_ns,
        ];
        assert!(
            instants.iter().all(Option::is_some) && instants.is_sorted(),
            "{instants:?}"
        );
    }
}
