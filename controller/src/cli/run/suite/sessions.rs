//! From the words of a suite to plans: each workload is one `run` of all arms, read by the flags' own
//! readers. What they refuse is told with the file and the line of the key.

use std::path::Path;

use clap::{Args as _, Command, FromArgMatches as _};
use contracts::api::Secrets;
use contracts::run::{Arm, Mode};

use crate::cli::measure::{Named, ready};
use crate::cli::{Context, compare, connect, run, told, workload};
use crate::exit::usage;
use crate::plan::{Plan, PlannedArm};
use crate::suite::{self, Suite, Words};

/// Flags of the command line that stand over the file's.
pub struct Over {
    pub agent: Vec<String>,
    pub label: Option<String>,
    pub tag: Vec<(String, String)>,
}

/// A suite, planned.
pub struct Planned {
    /// Agents by name; none for the built-in one.
    pub agents: Vec<String>,
    /// In the order of the file.
    pub sessions: Vec<SessionPlan>,
    /// In the order of the file.
    pub gates: Vec<suite::Gate>,
}

/// The session of one workload.
pub struct SessionPlan {
    /// The workload's name.
    pub name: String,
    pub plan: Plan,
    pub secrets: Secrets,
    pub named: Named,
    /// What is worth knowing of the files that were read.
    pub note: Option<String>,
}

impl SessionPlan {
    /// The gate's arms as `session:ID#a`, for each mode that both have; one mode each, whichever
    /// they are, also stand against each other.
    pub fn sides(&self, gate: &suite::Gate, session_id: &str) -> Vec<[String; 2]> {
        let of = |name: &str| -> Vec<&PlannedArm> {
            let named = |arm: &&PlannedArm| arm.arm.name.as_deref() == Some(name);
            self.plan.arms.iter().filter(named).collect()
        };
        let (bases, candidates) = (of(&gate.base), of(&gate.candidate));
        let side = |arm: &PlannedArm| format!("session:{session_id}#{}", arm.letter);
        if let ([base], [candidate]) = (bases.as_slice(), candidates.as_slice()) {
            return vec![[side(base), side(candidate)]];
        }
        let pairs = bases.iter().filter_map(|base| {
            let same = |arm: &&&PlannedArm| arm.arm.mode == base.arm.mode;
            let candidate = candidates.iter().find(same)?;
            Some([side(base), side(candidate)])
        });
        pairs.collect()
    }
}

/// Plans every session, and reads every gate, before anything runs.
///
/// # Errors
/// Usage errors with the file, and the line where a key is to blame.
pub fn planned(
    context: &Context,
    file: &Path,
    suite: Suite,
    over: &Over,
    secrets: &Secrets,
) -> anyhow::Result<Planned> {
    let mut agents = Vec::new();
    let mut sessions = Vec::new();
    for workload in &suite.workloads {
        let place = format!("[[workload]] {:?}", workload.name);
        let refuse = |error: &anyhow::Error| {
            let about = [&workload.words, &suite.session];
            let arms = suite.arms.iter().map(|arm| (arm.name.as_str(), &arm.words));
            let line = line_of(&format!("{error:#}"), arms, &about);
            blamed(file, line, &format!("{place}: {error:#}"))
        };
        let args = args(&suite, &workload.words, over).map_err(|error| refuse(&error))?;
        let named = Named {
            label: args.label,
            tags: args.tag.into_iter().collect(),
        };
        agents = connect::names(context, args.agent)?;
        let asked = workload::asked(&context.config, args.asked).map_err(|error| refuse(&error))?;
        let is_online = |arm: &Arm| arm.mode == Mode::Online;
        let online = asked.request.arms.iter().any(is_online);
        let secrets = if online {
            secrets.clone()
        } else {
            Secrets::default()
        };
        sessions.push(SessionPlan {
            name: workload.name.clone(),
            plan: ready(asked.request, &secrets, &agents)?,
            secrets,
            named,
            note: asked.note,
        });
    }
    if !secrets.is_empty() && sessions.iter().all(|session| session.secrets.is_empty()) {
        return Err(usage(
            "--header and --api-key-file: no workload of the suite goes over HTTP",
        ));
    }
    for gate in &suite.gates {
        check_gate(gate, &sessions).map_err(|error| {
            let message = format!("{error:#}");
            let line = line_of(&message, std::iter::empty(), &[&gate.words]);
            let (base, candidate) = (&gate.base, &gate.candidate);
            blamed(
                file,
                line,
                &format!("[[gate]] {candidate:?} against {base:?}: {message}"),
            )
        })?;
    }
    Ok(Planned {
        agents,
        sessions,
        gates: suite.gates,
    })
}

/// `run` with all arms under one workload, as a command line would have it.
fn args(suite: &Suite, workload: &Words, over: &Over) -> anyhow::Result<run::Args> {
    let mut words: Vec<String> = Vec::new();
    for given in suite.session.given() {
        let replaced = match given.key.as_str() {
            "agent" => !over.agent.is_empty(),
            "label" => over.label.is_some(),
            _ => false,
        };
        if !replaced {
            words.push(given.word.clone());
        }
    }
    words.extend(workload.words().map(str::to_owned));
    for arm in &suite.arms {
        let flags: Vec<String> = arm.words.words().map(quoted).collect();
        words.push(format!("--arm={}: {}", arm.name, flags.join(" ")));
    }
    let command = run::Args::augment_args(Command::new("run").no_binary_name(true));
    let read = command.try_get_matches_from(words);
    let mut args = read
        .and_then(|matches| run::Args::from_arg_matches(&matches))
        .map_err(|error| usage(told(&error)))?;
    if !over.agent.is_empty() {
        args.agent.clone_from(&over.agent);
    }
    if over.label.is_some() {
        args.label.clone_from(&over.label);
    }
    // Into a map: the last of a key counts.
    args.tag.extend(over.tag.iter().cloned());
    Ok(args)
}

/// As `--arm` cuts its flags into words: within single quotes all stands for itself.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// `compare` with a gate's flags.
///
/// # Errors
/// What a flag's reader refuses.
pub fn gate_args(gate: &suite::Gate, sides: &[String; 2]) -> anyhow::Result<compare::Args> {
    let command = compare::Args::augment_args(Command::new("compare").no_binary_name(true));
    let sides = sides.iter().map(String::as_str);
    command
        .try_get_matches_from(gate.words.words().chain(sides))
        .and_then(|matches| compare::Args::from_arg_matches(&matches))
        .map_err(|error| usage(told(&error)))
}

fn check_gate(gate: &suite::Gate, sessions: &[SessionPlan]) -> anyhow::Result<()> {
    for session in sessions.iter().filter(|session| judges(gate, session)) {
        let sides = session.sides(gate, "ID");
        if sides.is_empty() {
            return Err(usage(format!(
                "they have no mode in common under workload {:?}",
                session.name
            )));
        }
        for sides in &sides {
            gate_args(gate, sides)?;
        }
    }
    Ok(())
}

/// Whether a gate is about a session.
pub fn judges(gate: &suite::Gate, session: &SessionPlan) -> bool {
    gate.workload
        .as_ref()
        .is_none_or(|name| *name == session.name)
}

/// The line of the key whose flag a message names first: in the arm that it names, else in `about`.
fn line_of<'a>(
    message: &str,
    mut arms: impl Iterator<Item = (&'a str, &'a Words)>,
    about: &[&Words],
) -> Option<usize> {
    let in_arm = arms
        .find(|(name, _)| message.contains(&format!("--arm {name}:")))
        .and_then(|(_, words)| first_named(message, &[words]));
    in_arm.or_else(|| first_named(message, about))
}

fn first_named(message: &str, about: &[&Words]) -> Option<usize> {
    let place = |flag: &str| {
        let longer = |rest: &str| rest.starts_with(|c: char| c == '-' || c.is_alphanumeric());
        let whole = |(at, _): &(usize, &str)| {
            let rest = message.get(at + flag.len()..);
            !rest.is_some_and(longer)
        };
        message.match_indices(flag).find(whole).map(|(at, _)| at)
    };
    let given = about.iter().flat_map(|words| words.given());
    let named = given.filter_map(|given| Some((place(given.flag())?, given.line)));
    named.min().map(|(_, line)| line)
}

/// A usage error with its file and its line.
fn blamed(file: &Path, line: Option<usize>, what: &str) -> anyhow::Error {
    let line = line
        .map(|line| format!(" line {line}:"))
        .unwrap_or_default();
    usage(format!("--suite {}:{line} {what}", file.display()))
}
