//! More than two sides together: a line a step, and what the steps come to.

use super::{numbers, verdict};
use crate::compare::product::Product;
use crate::compare::{Cell, Comparison, Step, Vs};
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
    let places = Places::of(comparison);
    let mut header = vec!["step", "mode"];
    header.extend(places.workload.then_some("workload"));
    header.extend(places.host.then_some("host"));
    let alignment = format!("{}lrll", "l".repeat(header.len()));
    header.extend(["metric", "ratio", "interval", "verdict"]);
    let steps = comparison.steps.iter();
    let mut rows: Vec<Vec<String>> = steps.flat_map(|step| of_step(step, places)).collect();
    let products = comparison.product.iter();
    rows.extend(products.map(|product| of_product(product, places)));
    title + &grid(format, &alignment, &header, rows)
}

/// Which columns are needed to tell the cells of one step apart.
#[derive(Debug, Clone, Copy)]
struct Places {
    workload: bool,
    host: bool,
}

impl Places {
    fn of(comparison: &Comparison) -> Self {
        let several = |of: &dyn Fn(&Cell) -> &str| {
            let mut cells = comparison.cells().map(of);
            let first = cells.next();
            cells.any(|other| Some(other) != first)
        };
        Self {
            workload: several(&|cell| &cell.workload_key),
            host: several(&|cell| &cell.host_fingerprint),
        }
    }

    /// The first columns of a row.
    fn row(self, step: String, mode: String, workload_key: &str, hostname: &str) -> Vec<String> {
        let key = words::short_hash(workload_key);
        let mut row = vec![step, mode];
        row.extend(self.workload.then_some(key));
        row.extend(self.host.then(|| hostname.to_owned()));
        row
    }
}

fn of_step(step: &Step, places: Places) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for cell in &step.cells {
        let begun = places.row(
            format!("{} → {}", step.base, step.candidate),
            words::snake(&cell.candidate.mode),
            &cell.workload_key,
            &cell.hostname,
        );
        let mut row = |rest: [String; 4]| rows.push([&begun[..], &rest[..]].concat());
        if !cell.reasons.is_empty() {
            let none = || "—".to_owned();
            row([none(), none(), none(), cell.word.clone()]);
            continue;
        }
        for metric in cell.rows.iter().filter(|row| row.primary) {
            let (ratio, interval) = match (&metric.effect, metric.ratio) {
                (Some(effect), Some(ratio)) => numbers::effect(ratio, effect),
                (_, ratio) => (ratio.map_or("—".to_owned(), numbers::ratio), "—".to_owned()),
            };
            let words = metric.verdict.as_ref();
            let words = words.map(|v| verdict::words(v, cell.rules.margin));
            let label = format!("{} *", metric.label);
            row([label, ratio, interval, words.unwrap_or_default()]);
        }
    }
    rows
}

/// The product has no interval of its own: the ends' comparison has one.
fn of_product(product: &Product, places: Places) -> Vec<String> {
    let end = |of: Option<&String>| of.cloned().unwrap_or_default();
    let first = end(product.parts.first().map(|part| &part.base));
    let last = end(product.parts.last().map(|part| &part.candidate));
    let words = match &product.missing {
        Some(why) => format!("none: {why}"),
        None => format!("no interval: `controller compare {first} {last}` has one"),
    };
    let mut row = places.row(
        format!("product {first} → {last}"),
        words::snake(&product.mode),
        &product.workload_key,
        &product.hostname,
    );
    row.extend([
        format!("{} *", product.label),
        product.ratio.map_or("—".to_owned(), numbers::ratio),
        "—".to_owned(),
        words,
    ]);
    row
}
