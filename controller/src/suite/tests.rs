//! What a suite says, and each thing that can be wrong with it.

use super::*;

fn key(name: &str, kind: Kind, list: bool) -> Key {
    Key {
        name: name.to_owned(),
        kind,
        list,
    }
}

fn keys() -> Keys {
    Keys {
        session: vec![
            key("agent", Kind::Text, true),
            key("repeat", Kind::Whole, false),
            key("tag", Kind::Pairs, false),
        ],
        arm: vec![
            key("engine", Kind::Text, false),
            key("chapter", Kind::Word, false),
            key("option", Kind::Pairs, false),
        ],
        workload: vec![
            key("model", Kind::PathOrName, false),
            key("prompts", Kind::Path, false),
            key("dataset", Kind::Path, false),
            key("n_runs", Kind::Whole, false),
            key("rate", Kind::Word, true),
            key("temperature", Kind::Number, false),
            key("timeout", Kind::Word, false),
            key("ignore_eos", Kind::Switch, false),
        ],
        gate: vec![
            key("fail_on", Kind::Text, false),
            key("require_verdict", Kind::Switch, false),
        ],
    }
}

const WHOLE: &str = r#"
agent = ["gpu-a", "gpu-b"]
repeat = 5
tag = { branch = "x", try = 2 }

[[arm]]
name = "main"
engine = "main"
chapter = 2

[[arm]]
name = "branch"
option = { ttft_ms = "5", fast = true }

[[workload]]
name = "short"
model = "dummy:tiny-llm"
prompts = "prompts/short.txt"
dataset = "sharegpt:/data/s.json"
n_runs = 1_0
rate = [1.5, "inf"]
temperature = 0
timeout = "90s"
ignore_eos = true

[[gate]]
base = "main"
candidate = "branch"
workload = "short"
fail_on = "slower:3%"
require_verdict = false
"#;

fn flags(words: &Words) -> Vec<&str> {
    words.words().collect()
}

#[test]
fn tables_become_the_flags_that_they_are_named_after() {
    let suite = parse(WHOLE, &keys(), Path::new("/repo/bench")).unwrap();
    assert_eq!(
        flags(&suite.session),
        [
            "--agent=gpu-a",
            "--agent=gpu-b",
            "--repeat=5",
            "--tag=branch=x",
            "--tag=try=2"
        ]
    );
    let [main, branch] = suite.arms.as_slice() else {
        unreachable!("two arms");
    };
    assert_eq!(
        (main.name.as_str(), branch.name.as_str()),
        ("main", "branch")
    );
    assert_eq!(flags(&main.words), ["--chapter=2", "--engine=main"]);
    assert_eq!(
        flags(&branch.words),
        ["--option=fast=true", "--option=ttft_ms=5"]
    );
    let short = &suite.workloads[0];
    assert_eq!(
        flags(&short.words),
        [
            "--dataset=sharegpt:/data/s.json",
            "--ignore-eos",
            "--model=dummy:tiny-llm",
            "--n-runs=10",
            "--prompts=/repo/bench/prompts/short.txt",
            "--rate=1.5",
            "--rate=inf",
            "--temperature=0",
            "--timeout=90s",
        ]
    );
    assert_eq!(short.words.given()[3].line, 20);
    let gate = &suite.gates[0];
    assert_eq!(
        (gate.base.as_str(), gate.candidate.as_str()),
        ("main", "branch")
    );
    assert_eq!(gate.workload.as_deref(), Some("short"));
    assert_eq!(flags(&gate.words), ["--fail-on=slower:3%"]);
}

#[test]
fn a_model_that_lies_beside_the_suite_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tiny")).unwrap();
    let of = |model: &str| {
        let text = format!("[[arm]]\nname='a'\n[[workload]]\nname='w'\nmodel='{model}'\n");
        let suite = parse(&text, &keys(), folder.path()).unwrap();
        flags(&suite.workloads[0].words)[0].to_owned()
    };
    let tiny = folder.path().join("tiny");
    assert_eq!(of("tiny"), format!("--model={}", tiny.display()));
    assert_eq!(of("org/tiny"), "--model=org/tiny");
}

/// What is wrong with a suite of which `changed` stands in the place of `part`.
fn wrong(part: &str, changed: &str) -> String {
    assert!(WHOLE.contains(part), "{part}");
    let text = WHOLE.replacen(part, changed, 1);
    parse(&text, &keys(), Path::new(""))
        .unwrap_err()
        .to_string()
}

#[test]
fn each_thing_that_is_wrong_is_one_line_with_its_place() {
    let table = [
        ("repeat = 5", "repeats = 5"),
        ("n_runs = 1_0", "n_rums = 10"),
        ("chapter = 2", "chapter = 2\nmode = \"both\""),
        ("fail_on = ", "fail_if = "),
        ("repeat = 5", "repeat = \"5\""),
        ("repeat = 5", "repeat = 5.5"),
        ("n_runs = 1_0", "n_runs = [10]"),
        ("n_runs = 1_0", "n_runs = 99999999999999999999"),
        ("temperature = 0", "temperature = true"),
        ("timeout = \"90s\"", "timeout = 2026-01-01"),
        ("ignore_eos = true", "ignore_eos = \"yes\""),
        ("rate = [1.5, \"inf\"]", "rate = []"),
        ("rate = [1.5, \"inf\"]", "rate = [1.5, [2]]"),
        ("tag = { branch = \"x\", try = 2 }", "tag = \"branch=x\""),
        (
            "tag = { branch = \"x\", try = 2 }",
            "tag = { branch = [1] }",
        ),
        ("prompts = \"prompts/short.txt\"", "prompts = 3"),
        ("name = \"branch\"", "name = \"main\""),
        ("name = \"branch\"", ""),
        ("name = \"branch\"", "name = 3"),
        ("name = \"branch\"", "name = \"a: b\""),
        ("candidate = \"branch\"", "candidate = \"brunch\""),
        ("candidate = \"branch\"", "candidate = \"main\""),
        ("candidate = \"branch\"", ""),
        ("workload = \"short\"", "workload = \"long\""),
        ("[[workload]]", "[[workloads]]"),
        ("[[gate]]", "[gate]"),
        ("repeat = 5", "repeat = = 5"),
        ("repeat = 5", "repeat = 5\nrepeat = 6"),
    ];
    let lines = table.map(|(part, changed)| {
        let line = wrong(part, changed);
        assert!(!line.contains('\n'), "{line}");
        line
    });
    insta::assert_snapshot!("wrong", lines.join("\n"));
}

#[test]
fn a_file_without_arms_or_workloads_says_what_it_lacks() {
    let of = |text: &str| parse(text, &keys(), Path::new("")).unwrap_err().to_string();
    assert_eq!(of(""), "no [[arm]]: a suite has at least one");
    assert_eq!(
        of("[[arm]]\nname = 'a'"),
        "no [[workload]]: a suite has at least one"
    );
    assert_eq!(of("arm = []"), "no [[arm]]: a suite has at least one");
    assert_eq!(of("arm = [1]"), "line 1: arm: write each as [[arm]]");
    let many = "[[arm]]\n".repeat(101);
    assert_eq!(of(&many), "101 of [[arm]]; a suite has at most 100");
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("suite.toml");
    let of = |file: &Path| read(file, &keys()).unwrap_err().to_string();
    assert!(of(&file).contains("No such file"));
    std::fs::write(&file, "#".repeat(SUITE_BYTES_MAX as usize + 1)).unwrap();
    assert_eq!(of(&file), "longer than 1048576 bytes");
}

proptest::proptest! {
    #[test]
    fn nothing_written_makes_it_panic(text in "(\\[\\[(arm|gate|workload)\\]\\]\n|(name|repeat|base) = ('a'|3|\\{\\}|\\[1\\])\n|.{0,9}){0,8}") {
        let _ = parse(&text, &keys(), Path::new(""));
    }
}
