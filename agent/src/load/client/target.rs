//! Where a measured server is: the parts of its base URL that a request needs.

use http::Uri;
use http::uri::Scheme;

/// A server to measure, from `http://host:port` or `https://host:port` with an optional path before
/// `/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Name or address to connect to, without the brackets of IPv6.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// What the `Host` header says.
    pub authority: String,
    /// Path before `/v1`, without a slash at its end.
    pub prefix: String,
    /// Whether it speaks TLS.
    pub tls: bool,
}

/// A base URL that cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("base URL {url:?}: {why}")]
pub struct TargetError {
    /// As given, but for a password.
    pub url: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Target {
    /// Reads a base URL; a trailing `/` or `/v1` is taken off, since users give all three forms.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let refuse = |why| TargetError {
            url: without_password(url),
            why,
        };
        let uri: Uri = url.parse().map_err(|_| refuse("is not a URL"))?;
        let tls = uri.scheme() == Some(&Scheme::HTTPS);
        if !tls && uri.scheme() != Some(&Scheme::HTTP) {
            return Err(refuse("must begin with http:// or https://"));
        }
        if uri.query().is_some() {
            return Err(refuse("must not have a query"));
        }
        let authority = uri.authority().ok_or_else(|| refuse("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("must not carry a password"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(refuse("names no host"));
        }
        let path = uri.path().trim_end_matches('/');
        Ok(Self {
            host,
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            prefix: path.strip_suffix("/v1").unwrap_or(path).to_owned(),
            tls,
        })
    }

    /// The base URL in one form, without `/v1` and without a slash at its end.
    pub fn base_url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.prefix)
    }

    /// `host:port`, for messages.
    pub fn host_port(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Users who put a password into a URL must not find it in a log.
fn without_password(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, rest)) => format!("***@{rest}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_one_server() {
        for url in [
            "http://[::1]:8001",
            "http://[::1]:8001/",
            "http://[::1]:8001/v1/",
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(
                (target.host.as_str(), target.port, target.prefix.as_str()),
                ("::1", 8001, "")
            );
            assert_eq!(target.authority, "[::1]:8001");
            assert_eq!(target.host_port(), "[::1]:8001");
            assert_eq!(target.base_url(), "http://[::1]:8001");
        }
        let target = Target::parse("http://gpu/llm/v1").unwrap();
        assert_eq!((target.port, target.prefix.as_str()), (80, "/llm"));
        assert_eq!((target.host_port().as_str(), target.tls), ("gpu:80", false));
        assert_eq!(target.base_url(), "http://gpu/llm");
        let target = Target::parse("https://gpu").unwrap();
        assert_eq!((target.host_port().as_str(), target.tls), ("gpu:443", true));
    }

    #[test]
    fn what_cannot_be_measured_is_refused_by_name() {
        for (url, word) in [
            ("a:80", "http://"),
            ("ftp://a", "http://"),
            ("http://u:p@a", "password"),
            ("http://a/?x=1", "query"),
            ("", "URL"),
            ("http://", "URL"),
        ] {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(error.contains(word), "{url}: {error}");
            assert!(!error.contains("u:p"), "{error}");
        }
    }
}
