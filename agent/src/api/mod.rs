//! The agent's HTTP API, as [`contracts::api`] has it: one file for each kind of call.
//!
//! A handler reads its request, asks [`Bench`], and writes the answer. What a run is and whether it
//! may start is decided there, not here.

mod auth;
mod body;
mod calibrate;
mod connections;
mod doctor;
mod error;
mod events;
mod host;
mod runs;
mod samples;
pub mod server;
mod start;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};

use crate::run::Bench;
use error::Problem;

/// All calls.
pub fn router(bench: Arc<Bench>) -> Router {
    Router::new()
        .route("/v1/host", get(host::host))
        .route("/v1/check", post(start::check))
        .route("/v1/calibrate", post(calibrate::calibrate))
        .route("/v1/doctor", post(doctor::examine))
        .route("/v1/runs", post(start::start).get(runs::list))
        .route("/v1/runs/{id}", get(runs::status).delete(runs::acknowledge))
        .route("/v1/runs/{id}/cancel", post(runs::cancel))
        .route("/v1/runs/{id}/events", get(events::events))
        .route("/v1/runs/{id}/samples", get(samples::samples))
        .fallback(|| async { Problem::no_such_call() })
        .method_not_allowed_fallback(|| async { Problem::wrong_method() })
        .layer(middleware::from_fn_with_state(
            Arc::clone(&bench),
            auth::check,
        ))
        // After the layer: the one call that is open to all.
        .route("/health", get(host::health))
        .layer(DefaultBodyLimit::max(contracts::defaults::BODY_BYTES_MAX))
        .with_state(bench)
}
