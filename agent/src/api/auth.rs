//! Who may ask: the token, compared in constant time, then the protocol's version. Before any work.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use contracts::PROTOCOL;
use contracts::api::{ErrorCode, PROTOCOL_HEADER};
use subtle::ConstantTimeEq;

use super::error::Problem;
use crate::run::Bench;

/// Lets a call through, or answers 401 or 426.
pub async fn check(State(bench): State<Arc<Bench>>, request: Request, next: Next) -> Response {
    if let Some(token) = &bench.config.token
        && !shows(request.headers(), token)
    {
        let problem = Problem::new(
            StatusCode::UNAUTHORIZED,
            ErrorCode::Unauthorized,
            "this agent wants its token: `Authorization: Bearer TOKEN`",
        );
        return ([(header::WWW_AUTHENTICATE, "Bearer")], problem).into_response();
    }
    let theirs = request
        .headers()
        .get(PROTOCOL_HEADER)
        .map(|value| String::from_utf8_lossy(value.as_bytes()));
    if theirs.as_deref() != Some(PROTOCOL.to_string().as_str()) {
        let theirs = theirs.as_deref().unwrap_or("none");
        let message = format!(
            "this agent speaks protocol {PROTOCOL}, the caller {theirs}: use builds of one version"
        );
        return Problem::new(StatusCode::UPGRADE_REQUIRED, ErrorCode::Protocol, message)
            .into_response();
    }
    next.run(request).await
}

fn shows(headers: &HeaderMap, token: &str) -> bool {
    let shown = headers
        .get(header::AUTHORIZATION)
        .map(|value| value.as_bytes())
        .unwrap_or_default();
    let shown = match shown.split_at_checked(7) {
        Some((scheme, shown)) if scheme.eq_ignore_ascii_case(b"Bearer ") => shown,
        _ => return false,
    };
    shown.ct_eq(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_the_whole_token_opens() {
        let with = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            shows(&headers, "a-token-of-16-chars")
        };
        assert!(with("Bearer a-token-of-16-chars"));
        assert!(with("bearer a-token-of-16-chars"));
        for wrong in [
            "",
            "Bearer ",
            "Bearer a-token-of-16-char",
            "Bearer a-token-of-16-charsX",
            "Basic a-token-of-16-chars",
        ] {
            assert!(!with(wrong), "{wrong:?}");
        }
        assert!(!shows(&HeaderMap::new(), "a-token-of-16-chars"));
    }
}
