//! `controller calibrate`: how far results of a host are off by themselves. `--client` measures the load
//! generator ([`client`]), `--runs` how much equal runs differ ([`noise`]).

mod client;
mod noise;

use clap::Args as ClapArgs;

use super::{Context, connect, workload};
use crate::exit::{Exit, usage};
use crate::out;
use crate::show::Format;
use crate::show::noise::render_list;
use crate::store::{Store, StoreError};

/// Flags of `calibrate`.
#[derive(Debug, ClapArgs)]
#[command(allow_negative_numbers = true)]
pub struct Args {
    /// The load generator itself, against a server on a known schedule
    #[arg(long, conflicts_with_all = ["runs", "show"], conflicts_with_all = workload::flag_ids())]
    client: bool,
    /// So many equal runs of one arm, 5 or more: how much a host's runs differ by themselves
    #[arg(long, value_name = "N", conflicts_with_all = ["show", "repeat", "order", "order_seed", "max_extend", "sweep"])]
    runs: Option<u32>,
    /// Print the noise floors that are stored
    #[arg(long, conflicts_with_all = workload::flag_ids())]
    show: bool,
    #[command(flatten)]
    asked: workload::AskedArgs,
    /// The agent on whose host [default: the one in this program]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// The command.
///
/// # Errors
/// Usage; the agent is unknown, unreachable, busy or fails; the database.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    if args.show {
        return show(context, format).await;
    }
    let names = connect::names(context, args.agent.into_iter().collect())?;
    if names.len() > 1 {
        return Err(usage("--agent: one host at a time is calibrated"));
    }
    match (args.client, args.runs) {
        (true, _) => client::run(context, &names, format).await,
        (false, Some(runs)) => noise::run(context, runs, args.asked, &names, format).await,
        (false, None) => Err(usage(
            "calibrate: say what with --client (the load generator's own error), --runs 5 --chapter N (how much equal runs differ) or --show",
        )),
    }
}

async fn show(context: &Context, format: Format) -> anyhow::Result<Exit> {
    let floors = match Store::open_read(&context.db).await {
        Ok(store) => {
            let floors = store.all_noise_floors().await?;
            store.close().await;
            floors
        }
        Err(StoreError::Missing(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    out::print(&render_list(&floors, format)?)?;
    Ok(Exit::Done)
}
