//! `controller calibrate --client`: how far the load generator's own figures are off on a host,
//! measured and stored.

use std::time::Duration;

use clap::Args as ClapArgs;
use contracts::api::ErrorCode;
use contracts::defaults::CALIBRATE_STREAMS;

use super::{Context, connect};
use crate::exit::{Exit, Refusal, usage};
use crate::fleet::FleetError;
use crate::out;
use crate::run::Host;
use crate::show::Format;
use crate::show::floor::{FloorView, render};
use crate::store::Store;

/// Flags of `calibrate`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The load generator itself, against a server on a known schedule
    #[arg(long)]
    client: bool,
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
    if !args.client {
        return Err(usage(
            "calibrate: name what to calibrate with --client, the load generator's own error; equal runs of one engine against each other (A/A) come with a later version",
        ));
    }
    let format = context.format(args.format)?;
    let names = connect::names(context, args.agent.into_iter().collect())?;
    if names.len() > 1 {
        return Err(usage("--agent: one host at a time is calibrated"));
    }
    let store = Store::open(&context.db).await?;
    let measured = measure(context, &store, &names).await;
    store.close().await;
    let Some(view) = measured? else {
        return Ok(Exit::Interrupted);
    };
    out::print(&render(&view, format)?)?;
    Ok(Exit::Done)
}

/// Measures and stores; the agent is let go either way. None: interrupted.
async fn measure(
    context: &Context,
    store: &Store,
    names: &[String],
) -> anyhow::Result<Option<FloorView>> {
    let agents = connect::open(context, store, names, Duration::ZERO).await?;
    let measured = match agents.hosts.first() {
        // An agent that nobody waits for any more ends its server.
        Some(host) => tokio::select! {
            view = ask(store, host) => view.map(Some),
            _ = tokio::signal::ctrl_c() => Ok(None),
        },
        None => Err(usage("--agent: no agent")),
    };
    agents.close().await;
    measured
}

async fn ask(store: &Store, host: &Host) -> anyhow::Result<FloorView> {
    let floor = match host.client.calibrate(&CALIBRATE_STREAMS).await {
        Ok(floor) => floor,
        Err(FleetError::Api { name, error, .. }) if error.code == ErrorCode::Busy => {
            // Not with the words of `run`, which can wait.
            return Err(Refusal {
                exit: Exit::Agent,
                message: format!(
                    "agent {name} is {}; try again when that has ended",
                    error.message
                ),
            }
            .into());
        }
        Err(error) => return Err(error.into()),
    };
    store
        .add_client_floor(&floor, &host.info.host, crate::now_unix_ms())
        .await?;
    Ok(FloorView {
        agent: host.client.name().to_owned(),
        floor,
    })
}
