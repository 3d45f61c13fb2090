//! Reads what a call carries: a JSON body, a run's id in the path, a query. Errors in the one shape.

use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::error::Problem;
use crate::spool::RunId;

/// The body as JSON. Whatever its content type says: there is one format.
pub fn json<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, Problem> {
    let body =
        body.map_err(|rejection| Problem::bad_request(rejection.status(), rejection.body_text()))?;
    serde_json::from_slice(&body).map_err(|error| {
        Problem::bad_request(StatusCode::BAD_REQUEST, format!("the body: {error}"))
    })
}

/// The run's id of the path. What is no id can be the id of no run: 404.
pub fn run_id(text: &str) -> Result<RunId, Problem> {
    RunId::parse(text).ok_or_else(|| Problem::no_such_run(text))
}

/// A query whose errors have our shape.
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        let refused = |rejection: QueryRejection| {
            Problem::bad_request(StatusCode::BAD_REQUEST, rejection.body_text())
        };
        query.map(|Query(asked)| Self(asked)).map_err(refused)
    }
}
