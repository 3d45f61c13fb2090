//! `controller history`: runs over time and builds, and the steps where their level changed.

use std::collections::BTreeMap;

use clap::Args as ClapArgs;

use super::runs::filter::FilterArgs;
use super::{Context, connect};
use crate::compare::reduced::Reduced;
use crate::exit::{Exit, usage};
use crate::history::{History, Metric, groups};
use crate::out;
use crate::show::{self, Format};
use crate::store::RunFilter;

/// Flags of `history`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// wall_ms_p50, tok_per_s, ttft_ms_p50, … as `compare` names them [default: wall_ms_p50 offline,
    /// tok_per_s online]
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// The command.
///
/// # Errors
/// A word that is no metric; the database.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let metric = args.metric.as_deref().map(named).transpose()?;
    let store = connect::open_for_reading(context).await?;
    let filter = RunFilter::from(args.filter);
    let runs = store.runs_without_walls(&filter).await?;
    let (groups, notes) = groups(&runs);
    let mut reduced = BTreeMap::new();
    for run in groups.iter().flat_map(|group| &group.runs) {
        let columns = store.columns(&run.run_id).await?;
        let of_run = Reduced::of_columns(run, &columns);
        reduced.extend(of_run.map(|of_run| (run.run_id.clone(), of_run)));
    }
    store.close().await;
    let series = groups
        .iter()
        .filter_map(|group| group.series(metric, &reduced));
    let history = History {
        series: series.collect(),
        notes,
    };
    out::print(&show::history::render(&history, format)?)?;
    Ok(Exit::Done)
}

fn named(name: &str) -> anyhow::Result<&'static Metric> {
    let unknown = || {
        format!(
            "--metric {name} is not a metric; use one of {}",
            Metric::names()
        )
    };
    Metric::named(name).ok_or_else(|| usage(unknown()))
}
