//! From what was found to the report: topics in their order, nothing missing. Pure.

use contracts::doctor::{Grade, ServerReport};

use super::{Looked, finding};

/// The topics, in the order of a report.
const TOPICS: [&str; 26] = [
    "reach",
    "models",
    "health",
    "chat",
    "completions",
    "stream",
    "content_type",
    "framing",
    "line_ends",
    "comments",
    "role_chunk",
    "reasoning",
    "finish",
    "done",
    "usage",
    "stream_options",
    "tokens_per_event",
    "keep_alive",
    "encoding",
    "bad_request",
    "unknown_model",
    "extensions",
    "max_tokens",
    "ignore_eos",
    "greedy",
    "seed",
];
/// Puts a report together.
pub fn write(url: String, looked: Looked) -> ServerReport {
    let Looked {
        model,
        server,
        counting,
        mut findings,
        missing,
    } = looked;
    findings.extend(counting.findings);
    let in_order = TOPICS.iter().map(|topic| {
        let found = findings.iter().find(|finding| finding.topic == *topic);
        found
            .cloned()
            .unwrap_or_else(|| finding(topic, Grade::Unknown, missing))
    });
    ServerReport {
        url,
        model,
        server,
        findings: in_order.collect(),
        counting: counting.source,
        counting_reason: counting.reason,
        usage_per_event: counting.usage_per_event,
        tokens_per_event: counting.tokens_per_event,
    }
}
