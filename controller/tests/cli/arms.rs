//! Arms of a session: lists, arms of their own, their order, and what is wrong with them.

use crate::home::{Home, refused, stderr, stdout};

fn dry(home: &Home, flags: &[&str]) -> String {
    let output = home.run(&[&["run"], flags, &["--dry-run"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn arms_of_their_own_follow_those_of_the_lists() {
    let home = Home::new();
    let flags = [
        "--chapter",
        "2",
        "--mode",
        "both",
        "--option",
        "a=1",
        "--threads",
        "4",
        "--repeat",
        "2",
        "--order-seed",
        "5",
        "--cooldown",
        "5s",
        "--max-extend",
        "2",
        "--arm",
        "one thread: --threads 1 --option 'b=two words' --option a=2 --mode offline",
        "--arm",
        "llama.cpp: --engine llama-cpp --mode online --no-stream --extra 'n_probs=1' --no-keepalive",
        "--arm",
        "there: --url http://box:8000/",
        "--arm",
        "before: --engine before --chapter 4 --mode online --dtype bf16",
    ];
    insta::assert_snapshot!(dry(&home, &flags), @r"
    Arms
      #a ch02 offline cpu 4 threads a=1
      #b ch02 online cpu 4 threads a=1
      #c one thread: ch02 offline cpu 1 threads a=2 b=two words
      #d llama.cpp: llama-cpp online cpu 4 threads a=1 n_probs=1 no stream no keep-alive
      #e there: http://box:8000 online
      #f before: before ch04 online cpu bf16 4 threads a=1
    Order     a f d c e b | b e c d f a (abba, seed 5)
    Cool-down 5s between two runs on an agent
    Looks     3: it may be extended 2 times, and each look has alpha / 3
    Agents    local
    Workload  dummy:tiny-llm, 1 prompt, at most 40 tokens each (4c23b3810fcb)
    Requests  240 measured, 36 warm-up, on each agent
    Time      unknown: none of this was run before
    ");
}

#[test]
fn what_an_arm_does_not_say_is_as_for_all() {
    let home = Home::new();
    let flags = [
        "run",
        "--threads",
        "3",
        "--arm",
        "x: --chapter 2 --mode offline",
        "--arm",
        "y: --chapter 2",
        "--dry-run",
        "--format",
        "json",
    ];
    let output = home.run(&flags);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let arms = document["plan"]["arms"].as_array().unwrap();
    let of = |place: usize, field: &str| arms[place]["arm"][field].clone();
    assert_eq!(arms.len(), 2);
    assert_eq!((of(0, "name"), of(1, "name")), ("x".into(), "y".into()));
    assert_eq!((of(0, "threads"), of(1, "threads")), (3.into(), 3.into()));
    assert_eq!(of(0, "mode"), "offline");
    assert_eq!(of(1, "mode"), "online");
    let runs = document["plan"]["runs"].as_array().unwrap();
    assert_eq!(
        runs[0]["workload_key"], runs[1]["workload_key"],
        "a name is no part of the work"
    );
}

#[test]
fn wrong_arms_are_named() {
    let home = Home::new();
    let long = format!("{}: --chapter 1", "x".repeat(41));
    let table: &[(&[&str], &[&str])] = &[
        (&[], &["--chapter", "--engine", "--url", "--arm"]),
        (&["--arm", "--chapter 1"], &["--arm", "NAME: FLAGS"]),
        (&["--arm", "fast"], &["--arm", "fast", "NAME: FLAGS"]),
        (&["--arm", " : --chapter 1"], &["NAME: FLAGS"]),
        (&["--arm", &long], &["--arm", "at most 40"]),
        (
            &["--arm", "x: --threads 1"],
            &["--arm x: ", "--chapter, --engine or --url"],
        ),
        (
            &["--chapter", "1,2", "--arm", "x: --threads 1"],
            &["--arm x: ", "which engine"],
        ),
        (
            &["--arm", "x: --chapter 1,2"],
            &["--arm x: ", "more than one engine"],
        ),
        (
            &["--arm", "x: --chapter 1 --bogus"],
            &["--arm x: ", "--bogus"],
        ),
        (
            &["--arm", "x: --chapter 1 --n-runs 3"],
            &["--arm x: ", "--n-runs"],
        ),
        (
            &["--arm", "x: --chapter 1 bogus"],
            &["--arm x: ", "'bogus'"],
        ),
        (
            &["--arm", "x: --chapter 1 --threads 0"],
            &["--arm x: --threads 0", "1 to"],
        ),
        (
            &["--arm", "x: --chapter 1 --option 'a=1"],
            &["--arm x: ", "a ' is not closed"],
        ),
        (
            &["--arm", "x: --chapter 1 --option a=1 --option a=2"],
            &["--arm x: --option a", "twice"],
        ),
        (
            &["--arm", "x: --chapter 1 --extra model=2"],
            &["--arm x: --extra model", "--model"],
        ),
        (
            &["--arm", "x: --chapter 1 --mode offline --no-keepalive"],
            &["--arm x: --no-keepalive", "--mode offline"],
        ),
        (
            &["--arm", "x: --url http://b --threads 1"],
            &["--arm x: --url", "--threads"],
        ),
        (
            &["--arm", "x: --url http://b?key=hunter2"],
            &["--arm x: --url", "`?`"],
        ),
        (
            &["--arm", "x: --chapter 1", "--arm", "x: --chapter 2"],
            &["--arm x", "two arms"],
        ),
        (
            &["--chapter", "1", "--url", "http://b"],
            &["--url with --chapter", "--arm 'NAME: --url URL'"],
        ),
        (
            &["--chapter", "1", "--max-extend", "3"],
            &["--max-extend 3", "0 to 2"],
        ),
        (
            &["--chapter", "1", "--cooldown", "2h"],
            &["--cooldown 2h", "at most 1h"],
        ),
        (&["--chapter", "1", "--cooldown", "soon"], &["--cooldown"]),
        (&["--chapter", "1", "--order-seed", "x"], &["--order-seed"]),
        (
            &["--chapter", "1", "--arm", "y: --mode offline", "--sweep"],
            &["--sweep", "--mode"],
        ),
    ];
    for (args, words) in table {
        let output = home.run(&[&["run"], *args].concat());
        refused(&output, 2, words);
        assert!(!stderr(&output).contains("hunter2"));
    }
}

#[test]
fn little_may_stand_beside_extend() {
    let home = Home::new();
    for flags in [
        &["--chapter", "1"][..],
        &["--arm", "x: --chapter 1"],
        &["--model", "m"],
        &["--n-runs", "3"],
        &["--order-seed", "3"],
        &["--max-extend", "1"],
        &["--agent", "box"],
        &["--label", "x"],
    ] {
        let output = home.run(&[&["run", "--extend", "01ABC"], flags].concat());
        refused(&output, 2, &["--extend", flags[0]]);
    }
    let output = home.run(&["run", "--extend", "01ABC", "--repeat", "0"]);
    refused(&output, 2, &["--repeat 0"]);
    let output = home.run(&["run", "--extend", "01ABC"]);
    refused(&output, 1, &["no runs yet"]);
}
