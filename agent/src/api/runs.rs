//! `GET /v1/runs`, `GET`, `DELETE /v1/runs/{id}` and `POST …/cancel`: how runs stand, and their end.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use contracts::api::RunList;
use contracts::run::RunStatus;

use super::body;
use super::error::Problem;
use crate::run::Bench;

/// All runs that nobody has acknowledged.
pub async fn list(State(bench): State<Arc<Bench>>) -> Result<Json<RunList>, Problem> {
    let runs = tokio::task::spawn_blocking(move || bench.list());
    let runs = runs
        .await
        .map_err(|error| Problem::internal(error.to_string()))??;
    Ok(Json(RunList { runs }))
}

/// One run.
pub async fn status(
    State(bench): State<Arc<Bench>>,
    Path(id): Path<String>,
) -> Result<Json<RunStatus>, Problem> {
    let run_id = body::run_id(&id)?;
    bench
        .status(&run_id)?
        .map(Json)
        .ok_or_else(|| Problem::no_such_run(&id))
}

/// Orders a run to end, in any state. The answer says how it stands now; its end is a state.
pub async fn cancel(
    State(bench): State<Arc<Bench>>,
    Path(id): Path<String>,
) -> Result<Json<RunStatus>, Problem> {
    let run_id = body::run_id(&id)?;
    bench
        .cancel(&run_id)?
        .map(Json)
        .ok_or_else(|| Problem::no_such_run(&id))
}

/// The caller has stored the run: forget it.
pub async fn acknowledge(
    State(bench): State<Arc<Bench>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    // What is no id is not here.
    if let Ok(run_id) = body::run_id(&id) {
        bench.acknowledge(&run_id).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}
