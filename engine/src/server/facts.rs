//! What a server says about itself: `/health`, `/v1/models`, `/metrics`.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use contracts::{run::ModelFacts, worker::Health};
use serde_json::{Value, json};

use super::{Shared, error::ApiError, metrics};
use crate::{error::EngineError, worker::Phase};

/// 503 `loading` from the first moment, 200 `ok` once the model is there, 503 `failed`
/// after a failed load or a panic.
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let (code, status, model) = match &*shared.worker.phase().borrow() {
        Phase::Loading => (StatusCode::SERVICE_UNAVAILABLE, "loading", None),
        Phase::Ready(model) => (StatusCode::OK, "ok", Some(model.facts.clone())),
        Phase::Failed(_) => (StatusCode::SERVICE_UNAVAILABLE, "failed", None),
    };
    let identity = &shared.identity;
    let health = Health {
        status: status.to_owned(),
        instance: identity.instance.clone(),
        chapter: identity.chapter.clone(),
        build: identity.build.clone(),
        model,
    };
    (code, Json(health)).into_response()
}

pub(super) async fn models(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, ApiError> {
    let model = shared.model()?;
    Ok(Json(
        json!({ "object": "list", "data": [entry(&shared, &model.facts)] }),
    ))
}

pub(super) async fn model(
    State(shared): State<Arc<Shared>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let model = shared.model()?;
    let Path(name) = name.map_err(|_| ApiError::bad_request("the model's name is not UTF-8"))?;
    shared.check_name(Some(&name))?;
    Ok(Json(entry(&shared, &model.facts)))
}

/// OpenAI's model object; `max_model_len` is vLLM's name for the context.
fn entry(shared: &Shared, model: &ModelFacts) -> Value {
    json!({
        "id": shared.identity.served_name,
        "object": "model",
        "created": shared.created,
        "owned_by": "chapterbench",
        "max_model_len": model.context_tokens,
    })
}

pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Result<Response, ApiError> {
    let page = shared
        .metrics
        .render(&shared.worker)
        .map_err(|error| EngineError::Internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response())
}
