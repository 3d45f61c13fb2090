//! `controller calibrate --client`: how far the load generator's own figures are off on a host,
//! measured and stored.

use std::time::Duration;

use contracts::api::ErrorCode;
use contracts::defaults::CALIBRATE_STREAMS;

use crate::cli::{Context, connect};
use crate::exit::{Exit, Refusal, usage};
use crate::fleet::FleetError;
use crate::out;
use crate::run::Host;
use crate::show::Format;
use crate::show::floor::{FloorView, render};
use crate::store::Store;

/// Measures, stores and prints.
///
/// # Errors
/// The agent is unreachable, busy or fails; the database.
pub async fn run(context: &Context, names: &[String], format: Format) -> anyhow::Result<Exit> {
    let store = Store::open(&context.db).await?;
    let measured = measure(context, &store, names).await;
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
