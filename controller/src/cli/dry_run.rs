//! `controller run --dry-run`: what would be run, in which order, and how many requests that is.

use std::fmt::Write as _;

use contracts::run::EngineRef;

use crate::compare::work::prompts_short;
use crate::exit::Exit;
use crate::fleet::LOCAL;
use crate::plan::{Plan, engine_name};
use crate::show::Format;
use crate::{out, words};

/// Prints the plan.
///
/// # Errors
/// None that a plan can cause.
pub fn print(plan: &Plan, agents: &[String], format: Format) -> anyhow::Result<Exit> {
    let local = [LOCAL.to_owned()];
    let agents = if agents.is_empty() { &local } else { agents };
    match format {
        Format::Json => out::print_json(&serde_json::json!({
            "schema": contracts::SCHEMA,
            "agents": agents,
            "requests": requests(plan),
            "plan": plan,
        }))?,
        Format::Text | Format::Markdown => out::print(&text(plan, agents))?,
    }
    Ok(Exit::Done)
}

/// (warm-up, measured) requests of the whole plan on one agent.
fn requests(plan: &Plan) -> (u64, u64) {
    plan.runs.iter().fold((0, 0), |(warmup, measured), run| {
        let work = &run.spec.workload;
        (
            warmup + u64::from(work.warmup),
            measured + u64::from(work.n_runs),
        )
    })
}

fn text(plan: &Plan, agents: &[String]) -> String {
    let mut text = String::new();
    let order: Vec<&str> = plan.runs.iter().map(|run| run.letter.as_str()).collect();
    let (warmup, measured) = requests(plan);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "Arms");
    for arm in &plan.arms {
        let built = match &arm.arm.engine {
            EngineRef::Named {
                chapter: Some(chapter),
                ..
            } => format!(" {chapter}"),
            _ => String::new(),
        };
        let dtype = arm
            .arm
            .dtype
            .map(|dtype| format!(" {}", words::dtype(dtype)));
        let threads = arm.arm.threads.map(|threads| format!(" {threads} threads"));
        let _ = writeln!(
            text,
            "  #{} {}{built} {} {}{}{}",
            arm.letter,
            engine_name(&arm.arm.engine),
            words::mode(arm.arm.mode),
            words::device(arm.arm.device),
            dtype.unwrap_or_default(),
            threads.unwrap_or_default(),
        );
    }
    let _ = writeln!(
        text,
        "Order     {} ({})",
        order.join(" "),
        plan.order.word()
    );
    let _ = writeln!(text, "Agents    {}", agents.join(", "));
    if let Some(run) = plan.runs.first() {
        let work = &run.spec.workload;
        let _ = writeln!(
            text,
            "Workload  {}, {}, at most {} tokens each ({})",
            work.model,
            prompts_short(&work.prompts),
            work.sampling.max_tokens,
            run.workload_key.get(..12).unwrap_or_default(),
        );
    }
    let _ = writeln!(
        text,
        "Requests  {measured} measured, {warmup} warm-up, on each agent"
    );
    text
}
