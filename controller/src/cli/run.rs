//! `controller run`: bench chapters or engines, on the built-in agent or on others.

use std::time::Duration;

use clap::Args as ClapArgs;
use contracts::run::{Arm, Mode};
use ulid::Ulid;

use super::secrets::SecretArgs;
use super::{Context, connect, dry_run, workload};
use crate::exit::{Exit, usage};
use crate::plan::sweep::Range;
use crate::plan::{Plan, plan};
use crate::record::RunRecord;
use crate::run::progress::Console;
use crate::run::{Outcome, Session, check, interrupt};
use crate::show::curve::Curve;
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
    #[command(flatten)]
    secrets: SecretArgs,
    /// Agents of the list, all at once [default: the built-in one]
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME…]", help_heading = SESSION)]
    agent: Vec<String>,
    /// Print arms, order and requests, and run nothing
    #[arg(long, help_heading = SESSION)]
    dry_run: bool,
    /// A name for these runs, for `compare label:NAME`
    #[arg(long, help_heading = SESSION)]
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
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let names = connect::names(context, args.agent)?;
    let asked = workload::asked(&context.config, args.asked)?;
    let secrets = args.secrets.read()?;
    let mut request = asked.request;
    let online = |arm: &Arm| arm.mode == Mode::Online;
    if !secrets.is_empty() && !request.arms.iter().any(online) {
        return Err(usage(
            "--header and --api-key-file with --mode offline: `generate` has no HTTP; give --mode online or both",
        ));
    }
    for arm in request.arms.iter_mut().filter(|arm| online(arm)) {
        arm.header_names = secrets.headers.keys().cloned().collect();
    }
    if names.is_empty() {
        request.workload.model = local_path(request.workload.model);
        request.workload.tokenizer = request.workload.tokenizer.map(local_path);
    }
    let wait = Duration::from_millis(request.limits.device_wait_ms);
    let plan = plan(request);
    if args.dry_run {
        if names.is_empty() {
            known_chapters(&plan)?;
        }
        return dry_run::print(context, &plan, asked.sweep.as_ref(), &names, format).await;
    }
    let interrupt = interrupt::listen()?;
    let console = Console::new(format == Format::Text);
    if let Some(note) = &asked.note {
        console.note(note);
    }
    let store = Store::open(&context.db).await?;
    let agents = tokio::select! {
        agents = connect::connect(context, &store, &names, &interrupt, &console, wait) => agents?,
        () = interrupt.cancelled() => return Ok(Exit::Interrupted),
    };
    let session = Session {
        store: &store,
        hosts: &agents.hosts,
        plan: &plan,
        secrets,
        label: args.label,
        tags: args.tag.into_iter().collect(),
        session_id: Ulid::generate().to_string(),
        created_unix_ms: crate::now_unix_ms(),
        interrupt: &interrupt,
        console: &console,
    };
    let outcome = checked_run(&session, asked.sweep).await;
    let session_id = session.session_id.clone();
    agents.close().await;
    let Some((outcome, curves)) = outcome? else {
        return Ok(Exit::Interrupted);
    };
    if format == Format::Json || !outcome.runs.is_empty() {
        report(context, &store, &session_id, &outcome, &curves, format).await?;
    }
    store.close().await;
    Ok(outcome.exit)
}

/// None if the user interrupted before the first run.
async fn checked_run(
    session: &Session<'_>,
    sweep: Option<Range>,
) -> anyhow::Result<Option<(Outcome, Vec<Curve>)>> {
    tokio::select! {
        checked = check(session.hosts, session.plan) => checked?,
        () = session.interrupt.cancelled() => return Ok(None),
    }
    match sweep {
        Some(range) => session.sweep(range).await.map(Some),
        None => Ok(Some((session.run().await?, Vec::new()))),
    }
}

/// A path is made absolute: the same name must not mean two models in two folders.
fn local_path(model: String) -> String {
    match std::fs::canonicalize(&model) {
        Ok(path) => path.into_os_string().into_string().unwrap_or(model),
        Err(_) => model,
    }
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
async fn report(
    context: &Context,
    store: &Store,
    session_id: &str,
    outcome: &Outcome,
    curves: &[Curve],
    format: Format,
) -> anyhow::Result<()> {
    if format == Format::Text {
        let runs: Vec<&RunRecord> = outcome.runs.iter().collect();
        let compare = show::session::compare_command(&runs).map(|command| match &context.db_flag {
            Some(db) => format!("{command} --db {}", db.display()),
            None => command,
        });
        let curves = show::curve::render(curves, format);
        let end = show::session::end_text(session_id, &runs, compare.as_deref());
        out::print(&format!("{curves}{end}"))?;
        return Ok(());
    }
    // One run's requests at a time: a session may be of any number of large ones.
    let mut views = Vec::with_capacity(outcome.runs.len());
    for run in &outcome.runs {
        let loaded = store.with_figures(run.clone()).await?;
        views.push(show::run::view(run, &loaded));
    }
    out::print(&show::session::render(session_id, &views, curves, format)?)?;
    Ok(())
}
