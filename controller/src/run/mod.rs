//! A session, top to bottom: check every agent, then on each agent run after run in the plan's order.
//!
//! What a run is asked to do was decided by `plan`; what its figures mean is left to `stats`.

pub mod collect;
mod fetched;
pub mod follow;
pub mod interrupt;
mod one;
pub mod progress;
mod server;
pub mod sweep;

use std::collections::BTreeMap;

use contracts::api::Secrets;
use contracts::host::HostInfo;
use contracts::run::{EngineRef, RunState, Stage};
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::exit::{Exit, usage};
use crate::fleet::AgentClient;
use crate::plan::Plan;
use crate::record::{RunRecord, RunWithSamples, SessionFacts};
use crate::store::{NewSession, Store, StoreError};
use progress::{Console, Line};

/// An agent that answered, and what it said.
pub struct Host {
    /// Its API.
    pub client: AgentClient,
    /// Who it is.
    pub info: HostInfo,
}

/// All that a session needs.
pub struct Session<'a> {
    /// Where its runs are kept.
    pub store: &'a Store,
    /// Where it runs, all at once.
    pub hosts: &'a [Host],
    /// What it runs.
    pub plan: &'a Plan,
    /// Header values for the measured server; they go to agents and nowhere else.
    pub secrets: Secrets,
    /// `--label`.
    pub label: Option<String>,
    /// `--tag k=v`.
    pub tags: BTreeMap<String, String>,
    /// ULID.
    pub session_id: String,
    /// How it was planned, as each of its runs tells; an extension counts in it already.
    pub facts: SessionFacts,
    /// Set by the first Ctrl-C.
    pub interrupt: &'a CancellationToken,
    /// What people see.
    pub console: &'a Console,
}

/// What a session came to.
pub struct Outcome {
    /// The runs that ended, in the order of the plan on each agent.
    pub runs: Vec<RunRecord>,
    /// How the process should end.
    pub exit: Exit,
}

impl Outcome {
    fn new() -> Self {
        Self {
            runs: Vec::new(),
            exit: Exit::Done,
        }
    }

    fn add(&mut self, part: Self) {
        self.exit = self.exit.worse(part.exit);
        self.runs.extend(part.runs);
    }
}

/// Makes sure that every agent can run every arm, before the first run.
///
/// # Errors
/// An unknown chapter or engine with those that exist; what an agent refuses, by field.
pub async fn check(hosts: &[Host], plan: &Plan) -> anyhow::Result<()> {
    for host in hosts {
        for arm in &plan.arms {
            known(&host.info, &arm.arm.engine).map_err(usage)?;
        }
    }
    for host in hosts {
        let mut checked = Vec::new();
        for run in &plan.runs {
            let asked = (&run.arm, &run.load);
            if !checked.contains(&asked) {
                host.client.check(&plan.spec(run)).await?;
                checked.push(asked);
            }
        }
    }
    Ok(())
}

/// Whether a host lists what an arm names.
fn known(info: &HostInfo, engine: &EngineRef) -> Result<(), String> {
    let chapter = |id: &str| {
        if info.chapters.iter().any(|chapter| chapter.id == id) {
            return Ok(());
        }
        let there: Vec<&str> = info
            .chapters
            .iter()
            .filter(|chapter| !chapter.hidden)
            .map(|chapter| chapter.id.as_str())
            .collect();
        Err(format!(
            "no chapter `{id}` on {}; there are {}",
            info.host.hostname,
            there.join(", ")
        ))
    };
    match engine {
        EngineRef::Chapter { id } => chapter(id),
        EngineRef::Url { .. } => Ok(()),
        EngineRef::Named { name, .. } => {
            if info.engines.iter().any(|engine| engine.name == *name) {
                return Ok(());
            }
            let there: Vec<&str> = info
                .engines
                .iter()
                .map(|engine| engine.name.as_str())
                .collect();
            Err(match there.as_slice() {
                [] => format!(
                    "no engine `{name}` on {}: its agent's config names none",
                    info.host.hostname
                ),
                there => {
                    format!(
                        "no engine `{name}` on {}; there are {}",
                        info.host.hostname,
                        there.join(", ")
                    )
                }
            })
        }
    }
}

impl Session<'_> {
    /// Stores a new session. One that is extended is there already.
    ///
    /// # Errors
    /// The database.
    pub async fn create(&self) -> Result<(), StoreError> {
        let session = NewSession {
            session_id: self.session_id.clone(),
            facts: self.facts.clone(),
            label: self.label.clone(),
            tags: self.tags.clone(),
            controller_build: crate::build(),
        };
        self.store.create_session(&session).await
    }

    /// Runs everything. A failed run is shown, stored and not run again; the others go on. An
    /// agent's trouble is in the outcome, since other agents go on.
    pub async fn run(&self) -> Outcome {
        let mut outcome = Outcome::new();
        for part in join_all(self.hosts.iter().map(|host| self.on_host(host))).await {
            outcome.add(part);
        }
        self.ended(outcome)
    }

    fn ended(&self, mut outcome: Outcome) -> Outcome {
        if self.interrupt.is_cancelled() {
            outcome.exit = Exit::Interrupted;
        }
        outcome
    }

    /// All runs on one host. An agent that is lost or refuses ends its part: what it still runs is
    /// collected by `resume`.
    async fn on_host(&self, host: &Host) -> Outcome {
        let mut outcome = Outcome::new();
        let runs = Some(self.plan.runs.len());
        let mut line = self.console.line(host.client.name(), runs);
        for (place, planned) in self.plan.runs.iter().enumerate() {
            if place > 0 && !self.interrupt.is_cancelled() {
                self.cool_down(&mut line).await;
            }
            if self.interrupt.is_cancelled() {
                break;
            }
            let ended = one::one_run(self, host, planned, &mut line).await;
            if self.take(&mut outcome, ended).is_none() {
                break;
            }
        }
        line.close();
        outcome
    }

    /// Lets a host cool between two runs; the user may end that.
    async fn cool_down(&self, line: &mut Line) {
        let pause = self.plan.request.cooldown;
        if pause.is_zero() {
            return;
        }
        line.pause(pause);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.interrupt.cancelled() => {}
        }
    }

    /// Shows how a run ended and adds it to the outcome; gives it back, or none where its host can
    /// do no more.
    fn take(
        &self,
        outcome: &mut Outcome,
        ended: anyhow::Result<RunWithSamples>,
    ) -> Option<RunWithSamples> {
        let run = match ended {
            Ok(run) => run,
            Err(error) => {
                self.console.note(&format!("error: {error:#}"));
                outcome.exit = outcome.exit.worse(crate::exit::of(&error));
                return None;
            }
        };
        let exit = exit_of(&run.run);
        outcome.exit = outcome.exit.worse(exit);
        if let Err(error) = self.console.show_run(&run) {
            // It is stored, and the next one will be: only the printing failed.
            self.console.note(&format!("error: {error:#}"));
            outcome.exit = outcome.exit.worse(Exit::Failed);
        }
        outcome.runs.push(run.run.clone());
        // What the host refused now it would refuse again: one row says so.
        (!matches!(exit, Exit::Agent)).then_some(run)
    }
}

/// A run that the host refused before it began (device taken, memory, quarantine) is a refusal.
fn exit_of(run: &RunRecord) -> Exit {
    match (run.status.state, &run.status.failure) {
        (RunState::Done, _) => Exit::Done,
        (_, Some(failure)) if failure.stage == Stage::Preflight => Exit::Agent,
        _ => Exit::Failed,
    }
}
