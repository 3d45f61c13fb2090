//! `controller resume`: bring home what an interrupted command left on agents.

use std::time::Duration;

use clap::Args as ClapArgs;
use tokio_util::sync::CancellationToken;

use super::{Context, connect};
use crate::exit::{self, Exit};
use crate::fleet::LOCAL;
use crate::run::collect::{Collected, Reach, leftovers};
use crate::run::interrupt;
use crate::run::progress::Console;
use crate::show::{self, Format};
use crate::store::{RunFilter, Store};
use crate::{local, out};

/// Flags of `resume`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// The command. Runs that still go on are followed to their end.
///
/// # Errors
/// The database; an agent that does not answer is told, and an exit code.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let store = Store::open(&context.db).await?;
    let interrupt = interrupt::listen()?;
    let console = Console::new(format == Format::Text);
    let mut exit = Exit::Done;
    let mut collected = Vec::new();
    for name in with_work(&store).await? {
        match from_agent(context, &store, &name, &interrupt, &console).await {
            Ok(from) => {
                exit = exit.worse(from.exit);
                collected.extend(from.runs);
            }
            Err(error) => {
                console.note(&format!("error: {error:#}"));
                exit = exit.worse(exit::of(&error));
            }
        }
    }
    match format {
        Format::Text if collected.is_empty() => out::print("nothing to collect\n")?,
        Format::Text => {
            for run in collected {
                console.show_run(&store.with_figures(run).await?)?;
            }
        }
        _ => out::print(&show::runs::render(&collected, format)?)?,
    }
    store.close().await;
    if interrupt.is_cancelled() {
        Ok(Exit::Interrupted)
    } else {
        Ok(exit)
    }
}

/// All agents of the list, since an acknowledgement may have been lost too; the built-in one only
/// if it has something, since it must be started.
async fn with_work(store: &Store) -> anyhow::Result<Vec<String>> {
    let mut names: Vec<String> = store
        .agents()
        .await?
        .into_iter()
        .map(|row| row.name)
        .collect();
    let unfinished = store
        .runs(&RunFilter {
            unfinished: true,
            ..RunFilter::default()
        })
        .await?;
    if unfinished.iter().any(|run| run.agent_name == LOCAL) {
        names.push(LOCAL.to_owned());
    }
    Ok(names)
}

async fn from_agent(
    context: &Context,
    store: &Store,
    name: &str,
    interrupt: &CancellationToken,
    console: &Console,
) -> anyhow::Result<Collected> {
    let mut collected = Collected {
        runs: Vec::new(),
        exit: Exit::Done,
    };
    let agents = match connect::open(context, store, &[name.to_owned()], Duration::ZERO).await {
        Ok(agents) => agents,
        Err(error) if local::is_held(&error) => {
            console.note("the built-in agent is at work for another command; its runs go on");
            return Ok(collected);
        }
        Err(error) => return Err(error),
    };
    let mut failed = None;
    for host in &agents.hosts {
        match leftovers(store, host, Reach::Running, interrupt, console).await {
            Ok(from) => {
                collected.exit = collected.exit.worse(from.exit);
                collected.runs.extend(from.runs);
            }
            Err(error) => failed = Some(error),
        }
    }
    agents.close().await;
    failed.map_or(Ok(collected), Err)
}
