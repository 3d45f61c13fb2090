//! `controller chapters`: what can be run, here or on an agent.

use std::time::Duration;

use clap::Args as ClapArgs;

use super::{Context, connect};
use crate::exit::Exit;
use crate::show::{self, Format};
use crate::store::Store;
use crate::{local, out};

/// Flags of `chapters`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The agent to ask [default: the engine in this program]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// The command.
///
/// # Errors
/// The agent is unknown, unreachable or refuses.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let names = connect::names(context, args.agent.into_iter().collect())?;
    let (chapters, engines) = if names.is_empty() {
        let engines = connect::engines_file(context)?;
        (local::chapters()?, local::engines(engines.as_deref())?)
    } else {
        let store = Store::open_read(&context.db).await?;
        let agents = connect::open(context, &store, &names, Duration::ZERO).await?;
        let info = agents.hosts.first().map(|host| host.info.clone());
        agents.close().await;
        store.close().await;
        info.map(|info| (info.chapters, info.engines))
            .unwrap_or_default()
    };
    out::print(&show::chapters::render(&chapters, &engines, format)?)?;
    Ok(Exit::Done)
}
