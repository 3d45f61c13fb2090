//! The table of runs: a row for each, with what was asked, what ran where, and what it came to.
//! Columns keep their names and order; new ones are added at the end.
//!
//! `_json` holds a document whole. A mean that was not measured is null, never 0.

use contracts::run::{ModelFacts, RunFailure};
use contracts::stats::BenchStats;

use super::columns::{Cell, Column, Kind, column, optional};
use super::samples::{definition, engine_build, provenance, validity};
use crate::compare::work;
use crate::record::RunRecord;
use crate::show::words::snake;

/// How a column is filled.
type Fill = fn(&RunRecord) -> Cell;

use Kind::{Int, Real, Text};

/// All columns in their order.
const TABLE: &[(Column, Fill)] = &[
    (column("run_id", Text), |r| r.run_id.as_str().into()),
    (column("session_id", Text), |r| r.session_id.as_str().into()),
    (column("arm", Text), |r| r.arm_letter.as_str().into()),
    (column("block", Int), |r| r.block.into()),
    (column("position", Int), |r| r.position.into()),
    (column("look", Int), |r| r.look.into()),
    (column("agent", Text), |r| r.agent_name.as_str().into()),
    (column("hostname", Text), |r| r.hostname.as_str().into()),
    (column("host_fingerprint", Text), |r| {
        r.host_fingerprint.as_str().into()
    }),
    (column("engine", Text), |r| r.engine.as_str().into()),
    (column("mode", Text), |r| {
        snake(&r.status.spec.arm.mode).into()
    }),
    (column("model", Text), |r| {
        r.status.spec.workload.model.as_str().into()
    }),
    (column("load", Text), |r| {
        work::load(&r.status.spec.workload.load).into()
    }),
    (column("workload_key", Text), |r| {
        r.workload_key.as_str().into()
    }),
    (optional("label", Text), |r| r.label.clone().into()),
    (column("tags_json", Text), |r| json(&r.tags)),
    (column("created_unix_ms", Int), |r| r.created_unix_ms.into()),
    (optional("ended_unix_ms", Int), |r| {
        r.status.ended_unix_ms.into()
    }),
    (column("state", Text), |r| snake(&r.status.state).into()),
    (optional("failure_stage", Text), |r| {
        failure(r, |f| snake(&f.stage))
    }),
    (optional("failure_message", Text), |r| {
        failure(r, |f| f.message.clone())
    }),
    (optional("validity", Text), validity),
    (column("warnings_json", Text), |r| json(&r.status.warnings)),
    (optional("n_runs", Int), |r| stats(r, |s| s.n_runs.into())),
    (optional("req_per_s", Real), |r| {
        stats(r, |s| s.req_per_s.into())
    }),
    (optional("tok_per_s", Real), |r| {
        stats(r, |s| s.tok_per_s.into())
    }),
    (optional("wall_ms", Real), |r| {
        stats(r, |s| s.wall_ms.into())
    }),
    (optional("ttft_ms", Real), |r| {
        stats(r, |s| measured(s.ttft_ms))
    }),
    (optional("tpot_ms", Real), |r| {
        stats(r, |s| measured(s.tpot_ms))
    }),
    (optional("output_tokens", Real), |r| {
        stats(r, |s| s.output_tokens.into())
    }),
    (column("failed_requests", Int), |r| {
        r.status.validity.failed_requests.into()
    }),
    (optional("foreign_cpu_before", Real), |r| {
        r.status.validity.foreign_cpu_before.into()
    }),
    (optional("foreign_cpu_during", Real), |r| {
        r.status.validity.foreign_cpu_during.into()
    }),
    (optional("ready_ms", Real), |r| {
        r.status.lifecycle.ready_ms.into()
    }),
    (optional("stop_ms", Real), |r| {
        r.status.lifecycle.stop_ms.into()
    }),
    (optional("rss_bytes_max", Int), |r| {
        r.status.lifecycle.rss_bytes_max.into()
    }),
    (optional("engine_build", Text), engine_build),
    (optional("engine_binary_sha256", Text), |r| {
        provenance(r, |p| p.engine_binary_sha256.as_deref())
    }),
    (optional("agent_build", Text), |r| {
        provenance(r, |p| Some(&p.agent_build))
    }),
    (column("controller_build", Text), |r| {
        r.controller_build.as_str().into()
    }),
    (optional("definition", Text), definition),
    (optional("model_sha256", Text), |r| {
        model(r, |m| m.sha256.clone())
    }),
    (optional("tokenizer_sha256", Text), |r| {
        model(r, |m| m.tokenizer_sha256.clone())
    }),
    (optional("weights", Text), |r| {
        model(r, |m| m.weights.clone())
    }),
    (optional("sample_count", Int), |r| {
        r.status.samples.as_ref().map(|s| s.count).into()
    }),
    (optional("sample_sha256", Text), |r| {
        r.status.samples.as_ref().map(|s| s.sha256.as_str()).into()
    }),
    (column("spec_json", Text), |r| json(&r.status.spec)),
];

/// The columns.
pub fn columns() -> Vec<Column> {
    TABLE.iter().map(|(column, _)| *column).collect()
}

/// A run as a row.
pub fn row(run: &RunRecord) -> Vec<Cell> {
    TABLE.iter().map(|(_, fill)| fill(run)).collect()
}

fn stats(run: &RunRecord, of: fn(&BenchStats) -> Cell) -> Cell {
    run.stats.as_ref().map_or(Cell::Null, of)
}

/// 0.0 says "not measured".
fn measured(mean_ms: f64) -> Cell {
    (mean_ms != 0.0).then_some(mean_ms).into()
}

fn failure(run: &RunRecord, of: fn(&RunFailure) -> String) -> Cell {
    run.status.failure.as_ref().map(of).into()
}

fn model(run: &RunRecord, of: fn(&ModelFacts) -> String) -> Cell {
    let provenance = run.status.provenance.as_ref();
    provenance.and_then(|p| p.model.as_ref()).map(of).into()
}

fn json<T: serde::Serialize>(document: &T) -> Cell {
    serde_json::to_string(document).ok().into()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::Mode;

    use super::*;
    use crate::fixtures;

    #[test]
    fn a_run_is_a_row_with_what_it_came_to() {
        let run = fixtures::run("01AAA", "ch01", Mode::Offline);
        let done = fixtures::with_walls(run, &[100.0, 300.0]).run;
        let cell = |run: &RunRecord, name: &str| {
            let at = columns().iter().position(|c| c.name == name).unwrap();
            row(run)[at].clone()
        };
        assert_eq!(cell(&done, "wall_ms"), Cell::Real(200.0));
        assert_eq!(cell(&done, "ttft_ms"), Cell::Null, "unmeasured, never 0");
        assert_eq!(cell(&done, "model_sha256"), Cell::Text("m1".to_owned()));
        assert_eq!(cell(&done, "state"), Cell::Text("done".to_owned()));
        assert_eq!(cell(&done, "tags_json"), Cell::Text("{}".to_owned()));
        let without = fixtures::run("01BBB", "ch01", Mode::Offline);
        assert_eq!(cell(&without, "wall_ms"), Cell::Null);
        for (column, cell) in columns().iter().zip(row(&without)) {
            assert!(column.optional || cell != Cell::Null, "{}", column.name);
        }
    }
}
