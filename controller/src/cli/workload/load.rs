//! How requests are offered, how many, and what a good one is.

use std::time::Duration;

use clap::Args as ClapArgs;
use contracts::defaults::{CONCURRENCY_MAX, N_RUNS_MAX, RATE_PER_S_MAX, WARMUP_MAX};
use contracts::run::{AllowFailures, Arrival, Load, Slo};

use super::arms::{Arms, needs_online};
use super::between;
use super::limits::milliseconds;
use crate::config::Config;
use crate::exit::usage;
use crate::plan::sweep::Range;
use crate::values::{self, SweepBy};

/// How requests are offered.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Measured requests of a run; under --sweep, the least of each point [default: 20, or all of
    /// a trace]
    #[arg(
        long,
        visible_alias = "num-prompts",
        value_name = "N",
        conflicts_with = "duration"
    )]
    n_runs: Option<u32>,
    /// Online: send for this long instead, then wait for the last answers
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    duration: Option<Duration>,
    /// Requests before measuring, at least one for each slot [default: 3]
    #[arg(long, value_name = "N")]
    warmup: Option<u32>,
    /// Slots: each sends its next request when it has its answer; more than one number makes a run
    /// each. With --rate or --trace, the most in flight [default: 1]
    #[arg(
        long,
        visible_alias = "max-concurrency",
        value_delimiter = ',',
        value_name = "N[,N…]"
    )]
    concurrency: Vec<u32>,
    /// Requests a second, whatever became of those before; more than one number makes a run each,
    /// inf sends all at once
    #[arg(long, visible_alias = "request-rate", value_delimiter = ',', value_name = "R[,R…]",
          value_parser = values::rate, conflicts_with = "trace")]
    rate: Vec<f64>,
    /// How a rate's requests are spread: constant, poisson or gamma:SHAPE, below 1 in bursts
    /// [default: poisson]
    #[arg(long, value_parser = values::arrival)]
    arrival: Option<Arrival>,
    /// Raise concurrency, or the rate, until goodput no longer rises, and show the curve
    #[arg(long, value_name = "concurrency|rate", value_parser = values::sweep_by,
          conflicts_with = "trace")]
    sweep: Option<Option<SweepBy>>,
    /// What a good request is, in ms: ttft=200,tpot=50,wall=2000, or some of these
    #[arg(long, value_name = "LIMITS", value_parser = values::goodput)]
    goodput: Option<Slo>,
    /// Failed requests that a run may have: N or P% [default: 0]
    #[arg(long, value_name = "N|P%", value_parser = values::allow_failures,
          allow_hyphen_values = true)]
    allow_failures: Option<AllowFailures>,
}

/// How requests are offered, read.
pub struct Offered {
    /// One for each run, lightest first.
    pub loads: Vec<Load>,
    pub sweep: Option<Range>,
    /// None: as many as the prompts or the settings say.
    pub n_runs: Option<u32>,
    pub duration_ms: Option<u64>,
    pub warmup: u32,
    pub slo: Option<Slo>,
    pub allow_failures: AllowFailures,
}

/// Joins flags and settings; `trace` says that the prompts have times of their own.
///
/// # Errors
/// Usage errors that name the flags.
pub fn offered(
    config: &Config,
    args: LoadArgs,
    arms: &Arms,
    repeat: u32,
    trace: bool,
) -> anyhow::Result<Offered> {
    if !arms.online() {
        for (flag, given) in [
            ("--rate", !args.rate.is_empty()),
            ("--sweep", args.sweep.is_some()),
            ("--duration", args.duration.is_some()),
        ] {
            if given {
                return Err(needs_online(flag));
            }
        }
    }
    let slots = slots(&args.concurrency)?;
    let rates = rates(&args.rate)?;
    let by = args.sweep.map(|by| match by {
        Some(by) => by,
        None if rates.is_empty() => SweepBy::Concurrency,
        None => SweepBy::Rate,
    });
    if args.arrival.is_some() && rates.is_empty() && by != Some(SweepBy::Rate) {
        return Err(usage("--arrival: only with --rate or --sweep rate"));
    }
    if args.arrival.is_some() && by.is_none() && rates.iter().all(|rate| rate.is_infinite()) {
        return Err(usage("--arrival with --rate inf: all are sent at once"));
    }
    let arrival = config.required("arrival", args.arrival, values::arrival)?;
    let (loads, sweep) = match by {
        Some(by) => {
            sweepable(arms, repeat, &slots, &rates, by)?;
            let range = range(by, &slots, &rates, arrival);
            (vec![range.load(range.first())], Some(range))
        }
        None => (loads(&slots, &rates, arrival, trace)?, None),
    };
    let endless = |load: &Load| {
        matches!(
            load,
            Load::Burst {
                max_in_flight: None
            }
        )
    };
    if args.duration.is_some() && loads.iter().any(endless) {
        return Err(usage(
            "--duration with --rate inf: all at once is no matter of time; give --n-runs, or --concurrency as the most in flight",
        ));
    }
    let n_runs = args
        .n_runs
        .map(|n| between("--n-runs", n, 1, N_RUNS_MAX))
        .transpose()?;
    let warmup = config.required("warmup", args.warmup, values::number)?;
    Ok(Offered {
        loads,
        sweep,
        n_runs,
        duration_ms: args
            .duration
            .map(|duration| milliseconds("--duration", duration, 1))
            .transpose()?,
        warmup: between("--warmup", warmup, 0, WARMUP_MAX)?,
        slo: config.optional("goodput", args.goodput, values::goodput)?,
        allow_failures: config.required(
            "allow_failures",
            args.allow_failures,
            values::allow_failures,
        )?,
    })
}

/// Fewest first, each once.
fn slots(given: &[u32]) -> anyhow::Result<Vec<u32>> {
    let mut slots = Vec::with_capacity(given.len());
    for n in given {
        slots.push(between("--concurrency", *n, 1, CONCURRENCY_MAX)?);
    }
    slots.sort_unstable();
    slots.dedup();
    Ok(slots)
}

/// Slowest first, each once.
fn rates(given: &[f64]) -> anyhow::Result<Vec<f64>> {
    for rate in given {
        if rate.is_finite() && *rate > RATE_PER_S_MAX {
            return Err(usage(format!(
                "--rate {rate}: give at most {RATE_PER_S_MAX}, or inf"
            )));
        }
    }
    let mut rates = given.to_vec();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    Ok(rates)
}

fn loads(slots: &[u32], rates: &[f64], arrival: Arrival, trace: bool) -> anyhow::Result<Vec<Load>> {
    if rates.is_empty() && !trace {
        let slots = if slots.is_empty() { &[1][..] } else { slots };
        let closed = slots.iter().map(|n| Load::Closed { concurrency: *n });
        return Ok(closed.collect());
    }
    if slots.len() > 1 {
        let times = if trace { "--trace" } else { "--rate" };
        return Err(usage(format!(
            "--concurrency with {times} is the most in flight; give one number"
        )));
    }
    let max_in_flight = slots.first().copied();
    if trace {
        return Ok(vec![Load::Trace { max_in_flight }]);
    }
    let open = rates.iter().map(|rate| {
        if rate.is_infinite() {
            Load::Burst { max_in_flight }
        } else {
            Load::Open {
                rate_per_s: *rate,
                arrival,
                max_in_flight,
            }
        }
    });
    Ok(open.collect())
}

/// A sweep is of online arms, one after the other, each load once, from one load on.
fn sweepable(
    arms: &Arms,
    repeat: u32,
    slots: &[u32],
    rates: &[f64],
    by: SweepBy,
) -> anyhow::Result<()> {
    let refuse = |why: &str| Err(usage(format!("--sweep {why}")));
    if arms.offline() {
        return refuse(
            "with --mode both: a sweep looks for what a server can take; give --mode online",
        );
    }
    if repeat > 1 {
        return refuse("with --repeat: each load of a sweep runs once; leave --repeat out");
    }
    if slots.len() > 1 {
        return refuse("with more than one --concurrency: give the first one");
    }
    if rates.len() > 1 || rates.iter().any(|rate| rate.is_infinite()) {
        return refuse("with more than one --rate, or inf: give the first one");
    }
    if by == SweepBy::Concurrency && !rates.is_empty() {
        return refuse("concurrency with --rate: leave --rate out, or sweep the rate");
    }
    Ok(())
}

/// Requests a second that a sweep starts with where no `--rate` says it.
const FIRST_RATE_PER_S: f64 = 1.0;

fn range(by: SweepBy, slots: &[u32], rates: &[f64], arrival: Arrival) -> Range {
    match by {
        SweepBy::Concurrency => Range::Concurrency {
            from: slots.first().copied().unwrap_or(1),
        },
        SweepBy::Rate => Range::Rate {
            from_per_s: rates.first().copied().unwrap_or(FIRST_RATE_PER_S),
            arrival,
            max_in_flight: slots.first().copied(),
        },
    }
}
