//! The one shape of errors: whatever goes wrong, the caller gets an [`ErrorBody`] and a status.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use contracts::api::{ApiError, ErrorBody, ErrorCode};

use crate::calibrate::CalibrateError;
use crate::run::check::Refusal;
use crate::run::{AcknowledgeError, StartError};
use crate::spool::SpoolError;

/// An answer that is not 2xx.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    error: ApiError,
}

impl Problem {
    /// A problem with a code and one line.
    pub fn new(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            status,
            error: ApiError {
                code,
                message: message.into(),
                field: None,
                holder: None,
            },
        }
    }

    /// 400, or 413 where the body is too large.
    pub fn bad_request(status: StatusCode, message: impl Into<String>) -> Self {
        Self::new(status, ErrorCode::BadRequest, message)
    }

    /// 404 for a path that no call has.
    pub fn no_such_call() -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorCode::NotFound, "no such call")
    }

    /// 404 for a run.
    pub fn no_such_run(id: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            ErrorCode::NotFound,
            format!("no run {id} here"),
        )
    }

    /// 405.
    pub fn wrong_method() -> Self {
        Self::bad_request(
            StatusCode::METHOD_NOT_ALLOWED,
            "this call has another method",
        )
    }

    /// 409: the run's state does not allow it.
    pub fn wrong_state(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, ErrorCode::WrongState, message)
    }

    /// 500.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            ErrorCode::Internal,
            message,
        )
    }

    pub(super) fn with_field(mut self, field: String) -> Self {
        self.error.field = Some(field);
        self
    }

    fn with_holder(mut self, holder: String) -> Self {
        self.error.holder = Some(holder);
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // A server of others that is down is no error of ours.
        if self.status.is_server_error() && self.error.code != ErrorCode::Unreachable {
            tracing::error!(status = %self.status, "{}", self.error.message);
        }
        (self.status, Json(ErrorBody { error: self.error })).into_response()
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            ErrorCode::CannotRun,
            refusal.to_string(),
        )
        .with_field(refusal.field)
    }
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        let message = error.to_string();
        let problem = |status, code| Self::new(status, code, message);
        match error {
            StartError::Refused(refusal) => refusal.into(),
            StartError::Conflict(id) => {
                problem(StatusCode::CONFLICT, ErrorCode::Conflict).with_holder(id.to_string())
            }
            StartError::Busy { holder } => {
                problem(StatusCode::CONFLICT, ErrorCode::Busy).with_holder(holder)
            }
            StartError::Closing => problem(StatusCode::CONFLICT, ErrorCode::Busy),
            StartError::Quarantined(_) => {
                problem(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Quarantined)
            }
            StartError::Spool(SpoolError::Full(_)) => {
                problem(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::CannotRun)
            }
            StartError::Spool(SpoolError::Io { .. }) | StartError::Io(_) => {
                problem(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal)
            }
        }
    }
}

impl From<CalibrateError> for Problem {
    fn from(error: CalibrateError) -> Self {
        match error {
            CalibrateError::Refused(refusal) => refusal.into(),
            CalibrateError::Start(error) => error.into(),
            CalibrateError::Failed(_) => Self::internal(error.to_string()),
        }
    }
}

impl From<AcknowledgeError> for Problem {
    fn from(error: AcknowledgeError) -> Self {
        match error {
            AcknowledgeError::NotFinal(_) => Self::wrong_state(error.to_string()),
            AcknowledgeError::Io(error) => error.into(),
        }
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self::internal(format!("the agent's disk: {error}"))
    }
}
