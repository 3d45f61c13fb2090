//! Bringing ended runs home: samples, one transaction, then the agent may forget; and what an
//! earlier controller left behind.

use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contracts::api::ErrorCode;
use contracts::run::{RunEvent, RunFailure, RunState, RunStatus, Stage};
use tokio_util::sync::CancellationToken;

use super::Host;
use super::fetched::Fetched;
use super::follow::{Followed, follow};
use super::progress::Console;
use crate::exit::{self, Exit};
use crate::fleet::{AgentClient, FleetError};
use crate::light::Light;
use crate::record::{RunRecord, RunWithSamples};
use crate::stats::bench::bench_stats;
use crate::stats::window::Shape;
use crate::store::{RunFilter, Store, StoreError};

/// A run that another controller made in this moment may not have reached its agent yet, beyond the
/// time that it waits for a busy one: younger ones are never taken for lost.
const LOST_GRACE: Duration = Duration::from_secs(60);

/// Follows a run to its end and stores that. Where another command was quicker, its result is taken.
///
/// # Errors
/// The agent is lost or does not know the run; the samples are not those promised; the database.
pub async fn bring_home(
    store: &Store,
    client: &AgentClient,
    run: RunRecord,
    interrupt: &CancellationToken,
    seen: impl FnMut(&RunEvent),
) -> anyhow::Result<RunWithSamples> {
    let run_id = run.run_id.clone();
    let ended = async {
        let followed = follow(client, &run_id, interrupt, seen).await?;
        store_end(store, client, run, followed).await
    };
    let error = match ended.await {
        Ok(run) => return Ok(run),
        Err(error) => error,
    };
    let code = error
        .downcast_ref::<FleetError>()
        .and_then(FleetError::code);
    if code == Some(ErrorCode::NotFound) {
        let stored = store.run_by_prefix(&run_id).await?;
        if stored.status.state.is_final() {
            return Ok(store.with_figures(stored).await?);
        }
    }
    Err(error)
}

/// Fetches a run's samples, stores its end in one transaction, and acknowledges it: only then does
/// the agent forget it. The samples lie on disk meanwhile; what comes back is light.
async fn store_end(
    store: &Store,
    client: &AgentClient,
    run: RunRecord,
    followed: Followed,
) -> anyhow::Result<RunWithSamples> {
    let mut fetched = Fetched::beside(store.path()).context("a file for samples")?;
    client.samples(&followed.status, &mut fetched).await?;
    // Reading them takes a second for 100,000: other agents are followed meanwhile.
    let reading = tokio::task::spawn_blocking(move || {
        let light = light(&mut fetched)?;
        anyhow::Ok((fetched, light))
    });
    let (mut fetched, light) = reading.await.context("reading samples")??;
    light.warn(&run.run_id);
    let run = RunRecord {
        stats: bench_stats(&light.samples, Shape::of(&followed.status)),
        status: followed.status,
        ..run
    };
    let samples = fetched.samples().context("the file of samples")?;
    store.finish_run(&run, samples, &followed.events).await?;
    if let Err(error) = client.acknowledge(&run.run_id).await {
        // It is stored; the next collection acknowledges again.
        tracing::warn!("run {} is stored but not acknowledged: {error}", run.run_id);
    }
    Ok(RunWithSamples {
        run,
        samples: light.samples,
        gaps: light.gaps,
    })
}

/// What figures need of the lines.
fn light(fetched: &mut Fetched) -> anyhow::Result<Light> {
    let mut light = Light::default();
    for sample in fetched.samples().context("the file of samples")? {
        let mut sample = sample.map_err(anyhow::Error::msg)?;
        let blob = match sample.event_times.take() {
            Some(times) => Some((times.encoding, STANDARD.decode(&times.base64)?)),
            None => None,
        };
        light.take(sample, blob.as_ref());
    }
    Ok(light)
}

/// What is done about runs of this database that are not final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Collect what has ended.
    Ended,
    /// Also follow what still runs.
    Running,
}

/// What was brought home from one agent.
pub struct Collected {
    /// The runs, each at its end.
    pub runs: Vec<RunRecord>,
    /// The worst that was met on the way; each trouble was told on the console.
    pub exit: Exit,
}

/// Collects from one agent the runs that were made in this database and not stored yet. One that
/// cannot be collected is told, and does not keep the others.
///
/// # Errors
/// The agent's list of runs; the database.
pub async fn leftovers(
    store: &Store,
    host: &Host,
    reach: Reach,
    interrupt: &CancellationToken,
    console: &Console,
) -> anyhow::Result<Collected> {
    let unfinished = store
        .runs(&RunFilter {
            unfinished: true,
            ..RunFilter::default()
        })
        .await?;
    let there = host.client.runs().await?;
    let mut collected = Collected {
        runs: Vec::new(),
        exit: Exit::Done,
    };
    for status in &there {
        let run = match store.run_by_prefix(&status.run_id).await {
            Ok(run) if run.run_id == status.run_id => run,
            // Another database's.
            Ok(_) | Err(StoreError::NotFound { .. } | StoreError::Ambiguous { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let unstored = !has_real_end(&run.status);
        if unstored && !status.state.is_final() && reach == Reach::Ended {
            console.note(&format!(
                "run {} of an earlier command still runs on {}",
                run.run_id,
                host.client.name()
            ));
            continue;
        }
        let done = if unstored {
            let ended = bring_home(store, &host.client, run, interrupt, |_| {});
            ended.await.map(|run| collected.runs.push(run.run))
        } else {
            acknowledge_if_ended(host, status).await
        };
        if let Err(error) = done {
            console.note(&format!(
                "error: run {} of an earlier command is not collected: {error:#}",
                status.run_id
            ));
            collected.exit = collected.exit.worse(exit::of(&error));
            if let Some(FleetError::Unreachable { .. }) = error.downcast_ref() {
                // Each of the others would be waited for in vain.
                break;
            }
        }
    }
    for run in unfinished
        .into_iter()
        .filter(|run| is_lost(run, host, &there, reach))
    {
        collected.runs.push(store_lost(store, run).await?);
    }
    for run in &collected.runs {
        console.note(&collected_line(run));
    }
    Ok(collected)
}

/// Whether the stored end is the agent's own word. A run that we took for lost or refused was never
/// accepted, as far as we know; where its agent has it after all, the agent is right.
fn has_real_end(stored: &RunStatus) -> bool {
    stored.state.is_final() && stored.created_unix_ms != 0
}

/// For a run whose end is stored and whose acknowledgement was lost.
async fn acknowledge_if_ended(host: &Host, status: &RunStatus) -> anyhow::Result<()> {
    if status.state.is_final() {
        host.client.acknowledge(&status.run_id).await?;
    }
    Ok(())
}

/// Whether this host's agent should have the run and has not.
fn is_lost(run: &RunRecord, host: &Host, there: &[RunStatus], reach: Reach) -> bool {
    let age_ms = crate::now_unix_ms().saturating_sub(run.created_unix_ms);
    let wait = Duration::from_millis(run.status.spec.limits.device_wait_ms);
    let grace_ms = i64::try_from(LOST_GRACE.saturating_add(wait).as_millis()).unwrap_or(i64::MAX);
    // Whoever holds the built-in agent is the only one who can have made its runs.
    let old_enough =
        host.client.name() == crate::fleet::LOCAL || (reach == Reach::Running && age_ms > grace_ms);
    run.agent_id == host.info.agent_id
        && old_enough
        && !there.iter().any(|status| status.run_id == run.run_id)
}

async fn store_lost(store: &Store, run: RunRecord) -> anyhow::Result<RunRecord> {
    let status = RunStatus {
        state: RunState::Failed,
        ended_unix_ms: Some(crate::now_unix_ms()),
        failure: Some(RunFailure {
            stage: Stage::Preflight,
            message: "the controller ended before its agent had the run".to_owned(),
            log_tail: Vec::new(),
        }),
        ..run.status.clone()
    };
    let run = RunRecord { status, ..run };
    store.finish_run(&run, std::iter::empty(), &[]).await?;
    Ok(run)
}

fn collected_line(run: &RunRecord) -> String {
    let head = format!(
        "collected run {} ({} on {})",
        run.run_id, run.engine, run.agent_name
    );
    match (&run.status.failure, run.status.state) {
        (Some(failure), _) => format!("{head}: failed, {}", failure.message),
        (None, RunState::Cancelled) => format!("{head}: cancelled"),
        (None, _) => format!("{head}: done"),
    }
}
