//! `engine generate`.

use std::{
    ffi::OsStr,
    io::Read,
    os::unix::ffi::OsStrExt,
    process::{Output, Stdio},
};

use serde_json::{Value, json};

use crate::{engine, fails, run, stderr, stdout};

fn fake(extra: &[&str]) -> Output {
    run(["generate", "Hello", "--chapter", "fake"]
        .iter()
        .chain(extra))
}

fn json(args: &[&str]) -> Value {
    let output = run(["generate", "The sky", "--format", "json"]
        .iter()
        .chain(args));
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn text_goes_to_stdout_and_figures_to_stderr() {
    let output = fake(&["--max-tokens", "6", "--option", "tokens=4"]);
    assert!(output.status.success());
    let text = stdout(&output);
    assert!(text.ends_with('\n') && text.trim().len() > 1, "{text:?}");
    assert!(stderr(&output).contains("4 tokens"), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("finish reason stop"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn both_chapters_print_the_same_text_and_tokens() {
    let text = |chapter| {
        stdout(&run([
            "generate",
            "The sky",
            "--chapter",
            chapter,
            "--max-tokens",
            "10",
        ]))
    };
    assert_eq!(text("1"), text("2"));
    let (one, two) = (json(&["--chapter", "1"]), json(&["--chapter", "2"]));
    assert_eq!(one["output_ids"], two["output_ids"]);
    assert_eq!(
        one["output_ids"].as_array().unwrap().len(),
        40,
        "40 asked is 40 made"
    );
    assert_eq!(one["text"], two["text"]);
    assert_eq!(one["metrics"].get("ttft_ms"), None);
    assert!(two["metrics"]["ttft_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn json_has_all_that_the_contract_names() {
    let answer = json(&["--chapter", "2", "--max-tokens", "3"]);
    assert_eq!(
        (&answer["schema"], &answer["chapter"]),
        (&json!(1), &json!("ch02"))
    );
    assert_eq!(answer["model"]["name"], "dummy:tiny-llm");
    assert_eq!(answer["finish_reason"], "length");
    assert_eq!(answer["metrics"]["output_tokens"], 3);
    assert_eq!(
        answer["metrics"]["input_tokens"].as_u64().unwrap(),
        answer["input_ids"].as_array().unwrap().len() as u64
    );
    assert!(!answer["text"].as_str().unwrap().is_empty());
}

#[test]
fn raw_leaves_the_template_out() {
    let ids = |args: &[&str]| json(args)["input_ids"].as_array().unwrap().len();
    assert!(ids(&["--raw", "--max-tokens", "1"]) < ids(&["--max-tokens", "1"]));
}

#[test]
fn the_seed_decides_draws() {
    let ids = |seed| {
        json(&[
            "--chapter",
            "2",
            "--temperature",
            "1.5",
            "--seed",
            seed,
            "--max-tokens",
            "8",
        ])["output_ids"]
            .clone()
    };
    assert_eq!(ids("1"), ids("1"));
    assert_ne!(ids("1"), ids("2"));
}

#[test]
fn bias_stop_strings_and_logprobs_have_flags() {
    let answer = json(&[
        "--chapter",
        "2",
        "--max-tokens",
        "6",
        "--logit-bias",
        "1000=100",
        "--logit-bias",
        "1001=-100",
        "--logprobs",
        "2",
    ]);
    assert_eq!(answer["output_ids"], json!(vec![1000; 6]));
    let logprobs = answer["logprobs"].as_array().unwrap();
    assert_eq!((logprobs.len(), &logprobs[5]["id"]), (6, &json!(1000)));
    assert_eq!(logprobs[0]["top"].as_array().unwrap().len(), 2);

    let stopped = fake(&["--stop", "sky is", "--stop", "blue", "--format", "json"]);
    let stopped: Value = serde_json::from_slice(&stopped.stdout).unwrap();
    assert_eq!(
        (&stopped["text"], &stopped["finish_reason"]),
        (&json!("The "), &json!("stop"))
    );
    assert_eq!(stopped.get("logprobs"), None);

    let changed = |flag, value| json(&["--chapter", "2", flag, value])["output_ids"].clone();
    let plain = changed("--min-p", "0");
    assert_ne!(changed("--repetition-penalty", "5"), plain);
    assert_ne!(changed("--presence-penalty", "2"), plain);
    assert_ne!(changed("--frequency-penalty", "-2"), plain);
    let drawn = ["--chapter", "2", "--temperature", "2", "--min-p", "1"];
    assert_eq!(json(&drawn)["output_ids"], plain);
}

#[test]
fn markdown_has_the_figures_in_a_table() {
    let page = stdout(&fake(&["--format", "markdown", "--max-tokens", "4"]));
    assert!(page.starts_with("## fake over dummy:tiny-llm\n"), "{page}");
    assert!(page.contains("| 4 | length |"), "{page}");
}

#[test]
fn bad_input_is_one_line_with_code_2() {
    for (args, says) in [
        (&["--chapter", "7"][..], "ch01"),
        (&["--max-tokens", "100000"], "context"),
        (&["--temperature", "-1"], "temperature"),
        (&["--min-p", "2"], "min_p"),
        (&["--presence-penalty", "-3"], "presence_penalty"),
        (&["--logit-bias", "5"], "--logit-bias"),
        (&["--logit-bias", "5=101"], "logit_bias"),
        (&["--logit-bias", "4000000=1"], "logit_bias"),
        (&["--stop", ""], "stop"),
        (&["--logprobs", "21"], "logprobs"),
        (&["--option", "speed=9"], "option"),
    ] {
        let line = fails(&run(["generate", "Hello"].iter().chain(args)), 2);
        assert!(line.contains(says), "{line}");
    }
    let line = fails(
        &engine()
            .args([OsStr::new("generate"), OsStr::from_bytes(b"\xff\xfe")])
            .output()
            .unwrap(),
        2,
    );
    assert!(line.contains("UTF-8"), "{line}");
}

#[test]
fn a_model_that_is_not_there_is_one_line_that_names_it() {
    for model in ["dummy:no-such", "/no/such/model", "/no/such/model.gguf"] {
        let output = run(["generate", "Hello", "--model", model]);
        let code = output.status.code().unwrap();
        assert!(code == 1 || code == 2, "{code}");
        assert!(fails(&output, code).contains(model));
    }
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_device_that_is_not_built_in_is_one_line_that_says_so() {
    for chapter in ["1", "4"] {
        let args = ["--chapter", chapter, "--device", "cuda:0"];
        let line = fails(&run(["generate", "Hello"].iter().chain(&args)), 2);
        assert!(
            line.starts_with("error: device: cuda:0 cannot be used")
                && line.ends_with("(is the feature built in?)"),
            "{line}"
        );
    }
}

#[test]
fn the_model_comes_from_the_flag_before_the_environment() {
    let mut command = engine();
    command
        .args(["generate", "Hello", "--max-tokens", "1"])
        .env("CHAPTERBENCH_MODEL", "dummy:no-such");
    assert!(!command.output().unwrap().status.success());
    command.args(["--model", "dummy:tiny-llm"]);
    assert!(command.output().unwrap().status.success());
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let mut child = engine()
        .args([
            "generate",
            "Hello",
            "--chapter",
            "fake",
            "--option",
            "tpot_ms=2",
            "--max-tokens",
            "500",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 1];
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut first).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!stderr(&output).contains("panic"), "{}", stderr(&output));
}

#[test]
fn a_name_that_is_given_twice_is_refused() {
    let twice = |flag, one, other| fails(&fake(&[flag, one, flag, other]), 2);
    assert_eq!(
        twice("--option", "tokens=4", "tokens=5"),
        "error: --option tokens is given more than once"
    );
    assert_eq!(
        twice("--logit-bias", "5=1", "5=-1"),
        "error: --logit-bias 5 is given more than once"
    );
}

#[test]
fn instructions_that_do_not_exist_are_refused_and_what_exists_is_listed() {
    let mut command = engine();
    let output = command
        .args(["generate", "Hello", "--chapter", "3"])
        .env("CHAPTERBENCH_ISA", "sse9")
        .output()
        .unwrap();
    let line = fails(&output, 2);
    let start = "error: environment: CHAPTERBENCH_ISA=sse9: this machine has ";
    assert!(
        line.starts_with(start) && line.contains("portable"),
        "{line}"
    );
}
