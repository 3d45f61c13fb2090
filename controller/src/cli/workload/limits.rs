//! How long each wait may take.

use std::time::Duration;

use clap::Args as ClapArgs;
use contracts::defaults;
use contracts::run::Limits;

use crate::config::Config;
use crate::exit::usage;
use crate::values;

/// How long each wait may take.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// A whole request [default: 600s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    timeout: Option<Duration>,
    /// Silence within an answer [default: 120s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    stall_timeout: Option<Duration>,
    /// Start of an engine until it is ready [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    ready_timeout: Option<Duration>,
    /// Wait for an agent or a device that is busy [default: 0s, refuse]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    wait: Option<Duration>,
}

/// Joins flags and settings.
///
/// # Errors
/// A time that is out of bounds, by flag.
pub fn limits(config: &Config, args: LimitArgs) -> anyhow::Result<Limits> {
    let get = |key: &str, flag: Option<Duration>, least_ms: u64| {
        let duration = config.required(key, flag, values::duration)?;
        let flag = format!("--{}", key.replace('_', "-"));
        milliseconds(&flag, duration, least_ms)
    };
    Ok(Limits {
        ready_timeout_ms: get("ready_timeout", args.ready_timeout, 1)?,
        stop_grace_ms: u64::try_from(defaults::STOP_GRACE.as_millis()).unwrap_or(u64::MAX),
        request_timeout_ms: get("timeout", args.timeout, 1)?,
        stall_timeout_ms: get("stall_timeout", args.stall_timeout, 1)?,
        device_wait_ms: get("wait", args.wait, 0)?,
    })
}

/// A time of at least `least_ms` and at most what a run may take.
///
/// # Errors
/// The flag with its bounds.
pub fn milliseconds(flag: &str, duration: Duration, least_ms: u64) -> anyhow::Result<u64> {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let most_ms = u64::try_from(defaults::RUN_DEADLINE.as_millis()).unwrap_or(u64::MAX);
    if (least_ms..=most_ms).contains(&ms) {
        return Ok(ms);
    }
    let hours = defaults::RUN_DEADLINE.as_secs() / 3600;
    Err(usage(format!(
        "{flag} {ms}ms: give {least_ms}ms to {hours}h"
    )))
}
