//! `controller doctor`: what a server of others does, looked at by an agent, stored with the runs
//! against it.

use std::time::Duration;

use clap::Args as ClapArgs;
use contracts::api::{DoctorRequest, ErrorCode};
use contracts::defaults::DOCTOR_PROBE_TIMEOUT;

use super::secrets::SecretArgs;
use super::{Context, connect};
use crate::exit::{Exit, Refusal, usage};
use crate::fleet::FleetError;
use crate::run::interrupt;
use crate::show::Format;
use crate::show::doctor::{is_measurable, render};
use crate::store::Store;
use crate::{out, values};

/// Flags of `doctor`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Where the server is: http://HOST:PORT or https://…, with or without /v1
    url: String,
    /// Look from this agent [default: the built-in one]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The model's name there [default: the first that /v1/models lists]
    #[arg(long, visible_alias = "served-model-name", value_name = "NAME")]
    model: Option<String>,
    /// Each request [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    secrets: SecretArgs,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// The command: [`Exit::Failed`] where the server cannot be measured.
///
/// # Errors
/// Usage, the agent, the database; a server that cannot be reached is [`Exit::Agent`].
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let timeout = args.timeout.unwrap_or(DOCTOR_PROBE_TIMEOUT);
    let request_timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    if request_timeout_ms == 0 {
        return Err(usage("--timeout: give more than 0s"));
    }
    let request = DoctorRequest {
        url: args.url,
        served_name: args.model,
        request_timeout_ms,
        secrets: args.secrets.read()?,
    };
    let names = connect::names(context, args.agent.into_iter().collect())?;
    if names.len() > 1 {
        return Err(usage("--agent: the doctor looks from one agent; name it"));
    }
    let interrupt = interrupt::listen()?;
    let store = Store::open(&context.db).await?;
    let agents = connect::open(context, &store, &names, Duration::ZERO).await?;
    let looked = async {
        let host = agents.hosts.first().ok_or_else(|| usage("no agent"))?;
        let report = host.client.doctor(&request).await.map_err(busy)?;
        let now = crate::now_unix_ms();
        anyhow::Ok(
            store
                .add_server_report(report, host.client.name(), now)
                .await?,
        )
    };
    let looked = tokio::select! {
        looked = looked => Some(looked),
        () = interrupt.cancelled() => None,
    };
    agents.close().await;
    store.close().await;
    let Some(looked) = looked else {
        return Ok(Exit::Interrupted);
    };
    let stored = looked?;
    out::print(&render(&stored, format)?)?;
    Ok(match is_measurable(&stored.report) {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

/// There is no `--wait` here: say what to wait for.
fn busy(error: FleetError) -> anyhow::Error {
    match &error {
        FleetError::Api { name, error, .. } if error.code == ErrorCode::Busy => Refusal {
            exit: Exit::Agent,
            message: format!(
                "agent {name} is {}, which looking at a server would disturb; ask again when that has ended",
                error.message
            ),
        }
        .into(),
        _ => error.into(),
    }
}
