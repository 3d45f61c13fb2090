//! `GET /v1/runs/{id}/samples?from=N&limit=M`: what was measured, page by page, as NDJSON.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use contracts::defaults::SAMPLES_PAGE_MAX;
use serde::Deserialize;

use super::body::{self, Asked};
use super::error::Problem;
use crate::run::Bench;

/// Which lines.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    #[serde(default)]
    from: u64,
    #[serde(default = "whole_page")]
    limit: usize,
}

fn whole_page() -> usize {
    SAMPLES_PAGE_MAX
}

/// The lines as they are on disk, so that the totals' hash is theirs. A page may be shorter than
/// asked where samples are large; an empty one is beyond the end.
pub async fn samples(
    State(bench): State<Arc<Bench>>,
    Path(id): Path<String>,
    Asked(page): Asked<Page>,
) -> Result<Response, Problem> {
    let run_id = body::run_id(&id)?;
    let status = bench
        .status(&run_id)?
        .ok_or_else(|| Problem::no_such_run(&id))?;
    if !status.state.is_final() {
        return Err(Problem::wrong_state(format!(
            "run {id} has not ended; its samples can be fetched when it has"
        )));
    }
    let limit = page.limit.min(SAMPLES_PAGE_MAX);
    let lines = tokio::task::spawn_blocking(move || bench.spool.samples(&run_id, page.from, limit));
    let lines = lines
        .await
        .map_err(|error| Problem::internal(error.to_string()))??;
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
}
