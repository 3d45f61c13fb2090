//! More than two sides together: a line a step, and what the steps come to.

use super::{numbers, verdict};
use crate::compare::product::Product;
use crate::compare::{Comparison, Step, Vs};
use crate::show::{Format, grid, words};

/// A table of all steps' primary metrics, and with `--vs previous` the products under it.
pub(super) fn render(comparison: &Comparison, format: Format) -> String {
    let title = match comparison.rules.vs {
        Vs::First => "all steps, each against the first",
        Vs::Previous => "all steps, each against the one before it",
    };
    let title = match format {
        Format::Markdown => format!("### {title}\n\n"),
        _ => format!("  {title}\n"),
    };
    let header = ["step", "mode", "metric", "ratio", "interval", "verdict"];
    let mut rows: Vec<Vec<String>> = comparison.steps.iter().flat_map(of_step).collect();
    rows.extend(comparison.product.iter().map(of_product));
    title + &grid(format, "lllrll", &header, rows)
}

fn of_step(step: &Step) -> Vec<Vec<String>> {
    let name = format!("{} → {}", step.base, step.candidate);
    let mut rows = Vec::new();
    for cell in &step.cells {
        let mode = words::snake(&cell.candidate.mode);
        if !cell.reasons.is_empty() {
            let none = || "—".to_owned();
            rows.push(vec![
                name.clone(),
                mode,
                none(),
                none(),
                none(),
                cell.word.clone(),
            ]);
            continue;
        }
        for row in cell.rows.iter().filter(|row| row.primary) {
            let (ratio, interval) = match (&row.effect, row.ratio) {
                (Some(effect), Some(ratio)) => numbers::effect(ratio, effect),
                (_, ratio) => (ratio.map_or("—".to_owned(), numbers::ratio), "—".to_owned()),
            };
            let words = row.verdict.as_ref();
            let words = words.map(|v| verdict::words(v, cell.rules.margin));
            rows.push(vec![
                name.clone(),
                mode.clone(),
                format!("{} *", row.label),
                ratio,
                interval,
                words.unwrap_or_default(),
            ]);
        }
    }
    rows
}

/// The product has no interval of its own: the ends' comparison has one.
fn of_product(product: &Product) -> Vec<String> {
    let end = |of: Option<&String>| of.cloned().unwrap_or_default();
    let first = end(product.parts.first().map(|part| &part.base));
    let last = end(product.parts.last().map(|part| &part.candidate));
    let words = match &product.missing {
        Some(why) => format!("none: {why}"),
        None => format!("no interval: `controller compare {first} {last}` has one"),
    };
    vec![
        format!("product {first} → {last}"),
        words::snake(&product.mode),
        format!("{} *", product.label),
        product.ratio.map_or("—".to_owned(), numbers::ratio),
        "—".to_owned(),
        words,
    ]
}
