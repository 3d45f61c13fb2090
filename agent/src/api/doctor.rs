//! `POST /v1/doctor`: what a server does, looked at from here.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use bytes::Bytes;
use contracts::api::{DoctorRequest, ErrorCode};
use contracts::doctor::ServerReport;

use super::body;
use super::error::Problem;
use crate::doctor::{self, DoctorError};
use crate::run::{Bench, StartError};

/// A report; 409 while a run is in progress, which the probes would disturb. A caller that hangs up
/// ends the probing.
pub async fn examine(
    State(bench): State<Arc<Bench>>,
    asked: Result<Bytes, BytesRejection>,
) -> Result<Json<ServerReport>, Problem> {
    let request: DoctorRequest = body::json(asked)?;
    // The URL is not named: it may carry what should not be told.
    let (reserved, _lock) = bench.reserve("a look at a server (doctor)").await?;
    tokio::select! {
        report = doctor::examine(&request) => Ok(Json(report?)),
        () = reserved.closing.cancelled() => Err(StartError::Closing.into()),
    }
}

impl From<DoctorError> for Problem {
    fn from(error: DoctorError) -> Self {
        let message = error.to_string();
        match error {
            DoctorError::BadUrl(_) => cannot_run("url", &message),
            DoctorError::BadHeader(_) => cannot_run("secrets", &message),
            DoctorError::Unreachable { .. } => {
                Self::new(StatusCode::BAD_GATEWAY, ErrorCode::Unreachable, message)
            }
        }
    }
}

fn cannot_run(field: &str, message: &str) -> Problem {
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    Problem::new(status, ErrorCode::CannotRun, format!("{field}: {message}"))
        .with_field(field.to_owned())
}
