//! One run on one agent: make it, send it, follow it, store its end, tell the agent to forget it.

use std::time::Duration;

use contracts::api::{ErrorCode, StartRun};
use contracts::defaults::RUN_DEADLINE;
use contracts::run::{EngineRef, Lifecycle, RunFailure, RunState, RunStatus, Stage, Validity};
use tokio::time::Instant;
use ulid::Ulid;

use super::progress::Line;
use super::{Host, Session, collect, server};
use crate::fleet::FleetError;
use crate::plan::{PlannedRun, engine_name};
use crate::record::{RunRecord, RunWithSamples};
use crate::stats::gaps::GapCounts;

/// How often a start that was not answered is sent again; the same id never starts twice.
const START_TRIES: u32 = 3;
const START_PAUSE: Duration = Duration::from_millis(500);
/// An agent notices so much later at most that we have given up a look at a server, which it does
/// not begin a run beside.
const LOOK_ENDS: Duration = Duration::from_secs(3);
/// How often a busy agent is asked again, under `--wait`.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Makes one run and stores its end, whatever that is.
///
/// # Errors
/// The database; an agent that was lost while the run went on there.
pub async fn one_run(
    session: &Session<'_>,
    host: &Host,
    planned: &PlannedRun,
    line: &mut Line,
) -> anyhow::Result<RunWithSamples> {
    let mut run = new_record(session, host, planned);
    run.server_report = server::report(session, host, &run.status.spec).await?;
    session.store.create_run(&run, &host.info.host).await?;
    line.begin(&run);
    if let Err(error) = start(session, host, &run).await {
        line.end();
        // An agent that was lost on the way may have taken it: `resume` finds out.
        let FleetError::Api { .. } = error else {
            return Err(error.into());
        };
        run.status = refused(&run.status, &error, session.interrupt.is_cancelled());
        let none = std::iter::empty();
        session.store.finish_run(&run, none, &[]).await?;
        return Ok(RunWithSamples {
            run,
            samples: Vec::new(),
            gaps: GapCounts::default(),
        });
    }
    let ended = collect::bring_home(
        session.store,
        &host.client,
        run,
        session.interrupt,
        |event| line.event(event),
    );
    let run = ended.await?;
    line.end();
    Ok(run)
}

/// Sends the run. A lost answer is asked for again; a busy agent is waited for as long as `--wait`
/// says.
async fn start(session: &Session<'_>, host: &Host, run: &RunRecord) -> Result<(), FleetError> {
    let request = StartRun {
        run_id: run.run_id.clone(),
        spec: run.status.spec.clone(),
        deadline_s: run.status.deadline_s,
        secrets: session.secrets.clone(),
    };
    let mut wait = Duration::from_millis(request.spec.limits.device_wait_ms);
    let is_url = matches!(request.spec.arm.engine, EngineRef::Url { .. });
    if is_url && run.server_report.is_none() {
        wait = wait.max(LOOK_ENDS);
    }
    let busy_until = Instant::now() + wait;
    let mut tries = 0;
    loop {
        let error = match host.client.start(&request).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let pause = match &error {
            FleetError::Unreachable { .. } if tries < START_TRIES => {
                tries += 1;
                START_PAUSE
            }
            error if error.code() == Some(ErrorCode::Busy) && Instant::now() < busy_until => {
                BUSY_PAUSE
            }
            _ => return Err(error),
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = session.interrupt.cancelled() => return Err(error),
        }
    }
}

fn new_record(session: &Session<'_>, host: &Host, planned: &PlannedRun) -> RunRecord {
    let run_id = Ulid::generate().to_string();
    let mut spec = session.plan.spec(planned);
    // Both arms of a block get the same nonces, and no two blocks do.
    spec.salt = format!("{}/{}", session.session_id, planned.block);
    let deadline = RUN_DEADLINE.saturating_add(spec.workload.sending().unwrap_or_default());
    let status = RunStatus {
        run_id: run_id.clone(),
        state: RunState::Queued,
        spec,
        deadline_s: deadline.as_secs(),
        created_unix_ms: 0,
        ended_unix_ms: None,
        failure: None,
        warnings: Vec::new(),
        provenance: None,
        validity: Validity::default(),
        lifecycle: Lifecycle::default(),
        samples: None,
    };
    RunRecord {
        run_id,
        session_id: session.session_id.clone(),
        arm_letter: planned.letter.clone(),
        block: planned.block,
        position: planned.position,
        agent_name: host.client.name().to_owned(),
        agent_id: host.info.agent_id.clone(),
        host_fingerprint: host.info.host.fingerprint.clone(),
        hostname: host.info.host.hostname.clone(),
        engine: engine_name(&planned.arm.engine).to_owned(),
        workload_key: planned.workload_key.clone(),
        label: session.label.clone(),
        tags: session.tags.clone(),
        controller_build: crate::build(),
        look: session.facts.extended_count,
        session: session.facts.clone(),
        created_unix_ms: crate::now_unix_ms(),
        status,
        stats: None,
        server_report: None,
        file: None,
    }
}

/// The end of a run that never began.
fn refused(status: &RunStatus, error: &FleetError, interrupted: bool) -> RunStatus {
    RunStatus {
        state: if interrupted {
            RunState::Cancelled
        } else {
            RunState::Failed
        },
        ended_unix_ms: Some(crate::now_unix_ms()),
        failure: Some(RunFailure {
            stage: Stage::Preflight,
            message: error.to_string(),
            log_tail: Vec::new(),
        }),
        ..status.clone()
    }
}
