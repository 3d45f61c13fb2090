//! A plan in words: its arms with their letters and all that sets one apart, and the order in which
//! its blocks run.

use std::fmt::Write as _;

use contracts::run::{Arm, EngineRef, Load, Mode};

use crate::compare::work;
use crate::plan::{Order, Plan, PlannedRun, engine_name};
use crate::words;

/// A line for each arm.
pub fn arms(plan: &Plan) -> String {
    let mut text = "Arms\n".to_owned();
    for planned in &plan.arms {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  #{} {}", planned.letter, arm(&planned.arm));
    }
    text
}

/// `one thread: ch02 online cpu, 1 threads, ttft_ms=5`.
fn arm(arm: &Arm) -> String {
    let mut text = match &arm.name {
        Some(name) => format!("{name}: "),
        None => String::new(),
    };
    text.push_str(engine_name(&arm.engine));
    if let EngineRef::Named {
        chapter: Some(chapter),
        ..
    } = &arm.engine
    {
        let _ = write!(text, " {chapter}");
    }
    let _ = write!(text, " {}", words::mode(arm.mode));
    if !matches!(arm.engine, EngineRef::Url { .. }) {
        let _ = write!(text, " {}", words::device(arm.device));
    }
    if let Some(dtype) = arm.dtype {
        let _ = write!(text, " {}", words::dtype(dtype));
    }
    if let Some(threads) = arm.threads {
        let _ = write!(text, " {threads} threads");
    }
    for (name, value) in &arm.options {
        let _ = write!(text, " {name}={value}");
    }
    for (name, value) in &arm.extra {
        let _ = write!(text, " {name}={value}");
    }
    if !arm.stream && arm.mode == Mode::Online {
        text.push_str(" no stream");
    }
    if arm.no_keepalive {
        text.push_str(" no keep-alive");
    }
    text
}

/// The letters in order, a bar between two blocks; under each load, where there is more than one
/// request at a time.
pub fn order(plan: &Plan) -> String {
    let mut cells: Vec<(&Load, Vec<&PlannedRun>)> = Vec::new();
    for run in &plan.runs {
        match cells.last_mut() {
            Some((load, runs)) if **load == run.load => runs.push(run),
            _ => cells.push((&run.load, vec![run])),
        }
    }
    let request = &plan.request;
    let mut how = request.order.word().to_owned();
    if request.order_seed != 0 {
        let _ = write!(how, ", seed {}", request.order_seed);
    }
    let mut text = String::new();
    for (place, (load, runs)) in cells.iter().enumerate() {
        let head = if place == 0 { "Order" } else { "" };
        let load = match load {
            Load::Closed { concurrency: 1 } if cells.len() == 1 => String::new(),
            load => format!(", {}", work::load(load)),
        };
        let letters = letters(runs, request.order);
        let _ = writeln!(text, "{head:<10}{letters} ({how}){load}");
    }
    text
}

/// `a b | b a`. Blocked arms run block by block of one arm, so that a bar would part nothing.
fn letters(runs: &[&PlannedRun], order: Order) -> String {
    let mut text = String::new();
    for (place, run) in runs.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|place| runs.get(place));
        match before {
            Some(before) if order == Order::Abba && before.block != run.block => {
                text.push_str(" | ");
            }
            Some(_) => text.push(' '),
            None => {}
        }
        text.push_str(&run.letter);
    }
    text
}

/// What stands between runs, and how often the session will be looked at; nothing where there is
/// no pause and one look.
pub fn pauses(plan: &Plan) -> String {
    let mut text = String::new();
    if !plan.request.cooldown.is_zero() {
        let pause = humantime::format_duration(plan.request.cooldown);
        let _ = writeln!(text, "Cool-down {pause} between two runs on an agent");
    }
    let extensions = plan.request.max_extend;
    if extensions > 0 {
        let looks = extensions + 1;
        let _ = writeln!(
            text,
            "Looks     {looks}: it may be extended {extensions} times, and each look has alpha / {looks}"
        );
    }
    text
}
