//! The machine right before a run's engine is started and right after its last request: load, clocks,
//! heat, and who else is on its GPUs. Read outside of what is measured; a validity figure, which
//! stops nothing. What follows from it is left to whoever compares runs.

use std::time::Duration;

use contracts::host::HostState;
use tokio::time::timeout;

use super::story::Run;
use crate::host;

/// A driver that hangs must not keep a run from its start or its end; a healthy one takes a part of a
/// second.
const READ_WAIT: Duration = Duration::from_secs(5);

/// Nothing of the run is there yet.
pub(super) async fn before(run: &Run) {
    let state = read(run, host::Moment::BeforeEngine).await;
    let update = |status: &mut contracts::run::RunStatus| status.validity.host_before = state;
    run.active.record.update(update);
}

/// The engine still holds what it computed with.
pub(super) async fn after(run: &Run) {
    let state = read(run, host::Moment::WithEngine).await;
    let update = |status: &mut contracts::run::RunStatus| status.validity.host_after = state;
    run.active.record.update(update);
}

async fn read(run: &Run, moment: host::Moment) -> Option<HostState> {
    let read = tokio::task::spawn_blocking(move || host::whole_state(moment));
    let Ok(Ok(mut state)) = timeout(READ_WAIT, read).await else {
        tracing::warn!(run = %run.active.id, "the machine's state cannot be read");
        return None;
    };
    if run.resolved.engine.runs_beside_us() {
        // The measured server itself would be a stranger.
        for gpu in &mut state.gpus {
            gpu.foreign_processes.clear();
        }
    }
    Some(state)
}
