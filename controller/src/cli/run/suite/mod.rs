//! `controller run --suite FILE`: the sessions that a file describes, one for each workload, and its
//! gates. The exit code is the worst of all.

mod keys;
mod sessions;

use std::path::Path;
use std::time::Duration;

use crate::cli::dry_run::DryRun;
use crate::cli::measure::{Bench, Led};
use crate::cli::{Context, compare};
use crate::exit::{self, Exit, usage};
use crate::out;
use crate::show::suite::{GateView, SessionOf, SuiteView, render};
use crate::show::{self, Format};
use crate::store::Store;
use crate::suite;

use self::sessions::{Over, Planned, gate_args, judges, planned};

/// Plans, runs, judges and prints.
///
/// # Errors
/// The file; agents; the database; a failed run and a gate are exit codes.
pub async fn run(context: &Context, file: &Path, args: super::Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let secrets = args.secrets.read()?;
    let over = Over {
        agent: args.agent,
        label: args.label,
        tag: args.tag,
    };
    let read = suite::read(file, &keys::keys())
        .map_err(|error| usage(format!("--suite {}: {error}", file.display())))?;
    let planned = planned(context, file, read, &over, &secrets)?;
    if args.dry_run {
        return dry(context, file, &planned, format).await;
    }
    let waits = planned.sessions.iter();
    let wait = waits.map(|session| session.plan.request.limits.device_wait_ms);
    let wait = Duration::from_millis(wait.max().unwrap_or(0));
    let tables = format == Format::Text;
    let Some(bench) = Bench::open(context, &planned.agents, wait, tables).await? else {
        return Ok(Exit::Interrupted);
    };
    let led = led(&bench, &planned).await;
    let store = bench.release().await;
    let reported = match led {
        Ok(Some(led)) => report(&store, file, &planned, &led, format).await,
        Ok(None) => Ok(Exit::Interrupted),
        Err(error) => Err(error),
    };
    store.close().await;
    reported
}

/// Every session is checked before the first one runs. Those that were not begun are missing at
/// the end: the user interrupted, or an agent can do no more. None if the user interrupted before
/// the first run.
async fn led(bench: &Bench, planned: &Planned) -> anyhow::Result<Option<Vec<Led>>> {
    for session in &planned.sessions {
        if let Some(note) = &session.note {
            bench.console.note(note);
        }
        if bench.check(&session.plan).await?.is_none() {
            return Ok(None);
        }
    }
    let mut done = Vec::new();
    for session in &planned.sessions {
        bench.console.note(&format!("workload {}", session.name));
        let (secrets, named) = (session.secrets.clone(), session.named.clone());
        let led = bench.lead(&session.plan, None, secrets, named).await?;
        let goes_on = !matches!(led.outcome.exit, Exit::Agent | Exit::Interrupted);
        done.push(led);
        if !goes_on {
            break;
        }
    }
    Ok(Some(done))
}

async fn report(
    store: &Store,
    file: &Path,
    planned: &Planned,
    led: &[Led],
    format: Format,
) -> anyhow::Result<Exit> {
    let mut exit = Exit::Done;
    let mut sessions = Vec::new();
    for (session, led) in planned.sessions.iter().zip(led) {
        exit = exit.worse(led.outcome.exit);
        // Text has each run's table already.
        let runs = match format {
            Format::Text => Vec::new(),
            _ => loaded(store, led).await?,
        };
        sessions.push(SessionOf {
            workload: session.name.clone(),
            session_id: led.session_id.clone(),
            runs,
        });
    }
    // What an interrupted session holds is no evidence that was planned.
    let gates = if exit == Exit::Interrupted {
        Vec::new()
    } else {
        // What was run is reported, also where it cannot be judged.
        match gates(store, planned, led).await {
            Ok(gates) => gates,
            Err(error) => {
                tracing::error!("the gates cannot be judged: {error:#}");
                exit = exit.worse(exit::of(&error));
                Vec::new()
            }
        }
    };
    for gate in &gates {
        exit = exit.worse(gate.exit);
    }
    let view = SuiteView {
        suite: file.display().to_string(),
        sessions,
        gates,
        exit,
    };
    out::print(&render(&view, format)?)?;
    Ok(exit)
}

async fn loaded(store: &Store, led: &Led) -> anyhow::Result<Vec<serde_json::Value>> {
    let mut runs = Vec::with_capacity(led.outcome.runs.len());
    for run in &led.outcome.runs {
        let loaded = store.with_figures(run.clone()).await?;
        runs.push(serde_json::to_value(show::run::view(run, &loaded))?);
    }
    Ok(runs)
}

/// Each gate in each session that it is about.
async fn gates(store: &Store, planned: &Planned, led: &[Led]) -> anyhow::Result<Vec<GateView>> {
    let mut views = Vec::new();
    for gate in &planned.gates {
        for (session, led) in planned.sessions.iter().zip(led) {
            if !judges(gate, session) {
                continue;
            }
            for sides in session.sides(gate, &led.session_id) {
                let args = gate_args(gate, &sides)?;
                let selectors = compare::selectors(&sides)?;
                let (comparison, exit) = compare::judged(Some(store), &args, &selectors).await?;
                views.push(GateView {
                    workload: session.name.clone(),
                    base: gate.base.clone(),
                    candidate: gate.candidate.clone(),
                    exit,
                    comparison,
                });
            }
        }
    }
    Ok(views)
}

async fn dry(
    context: &Context,
    file: &Path,
    planned: &Planned,
    format: Format,
) -> anyhow::Result<Exit> {
    let mut text = String::new();
    let mut sessions = Vec::new();
    for session in &planned.sessions {
        if planned.agents.is_empty() {
            super::known_chapters(&session.plan)?;
        }
        let dry = DryRun::of(context, &session.plan, None, &planned.agents).await?;
        if format == Format::Json {
            let mut json = dry.json();
            json["workload"] = session.name.clone().into();
            sessions.push(json);
        }
        text.push_str(&format!("workload {}\n{}\n", session.name, dry.text()));
    }
    for gate in &planned.gates {
        text.push_str(&gate_words(gate));
    }
    match format {
        Format::Json => out::print_json(&serde_json::json!({
            "schema": contracts::SCHEMA,
            "suite": file.display().to_string(),
            "sessions": sessions,
            "gates": planned.gates,
        }))?,
        Format::Text | Format::Markdown => out::print(&text)?,
    }
    Ok(Exit::Done)
}

/// `gate branch against main, workload short: --fail-on=slower:3%`.
fn gate_words(gate: &suite::Gate) -> String {
    let workload = match &gate.workload {
        Some(name) => format!("workload {name}"),
        None => "every workload".to_owned(),
    };
    let flags: Vec<&str> = gate.words.words().collect();
    let (base, candidate) = (&gate.base, &gate.candidate);
    format!(
        "gate {candidate} against {base}, {workload}: {}\n",
        flags.join(" ")
    )
}
