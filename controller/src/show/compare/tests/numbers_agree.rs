//! Text, Markdown and JSON carry the same numbers.

use serde_json::Value;

use super::*;

/// The numbers in a text, as they are written: `1110.51`, `9.3`.
fn numbers(text: &str) -> Vec<String> {
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let words = text
        .split(|c| !digits(c))
        .map(|word| word.trim_matches('.'));
    let numbers = words.filter(|word| !word.is_empty());
    numbers.map(str::to_owned).collect()
}

/// The lines of the tables: from the header, whose first word is `metric`, to the next empty line.
fn tables(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        let first = line.trim_start_matches(['|', ' ']);
        if first.starts_with("metric ") {
            inside = true;
            continue;
        }
        inside &= !line.trim().is_empty();
        if inside && !line.starts_with("|-") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Every number of a document, and every text in it.
fn leaves(value: &Value, floats: &mut Vec<f64>, texts: &mut String) {
    match value {
        Value::Number(number) => floats.extend(number.as_f64()),
        Value::String(text) => {
            texts.push_str(text);
            texts.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| leaves(item, floats, texts)),
        Value::Object(fields) => {
            for (name, item) in fields {
                texts.push_str(name);
                texts.push('\n');
                leaves(item, floats, texts);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Whether a number of the text is one of the document's, rounded as the text has it, plain or in
/// percent.
fn is_among(number: &str, floats: &[f64]) -> bool {
    let decimals = number.split_once('.').map_or(0, |(_, after)| after.len());
    let alike = |value: f64| format!("{:.decimals$}", value.abs()) == number;
    floats
        .iter()
        .any(|value| alike(*value) || alike(value * 100.0))
}

fn agree(comparison: &Comparison) {
    let text = render(comparison, Format::Text).unwrap();
    let markdown = render(comparison, Format::Markdown).unwrap();
    let json = render(comparison, Format::Json).unwrap();
    let of_text = numbers(&tables(&text));
    assert!(of_text.len() > 10, "{text}");
    assert_eq!(of_text, numbers(&tables(&markdown)));
    let (mut floats, mut texts) = (Vec::new(), String::new());
    leaves(
        &serde_json::from_str(&json).unwrap(),
        &mut floats,
        &mut texts,
    );
    for number in of_text {
        // Names of percentiles and reasons are texts there too.
        let known = is_among(&number, &floats) || texts.contains(&number);
        assert!(known, "{number} is not in the JSON\n{text}");
    }
    for line in text.lines().filter(|line| !line.is_empty()) {
        let all = numbers(line);
        let markdown = numbers(&markdown);
        assert!(all.iter().all(|n| markdown.contains(n)), "{line}");
    }
}

#[test]
fn every_number_of_the_text_is_in_markdown_and_json() {
    for wall_ms in [1110.0, 1322.0, 1224.5, 1200.0, 1218.0] {
        for blocks in [1, 2, 5] {
            agree(&compared("ch01", "ch02", &chapters(wall_ms, blocks)));
        }
        agree(&compared("ch01", "ch02", &online(wall_ms)));
    }
}

#[test]
fn a_number_that_only_the_text_has_is_found_out() {
    assert!(is_among("9.3", &[0.0931]));
    assert!(is_among("1.097", &[1.0971]));
    assert!(!is_among("9.4", &[0.0931]));
}
