//! What a suite came to: its sessions, and each gate with the comparison that it rests on.

use serde::Serialize;
use serde_json::Value;

use crate::compare::Comparison;
use crate::exit::Exit;
use crate::show::{Format, compare, pretty};

/// All that is printed, and the JSON of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SuiteView {
    /// The file.
    pub suite: String,
    /// Those that ran, in the order of the file.
    pub sessions: Vec<SessionOf>,
    /// In the order of the file, each in the order of the sessions.
    pub gates: Vec<GateView>,
    /// How the process ends: the worst of runs and gates.
    pub exit: Exit,
}

/// The session of one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionOf {
    /// The workload's name.
    pub workload: String,
    /// Its session.
    pub session_id: String,
    /// Its runs as `run` gives them; left out in text, where they stand above.
    pub runs: Vec<Value>,
}

/// One gate in one session.
#[derive(Debug, Clone, PartialEq)]
pub struct GateView {
    /// The workload's name.
    pub workload: String,
    /// Arm that is compared with.
    pub base: String,
    /// Arm that is judged.
    pub candidate: String,
    /// What it came to.
    pub exit: Exit,
    /// What it rests on.
    pub comparison: Comparison,
}

/// JSON: `{"schema": 1, "suite": …, "sessions": […], "gates": […], "exit_code": 0}`.
pub fn render(view: &SuiteView, format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return pretty(&document(view)?);
    }
    let mut text = String::new();
    for gate in &view.gates {
        text.push_str(&title(gate, format));
        text.push_str(&compare::render(&gate.comparison, format)?);
        text.push('\n');
    }
    let item = if format == Format::Markdown { "- " } else { "" };
    for session in &view.sessions {
        text.push_str(&format!(
            "{item}workload {}: session {}\n",
            session.workload, session.session_id
        ));
    }
    for gate in &view.gates {
        text.push_str(&format!("{item}{}\n", line(gate)));
    }
    Ok(text)
}

fn document(view: &SuiteView) -> serde_json::Result<Value> {
    let gate = |gate: &GateView| -> serde_json::Result<Value> {
        Ok(serde_json::json!({
            "workload": gate.workload,
            "base": gate.base,
            "candidate": gate.candidate,
            "result": word(gate.exit),
            "exit_code": gate.exit.code(),
            "comparison": serde_json::to_value(&gate.comparison)?,
        }))
    };
    let gates: Vec<Value> = view.gates.iter().map(gate).collect::<Result<_, _>>()?;
    Ok(serde_json::json!({
        "schema": contracts::SCHEMA,
        "suite": view.suite,
        "sessions": view.sessions,
        "gates": gates,
        "exit_code": view.exit.code(),
    }))
}

fn title(gate: &GateView, format: Format) -> String {
    let head = format!(
        "gate: {} against {}, workload {}",
        gate.candidate, gate.base, gate.workload
    );
    match format {
        Format::Markdown => format!("## {head}\n\n"),
        _ => format!("{head}\n\n"),
    }
}

fn line(gate: &GateView) -> String {
    let code = match gate.exit {
        Exit::Done => String::new(),
        exit => format!(" (exit code {})", exit.code()),
    };
    format!(
        "gate {} against {}, workload {}: {}{code}",
        gate.candidate,
        gate.base,
        gate.workload,
        word(gate.exit)
    )
}

/// What a gate came to.
fn word(exit: Exit) -> &'static str {
    match exit {
        Exit::Done => "passed",
        Exit::Slower => "SLOWER",
        Exit::NotComparable => "NOT COMPARABLE",
        Exit::Undecided => "undecided",
        _ => "failed",
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::Mode;

    use super::*;
    use crate::compare::tests::{compared, run};

    fn view() -> SuiteView {
        let runs = [
            run("01A", "ch01", Mode::Offline, &[100.0; 6]),
            run("01B", "ch02", Mode::Offline, &[90.0; 6]),
        ];
        let gate = |exit| GateView {
            workload: "short".to_owned(),
            base: "main".to_owned(),
            candidate: "branch".to_owned(),
            exit,
            comparison: compared("ch01", "ch02", &runs),
        };
        SuiteView {
            suite: "bench/suite.toml".to_owned(),
            sessions: vec![SessionOf {
                workload: "short".to_owned(),
                session_id: "01SESSION".to_owned(),
                runs: vec![serde_json::json!({"run_id": "01A"})],
            }],
            gates: vec![gate(Exit::Done), gate(Exit::Undecided)],
            exit: Exit::Undecided,
        }
    }

    #[test]
    fn a_suite_ends_with_a_line_for_each_session_and_gate() {
        let text = render(&view(), Format::Text).unwrap();
        let end: Vec<&str> = text.lines().rev().take(3).collect();
        assert_eq!(
            end,
            [
                "gate branch against main, workload short: undecided (exit code 12)",
                "gate branch against main, workload short: passed",
                "workload short: session 01SESSION",
            ]
        );
        let comparison = compare::render(&view().gates[0].comparison, Format::Text).unwrap();
        assert_eq!(text.matches(&comparison).count(), 2, "{text}");
        let markdown = render(&view(), Format::Markdown).unwrap();
        assert!(markdown.starts_with("## gate: branch against main, workload short\n\n### "));
        assert!(
            markdown.ends_with("undecided (exit code 12)\n"),
            "{markdown}"
        );
    }

    #[test]
    fn json_has_runs_gates_and_the_exit_code() {
        let json = render(&view(), Format::Json).unwrap();
        let document: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["schema"], 1);
        assert_eq!(document["exit_code"], 12);
        assert_eq!(document["sessions"][0]["runs"][0]["run_id"], "01A");
        assert_eq!(document["gates"][0]["result"], "passed");
        assert_eq!(document["gates"][1]["exit_code"], 12);
        assert!(document["gates"][1]["comparison"]["steps"][0]["cells"].is_array());
    }
}
