//! `POST /v1/calibrate`: how far the load generator's own figures are off on this host.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use bytes::Bytes;
use contracts::api::CalibrateRequest;
use contracts::calibrate::ClientFloor;
use tokio_util::sync::CancellationToken;

use super::body;
use super::error::Problem;
use crate::calibrate;
use crate::run::Bench;

/// 200 with the floor, after some seconds; 409 while anything else is at work. A caller that hangs
/// up ends it.
pub async fn calibrate(
    State(bench): State<Arc<Bench>>,
    asked: Result<Bytes, BytesRejection>,
) -> Result<Json<ClientFloor>, Problem> {
    let request: CalibrateRequest = body::json(asked)?;
    let cancel = CancellationToken::new();
    let _hung_up = cancel.clone().drop_guard();
    // On a task of its own: its server is ended in order even then.
    let measured =
        tokio::spawn(async move { calibrate::run(bench, &request.streams, cancel).await });
    let floor = measured
        .await
        .map_err(|error| Problem::internal(error.to_string()))??;
    Ok(Json(floor))
}
