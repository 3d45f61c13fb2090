//! `engine chapters`: the table, without its hidden rows.

use std::io::{self, Write};

use contracts::{SCHEMA, host::ChapterFacts};
use serde_json::json;

use super::{Failure, args::Format};
use crate::chapters::{Chapter, TABLE};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let rows: Vec<&Chapter> = TABLE.iter().filter(|chapter| !chapter.hidden).collect();
    let page = match args.format {
        Format::Text => text(&rows),
        Format::Markdown => markdown(&rows),
        Format::Json => {
            let facts: Vec<ChapterFacts> = rows.iter().map(|chapter| chapter.facts()).collect();
            format!("{:#}\n", json!({ "schema": SCHEMA, "chapters": facts }))
        }
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(page.as_bytes())?;
    Ok(stdout.flush()?)
}

fn text(rows: &[&Chapter]) -> String {
    let width = rows
        .iter()
        .map(|chapter| chapter.title.chars().count())
        .max()
        .unwrap_or(0);
    let line = |chapter: &&Chapter| {
        format!(
            "{}  {:width$}  {}\n",
            chapter.id, chapter.title, chapter.adds
        )
    };
    rows.iter().map(line).collect()
}

fn markdown(rows: &[&Chapter]) -> String {
    let yes = |is: bool| if is { "yes" } else { "no" };
    let head =
        "| chapter | title | adds | streams | same tokens as ch01 |\n|---|---|---|---|---|\n";
    let line = |c: &&Chapter| {
        format!(
            "| {} | {} | {} | {} | {} |\n",
            c.id,
            c.title,
            c.adds,
            yes(c.streams),
            yes(c.same_tokens)
        )
    };
    head.to_owned() + &rows.iter().map(line).collect::<String>()
}
