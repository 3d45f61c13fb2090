//! What is judged: engines, and how each is set up and asked. Those of the command line's lists come
//! first, then each `--arm`.

mod engines;
mod own;
mod setup;
mod split;

use clap::Args as ClapArgs;
use contracts::run::{Arm, EngineRef, Mode};

use self::engines::{EngineArgs, is_url};
use self::setup::{Setup, SetupArgs};
use crate::config::Config;
use crate::exit::usage;

pub use self::own::arm_command;
pub use self::setup::HttpArgs;

/// What is judged.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Arms")]
pub struct ArmArgs {
    #[command(flatten)]
    engines: EngineArgs,
    #[command(flatten)]
    setup: SetupArgs,
    /// One more arm, with flags of its own out of Arms and HTTP over those of the command line;
    /// repeat it for more
    // A name that was forgotten is answered by how an arm is written.
    #[arg(long, value_name = "NAME: FLAGS", allow_hyphen_values = true)]
    arm: Vec<String>,
}

/// The arms.
pub struct Arms {
    /// In the order of their letters, each engine in each of its modes.
    pub arms: Vec<Arm>,
}

impl Arms {
    /// Whether only servers are measured that run already.
    pub fn is_url(&self) -> bool {
        self.arms.iter().all(|arm| is_url(&arm.engine))
    }

    /// What to call the model of servers where no `--model` says it.
    pub fn served_name(&self) -> Option<String> {
        self.arms.iter().find_map(|arm| match &arm.engine {
            EngineRef::Url { served_name, .. } => served_name.clone(),
            _ => None,
        })
    }

    /// Whether anything goes over HTTP.
    pub fn online(&self) -> bool {
        self.has(Mode::Online)
    }

    /// Whether anything does not.
    pub fn offline(&self) -> bool {
        self.has(Mode::Offline)
    }

    fn has(&self, mode: Mode) -> bool {
        self.arms.iter().any(|arm| arm.mode == mode)
    }
}

/// Joins flags and settings.
///
/// # Errors
/// Usage errors that name the flag, and the arm where it is one's own.
pub fn arms(config: &Config, args: ArmArgs, http: &HttpArgs) -> anyhow::Result<Arms> {
    let listed = args.engines.read()?;
    if listed.is_empty() && args.arm.is_empty() {
        return Err(usage(
            "nothing to run: give --chapter, --engine, --url or --arm",
        ));
    }
    if listed.iter().any(is_url) {
        args.setup.fit_url()?;
    }
    let common = Setup::common(config, &args.setup, http)?;
    let mut arms: Vec<Arm> = listed
        .iter()
        .flat_map(|engine| common.arms(None, engine))
        .collect();
    let mut names: Vec<String> = Vec::new();
    for text in &args.arm {
        let own = own::read(text, &common, &listed)?;
        if names.contains(&own.name) {
            return Err(usage(format!(
                "--arm {}: two arms have this name",
                own.name
            )));
        }
        names.push(own.name);
        arms.extend(own.arms);
    }
    let arms = Arms { arms };
    http.fit(arms.online())?;
    Ok(arms)
}

/// A flag that only means something over HTTP or where requests arrive.
pub fn needs_online(flag: &str) -> anyhow::Error {
    usage(format!(
        "{flag} with --mode offline: without HTTP there are slots and no arrivals; give --mode online or both"
    ))
}
