//! The configuration: each value and where it came from.

use serde::Serialize;

use crate::show::{Format, document, grid};

/// One value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigValue {
    /// Its name, as in `config.toml`.
    pub name: String,
    /// The value in words.
    pub value: String,
    /// `flag`, `environment (CHAPTERBENCH_…)`, a file's path, or `default`.
    pub source: String,
}

/// Values in the order given. JSON: `{"schema": 1, "config": […]}`.
pub fn render(values: &[ConfigValue], format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return document("config", values);
    }
    let rows = values
        .iter()
        .map(|v| vec![v.name.clone(), v.value.clone(), v.source.clone()]);
    let header = ["name", "value", "from"];
    Ok(grid(format, "lll", &header, rows.collect()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn every_value_says_where_it_came_from() {
        let value = |name: &str, value: &str, source: &str| ConfigValue {
            name: name.to_owned(),
            value: value.to_owned(),
            source: source.to_owned(),
        };
        let values = [
            value("db", "/tmp/bench.db", "environment (CHAPTERBENCH_DB)"),
            value("warmup", "3", "default"),
        ];
        let text = render(&values, Format::Text).unwrap();
        insta::assert_snapshot!("config_text", text);
        let markdown = render(&values, Format::Markdown).unwrap();
        insta::assert_snapshot!("config_markdown", markdown);
        let json = render(&values, Format::Json).unwrap();
        assert!(json.contains("\"source\": \"default\""), "{json}");
    }
}
