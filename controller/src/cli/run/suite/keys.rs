//! Which keys a suite has: the flags of `run`, of an `--arm` and of `compare`, by their names.

use std::any::TypeId;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Args as _, Command};

use crate::cli::{compare, run, workload};
use crate::suite::{Key, Keys, Kind};

/// What holds for every session, and stands outside of the tables.
const SESSION: [&str; 8] = [
    "agent",
    "cooldown",
    "label",
    "max_extend",
    "order",
    "order_seed",
    "repeat",
    "tag",
];
/// Flags of `run` that are none of a workload's: what is judged is said by `[[arm]]`, a sweep is no
/// comparison, secrets are no matter for a file, the rest is of the command itself.
const NOT_A_WORKLOADS: [&str; 12] = [
    "api_key_file",
    "arm",
    "chapter",
    "dry_run",
    "engine",
    "extend",
    "format",
    "header",
    "served_model_name",
    "suite",
    "sweep",
    "url",
];
/// Flags of `compare` that are none of a gate's: it has two sides, and is printed with the suite.
const NOT_A_GATES: [&str; 2] = ["format", "vs"];

/// The keys of all tables.
pub fn keys() -> Keys {
    let run = run::Args::augment_args(Command::new("run"));
    let compare = compare::Args::augment_args(Command::new("compare"));
    let (session, others): (Vec<Key>, Vec<Key>) =
        of(&run).partition(|key| SESSION.contains(&key.name.as_str()));
    let without = |keys: Vec<Key>, not: &[&str]| {
        let mut keys = keys;
        keys.retain(|key| !not.contains(&key.name.as_str()));
        keys
    };
    Keys {
        session,
        arm: of(&workload::arm_command()).collect(),
        workload: without(others, &NOT_A_WORKLOADS),
        gate: without(of(&compare).collect(), &NOT_A_GATES),
    }
}

fn of(command: &Command) -> impl Iterator<Item = Key> {
    command.get_arguments().filter_map(key)
}

/// None of what is no flag.
fn key(arg: &Arg) -> Option<Key> {
    Some(Key {
        name: arg.get_long()?.replace('-', "_"),
        kind: kind(arg),
        list: matches!(arg.get_action(), ArgAction::Append),
    })
}

/// By what the flag is read into; the two that may be a path or a name are texts to clap.
fn kind(arg: &Arg) -> Kind {
    if !arg.get_action().takes_values() {
        return Kind::Switch;
    }
    let parser = arg.get_value_parser();
    let is = |id: TypeId| parser.type_id() == id;
    let name = arg.get_id().as_str();
    if matches!(name, "model" | "tokenizer") {
        Kind::PathOrName
    } else if is(TypeId::of::<PathBuf>()) {
        Kind::Path
    } else if is(TypeId::of::<(String, String)>())
        || is(TypeId::of::<(String, serde_json::Value)>())
    {
        Kind::Pairs
    } else if is(TypeId::of::<u32>()) || is(TypeId::of::<u64>()) || is(TypeId::of::<i32>()) {
        Kind::Whole
    } else if is(TypeId::of::<f32>()) {
        Kind::Number
    } else if is(TypeId::of::<String>()) && name != "chapter" {
        Kind::Text
    } else {
        // Times, rates, shares, lengths: a number, or one with a unit or a word.
        Kind::Word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name: kind`, with `[]` where a list may stand.
    fn words(keys: &[Key]) -> String {
        let line = |key: &Key| {
            let list = if key.list { "[]" } else { "" };
            format!("  {}: {:?}{list}\n", key.name, key.kind)
        };
        keys.iter().map(line).collect()
    }

    #[test]
    fn each_flag_that_a_suite_may_give_is_a_key() {
        let keys = keys();
        let all = format!(
            "suite\n{}arm\n{}workload\n{}gate\n{}",
            words(&keys.session),
            words(&keys.arm),
            words(&keys.workload),
            words(&keys.gate)
        );
        insta::assert_snapshot!("keys", all);
    }

    #[test]
    fn what_is_left_out_is_there_to_be_left_out() {
        let run = run::Args::augment_args(Command::new("run"));
        let there: Vec<String> = of(&run).map(|key| key.name).collect();
        for name in SESSION.iter().chain(&NOT_A_WORKLOADS) {
            assert!(there.iter().any(|key| key == name), "{name}");
        }
    }
}
