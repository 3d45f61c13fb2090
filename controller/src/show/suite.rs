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
