//! What `doctor` found of a server: every topic with its grade, and how its tokens are counted.

use contracts::doctor::{Finding, Grade, ServerReport};
use serde::Serialize;

use crate::record::StoredReport;
use crate::show::{Format, grid, pretty, words};

/// What the JSON holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct ReportView<'a> {
    schema: u32,
    /// Nothing is broken.
    measurable: bool,
    #[serde(flatten)]
    stored: &'a StoredReport,
}

/// A stored report in a format.
pub fn render(stored: &StoredReport, format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return pretty(&ReportView {
            schema: contracts::SCHEMA,
            measurable: is_measurable(&stored.report),
            stored,
        });
    }
    let report = &stored.report;
    let rows = report.findings.iter().map(|finding| {
        vec![
            finding.topic.clone(),
            words::snake(&finding.grade),
            finding.seen.clone(),
        ]
    });
    let table = grid(format, "lll", &["topic", "grade", "seen"], rows.collect());
    let mut text = String::new();
    for (name, value) in head(stored) {
        text.push_str(&match format {
            Format::Markdown => format!("- {name}: {value}\n"),
            Format::Text | Format::Json => format!("  {name:<9}: {value}\n"),
        });
    }
    Ok(format!("{text}\n{table}\n{}\n", verdict(report, format)))
}

/// Whether a run against this server can come to figures.
pub fn is_measurable(report: &ServerReport) -> bool {
    report.findings.iter().all(|f| f.grade != Grade::Broken)
}

/// What a run's own page says of its server: counting, and the findings that are not fine.
pub fn rows(stored: &StoredReport) -> Vec<(String, String)> {
    let odd = |finding: &&Finding| finding.grade != Grade::Fine;
    let found = stored.report.findings.iter().filter(odd).map(|finding| {
        let grade = words::snake(&finding.grade);
        (finding.topic.clone(), format!("{grade}: {}", finding.seen))
    });
    head(stored)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .chain(found)
        .collect()
}

fn head(stored: &StoredReport) -> Vec<(&'static str, String)> {
    let report = &stored.report;
    let server = report.server.as_ref();
    let server = server.map_or(String::new(), |server| format!(" ({server})"));
    vec![
        ("server", format!("{}{server}", report.url)),
        ("model", report.model.clone()),
        (
            "counting",
            format!(
                "{}: {}",
                words::snake(&report.counting),
                report.counting_reason
            ),
        ),
        (
            "looked at",
            format!(
                "{} by {}",
                words::time(stored.created_unix_ms),
                stored.agent_name
            ),
        ),
    ]
}

fn verdict(report: &ServerReport, format: Format) -> String {
    let of = |grade: Grade| {
        let found = report.findings.iter().filter(|f| f.grade == grade);
        let topics: Vec<&str> = found.map(|f| f.topic.as_str()).collect();
        topics.join(", ")
    };
    let (broken, limits) = (of(Grade::Broken), of(Grade::Limits));
    let indent = if format == Format::Text { "  " } else { "" };
    match (broken.as_str(), limits.as_str()) {
        ("", "") => format!("{indent}can be measured"),
        ("", limits) => format!("{indent}can be measured, within limits: {limits}"),
        (broken, _) => format!("{indent}cannot be measured: {broken}"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::sample::TokenSource;

    use super::*;
    use crate::fixtures;

    fn stored(grades: &[(&str, Grade, &str)]) -> StoredReport {
        let findings = grades.iter().map(|(topic, grade, seen)| Finding {
            topic: (*topic).to_owned(),
            grade: *grade,
            seen: (*seen).to_owned(),
        });
        StoredReport {
            report_id: "01REPORT".to_owned(),
            agent_name: "local".to_owned(),
            created_unix_ms: fixtures::NOON_UNIX_MS,
            report: ServerReport {
                url: "http://gpu:8000".to_owned(),
                model: "m".to_owned(),
                server: Some("uvicorn".to_owned()),
                findings: findings.collect(),
                counting: TokenSource::Usage,
                counting_reason: "the stream carries usage.completion_tokens".to_owned(),
                usage_per_event: false,
                tokens_per_event: Some(1.0),
            },
        }
    }

    fn usual() -> StoredReport {
        stored(&[
            ("reach", Grade::Fine, "connected, plain HTTP"),
            ("line_ends", Grade::Odd, "CRLF"),
            ("seed", Grade::Unknown, "two seeds gave the same answer"),
            ("extensions", Grade::Limits, "refuses top_k (400: a|b)"),
        ])
    }

    #[test]
    fn a_report_in_text_and_markdown() {
        insta::assert_snapshot!("doctor_text", render(&usual(), Format::Text).unwrap());
        insta::assert_snapshot!(
            "doctor_markdown",
            render(&usual(), Format::Markdown).unwrap()
        );
    }

    #[test]
    fn json_has_the_whole_report() {
        let stored = usual();
        let json = render(&stored, Format::Json).unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["schema"], 1);
        assert_eq!(document["measurable"], true);
        let back: StoredReport = serde_json::from_value(document).unwrap();
        assert_eq!(back, stored);
    }

    #[test]
    fn what_is_broken_cannot_be_measured() {
        let broken = stored(&[("chat", Grade::Broken, "no answer within 60s")]);
        assert!(!is_measurable(&broken.report));
        let text = render(&broken, Format::Text).unwrap();
        assert!(text.ends_with("  cannot be measured: chat\n"), "{text}");
        assert!(is_measurable(&usual().report));
    }

    #[test]
    fn a_runs_page_leaves_out_what_is_fine() {
        let rows = rows(&usual());
        let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
        let head = ["server", "model", "counting", "looked at"];
        assert_eq!(names[..4], head);
        assert_eq!(names[4..], ["line_ends", "seed", "extensions"]);
    }
}
