//! The end of a run: the child is gone, the host is clean or quarantined, the spool has it all.

use std::time::Duration;

use contracts::run::{RunFailure, RunState, RunStatus, Stage};

use super::story::{Failure, Run};
use super::{Active, Bench, Interrupt, now_unix_ms};
use crate::process::{Child, port};
use crate::spool::RunFolder;
use crate::spool::recover::stage_word;

/// How long a port may answer after its server has gone.
const PORT_WAIT: Duration = Duration::from_secs(5);

/// Ends the child and all it left behind. A host that is not clean after that is quarantined.
pub(super) async fn stop(
    run: &Run,
    child: Child,
    addr: Option<std::net::SocketAddr>,
) -> Result<(), Failure> {
    let keeper = child.identity().keeper.pid;
    let report = child.stop(run.resolved.grace).await;
    run.active.record.update(|status| {
        let lifecycle = &mut status.lifecycle;
        lifecycle.stop_ms = Some(report.stop_ms);
        lifecycle.exit = report.exit.map(|exit| exit.to_string());
        lifecycle.killed = report.killed;
        lifecycle.swept = report.swept;
        lifecycle.rss_bytes_max = report.rss_bytes_max;
    });
    let dirt = if !report.clean {
        format!(
            "processes of run {} could not be ended (keeper pid {keeper})",
            run.active.id
        )
    } else if let Some(addr) = addr
        && !port::port_refuses(addr, PORT_WAIT).await
    {
        format!(
            "{addr}, the port of run {}, still answers though its server was ended",
            run.active.id
        )
    } else {
        return Ok(());
    };
    if let Err(error) = run.bench.state.set_quarantine(&dirt) {
        tracing::error!(%error, "quarantine could not be written down");
    }
    Err(run.failed(format!("{dirt}; the host is quarantined")))
}

/// Puts the run's end on disk and on record.
pub(super) async fn finish(run: Run, outcome: Result<(), Failure>) {
    let Run {
        bench,
        active,
        folder,
        writer,
        ..
    } = run;
    let (outcome, totals) = match writer.finish().await {
        Ok(totals) => (outcome, Ok(totals)),
        Err(error) => {
            let failure = RunFailure {
                stage: active.record.stage(),
                message: format!("the spool: {error}"),
                log_tail: Vec::new(),
            };
            (
                outcome.and(Err(Failure::Failed(failure))),
                folder.count_samples(),
            )
        }
    };
    let mut status = active.record.status();
    conclude(&mut status, outcome);
    match totals {
        Ok(totals) => status.samples = Some(totals),
        Err(error) => tracing::error!(run = %active.id, %error, "samples could not be counted"),
    }
    publish(&bench, &active, status);
}

/// The end of a run that could not even be told properly. What is on disk stays.
pub(super) fn give_up(bench: &Bench, active: &Active, stage: Stage, message: String) {
    let mut status = active.record.status();
    conclude(
        &mut status,
        Err(Failure::Failed(RunFailure {
            stage,
            message,
            log_tail: Vec::new(),
        })),
    );
    status.samples = bench.spool.folder(&active.id).count_samples().ok();
    publish(bench, active, status);
}

/// Disk first, then memory: who sees the end can fetch what it speaks of.
fn publish(bench: &Bench, active: &Active, status: RunStatus) {
    let folder = bench.spool.folder(&active.id);
    let log = |error: std::io::Error| tracing::error!(run = %active.id, %error, "the run's end could not be written");
    folder.save(&status).unwrap_or_else(log);
    bench.state.clear_current().unwrap_or_else(log);
    if let Some(event) = active.record.end(status) {
        folder.append_event(&event).unwrap_or_else(log);
    }
}

/// The end of a run that is over and whose saved status does not say so: [`publish`] failed.
/// What was measured can be collected.
pub(super) fn unwritten(folder: &RunFolder, mut status: RunStatus) -> RunStatus {
    status.state = RunState::Failed;
    status.samples = folder.count_samples().ok();
    status.failure = Some(RunFailure {
        stage: Stage::Stop,
        message: "its end could not be written; see the agent's log".to_owned(),
        log_tail: Vec::new(),
    });
    status
}

fn conclude(status: &mut RunStatus, outcome: Result<(), Failure>) {
    status.ended_unix_ms = Some(now_unix_ms());
    match outcome {
        Ok(()) => status.state = RunState::Done,
        Err(Failure::Failed(failure)) => {
            status.state = RunState::Failed;
            status.failure = Some(failure);
        }
        Err(Failure::Gone(stage)) => {
            status.state = RunState::Failed;
            let message = format!("the engine ended during {}", stage_word(stage));
            status.failure = Some(RunFailure {
                stage,
                message,
                log_tail: Vec::new(),
            });
        }
        Err(Failure::Interrupted(Interrupt::Deadline, stage)) => {
            status.state = RunState::Failed;
            let message = format!(
                "the deadline of {} s passed during {}",
                status.deadline_s,
                stage_word(stage)
            );
            status.failure = Some(RunFailure {
                stage,
                message,
                log_tail: Vec::new(),
            });
        }
        Err(Failure::Interrupted(Interrupt::Cancelled, _)) => status.state = RunState::Cancelled,
        Err(Failure::Interrupted(Interrupt::Shutdown, stage)) => {
            status.state = RunState::Cancelled;
            status.warnings.push(contracts::run::Warning {
                code: "agent_shutdown".to_owned(),
                message: format!("the agent was shut down during {}", stage_word(stage)),
            });
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::run::testing::fake_status;

    #[test]
    fn a_run_whose_end_was_not_written_has_failed_and_can_be_collected() {
        let status = fake_status();
        let dir = tempfile::tempdir().unwrap();
        let spool = crate::spool::Spool::new(dir.path().to_path_buf());
        let id = crate::spool::RunId::parse(&status.run_id).unwrap();
        let folder = spool.create(&id, &status).unwrap();
        let status = unwritten(&folder, status);
        assert_eq!(status.state, RunState::Failed);
        assert_eq!(status.samples.unwrap().count, 0);
        let message = status.failure.unwrap().message;
        assert_eq!(message, "its end could not be written; see the agent's log");
    }

    #[test]
    fn each_outcome_has_its_state_and_its_words() {
        let mut status = fake_status();
        conclude(&mut status, Ok(()));
        assert_eq!(
            (status.state, status.failure.as_ref()),
            (RunState::Done, None)
        );
        assert!(status.ended_unix_ms.is_some());

        conclude(
            &mut status,
            Err(Failure::Interrupted(Interrupt::Cancelled, Stage::Load)),
        );
        assert_eq!(
            (status.state, status.failure.as_ref()),
            (RunState::Cancelled, None)
        );

        conclude(
            &mut status,
            Err(Failure::Interrupted(Interrupt::Shutdown, Stage::Measure)),
        );
        assert_eq!(status.state, RunState::Cancelled);
        assert_eq!(
            status.warnings[0].message,
            "the agent was shut down during measuring"
        );

        conclude(
            &mut status,
            Err(Failure::Interrupted(Interrupt::Deadline, Stage::Warmup)),
        );
        assert_eq!(status.state, RunState::Failed);
        let failure = status.failure.as_ref();
        assert_eq!(
            failure.map(|f| f.message.as_str()),
            Some("the deadline of 60 s passed during warm-up")
        );
    }
}
