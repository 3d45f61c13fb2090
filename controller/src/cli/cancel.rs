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
use crate::store::Store;
use crate::words;

/// Flags of `cancel`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The run, by any unique prefix of its id
    run: String,
}

/// The command.
///
/// # Errors
/// The run is unknown; its agent is unreachable or refuses.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let store = Store::open(&context.db).await?;
    let run = store.run_by_prefix(&args.run).await?;
    if run.status.state.is_final() {
        let state = words::state(run.status.state);
        out::print(&format!("run {} has ended before: {state}\n", run.run_id))?;
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
    let run = ended?;
    out::print(&format!(
        "run {} ended: {}\n",
        run.run_id,
        words::state(run.status.state)
    ))?;
    Ok(Exit::Done)
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
