//! The command that measures two sides so that they can be compared: both arms in one session, with
//! their own flags, under the base's workload.
//!
//! What a flag can say, the command says. Prompts that came from a file stand as `FILE`: where it
//! lies was not stored.

use contracts::run::{Device, EngineRef, Mode};

use super::work_flags::work_flags;
use crate::compare::facts;
use crate::record::RunRecord;
use crate::show::words;

/// Passes over the arms: enough for a verdict where runs differ by 2 %.
const REPEAT: u32 = 5;

/// Both sides in one session: ``run `controller run …` ``. `more` are flags that are put at its end.
pub fn rerun(base: &RunRecord, candidate: &RunRecord, more: &str) -> String {
    let (b, c) = (&base.status.spec.arm, &candidate.status.spec.arm);
    let runs = if b.engine == c.engine && b.mode != c.mode {
        vec![base]
    } else {
        vec![base, candidate]
    };
    let setup_of_both = Some(setup(base)).filter(|flags| *flags == setup(candidate));
    let arms = match (engine(&runs), setup_of_both) {
        (Some(engines), Some(setup)) if b.mode == c.mode => {
            format!("{engines}{}{setup}", mode(base))
        }
        (Some(engines), Some(setup)) => format!("{engines} --mode both{setup}"),
        _ => format!("{}{}", own("base", base), own("candidate", candidate)),
    };
    command(&arms, base, candidate, more)
}

/// Two arms of one engine in one session.
pub fn rerun_twice(run: &RunRecord) -> String {
    rerun(run, run, "")
}

fn command(arms: &str, base: &RunRecord, candidate: &RunRecord, more: &str) -> String {
    // Offline there are no arrivals: across modes, slots are the work that both can do.
    let offline = [base, candidate].map(|run| run.status.spec.arm.mode == Mode::Offline);
    let asked = match offline {
        [false, true] => candidate,
        _ => base,
    };
    let work = work_flags(&asked.status.spec.workload);
    let agent = match candidate.agent_name.as_str() {
        "local" => String::new(),
        name => format!(" --agent {}", quoted(name)),
    };
    let planned = base
        .session
        .repeat_count
        .max(candidate.session.repeat_count);
    let repeat = planned.max(REPEAT);
    format!("run `controller run{arms}{work}{agent} --repeat {repeat}{more}`")
}

/// An arm with all flags of its own.
fn own(name: &str, run: &RunRecord) -> String {
    let engine = engine(&[run]).unwrap_or_default();
    let flags = format!("{name}:{engine}{}{}", mode(run), setup(run));
    format!(" --arm {}", quoted(&flags))
}

/// What names the engines of these arms in one command; none where only an arm of its own can.
fn engine(runs: &[&RunRecord]) -> Option<String> {
    let mut flags = String::new();
    let mut names = Vec::new();
    let mut chapter_of_all = None;
    let mut kind_of_all = None;
    for run in runs {
        let (kind, name, chapter) = match &run.status.spec.arm.engine {
            EngineRef::Chapter { id } => ("--chapter", id, None),
            EngineRef::Named { name, chapter } => ("--engine", name, chapter.as_ref()),
            EngineRef::Url { url, .. } => ("--url", url, None),
        };
        let alike = *kind_of_all.get_or_insert(kind) == kind
            && *chapter_of_all.get_or_insert(chapter) == chapter;
        if !alike {
            return None;
        }
        names.push(quoted(name));
    }
    match kind_of_all? {
        "--url" => {
            for name in &names {
                flags.push_str(&format!(" --url {name}"));
            }
        }
        kind => flags.push_str(&format!(" {kind} {}", names.join(","))),
    }
    if let Some(id) = chapter_of_all.flatten() {
        flags.push_str(&format!(" --chapter {id}"));
    }
    Some(flags)
}

/// A server that runs already is online, and no flag says so.
fn mode(run: &RunRecord) -> String {
    match run.status.spec.arm.engine {
        EngineRef::Url { .. } => String::new(),
        _ => format!(" --mode {}", words::snake(&run.status.spec.arm.mode)),
    }
}

/// How the engine is set up and asked, where that is not the default.
fn setup(run: &RunRecord) -> String {
    let arm = &run.status.spec.arm;
    let mut flags = String::new();
    if let Some(dtype) = &arm.dtype {
        flags.push_str(&format!(" --dtype {}", words::snake(dtype)));
    }
    if arm.device != Device::Cpu {
        flags.push_str(&format!(" --device {}", facts::device(&arm.device)));
    }
    if let Some(threads) = arm.threads {
        flags.push_str(&format!(" --threads {threads}"));
    }
    for (key, value) in &arm.options {
        flags.push_str(&format!(" --option {}", quoted(&format!("{key}={value}"))));
    }
    if arm.mode == Mode::Online {
        if !arm.stream {
            flags.push_str(" --no-stream");
        }
        if arm.no_keepalive {
            flags.push_str(" --no-keepalive");
        }
        for (key, value) in &arm.extra {
            flags.push_str(&format!(" --extra {}", quoted(&format!("{key}={value}"))));
        }
    }
    flags
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=%@+#,".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with('#') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
