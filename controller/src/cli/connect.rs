//! From `--agent` to agents that answered: the named ones, or the built-in one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::exit::usage;
use crate::fleet::{AgentAddress, AgentClient, FleetError, LOCAL};
use crate::local::{self, Local};
use crate::run::Host;
use crate::run::collect::{Reach, leftovers};
use crate::run::progress::Console;
use crate::store::{AgentRow, RunFilter, Store, StoreError};
use crate::values;

/// How often a built-in agent that is in use is tried again, under `--wait`.
const HELD_PAUSE: Duration = Duration::from_millis(500);

/// Agents of one command, in the order they were named.
pub struct Agents {
    /// Those that answered.
    pub hosts: Vec<Host>,
    /// The built-in one, if it is among them.
    local: Option<Local>,
}

impl Agents {
    /// Stops the built-in agent, which stops what it runs first.
    pub async fn close(self) {
        drop(self.hosts);
        if let Some(local) = self.local {
            local.stop().await;
        }
    }
}

/// `--agent`, else the setting; empty for the built-in one.
///
/// # Errors
/// A setting that cannot be read.
pub fn names(context: &Context, flag: Vec<String>) -> anyhow::Result<Vec<String>> {
    if flag.iter().any(|name| name.trim().is_empty()) {
        return Err(usage(
            "--agent: a name is empty; `controller agents list` shows all",
        ));
    }
    if !flag.is_empty() {
        return Ok(flag);
    }
    let set = context
        .config
        .optional("agent", None, values::text)?
        .unwrap_or_default();
    Ok(set
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}

/// Connects to each, asks who it is, and collects what an earlier command left there; what cannot
/// be collected is told and left to `resume`. A built-in agent that works for another command is
/// waited for as long as `wait`.
///
/// # Errors
/// An unknown name; an agent that is unreachable or refuses, before any work.
pub async fn connect(
    context: &Context,
    store: &Store,
    names: &[String],
    interrupt: &CancellationToken,
    console: &Console,
    wait: Duration,
) -> anyhow::Result<Agents> {
    let agents = open(context, store, names, wait).await?;
    for host in &agents.hosts {
        if let Err(error) = leftovers(store, host, Reach::Ended, interrupt, console).await {
            agents.close().await;
            return Err(error);
        }
    }
    Ok(agents)
}

/// [`connect`] without collecting.
///
/// # Errors
/// As [`connect`].
pub async fn open(
    context: &Context,
    store: &Store,
    names: &[String],
    wait: Duration,
) -> anyhow::Result<Agents> {
    if names.is_empty() || names == [LOCAL] {
        let local = start_local(context, wait).await?;
        let answered = match AgentClient::new(local.address.clone()) {
            Ok(client) => hello(client).await,
            Err(error) => Err(error),
        };
        return match answered {
            Ok(host) => Ok(Agents {
                hosts: vec![host],
                local: Some(local),
            }),
            Err(error) => {
                local.stop().await;
                Err(error.into())
            }
        };
    }
    if names.iter().any(|name| name == LOCAL) {
        return Err(usage(format!(
            "--agent: {LOCAL}, the built-in agent, stands alone; start `agent` here and add it to use it with others"
        )));
    }
    let known = store.agents().await?;
    let mut hosts = Vec::new();
    for (place, name) in names.iter().enumerate() {
        if names.iter().take(place).any(|earlier| earlier == name) {
            return Err(usage(format!("--agent: {name} is named twice")));
        }
        let row = known
            .iter()
            .find(|row| row.name == *name)
            .ok_or_else(|| unknown(name, &known))?;
        hosts.push(hello(AgentClient::new(AgentAddress::of(row)?)?).await?);
    }
    Ok(Agents { hosts, local: None })
}

/// The file that names the engines of the built-in agent, if there is one.
///
/// # Errors
/// A setting that cannot be read.
pub fn engines_file(context: &Context) -> anyhow::Result<Option<PathBuf>> {
    let named = context.config.optional("engines", None, values::text)?;
    Ok(named.map(PathBuf::from).or_else(|| {
        let usual = context.config.file.with_file_name("engines.toml");
        usual.exists().then_some(usual)
    }))
}

async fn start_local(context: &Context, wait: Duration) -> anyhow::Result<Local> {
    let state_dir = context
        .config
        .required("local_state_dir", None, values::text)?;
    let engines = engines_file(context)?;
    let held_until = Instant::now() + wait;
    loop {
        let state_dir = Path::new(&state_dir);
        let started = Local::start(&context.program, state_dir, engines.as_deref()).await;
        match started {
            Err(error) if local::is_held(&error) && Instant::now() < held_until => {
                tokio::time::sleep(HELD_PAUSE).await;
            }
            started => return started,
        }
    }
}

async fn hello(client: AgentClient) -> Result<Host, FleetError> {
    let info = client.host().await?;
    Ok(Host { client, info })
}

fn unknown(name: &str, known: &[AgentRow]) -> anyhow::Error {
    let there: Vec<&str> = known.iter().map(|row| row.name.as_str()).collect();
    let there = if there.is_empty() {
        "none yet".to_owned()
    } else {
        there.join(", ")
    };
    usage(format!(
        "no agent `{name}`; there are: {there}. `controller agents add {name} URL` adds it"
    ))
}

/// Opens the database for a command that only looks; first, what a killed command left with the
/// built-in agent is brought home, so that what is shown is true.
///
/// # Errors
/// The database cannot be used, or is not there yet.
pub async fn open_for_reading(context: &Context) -> Result<Store, StoreError> {
    let store = Store::open_read(&context.db).await?;
    let unfinished = store
        .runs(&RunFilter {
            unfinished: true,
            ..RunFilter::default()
        })
        .await?;
    if unfinished.iter().all(|run| run.agent_name != LOCAL) {
        return Ok(store);
    }
    store.close().await;
    if let Err(error) = recover_local(context).await {
        // Held by a command that is still at work: then the run is not lost at all.
        if !local::is_held(&error) {
            tracing::warn!("runs of a killed command could not be collected: {error:#}");
        }
    }
    Store::open_read(&context.db).await
}

async fn recover_local(context: &Context) -> anyhow::Result<()> {
    let store = Store::open(&context.db).await?;
    let console = Console::new(false);
    let never = CancellationToken::new();
    let agents = connect(context, &store, &[], &never, &console, Duration::ZERO).await?;
    agents.close().await;
    store.close().await;
    Ok(())
}
