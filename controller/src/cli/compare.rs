//! `controller compare SIDE SIDE …`: sides of what is stored, and the exit code of their verdicts.

use clap::{Args as ClapArgs, ValueEnum};
use contracts::host::ChapterFacts;

use super::{Context, connect, inputs};
use crate::compare::cell::known_metric;
use crate::compare::gate::Gate;
use crate::compare::pairing::{Group, Pairing, pair};
use crate::compare::{ALPHA, CompareError, Comparison, Known, MARGIN, Options, Vs, compare};
use crate::exit::{Exit, Refusal, usage};
use crate::import::{ImportError, Sides, only_files};
use crate::record::RunRecord;
use crate::selector::Selector;
use crate::show::{self, Format};
use crate::store::{FloorKey, NoiseFloors, Store};
use crate::{local, out, values};

/// Most sides of one command: each is a step with a table of its own.
const MAX_SIDES: usize = 16;

/// What a gate needs to know, at the end of `--help`.
const EXIT_CODES: &str = "Exit codes: 0 compared; 1 failed; 2 usage; 10 slower, under --fail-on; 11 not comparable; \
     12 no verdict, under --require-verdict.";

/// Flags of `compare`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    /// The first is what the others are compared with: ch01, engine:NAME, url:URL, label:NAME, run:ID,
    /// session:ID or file:PATH, each with :offline or :online, @AGENT, %BUILD, #ARM
    #[arg(value_name = "SIDE", num_args = 2.., required = true)]
    sides: Vec<String>,
    /// Against what each of more than two sides stands
    #[arg(long, value_enum, default_value_t)]
    vs: Against,
    /// How far apart two sides may be and count as practically equal [default: 5%]
    #[arg(long, value_parser = values::margin, value_name = "X%")]
    margin: Option<f64>,
    /// Chance of a false alarm in the primary metrics of a cell [default: 0.05]
    #[arg(long, value_parser = values::alpha)]
    alpha: Option<f64>,
    /// Show only these metrics, by their names in the JSON; verdicts and exit codes stay those of all
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME]",
          value_parser = known_metric)]
    metric: Vec<String>,
    /// Use contaminated runs too: numbers, and no verdict where that changes anything
    #[arg(long)]
    all: bool,
    /// End with exit code 10 where a primary metric is SLOWER, by more than X%
    #[arg(long, value_parser = values::fail_on, value_name = "slower[:X%]")]
    fail_on: Option<f64>,
    /// End with exit code 12 where a primary metric is neither FASTER, SLOWER nor EQUIVALENT
    #[arg(long)]
    require_verdict: bool,
    /// Compare sides of different hosts: numbers, and no verdict
    #[arg(long)]
    allow_different_hosts: bool,
    /// Refuse sides that are set up differently: threads, type, device, options, fields of requests
    #[arg(long)]
    strict: bool,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// [`Vs`] as a flag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Against {
    /// Each against the first
    #[default]
    First,
    /// Each against the one before it, and the product of the steps
    Previous,
}

/// The command.
///
/// # Errors
/// A word that is no selector or selects nothing; a metric that is not there; the database.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let selectors = selectors(&args.sides)?;
    let store = match only_files(&selectors) {
        true => None,
        false => Some(connect::open_for_reading(context).await?),
    };
    let judged = judged(store.as_ref(), &args, &selectors).await;
    if let Some(store) = store {
        store.close().await;
    }
    let (comparison, exit) = judged?;
    out::print(&show::compare::render(&comparison, format)?)?;
    Ok(exit)
}

/// Compares what is stored, as `args` say, and gives the exit code that they ask for. Without a
/// store there are files only.
///
/// # Errors
/// A side that selects nothing; a metric that is not there; the database; a file.
pub async fn judged(
    store: Option<&Store>,
    args: &Args,
    selectors: &[Selector],
) -> anyhow::Result<(Comparison, Exit)> {
    let options = options(args);
    let sides = Sides::open(store.cloned(), selectors)
        .await
        .map_err(unread)?;
    let comparison = compared(store, &sides, &options, selectors).await;
    sides.close().await;
    let mut comparison = comparison?;
    let gate = Gate {
        fail_on_slower: args.fail_on,
        require_verdict: args.require_verdict,
    };
    let exit = gate.exit(&comparison);
    if !args.metric.is_empty() {
        let shown = comparison.show_only(&args.metric);
        shown.map_err(|error| usage(format!("--metric: {error}")))?;
    }
    Ok((comparison, exit))
}

async fn compared(
    store: Option<&Store>,
    sides: &Sides,
    options: &Options,
    selectors: &[Selector],
) -> anyhow::Result<Comparison> {
    let steps = options.vs.steps(selectors).into_iter();
    let pairings: Vec<Pairing> = steps
        .map(|(base, candidate)| pair(base, candidate, &sides.runs, options).map_err(refusal))
        .collect::<anyhow::Result<_>>()?;
    let inputs = inputs::load(sides, &pairings).await?;
    let floors = match store {
        Some(store) => noise_floors(store, &pairings).await?,
        None => NoiseFloors::new(),
    };
    let table = local::chapters().unwrap_or_default();
    let known = Known {
        same_tokens: &|id| same_tokens(&table, id),
        floor: &|run: &RunRecord, metric| floors.get(&FloorKey::of(run))?.get(metric).copied(),
        now_unix_ms: crate::now_unix_ms(),
    };
    Ok(compare(&pairings, &inputs, &known, options))
}

fn options(args: &Args) -> Options {
    Options {
        alpha: args.alpha.unwrap_or(ALPHA),
        margin: args.margin.unwrap_or(MARGIN),
        all: args.all,
        allow_different_hosts: args.allow_different_hosts,
        strict: args.strict,
        vs: match args.vs {
            Against::First => Vs::First,
            Against::Previous => Vs::Previous,
        },
    }
}

/// The sides that words name.
///
/// # Errors
/// A word that is no selector; too many of them.
pub fn selectors(words: &[String]) -> anyhow::Result<Vec<Selector>> {
    if words.len() > MAX_SIDES {
        return Err(usage(format!(
            "compare takes at most {MAX_SIDES} sides, not {}",
            words.len()
        )));
    }
    let parse = |word: &String| Selector::parse(word).map_err(|error| usage(error.to_string()));
    words.iter().map(parse).collect()
}

/// What equal runs of the sides' engines differ by, where somebody measured it.
async fn noise_floors(store: &Store, pairings: &[Pairing]) -> anyhow::Result<NoiseFloors> {
    let pairs = pairings.iter().flat_map(|pairing| &pairing.pairs);
    let groups = pairs.flat_map(|pair| [&pair.base, &pair.candidate]);
    let mut keys: Vec<FloorKey> = groups
        .map(|group: &Group| FloorKey::of(&group.newest))
        .collect();
    keys.sort();
    keys.dedup();
    Ok(store.noise_floors(&keys).await?)
}

/// A file that cannot be read as a side is a wrong word; trouble with the database is not.
fn unread(error: ImportError) -> anyhow::Error {
    match error {
        ImportError::Store(error) => error.into(),
        error => usage(error.to_string()),
    }
}

/// Whether a chapter promises the baseline's tokens; one that is not in our table is taken to: an
/// answer that differs must be seen, not excused.
fn same_tokens(table: &[ChapterFacts], id: &str) -> bool {
    table
        .iter()
        .find(|chapter| chapter.id == id)
        .is_none_or(|chapter| chapter.same_tokens)
}

/// Selecting nothing is a failure, not a wrong command line: the words were right.
fn refusal(error: CompareError) -> anyhow::Error {
    Refusal {
        exit: Exit::Failed,
        message: error.to_string(),
    }
    .into()
}
