//! Where the server is, read from the URL that the user gave. No I/O.

use reqwest::Url;

/// The parts of a server's base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Base URL without `/v1`, for reports.
    pub base: String,
    /// https.
    pub tls: bool,
    /// Name or address to connect to, without the brackets of IPv6.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// What the `Host` header says.
    pub authority: String,
    /// Path before `/v1`, without a slash at its end.
    pub prefix: String,
}

impl Place {
    /// Reads a base URL; a trailing `/` or `/v1` is taken off, since users give all three forms.
    ///
    /// # Errors
    /// What is wrong with it. A password in it is not repeated.
    pub fn parse(url: &str) -> Result<Self, String> {
        const USE: &str = "use http://HOST:PORT or https://HOST";
        let parsed = Url::parse(url).map_err(|error| format!("{error}; {USE}"))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(format!("{USE}, not {}:", parsed.scheme()));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("must not carry a password; give a key with --api-key-file".to_owned());
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(format!("must not have a query; {USE}"));
        }
        let (Some(host), Some(port)) = (parsed.host_str(), parsed.port_or_known_default()) else {
            return Err(format!("names no host; {USE}"));
        };
        let authority = match parsed.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let path = parsed.path().trim_end_matches('/');
        let prefix = path.strip_suffix("/v1").unwrap_or(path);
        Ok(Self {
            base: format!("{}://{authority}{prefix}", parsed.scheme()),
            tls: parsed.scheme() == "https",
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            authority,
            prefix: prefix.to_owned(),
        })
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
            "HTTP://[::1]:8001/v1/",
        ] {
            let place = Place::parse(url).unwrap();
            assert_eq!((place.host.as_str(), place.port), ("::1", 8001));
            assert_eq!(place.base, "http://[::1]:8001");
            assert_eq!(place.authority, "[::1]:8001");
        }
        let place = Place::parse("https://gpu/llm/v1").unwrap();
        assert!(place.tls);
        assert_eq!((place.port, place.prefix.as_str()), (443, "/llm"));
        assert_eq!(place.base, "https://gpu/llm");
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for (url, word) in [
            ("gpu:80", "http://"),
            ("ftp://a", "ftp"),
            ("http://u:hunter2@a", "password"),
            ("http://a/?x=1", "query"),
            ("", "http://"),
        ] {
            let why = Place::parse(url).unwrap_err();
            assert!(why.contains(word), "{url}: {why}");
            assert!(!why.contains("hunter2"));
        }
    }
}
