//! Help and the list of chapters, word for word.

use serde_json::Value;

use crate::{engine, run, stderr, stdout};

#[test]
fn help() {
    insta::assert_snapshot!(stdout(&run(["--help"])));
}

#[test]
fn help_of_generate_and_serve() {
    // At a fixed width, whatever terminal the tests run in.
    let help = |word| {
        stdout(
            &engine()
                .args([word, "--help"])
                .env("COLUMNS", "100")
                .output()
                .unwrap(),
        )
    };
    insta::assert_snapshot!("help_generate", help("generate"));
    insta::assert_snapshot!("help_serve", help("serve"));
}

#[test]
fn chapters_for_people() {
    insta::assert_snapshot!(stdout(&run(["chapters"])));
}

#[test]
fn chapters_in_other_formats_leave_out_the_hidden_ones_too() {
    let json: Value =
        serde_json::from_slice(&run(["chapters", "--format", "json"]).stdout).unwrap();
    assert_eq!(json["schema"], 1);
    let ids: Vec<&str> = json["chapters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["ch01", "ch02", "ch03", "ch04", "ch05", "ch09"]);
    let markdown = stdout(&run(["chapters", "--format", "markdown"]));
    assert!(
        markdown.contains("| ch01 | baseline |") && !markdown.contains("fake"),
        "{markdown}"
    );
}

#[test]
fn the_word_engine_may_stand_before_the_command() {
    assert_eq!(run(["engine", "chapters"]).stdout, run(["chapters"]).stdout);
}

#[test]
fn usage_errors_have_code_2() {
    for args in [
        &[][..],
        &["bake"],
        &["chapters", "--format", "xml"],
        &["generate", "x", "--max-tokens", "0"],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            output.stdout.is_empty() && !stderr(&output).is_empty(),
            "{args:?}"
        );
    }
}
