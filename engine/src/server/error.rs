//! What a request can end with other than an answer, in OpenAI's shape; each status is decided here, once.

use std::time::Duration;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use contracts::openai::{ErrorBody, ErrorObject};

use crate::{error::EngineError, worker::Refused};

/// A status and OpenAI's error object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// The body's `error`.
    pub error: ErrorObject,
}

impl ApiError {
    fn new(status: StatusCode, kind: &str, code: Option<&str>, message: impl Into<String>) -> Self {
        let (kind, code) = (kind.to_owned(), code.map(str::to_owned));
        Self {
            status,
            error: ErrorObject {
                message: message.into(),
                kind,
                param: None,
                code,
            },
        }
    }

    fn about(mut self, param: impl Into<String>) -> Self {
        self.error.param = Some(param.into());
        self
    }

    /// 400: the request is wrong in the named field.
    pub fn bad_field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::bad_request(message).about(param)
    }

    /// 400: the request is wrong as a whole.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
            None,
            message,
        )
    }

    /// 404: a model that is not served here.
    pub fn no_such_model(asked: &str, served: &str) -> Self {
        let message = format!(
            "the model `{asked}` does not exist here; this server has `{served}` (or say `default`)"
        );
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found_error",
            Some("model_not_found"),
            message,
        )
        .about("model")
    }

    /// 404: no such path.
    pub fn no_such_path(path: &str) -> Self {
        let message = format!(
            "there is no {path} here; see /v1/models, /v1/chat/completions, /v1/completions"
        );
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found_error",
            Some("unknown_url"),
            message,
        )
    }

    /// 405: the path exists, the method does not.
    pub fn wrong_method(method: &str, path: &str) -> Self {
        let message = format!("{path} does not take {method}");
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "invalid_request_error",
            Some("method_not_allowed"),
            message,
        )
    }

    /// 408: the body did not come in time.
    pub fn too_slow(limit: Duration) -> Self {
        let message = format!("the request body took longer than {} s", limit.as_secs());
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "invalid_request_error",
            Some("request_timeout"),
            message,
        )
    }

    /// 413: the body is over the limit.
    pub fn too_large(limit_bytes: usize) -> Self {
        let message = format!("the request body is larger than {limit_bytes} bytes");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "invalid_request_error",
            Some("request_too_large"),
            message,
        )
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::BadInput { field, .. } => Self::bad_field(field, message),
            EngineError::Unsupported { what, .. } => Self::bad_field(what, message),
            EngineError::ContextTooLong { .. } => {
                let kind = "invalid_request_error";
                Self::new(
                    StatusCode::BAD_REQUEST,
                    kind,
                    Some("context_length_exceeded"),
                    message,
                )
                .about("max_tokens")
            }
            EngineError::Stopping => Refused::Stopping.into(),
            EngineError::Model { .. } | EngineError::Internal(_) => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "server_error",
                None,
                message,
            ),
        }
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let message = refused.to_string();
        let (status, kind, code) = match refused {
            Refused::Loading => (
                StatusCode::SERVICE_UNAVAILABLE,
                "server_error",
                "model_loading",
            ),
            Refused::Stopping => (
                StatusCode::SERVICE_UNAVAILABLE,
                "server_error",
                "shutting_down",
            ),
            Refused::QueueFull(_) => (
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limit_error",
                "queue_full",
            ),
            Refused::Failed(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "server_error",
                "engine_failed",
            ),
        };
        Self::new(status, kind, Some(code), message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(ErrorBody { error: self.error })).into_response()
    }
}
