//! `controller run --dry-run`: what would be run, in which order, how many requests that is, and
//! how long it takes, as far as the database knows.

use std::fmt::Write as _;
use std::time::Duration;

use contracts::run::Mode;

use super::{Context, plan_words};
use crate::compare::work;
use crate::exit::Exit;
use crate::fleet::LOCAL;
use crate::out;
use crate::plan::sweep::Range;
use crate::plan::{Plan, PlannedRun, engine_name, warmup};
use crate::show::Format;
use crate::store::Store;

/// Prints the plan.
///
/// # Errors
/// A database that is there and cannot be read.
pub async fn print(
    context: &Context,
    plan: &Plan,
    sweep: Option<&Range>,
    agents: &[String],
    format: Format,
) -> anyhow::Result<Exit> {
    let local = [LOCAL.to_owned()];
    let agents = if agents.is_empty() { &local } else { agents };
    let requests = Requests::of(plan);
    let time = match sweep {
        Some(_) => None,
        None => Some(estimate(context, plan, agents).await?),
    };
    match format {
        Format::Json => out::print_json(&serde_json::json!({
            "schema": contracts::SCHEMA,
            "agents": agents,
            "requests": (requests.warmup, requests.measured),
            "sweep": sweep,
            "estimated_ms": time.as_ref().and_then(Estimate::ms),
            "plan": {
                "arms": plan.arms,
                "runs": plan.runs.iter().map(|run| run_json(plan, run)).collect::<Vec<_>>(),
                "order": plan.request.order,
                "order_seed": plan.request.order_seed,
                "repeat": plan.request.repeat,
                "max_extend": plan.request.max_extend,
                "cooldown_ms": u64::try_from(plan.request.cooldown.as_millis()).unwrap_or(u64::MAX),
            },
        }))?,
        Format::Text | Format::Markdown => {
            out::print(&text(plan, sweep, agents, &requests, time.as_ref()))?;
        }
    }
    Ok(Exit::Done)
}

fn run_json(plan: &Plan, run: &PlannedRun) -> serde_json::Value {
    serde_json::json!({
        "letter": run.letter,
        "block": run.block,
        "position": run.position,
        "workload_key": run.workload_key,
        "spec": plan.spec(run),
    })
}

/// Requests of the whole plan on one agent.
struct Requests {
    warmup: u64,
    /// Where they are counted.
    measured: u64,
    /// How long the other runs send.
    timed_ms: u64,
}

impl Requests {
    fn of(plan: &Plan) -> Self {
        let mut sum = Self {
            warmup: 0,
            measured: 0,
            timed_ms: 0,
        };
        for run in &plan.runs {
            let work = &plan.request.workload;
            sum.warmup += u64::from(warmup(work.warmup, &run.load));
            match work.duration_ms.filter(|_| run.arm.mode == Mode::Online) {
                Some(ms) => sum.timed_ms += ms,
                None => sum.measured += u64::from(run.n_runs),
            }
        }
        sum
    }

    fn words(&self) -> String {
        let timed = Duration::from_millis(self.timed_ms);
        let measured = match (self.measured, self.timed_ms) {
            (n, 0) => format!("{n} measured"),
            (0, _) => format!("as many as end in {}", humantime::format_duration(timed)),
            (n, _) => format!(
                "{n} measured and as many as end in {}",
                humantime::format_duration(timed)
            ),
        };
        format!("{measured}, {} warm-up, on each agent", self.warmup)
    }
}

/// How long the plan takes on the slowest agent.
struct Estimate {
    known_ms: u64,
    /// Runs of which nothing is known.
    unknown: usize,
    runs: usize,
}

impl Estimate {
    fn ms(&self) -> Option<u64> {
        (self.unknown == 0).then_some(self.known_ms)
    }

    fn words(&self) -> String {
        let known = Duration::from_secs(self.known_ms.div_ceil(1000));
        let known = humantime::format_duration(known);
        match self.unknown {
            0 => format!("about {known} on each agent, as earlier runs took"),
            n if n == self.runs => "unknown: none of this was run before".to_owned(),
            n => format!("more than {known}: {n} of {} runs are new", self.runs),
        }
    }
}

/// From what the same work took before; a run that sends for a given time takes at least that.
async fn estimate(context: &Context, plan: &Plan, agents: &[String]) -> anyhow::Result<Estimate> {
    let store = if context.db.exists() {
        Some(Store::open_read(&context.db).await?)
    } else {
        None
    };
    let mut slowest = Estimate {
        known_ms: 0,
        unknown: 0,
        runs: plan.runs.len(),
    };
    for agent in agents {
        let mut here = Estimate {
            known_ms: 0,
            unknown: 0,
            runs: plan.runs.len(),
        };
        for run in &plan.runs {
            let engine = engine_name(&run.arm.engine);
            let past = match &store {
                Some(store) => {
                    let mode = run.arm.mode;
                    let past = store.past_run_ms(agent, engine, mode, &run.workload_key);
                    past.await?
                }
                None => None,
            };
            let duration_ms = plan.request.workload.duration_ms;
            match past.or(duration_ms.filter(|_| run.arm.mode == Mode::Online)) {
                Some(ms) => here.known_ms += ms,
                None => here.unknown += 1,
            }
        }
        let pauses = u32::try_from(plan.runs.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let pauses = plan.request.cooldown.saturating_mul(pauses);
        here.known_ms += u64::try_from(pauses.as_millis()).unwrap_or(u64::MAX);
        if (here.unknown, here.known_ms) > (slowest.unknown, slowest.known_ms) {
            slowest = here;
        }
    }
    if let Some(store) = store {
        store.close().await;
    }
    Ok(slowest)
}

fn text(
    plan: &Plan,
    sweep: Option<&Range>,
    agents: &[String],
    requests: &Requests,
    time: Option<&Estimate>,
) -> String {
    let mut text = plan_words::arms(plan);
    // Writing to a String cannot fail.
    match sweep {
        Some(range) => {
            let _ = writeln!(text, "Sweep     {}", sweep_words(range));
        }
        None => text.push_str(&plan_words::order(plan)),
    }
    text.push_str(&plan_words::pauses(plan));
    let _ = writeln!(text, "Agents    {}", agents.join(", "));
    if let Some(run) = plan.runs.first() {
        let work = &plan.request.workload;
        let ceiling = work::ceiling(work).map(|words| format!(", {words} each"));
        let _ = writeln!(
            text,
            "Workload  {}, {}{} ({})",
            work.model,
            work::prompts_short(&work.prompts),
            ceiling.unwrap_or_default(),
            run.workload_key.get(..12).unwrap_or_default(),
        );
    }
    if sweep.is_none() {
        let _ = writeln!(text, "Requests  {}", requests.words());
    }
    if let Some(time) = time {
        let _ = writeln!(text, "Time      {}", time.words());
    }
    text
}

fn sweep_words(range: &Range) -> String {
    let most = range.most();
    match range {
        Range::Concurrency { from } => {
            format!("each arm from {from} at a time, doubled up to {most} at most")
        }
        Range::Rate { .. } => {
            let from = work::load(&range.load(range.first()));
            format!("each arm from {from}, doubled up to {most}/s at most")
        }
    }
}
