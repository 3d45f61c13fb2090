//! `controller run`: bench chapters or engines, on the built-in agent or on others.

mod extend;
mod suite;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::measure::{Bench, Led, Named, ready};
use super::secrets::SecretArgs;
use super::{Context, connect, dry_run, workload};
use crate::exit::{Exit, usage};
use crate::plan::Plan;
use crate::record::RunRecord;
use crate::show::{self, Format};
use crate::store::Store;
use crate::{local, out, values};

/// Where flags stand in the help that are about the whole command.
const SESSION: &str = "Session";

/// Flags of `run`.
#[derive(Debug, ClapArgs)]
// `--n-runs -1` is a wrong number, which is named, and not an unknown flag.
#[command(allow_negative_numbers = true)]
pub struct Args {
    #[command(flatten)]
    asked: workload::AskedArgs,
    /// A TOML file that describes sessions and the gates that judge them
    #[arg(long, value_name = "FILE", conflicts_with = "extend",
          conflicts_with_all = workload::flag_ids(), help_heading = SESSION)]
    suite: Option<PathBuf>,
    #[command(flatten)]
    secrets: SecretArgs,
    /// Run a stored session's arms again and add that to it; it is told by its id or the id's start
    #[arg(long, value_name = "SESSION", help_heading = SESSION,
          conflicts_with_all = extend::CONFLICTS)]
    extend: Option<String>,
    /// Agents of the list, all at once [default: the built-in one]
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME…]", help_heading = SESSION)]
    agent: Vec<String>,
    /// Print arms, order and requests, and run nothing
    #[arg(long, help_heading = SESSION)]
    dry_run: bool,
    /// A name for these runs, for `compare label:NAME`
    #[arg(long, value_parser = values::label, help_heading = SESSION)]
    label: Option<String>,
    /// A fact to keep with these runs
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair, help_heading = SESSION)]
    tag: Vec<(String, String)>,
    /// text, json or markdown [default: text]
    #[arg(long, help_heading = SESSION)]
    format: Option<Format>,
}

/// The command.
///
/// # Errors
/// Usage, agents, the database; a failed run is an exit code.
pub async fn run(context: &Context, mut args: Args) -> anyhow::Result<Exit> {
    if let Some(file) = args.suite.take() {
        return suite::run(context, &file, args).await;
    }
    if let Some(session) = args.extend.clone() {
        return extend::run(context, &session, args).await;
    }
    let format = context.format(args.format)?;
    let names = connect::names(context, args.agent)?;
    let asked = workload::asked(&context.config, args.asked)?;
    let secrets = args.secrets.read()?;
    let plan = ready(asked.request, &secrets, &names)?;
    if args.dry_run {
        if names.is_empty() {
            known_chapters(&plan)?;
        }
        return dry_run::print(context, &plan, asked.sweep.as_ref(), &names, format).await;
    }
    let Some(bench) = Bench::open(context, &names, wait(&plan), format == Format::Text).await?
    else {
        return Ok(Exit::Interrupted);
    };
    if let Some(note) = &asked.note {
        bench.console.note(note);
    }
    let named = Named {
        label: args.label,
        tags: args.tag.into_iter().collect(),
    };
    let led = async {
        if bench.check(&plan).await?.is_none() {
            return Ok(None);
        }
        bench
            .lead(&plan, asked.sweep, secrets, named)
            .await
            .map(Some)
    };
    let led = led.await;
    finish(context, bench, led, format).await
}

/// `--wait`, for a built-in agent that works for another command.
fn wait(plan: &Plan) -> Duration {
    Duration::from_millis(plan.request.limits.device_wait_ms)
}

/// Lets the agents go and prints how the session ended; none if the user interrupted before its
/// first run.
async fn finish(
    context: &Context,
    bench: Bench,
    led: anyhow::Result<Option<Led>>,
    format: Format,
) -> anyhow::Result<Exit> {
    let store = bench.release().await;
    let Some(led) = led? else {
        return Ok(Exit::Interrupted);
    };
    if format == Format::Json || !led.outcome.runs.is_empty() {
        report(context, &store, &led, format).await?;
    }
    store.close().await;
    Ok(led.outcome.exit)
}

/// A dry run starts no agent; its chapters are looked up in the engine that is linked.
fn known_chapters(plan: &Plan) -> anyhow::Result<()> {
    let Ok(table) = local::chapters() else {
        return Ok(());
    };
    for arm in &plan.arms {
        let contracts::run::EngineRef::Chapter { id } = &arm.arm.engine else {
            continue;
        };
        if !table.iter().any(|chapter| chapter.id == *id) {
            let there: Vec<&str> = table
                .iter()
                .filter(|chapter| !chapter.hidden)
                .map(|chapter| chapter.id.as_str())
                .collect();
            return Err(usage(format!(
                "no chapter `{id}`; there are {}",
                there.join(", ")
            )));
        }
    }
    Ok(())
}

/// Text has been printed run by run, and only its end is left; the other formats are one document.
async fn report(context: &Context, store: &Store, led: &Led, format: Format) -> anyhow::Result<()> {
    let (session_id, runs) = (&led.session_id, &led.outcome.runs);
    if format == Format::Text {
        let runs: Vec<&RunRecord> = runs.iter().collect();
        let compare = show::session::compare_command(&runs).map(|command| match &context.db_flag {
            Some(db) => format!("{command} --db {}", db.display()),
            None => command,
        });
        let curves = show::curve::render(&led.curves, format);
        let end = show::session::end_text(session_id, &runs, compare.as_deref());
        out::print(&format!("{curves}{end}"))?;
        return Ok(());
    }
    // One run's requests at a time: a session may be of any number of large ones.
    let mut views = Vec::with_capacity(runs.len());
    for run in runs {
        let loaded = store.with_figures(run.clone()).await?;
        views.push(show::run::view(run, &loaded));
    }
    out::print(&show::session::render(
        session_id,
        &views,
        &led.curves,
        format,
    )?)?;
    Ok(())
}
