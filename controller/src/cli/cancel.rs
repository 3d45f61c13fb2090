//! `controller cancel RUN`: end a run on its agent and keep what was measured.

use std::time::Duration;

use clap::Args as ClapArgs;
use contracts::api::ErrorCode;

use super::{Context, connect};
use crate::exit::{Exit, Refusal};
use crate::fleet::LOCAL;
use crate::out;
use crate::record::RunRecord;
use crate::run::collect::bring_home;
use crate::run::{Host, interrupt};
use crate::show::Format;
use crate::store::Store;
use crate::words;

/// Flags of `cancel`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The run, by any unique prefix of its id
    run: String,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// The command.
///
/// # Errors
/// The run is unknown; its agent is unreachable or refuses.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let store = Store::open(&context.db).await?;
    let run = store.run_by_prefix(&args.run).await?;
    if run.status.state.is_final() {
        say(&run, "has ended before", format)?;
        return Ok(Exit::Done);
    }
    let names: Vec<String> = if run.agent_name == LOCAL {
        Vec::new()
    } else {
        vec![run.agent_name.clone()]
    };
    let agents = connect::open(context, &store, &names, Duration::ZERO).await?;
    let ended = match agents.hosts.first() {
        Some(host) => end(&store, host, run).await,
        None => Err(anyhow::anyhow!("internal: no agent was opened")),
    };
    agents.close().await;
    store.close().await;
    say(&ended?, "ended", format)?;
    Ok(Exit::Done)
}

/// How the run stands now. JSON: `{"schema": 1, "run_id": …, "state": …}`.
fn say(run: &RunRecord, verb: &str, format: Format) -> anyhow::Result<()> {
    let state = words::state(run.status.state);
    match format {
        Format::Json => out::print_json(&serde_json::json!({
            "schema": contracts::SCHEMA,
            "run_id": run.run_id,
            "state": run.status.state,
        })),
        Format::Text | Format::Markdown => {
            out::print(&format!("run {} {verb}: {state}\n", run.run_id))
        }
    }
}

/// Cancels and collects, unless the command that started the run is quicker.
async fn end(store: &Store, host: &Host, run: RunRecord) -> anyhow::Result<RunRecord> {
    if run.agent_id != host.info.agent_id {
        return Err(Refusal {
            exit: Exit::Agent,
            message: format!(
                "agent {} at {} is not the one that has run {}",
                host.client.name(),
                host.client.url(),
                run.run_id
            ),
        }
        .into());
    }
    match host.client.cancel(&run.run_id).await {
        Ok(_) => {}
        // The command that started the run may have brought it home in this moment.
        Err(error) if error.code() == Some(ErrorCode::NotFound) => {}
        Err(error) => return Err(error.into()),
    }
    let interrupt = interrupt::listen()?;
    let ended = bring_home(store, &host.client, run, &interrupt, |_| {}).await?;
    Ok(ended.run)
}
