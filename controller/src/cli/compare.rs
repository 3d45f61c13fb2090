//! `controller compare BASE CANDIDATE`: two sides of what is stored.

use clap::Args as ClapArgs;
use contracts::host::ChapterFacts;

use super::{Context, inputs};
use crate::compare::pairing::pair;
use crate::compare::{CompareError, Known, Options, compare};
use crate::exit::{Exit, Refusal, usage};
use crate::selector::Selector;
use crate::show::{self, Format};
use crate::{local, out};

/// Flags of `compare`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// What is compared with: ch01, engine:NAME, label:NAME, run:ID, session:ID or file:PATH, each
    /// with :offline or :online, @AGENT, %BUILD, #ARM
    #[arg(value_name = "BASE")]
    base: String,
    /// What is judged
    #[arg(value_name = "CANDIDATE")]
    candidate: String,
    /// text, json or markdown [default: text]
    #[arg(long)]
    format: Option<Format>,
}

/// The command.
///
/// # Errors
/// A word that is no selector or selects nothing; the database.
pub async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let format = context.format(args.format)?;
    let base = Selector::parse(&args.base).map_err(|error| usage(error.to_string()))?;
    let candidate = Selector::parse(&args.candidate).map_err(|error| usage(error.to_string()))?;
    let options = Options::default();
    let sides = inputs::sides(context, &[base.clone(), candidate.clone()]).await?;
    let pairing = pair(&base, &candidate, &sides.runs, &options).map_err(refusal)?;
    let pairings = [pairing];
    let inputs = inputs::load(&sides, &pairings).await?;
    sides.close().await;
    let table = local::chapters().unwrap_or_default();
    let known = Known {
        same_tokens: &|id| same_tokens(&table, id),
        floor: &|_, _| None,
    };
    let comparison = compare(&pairings, &inputs, &known, &options);
    out::print(&show::compare::render(&comparison, format)?)?;
    Ok(if comparison.comparable() {
        Exit::Done
    } else {
        Exit::NotComparable
    })
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
