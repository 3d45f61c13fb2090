//! The table of requests: a row for each, its run named in the first columns. Columns keep their
//! names and order; new ones are added at the end.
//!
//! Instants are ns since the run's clock origin; all else of time is ms. Token ids and the instants
//! of single events are in the JSON export and in the database only: they are lists.

use contracts::run::Provenance;
use contracts::sample::Sample;

use super::columns::{Cell, Column, Kind, column, optional};
use crate::record::RunRecord;
use crate::show::{self, words::snake};
use crate::stats::goodput::wall_from_due_ms;
use crate::stats::online::{connecting_ms, ttft_from_due_ms, waiting_ms};

/// How a column is filled.
type Fill = fn(&RunRecord, &Sample) -> Cell;

use Kind::{Bool, Int, Real, Text};

/// All columns in their order.
const TABLE: &[(Column, Fill)] = &[
    (column("run_id", Text), |r, _| r.run_id.as_str().into()),
    (column("session_id", Text), |r, _| {
        r.session_id.as_str().into()
    }),
    (column("arm", Text), |r, _| r.arm_letter.as_str().into()),
    (column("block", Int), |r, _| r.block.into()),
    (column("position", Int), |r, _| r.position.into()),
    (column("agent", Text), |r, _| r.agent_name.as_str().into()),
    (column("hostname", Text), |r, _| r.hostname.as_str().into()),
    (column("host_fingerprint", Text), |r, _| {
        r.host_fingerprint.as_str().into()
    }),
    (column("engine", Text), |r, _| r.engine.as_str().into()),
    (column("mode", Text), |r, _| {
        snake(&r.status.spec.arm.mode).into()
    }),
    (column("model", Text), |r, _| {
        r.status.spec.workload.model.as_str().into()
    }),
    (column("workload_key", Text), |r, _| {
        r.workload_key.as_str().into()
    }),
    (optional("label", Text), |r, _| r.label.clone().into()),
    (optional("engine_build", Text), |r, _| engine_build(r)),
    (optional("definition", Text), |r, _| definition(r)),
    (column("run_state", Text), |r, _| {
        snake(&r.status.state).into()
    }),
    (column("created_unix_ms", Int), |r, _| {
        r.created_unix_ms.into()
    }),
    (column("warmup", Bool), |_, s| s.warmup.into()),
    (column("index", Int), |_, s| s.index.into()),
    (column("due_ns", Int), |_, s| s.due_ns.into()),
    (column("start_ns", Int), |_, s| s.start_ns.into()),
    (optional("connected_ns", Int), |_, s| s.connected_ns.into()),
    (optional("sent_ns", Int), |_, s| s.sent_ns.into()),
    (optional("headers_ns", Int), |_, s| s.headers_ns.into()),
    (optional("first_content_ns", Int), |_, s| {
        s.first_content_ns.into()
    }),
    (optional("last_content_ns", Int), |_, s| {
        s.last_content_ns.into()
    }),
    (optional("done_ns", Int), |_, s| s.done_ns.into()),
    (optional("wall_ms", Real), |_, s| s.wall_ms.into()),
    (optional("ttft_ms", Real), |_, s| s.ttft_ms.into()),
    (optional("tpot_ms", Real), |_, s| s.tpot_ms.into()),
    (optional("timing_source", Text), |_, s| {
        s.timing_source.as_ref().map(snake).into()
    }),
    (optional("engine_wall_ms", Real), |_, s| {
        s.engine_wall_ms.into()
    }),
    (optional("input_tokens", Int), |_, s| s.input_tokens.into()),
    (optional("output_tokens", Int), |_, s| {
        s.output_tokens.into()
    }),
    (optional("token_source", Text), |_, s| {
        s.token_source.as_ref().map(snake).into()
    }),
    (column("requested_tokens", Int), |_, s| {
        s.requested_tokens.into()
    }),
    (optional("finish_reason", Text), |_, s| {
        s.finish_reason.as_ref().map(snake).into()
    }),
    (optional("status", Int), |_, s| s.status.into()),
    (column("reused_connection", Bool), |_, s| {
        s.reused_connection.into()
    }),
    (optional("output_sha256", Text), |_, s| {
        s.output_sha256.clone().into()
    }),
    (optional("error_class", Text), |_, s| {
        s.error.as_ref().map(|e| snake(&e.class)).into()
    }),
    (optional("error_message", Text), |_, s| {
        s.error.as_ref().map(|e| e.message.as_str()).into()
    }),
    (optional("text", Text), |_, s| s.text.clone().into()),
    (optional("released_ns", Int), |_, s| s.released_ns.into()),
    (optional("first_event_ns", Int), |_, s| {
        s.first_event_ns.into()
    }),
    (optional("finish_ns", Int), |_, s| s.finish_ns.into()),
    (optional("first_event_tokens", Int), |_, s| {
        s.first_event_tokens.into()
    }),
    (optional("usage_tokens", Int), |_, s| s.usage_tokens.into()),
    (optional("local_tokens", Int), |_, s| s.local_tokens.into()),
    (optional("planned_input_tokens", Int), |_, s| {
        s.planned_input_tokens.into()
    }),
    (column("done_seen", Bool), |_, s| s.done_seen.into()),
    (column("reconnected", Bool), |_, s| s.reconnected.into()),
    (column("unterminated", Bool), |_, s| s.unterminated.into()),
    (column("bytes", Int), |_, s| s.bytes.into()),
    (optional("wall_from_due_ms", Real), |_, s| {
        wall_from_due_ms(s).into()
    }),
    (optional("ttft_from_due_ms", Real), |_, s| {
        ttft_from_due_ms(s).into()
    }),
    (optional("waiting_ms", Real), |_, s| waiting_ms(s).into()),
    (optional("connecting_ms", Real), |_, s| {
        connecting_ms(s).into()
    }),
    (optional("engine_queue_ms", Real), |_, s| {
        s.engine_queue_ms.into()
    }),
    (optional("validity", Text), |r, _| validity(r)),
    (column("look", Int), |r, _| r.look.into()),
];

/// The columns.
pub fn columns() -> Vec<Column> {
    TABLE.iter().map(|(column, _)| *column).collect()
}

/// A request as a row.
pub fn row(run: &RunRecord, sample: &Sample) -> Vec<Cell> {
    TABLE.iter().map(|(_, fill)| fill(run, sample)).collect()
}

pub(super) fn provenance(run: &RunRecord, of: fn(&Provenance) -> Option<&str>) -> Cell {
    run.status.provenance.as_ref().and_then(of).into()
}

pub(super) fn engine_build(run: &RunRecord) -> Cell {
    provenance(run, |p| p.engine_build.as_deref())
}

pub(super) fn definition(run: &RunRecord) -> Cell {
    provenance(run, |p| Some(&p.definition))
}

pub(super) fn validity(run: &RunRecord) -> Cell {
    let judged = show::validity::is_judged(run);
    let verdict = run.status.validity.verdict;
    judged.then(|| snake(&verdict)).into()
}
