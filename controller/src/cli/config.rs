//! `controller config`: each setting and where it comes from.

use clap::Args as ClapArgs;

use super::Context;
use crate::exit::Exit;
use crate::out;
use crate::show::Format;
use crate::show::config::{ConfigValue, render};

/// Flags of `config`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// The command.
///
/// # Errors
/// A setting that cannot be read.
pub fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let values: Vec<ConfigValue> = context
        .config
        .settings()
        .iter()
        .map(|setting| ConfigValue {
            name: setting.key.to_owned(),
            value: setting.value.clone(),
            source: setting.source.to_string(),
        })
        // `--db` is the one setting that is a flag of this command too.
        .map(|value| match &context.db_flag {
            Some(db) if value.name == "db" => ConfigValue {
                value: db.display().to_string(),
                source: "flag --db".to_owned(),
                ..value
            },
            _ => value,
        })
        .collect();
    out::print(&render(&values, format)?)?;
    Ok(Exit::Done)
}
