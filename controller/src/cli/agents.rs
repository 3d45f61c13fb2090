//! `controller agents`: the list of agents, and whether they answer.

use clap::{Args as ClapArgs, Subcommand};
use contracts::host::HostInfo;

use super::Context;
use crate::exit::{Exit, usage};
use crate::fleet::{AgentAddress, AgentClient, FleetError, LOCAL};
use crate::out;
use crate::show::Format;
use crate::show::agents::{AgentView, render};
use crate::store::{AgentRow, Store, StoreError};

/// Flags of `agents`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// text, json or markdown [default: text]
    #[arg(long, global = true)]
    format: Option<Format>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add an agent to the list, or change where it is
    Add {
        /// How --agent calls it
        name: String,
        /// http://HOST:PORT
        url: String,
        /// File whose first line is the agent's token [default: $CHAPTERBENCH_TOKEN at each use]
        #[arg(long, value_name = "FILE")]
        token_file: Option<String>,
        /// PEM file of the authority that signed the agent's certificate
        #[arg(long, value_name = "FILE")]
        ca_file: Option<String>,
    },
    /// List them
    List,
    /// Ask each who it is and what it can run
    Check {
        /// Only these [default: all]
        names: Vec<String>,
    },
    /// Take an agent off the list; its runs stay
    Remove {
        /// Its name
        name: String,
    },
}

/// The command.
///
/// # Errors
/// Usage, the database; an agent that does not answer is an exit code.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    match args.command.unwrap_or(Command::List) {
        Command::Add {
            name,
            url,
            token_file,
            ca_file,
        } => {
            let absolute = |file: String| {
                std::path::absolute(&file)
                    .map(|path| path.to_string_lossy().into_owned())
                    .unwrap_or(file)
            };
            let row = AgentRow {
                name,
                url,
                token_file: token_file.map(absolute),
                ca_file: ca_file.map(absolute),
            };
            add(context, row, format).await
        }
        Command::List => list(context, format).await,
        Command::Check { names } => check(context, &names, format).await,
        Command::Remove { name } => {
            let store = Store::open(&context.db).await?;
            store.remove_agent(&name).await?;
            store.close().await;
            out::print(&match format {
                Format::Json => {
                    let document =
                        serde_json::json!({"schema": contracts::SCHEMA, "removed": name});
                    format!("{document}\n")
                }
                Format::Text | Format::Markdown => format!("removed {name}\n"),
            })?;
            Ok(Exit::Done)
        }
    }
}

async fn add(context: &Context, row: AgentRow, format: Format) -> anyhow::Result<Exit> {
    let plain = row
        .name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if row.name.is_empty() || !plain {
        return Err(usage(format!(
            "agent name `{}`: use letters, digits, `-`, `_` and `.`",
            row.name
        )));
    }
    if row.name == LOCAL {
        return Err(usage(
            "agent name `local` is the built-in agent's; take another",
        ));
    }
    // A URL or file that cannot be used is told now, not at the first run.
    AgentClient::new(AgentAddress::of(&row)?)?;
    let store = Store::open(&context.db).await?;
    store.add_agent(&row, crate::now_unix_ms()).await?;
    store.close().await;
    let line = format!("added {} at {}\n", row.name, row.url);
    say(format, line, row.name, row.url)
}

/// One changed agent: a line for people, else the list's form with this one alone.
fn say(format: Format, line: String, name: String, url: String) -> anyhow::Result<Exit> {
    let agent = AgentView {
        name,
        url,
        host: None,
        error: None,
    };
    out::print(&match format {
        Format::Text => line,
        format => render(&[agent], format)?,
    })?;
    Ok(Exit::Done)
}

/// A database that is not there yet lists no agents.
async fn rows(context: &Context) -> Result<Vec<AgentRow>, StoreError> {
    match Store::open_read(&context.db).await {
        Ok(store) => {
            let rows = store.agents().await;
            store.close().await;
            rows
        }
        Err(StoreError::Missing(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

async fn list(context: &Context, format: Format) -> anyhow::Result<Exit> {
    let agents: Vec<AgentView> = rows(context)
        .await?
        .into_iter()
        .map(|row| AgentView {
            name: row.name,
            url: row.url,
            host: None,
            error: None,
        })
        .collect();
    out::print(&render(&agents, format)?)?;
    Ok(Exit::Done)
}

/// Those that do not answer are listed with the reason; the exit code is theirs.
async fn check(context: &Context, names: &[String], format: Format) -> anyhow::Result<Exit> {
    let known = rows(context).await?;
    if let Some(name) = names
        .iter()
        .find(|name| !known.iter().any(|row| row.name == **name))
    {
        return Err(usage(format!(
            "no agent `{name}`; `controller agents list` shows all"
        )));
    }
    let mut exit = Exit::Done;
    let mut agents = Vec::new();
    for row in known
        .iter()
        .filter(|row| names.is_empty() || names.contains(&row.name))
    {
        let answer = ask(row).await;
        if let Err(error) = &answer {
            exit = exit.worse(error.exit());
        }
        // Name and place stand in columns of their own.
        let told = format!("agent {} ({}): ", row.name, row.url);
        let error = answer
            .as_ref()
            .err()
            .map(|error| error.to_string().replace(&told, ""));
        agents.push(AgentView {
            name: row.name.clone(),
            url: row.url.clone(),
            host: answer.ok(),
            error,
        });
    }
    out::print(&render(&agents, format)?)?;
    Ok(exit)
}

async fn ask(row: &AgentRow) -> Result<HostInfo, FleetError> {
    AgentClient::new(AgentAddress::of(row)?)?.host().await
}
