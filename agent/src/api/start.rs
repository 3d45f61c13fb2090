//! `POST /v1/runs` and `POST /v1/check`: may this spec run here, and run it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use bytes::Bytes;
use contracts::api::{CheckAnswer, CheckRequest, StartRun};
use contracts::run::RunStatus;

use super::body;
use super::error::Problem;
use crate::run::{Bench, binary_sha256};

/// 202 with the run's status; the same id and spec again give the same run.
pub async fn start(
    State(bench): State<Arc<Bench>>,
    asked: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<RunStatus>), Problem> {
    let request: StartRun = body::json(asked)?;
    // On a task of its own: a caller that hangs up must not leave a start half done.
    let started = tokio::spawn(async move { bench.start(request).await });
    let status = started
        .await
        .map_err(|error| Problem::internal(error.to_string()))??;
    Ok((StatusCode::ACCEPTED, Json(status)))
}

/// 200 where a run of this spec would be accepted by an idle agent.
pub async fn check(
    State(bench): State<Arc<Bench>>,
    asked: Result<Bytes, BytesRejection>,
) -> Result<Json<CheckAnswer>, Problem> {
    let request: CheckRequest = body::json(asked)?;
    let resolved = bench.resolve(request.spec).await?;
    let engine_binary_sha256 = if request.with_binary {
        let engine = resolved.engine;
        let hashed = tokio::task::spawn_blocking(move || binary_sha256(&bench, &engine));
        // Where it cannot be read a run will say why.
        hashed.await.ok().flatten()
    } else {
        None
    };
    Ok(Json(CheckAnswer {
        model: resolved.model,
        engine_binary_sha256,
    }))
}
