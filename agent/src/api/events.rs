//! `GET /v1/runs/{id}/events?after=N`: a run's story as server-sent events, from any point on.
//!
//! `id:` is the event's seq, so a client that reconnects with `Last-Event-ID` goes on where it was.
//! The stream ends after the event of the final state.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use contracts::run::{EventKind, RunEvent};
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use tokio::sync::watch;

use super::body::{self, Asked};
use super::error::Problem;
use crate::run::{Active, Bench};

/// Between two comments on a silent stream: well below what proxies and clients wait for.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Where to begin.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    after: Option<u64>,
}

/// Events after the query's `after`, else after the header's `Last-Event-ID`, else all.
pub async fn events(
    State(bench): State<Arc<Bench>>,
    Path(id): Path<String>,
    Asked(asked): Asked<From>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run_id = body::run_id(&id)?;
    let last_id = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let after = asked.after.or(last_id).unwrap_or(0);
    let follow = match bench.active(&run_id) {
        Some(active) => Follow::live(active, after),
        None => {
            let status = bench
                .status(&run_id)?
                .ok_or_else(|| Problem::no_such_run(&id))?;
            let events =
                tokio::task::spawn_blocking(move || bench.spool.events(&run_id, &status, after));
            let events = events
                .await
                .map_err(|error| Problem::internal(error.to_string()))??;
            Follow {
                ready: events.into(),
                live: None,
            }
        }
    };
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(stream_of(follow))
        .keep_alive(keep_alive)
        .into_response())
}

/// What is still to be sent: events at hand, and a run that makes more.
struct Follow {
    ready: VecDeque<RunEvent>,
    live: Option<Live>,
}

struct Live {
    active: Arc<Active>,
    news: watch::Receiver<u64>,
    after: u64,
}

impl Follow {
    fn live(active: Arc<Active>, after: u64) -> Self {
        let news = active.record.watch();
        Self {
            ready: VecDeque::new(),
            live: Some(Live {
                active,
                news,
                after,
            }),
        }
    }

    async fn next(&mut self) -> Option<RunEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                let last = matches!(event.what, EventKind::State { state } if state.is_final());
                if last {
                    self.live = None;
                }
                return Some(event);
            }
            let live = self.live.as_mut()?;
            // Seen first, read after: what comes in between is read now and found again as news.
            live.news.borrow_and_update();
            self.ready = live.active.record.events_after(live.after).into();
            match self.ready.back() {
                Some(last) => live.after = last.seq,
                // Ended, and the caller has seen its last event.
                None if live.active.record.state().is_final() => return None,
                None => live.news.changed().await.ok()?,
            }
        }
    }
}

fn stream_of(follow: Follow) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(follow, |mut follow| async move {
        let event = follow.next().await?;
        // Numbers and strings: this cannot fail to become JSON.
        let data = serde_json::to_string(&event).unwrap_or_default();
        Some((
            Ok(Event::default().id(event.seq.to_string()).data(data)),
            follow,
        ))
    })
}
