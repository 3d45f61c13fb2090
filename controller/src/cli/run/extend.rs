//! `controller run --extend SESSION`: the arms of a stored session run again, where they ran and as they
//! were asked, and what they come to is added to it.
//!
//! Each such look at a session is declared at its first run, or compare gives no verdict on it.

use std::collections::{BTreeMap, BTreeSet};

use contracts::api::Secrets;
use contracts::run::Arm;

use super::{Args, finish, wait};
use crate::cli::measure::{Bench, Led, Named};
use crate::cli::{Context, connect, dry_run, workload};
use crate::exit::{Exit, usage};
use crate::plan::{EXTEND_MAX, Plan, RUNS_MAX, engine_name, extend, plan};
use crate::record::RunRecord;
use crate::run::Host;
use crate::show::Format;
use crate::store::{RunFilter, Store};

/// Flags that say what a session has said already.
pub const CONFLICTS: [&str; 57] = [
    "suite",
    "chapter",
    "engine",
    "url",
    "served_model_name",
    "arm",
    "mode",
    "dtype",
    "device",
    "threads",
    "option",
    "no_stream",
    "no_keepalive",
    "extra",
    "model",
    "tokenizer",
    "endpoint",
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "stop",
    "ignore_eos",
    "seed",
    "prompt",
    "prompts",
    "dataset",
    "input_len",
    "output_len",
    "prefix_len",
    "prefix_share",
    "conversations",
    "trace",
    "cache",
    "n_runs",
    "duration",
    "warmup",
    "concurrency",
    "rate",
    "arrival",
    "sweep",
    "goodput",
    "allow_failures",
    "timeout",
    "stall_timeout",
    "ready_timeout",
    "wait",
    "order",
    "order_seed",
    "max_extend",
    "agent",
    "label",
    "tag",
];

/// What no session of ours counts to, far below where counting on would overflow.
const NUMBER_MAX: u32 = 1_000_000;

/// A session as it is stored.
struct Stored {
    session_id: String,
    /// All its runs; at least one.
    runs: Vec<RunRecord>,
}

/// The command; `args` has nothing but what may stand beside `--extend`.
///
/// # Errors
/// Usage: the session is unknown or cannot be extended. Agents, the database; a failed run is an
/// exit code.
pub async fn run(context: &Context, prefix: &str, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let (repeat, cooldown) = workload::again(&context.config, &args.asked)?;
    let secrets = args.secrets.read()?;
    let store = connect::open_for_reading(context).await?;
    let found = stored(&store, prefix).await;
    store.close().await;
    let stored = found?;
    let refuse = |why: String| usage(format!("--extend {}: {why}", stored.session_id));
    extensible(&stored).map_err(refuse)?;
    let request = extend::request(&stored.runs, repeat, cooldown).map_err(refuse)?;
    headers(&request.arms, &secrets).map_err(refuse)?;
    let plan = plan(request);
    if plan.runs.len() > RUNS_MAX {
        let runs = plan.runs.len();
        return Err(refuse(format!(
            "{runs} more runs are more than {RUNS_MAX}; lower --repeat"
        )));
    }
    let names = agents(&stored.runs);
    if args.dry_run {
        return dry_run::print(context, &plan, None, &names, format).await;
    }
    let Some(bench) = Bench::open(context, &names, wait(&plan), format == Format::Text).await?
    else {
        return Ok(Exit::Interrupted);
    };
    let led = lead(&bench, &stored, &plan, secrets).await;
    finish(context, bench, led, format).await
}

async fn lead(
    bench: &Bench,
    stored: &Stored,
    plan: &Plan,
    secrets: Secrets,
) -> anyhow::Result<Option<Led>> {
    let Some(newest) = stored.runs.last() else {
        return Ok(None);
    };
    if bench.check(plan).await?.is_none() {
        return Ok(None);
    }
    for host in bench.hosts() {
        same(host, stored, plan).await?;
    }
    if let Some(warning) = undeclared(newest) {
        bench.console.note(&warning);
    }
    let named = Named {
        label: newest.label.clone(),
        tags: newest.tags.clone(),
    };
    let session = (stored.session_id.as_str(), &newest.session);
    bench.extend(plan, secrets, named, session).await.map(Some)
}

/// The one session whose id starts so, and its runs.
async fn stored(store: &Store, prefix: &str) -> anyhow::Result<Stored> {
    let prefix = prefix.strip_prefix("session:").unwrap_or(prefix);
    let mut ids = store.sessions_of(prefix).await?;
    let session_id = match (ids.pop(), ids.as_slice()) {
        (Some(id), []) => id,
        (Some(id), others) => {
            return Err(usage(format!(
                "--extend {prefix}: not unique, it fits {} and {id}; give more of the id",
                others.join(", ")
            )));
        }
        (None, _) => {
            return Err(usage(format!(
                "--extend {prefix}: no such session in {}; `controller run` names a session at its end",
                store.path().display()
            )));
        }
    };
    let filter = RunFilter {
        session: Some(session_id.clone()),
        ..RunFilter::default()
    };
    let runs = store.runs(&filter).await?;
    Ok(Stored { session_id, runs })
}

/// Whether the session may be looked at once more.
fn extensible(stored: &Stored) -> Result<(), String> {
    let Some(newest) = stored.runs.last() else {
        return Err("it has no runs: run it anew".to_owned());
    };
    let unfinished = |run: &&RunRecord| !run.status.state.is_final();
    if let Some(run) = stored.runs.iter().find(unfinished) {
        return Err(format!(
            "its run {} on {} has not ended; wait for it, or collect it with `controller resume`",
            run.run_id, run.agent_name
        ));
    }
    // They come from a file of others where they are larger than any plan's.
    let counted = [newest.session.repeat_count, newest.session.max_extend];
    let placed = stored.runs.iter().flat_map(|run| [run.block, run.position]);
    if placed.chain(counted).any(|number| number > NUMBER_MAX) {
        return Err("the numbers of its blocks are none of a session; run it anew".to_owned());
    }
    let asked = newest.session.repeat_count;
    if asked > 1 && stored.runs.iter().all(|run| run.block == 0) {
        return Err(format!(
            "it ended in the first of its {asked} blocks, so that not all of its arms may be known; run it anew"
        ));
    }
    let extended = newest.session.extended_count;
    if extended >= EXTEND_MAX {
        return Err(format!(
            "it was extended {extended} times, which is the most; run a new session, with a larger --repeat"
        ));
    }
    Ok(())
}

/// What to say of an extension that the session's first run did not announce.
fn undeclared(newest: &RunRecord) -> Option<String> {
    let (declared, extended) = (newest.session.max_extend, newest.session.extended_count);
    (extended >= declared).then(|| {
        let said = match declared {
            0 => "no extension".to_owned(),
            1 => "one extension".to_owned(),
            n => format!("{n} extensions"),
        };
        format!(
            "the first run of this session announced {said} (--max-extend): compare will give its numbers and no verdict"
        )
    })
}

/// Secrets are not stored, so that those which the arms were asked with are given again.
fn headers(arms: &[Arm], secrets: &Secrets) -> Result<(), String> {
    let named: BTreeSet<&String> = arms.iter().flat_map(|arm| &arm.header_names).collect();
    let given: BTreeSet<&String> = secrets.headers.keys().collect();
    if let Some(name) = named.difference(&given).next() {
        let flag = match name.as_str() {
            "authorization" => "--api-key-file FILE, or --header",
            _ => "--header",
        };
        return Err(format!(
            "its arms were asked with the header {name}, whose value is not stored; give it again with {flag}"
        ));
    }
    if let Some(name) = given.difference(&named).next() {
        return Err(format!(
            "its arms were asked without the header {name}; leave it out"
        ));
    }
    Ok(())
}

/// Names of the agents that had the session, in the order of their first runs.
fn agents(runs: &[RunRecord]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        if !names.contains(&run.agent_name) {
            names.push(run.agent_name.clone());
        }
    }
    names
}

/// Whether an agent is still on the machine that it was on, and has the builds that it had.
async fn same(host: &Host, stored: &Stored, plan: &Plan) -> anyhow::Result<()> {
    let name = host.client.name();
    let refuse = |why: String| Err(usage(format!("--extend {}: {why}", stored.session_id)));
    let here = |run: &&RunRecord| run.agent_name == name;
    let mut before: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for run in stored.runs.iter().filter(here) {
        if run.host_fingerprint != host.info.host.fingerprint {
            return refuse(format!(
                "agent {name} was on {} and is on another machine now, {}; run a new session there",
                run.hostname, host.info.host.hostname
            ));
        }
        let provenance = run.status.provenance.as_ref();
        let binary = provenance.and_then(|p| p.engine_binary_sha256.as_deref());
        before.entry(&run.arm_letter).or_default().extend(binary);
    }
    for (letter, binaries) in before {
        let Some(planned) = plan.runs.iter().find(|run| run.letter == letter) else {
            continue;
        };
        let answer = host.client.check_binary(&plan.spec(planned)).await?;
        let Some(now) = answer.engine_binary_sha256 else {
            continue;
        };
        if binaries.iter().any(|binary| *binary != now) {
            let short = |hash: &str| hash.chars().take(12).collect::<String>();
            let were: Vec<String> = binaries.iter().map(|binary| short(binary)).collect();
            return refuse(format!(
                "arm {letter} ({}) was run by the build {} and {name} has {} now, which would be another arm; put that build back, or run a new session",
                engine_name(&planned.arm.engine),
                were.join(", "),
                short(&now),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
