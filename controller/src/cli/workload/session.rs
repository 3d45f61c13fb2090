//! How the runs of a session follow one another.

use std::time::Duration;

use clap::Args as ClapArgs;

use super::between;
use crate::config::Config;
use crate::exit::usage;
use crate::plan::{COOLDOWN_MAX, EXTEND_MAX, Order, REPEAT_MAX};
use crate::values;

/// How the runs of a session follow one another.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Session")]
pub struct SessionArgs {
    /// Passes over the arms [default: 1; with --extend, as many as at first]
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// abba (A B, B A, …) or blocked (A A, B B) [default: abba]
    #[arg(long, value_parser = values::order)]
    order: Option<Order>,
    /// Shuffle the arms of the first block by this seed; 0 runs them as they are named [default: 0]
    #[arg(long, value_name = "N")]
    order_seed: Option<u64>,
    /// Pause between two runs on a host [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    cooldown: Option<Duration>,
    /// How often this session may be extended, 0 to 2: each look at it is then held to a stricter
    /// level [default: 0]
    #[arg(long, value_name = "N")]
    max_extend: Option<u32>,
}

/// How the runs of a session follow one another, read.
pub struct Passes {
    pub repeat: u32,
    pub order: Order,
    pub order_seed: u64,
    pub cooldown: Duration,
    pub max_extend: u32,
}

/// Joins flags and settings.
///
/// # Errors
/// Usage errors that name the flag.
pub fn passes(config: &Config, args: &SessionArgs) -> anyhow::Result<Passes> {
    let repeat = config.required("repeat", args.repeat, values::number)?;
    Ok(Passes {
        repeat: between("--repeat", repeat, 1, REPEAT_MAX)?,
        order: config.required("order", args.order, values::order)?,
        order_seed: args.order_seed.unwrap_or(0),
        cooldown: cooldown(config, args.cooldown)?,
        max_extend: between("--max-extend", args.max_extend.unwrap_or(0), 0, EXTEND_MAX)?,
    })
}

/// What may be said of a session that is extended.
///
/// # Errors
/// As [`passes`].
pub fn again(config: &Config, args: &SessionArgs) -> anyhow::Result<(Option<u32>, Duration)> {
    let repeat = args
        .repeat
        .map(|n| between("--repeat", n, 1, REPEAT_MAX))
        .transpose()?;
    Ok((repeat, cooldown(config, args.cooldown)?))
}

fn cooldown(config: &Config, flag: Option<Duration>) -> anyhow::Result<Duration> {
    let pause = config.required("cooldown", flag, values::duration)?;
    if pause > COOLDOWN_MAX {
        return Err(usage(format!(
            "--cooldown {}: give at most {}",
            humantime::format_duration(pause),
            humantime::format_duration(COOLDOWN_MAX)
        )));
    }
    Ok(pause)
}
