//! What `run`, its extensions, suites and `calibrate --runs` do alike: a request made ready for the
//! agents that it goes to, agents and database held open, and a session led from its check to its last
//! run.

use std::collections::BTreeMap;
use std::time::Duration;

use contracts::api::Secrets;
use contracts::run::{Arm, Mode};
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use super::connect::Agents;
use super::{Context, connect};
use crate::exit::usage;
use crate::plan::sweep::Range;
use crate::plan::{Plan, Request, plan};
use crate::record::SessionFacts;
use crate::run::progress::Console;
use crate::run::{Host, Outcome, Session, check, interrupt};
use crate::show::curve::Curve;
use crate::store::Store;

/// What the runs of one session are called.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// `--label`.
    pub label: Option<String>,
    /// `--tag k=v`.
    pub tags: BTreeMap<String, String>,
}

/// A session that was led to its end.
pub struct Led {
    /// Its id.
    pub session_id: String,
    /// Its runs.
    pub outcome: Outcome,
    /// What its sweeps came to.
    pub curves: Vec<Curve>,
}

/// All that sessions need, held open.
pub struct Bench {
    pub store: Store,
    agents: Agents,
    interrupt: CancellationToken,
    pub console: Console,
}

impl Bench {
    /// Opens the database and connects to the agents; from here on Ctrl-C ends runs in order. None
    /// if the user interrupted before they had answered. `tables`: whether each run's table is
    /// printed as it ends.
    ///
    /// # Errors
    /// The database; an agent that is unknown, unreachable or refuses.
    pub async fn open(
        context: &Context,
        names: &[String],
        wait: Duration,
        tables: bool,
    ) -> anyhow::Result<Option<Self>> {
        let interrupt = interrupt::listen()?;
        let console = Console::new(tables);
        let store = Store::open(&context.db).await?;
        let agents = tokio::select! {
            agents = connect::connect(context, &store, names, &interrupt, &console, wait) => agents?,
            () = interrupt.cancelled() => return Ok(None),
        };
        Ok(Some(Self {
            store,
            agents,
            interrupt,
            console,
        }))
    }

    /// The agents that answered.
    pub fn hosts(&self) -> &[Host] {
        &self.agents.hosts
    }

    /// Makes sure that every agent can run every arm. None if the user interrupted.
    ///
    /// # Errors
    /// What an agent refuses.
    pub async fn check(&self, plan: &Plan) -> anyhow::Result<Option<()>> {
        tokio::select! {
            checked = check(&self.agents.hosts, plan) => checked.map(Some),
            () = self.interrupt.cancelled() => Ok(None),
        }
    }

    /// Leads a new session that was checked.
    ///
    /// # Errors
    /// The database; an agent's trouble is in the outcome.
    pub async fn lead(
        &self,
        plan: &Plan,
        sweep: Option<Range>,
        secrets: Secrets,
        named: Named,
    ) -> anyhow::Result<Led> {
        let id = Ulid::generate().to_string();
        let session = self.session(plan, secrets, named, id, facts(plan));
        session.create().await?;
        let (outcome, curves) = match sweep {
            Some(range) => session.sweep(range).await,
            None => (session.run().await, Vec::new()),
        };
        Ok(Led {
            session_id: session.session_id,
            outcome,
            curves,
        })
    }

    /// Leads what a stored session is extended by; `facts` are those it had before.
    ///
    /// # Errors
    /// The database; somebody else has extended it in the meantime. An agent's trouble is in the
    /// outcome.
    pub async fn extend(
        &self,
        plan: &Plan,
        secrets: Secrets,
        named: Named,
        (session_id, facts): (&str, &SessionFacts),
    ) -> anyhow::Result<Led> {
        let before = facts.extended_count;
        let more = plan.request.repeat;
        let extended = self.store.extend_session(session_id, before, more);
        if !extended.await? {
            return Err(usage(format!(
                "--extend {session_id}: another command extends it now; wait for its end"
            )));
        }
        let facts = SessionFacts {
            extended_count: before + 1,
            planned_count: facts.planned_count.max(facts.repeat_count) + more,
            ..facts.clone()
        };
        let session = self.session(plan, secrets, named, session_id.to_owned(), facts);
        let outcome = session.run().await;
        Ok(Led {
            session_id: session.session_id,
            outcome,
            curves: Vec::new(),
        })
    }

    fn session<'a>(
        &'a self,
        plan: &'a Plan,
        secrets: Secrets,
        named: Named,
        session_id: String,
        facts: SessionFacts,
    ) -> Session<'a> {
        Session {
            store: &self.store,
            hosts: &self.agents.hosts,
            plan,
            secrets,
            label: named.label,
            tags: named.tags,
            session_id,
            facts,
            interrupt: &self.interrupt,
            console: &self.console,
        }
    }

    /// Lets the agents go; the built-in one ends.
    pub async fn release(self) -> Store {
        self.agents.close().await;
        self.store
    }
}

/// How a new session is planned.
fn facts(plan: &Plan) -> SessionFacts {
    let request = &plan.request;
    SessionFacts {
        run_order: request.order.word().to_owned(),
        order_seed: request.order_seed,
        repeat_count: request.repeat,
        max_extend: request.max_extend,
        extended_count: 0,
        planned_count: request.repeat,
        created_unix_ms: crate::now_unix_ms(),
    }
}

/// Multiplies a request out for the agents of these names; none is the built-in one.
///
/// # Errors
/// Secrets for a session without HTTP.
pub fn ready(mut request: Request, secrets: &Secrets, names: &[String]) -> anyhow::Result<Plan> {
    if !secrets.is_empty() && !request.online() {
        return Err(usage(
            "--header and --api-key-file with --mode offline: `generate` has no HTTP; give --mode online or both",
        ));
    }
    let online = |arm: &&mut Arm| arm.mode == Mode::Online;
    for arm in request.arms.iter_mut().filter(online) {
        arm.header_names = secrets.headers.keys().cloned().collect();
    }
    if names.is_empty() {
        request.workload.model = local_path(request.workload.model);
        request.workload.tokenizer = request.workload.tokenizer.map(local_path);
    }
    Ok(plan(request))
}

/// A path is made absolute: the same name must not mean two models in two folders.
fn local_path(model: String) -> String {
    match std::fs::canonicalize(&model) {
        Ok(path) => path.into_os_string().into_string().unwrap_or(model),
        Err(_) => model,
    }
}
