//! `--arm 'NAME: FLAGS'`: one arm with flags of its own.

use clap::Parser;
use contracts::run::{Arm, EngineRef};

use super::engines::{EngineArgs, is_url};
use super::setup::{HttpArgs, Setup, SetupArgs};
use super::split;
use crate::cli::told;
use crate::exit::usage;

/// How an arm is written.
const WRITTEN: &str = "write it as 'NAME: FLAGS', as in 'one thread: --chapter 2 --threads 1'";
/// Characters of a name: it heads columns.
const NAME_CHARS_MAX: usize = 40;

/// The flags that one arm may have of its own.
#[derive(Debug, Parser)]
#[command(
    no_binary_name = true,
    disable_help_flag = true,
    allow_negative_numbers = true
)]
struct OwnArgs {
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    http: HttpArgs,
}

/// One `--arm`, read.
pub struct Own {
    /// Its name.
    pub name: String,
    /// It in each of its modes.
    pub arms: Vec<Arm>,
}

/// Reads `text`. What it does not say is as `common` says; an arm that names no engine has the one
/// of the command line.
///
/// # Errors
/// Usage errors that name the arm.
pub fn read(text: &str, common: &Setup, engines: &[EngineRef]) -> anyhow::Result<Own> {
    let (name, flags) = text.split_once(':').unwrap_or((text, ""));
    let name = name.trim();
    if !text.contains(':') || name.is_empty() || name.starts_with('-') {
        return Err(usage(format!("--arm {text:?}: {WRITTEN}")));
    }
    if name.chars().count() > NAME_CHARS_MAX || name.chars().any(char::is_control) {
        return Err(usage(format!(
            "--arm {name:?}: give a name of at most {NAME_CHARS_MAX} characters on one line"
        )));
    }
    let arms = flagged(name, flags, common, engines)
        .map_err(|error| usage(format!("--arm {name}: {error:#}")))?;
    Ok(Own {
        name: name.to_owned(),
        arms,
    })
}

fn flagged(
    name: &str,
    flags: &str,
    common: &Setup,
    engines: &[EngineRef],
) -> anyhow::Result<Vec<Arm>> {
    let words = split::words(flags).map_err(usage)?;
    let own = OwnArgs::try_parse_from(words).map_err(|error| usage(told(&error)))?;
    let named = own.engine.read()?;
    let engine = match (named.as_slice(), engines) {
        ([engine], _) | ([], [engine]) => engine,
        ([], _) => {
            return Err(usage(
                "which engine? Give it --chapter, --engine or --url among its flags",
            ));
        }
        _ => return Err(usage("it names more than one engine; give each an --arm")),
    };
    if is_url(engine) {
        own.setup.fit_url()?;
    }
    let setup = common.clone().over(&own.setup, &own.http)?;
    own.http.fit(setup.online() || is_url(engine))?;
    Ok(setup.arms(Some(name), engine))
}
