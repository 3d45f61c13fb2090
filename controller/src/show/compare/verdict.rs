//! The words of a verdict, of one metric and of a whole cell.

use super::numbers;
use crate::compare::cell::Row;
use crate::compare::judge::Verdict;
use crate::compare::lint::Reason;

/// The words of one metric's verdict: `FASTER by 9.7% (at least 8.1%)`.
pub(super) fn words(verdict: &Verdict, margin: f64) -> String {
    let moved = |word: &str, by: f64, at_least: f64, practically_equal: bool| {
        let equal = if practically_equal {
            format!(", within {}: practically equal", numbers::margin(margin))
        } else {
            String::new()
        };
        let (by, at_least) = (numbers::percent(by), numbers::percent(at_least));
        format!("{word} by {by} (at least {at_least}){equal}")
    };
    match verdict {
        Verdict::Faster {
            by,
            at_least,
            practically_equal,
        } => moved("FASTER", *by, *at_least, *practically_equal),
        Verdict::Slower {
            by,
            at_least,
            practically_equal,
        } => moved("SLOWER", *by, *at_least, *practically_equal),
        Verdict::Equivalent => format!("EQUIVALENT within {}", numbers::margin(margin)),
        Verdict::NoDifferenceShown {
            low,
            high,
            runs_needed,
            ..
        } => {
            let (low, high) = (numbers::change(*low), numbers::change(*high));
            let needs = runs_needed.map_or(String::new(), |runs| {
                let margin = numbers::margin(margin);
                format!("; {margin} at this noise needs ≈ {runs} runs a side")
            });
            format!("NO DIFFERENCE SHOWN (could be {low} … {high}){needs}")
        }
        Verdict::None { why } => format!("no verdict ({why})"),
    }
}

/// The cell in one line: why it is not comparable, why it has no verdict, or how often which word
/// occurs over the primary metrics; of one primary metric, its words.
pub(crate) fn overall(
    reasons: &[Reason],
    withheld: &[String],
    rows: &[Row],
    margin: f64,
) -> String {
    if !reasons.is_empty() {
        let reasons: Vec<&str> = reasons.iter().map(|r| r.message.as_str()).collect();
        return format!("NOT COMPARABLE: {}", reasons.join("; "));
    }
    if !withheld.is_empty() {
        return format!("no verdict: {}", withheld.join("; "));
    }
    let primaries = rows.iter().filter(|row| row.primary);
    let verdicts: Vec<(&str, &Verdict)> = primaries
        .filter_map(|row| Some((row.label.as_str(), row.verdict.as_ref()?)))
        .collect();
    match verdicts.as_slice() {
        [] => "no verdict: no primary metric was measured on both sides".to_owned(),
        [(label, only)] => format!("overall (1 primary *, {label}): {}", words(only, margin)),
        several => format!(
            "overall ({} primary *, Holm): {}",
            several.len(),
            counts(several)
        ),
    }
}

/// `FASTER on 2, undecided on 1, slower on none`.
fn counts(verdicts: &[(&str, &Verdict)]) -> String {
    let on = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|(_, v)| is(v)).count();
    let mut parts = Vec::new();
    for (word, n) in [
        ("FASTER", on(|v| matches!(v, Verdict::Faster { .. }))),
        ("EQUIVALENT", on(|v| matches!(v, Verdict::Equivalent))),
        (
            "undecided",
            on(|v| matches!(v, Verdict::NoDifferenceShown { .. })),
        ),
        ("no verdict", on(|v| matches!(v, Verdict::None { .. }))),
    ] {
        if n > 0 {
            parts.push(format!("{word} on {n}"));
        }
    }
    parts.push(match on(|v| matches!(v, Verdict::Slower { .. })) {
        0 => "slower on none".to_owned(),
        n => format!("SLOWER on {n}"),
    });
    parts.join(", ")
}
