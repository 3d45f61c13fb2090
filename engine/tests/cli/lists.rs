//! Help and the list of chapters, word for word.

use engine::chapters::{Chapter, TABLE};
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
    let shown = TABLE.iter().filter(|row| !row.hidden).map(|row| row.id);
    assert_eq!(ids, shown.collect::<Vec<_>>());
    let markdown = stdout(&run(["chapters", "--format", "markdown"]));
    assert!(
        markdown.contains("| ch01 | baseline |") && !markdown.contains("fake"),
        "{markdown}"
    );
}

#[test]
fn readme_lists_the_chapters_as_the_table_has_them() {
    let readme = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let lines = readme.lines().filter(|line| line.starts_with("| `ch"));
    let line = |row: &Chapter| format!("| `{}` | {} | {} |", row.id, row.title, row.adds);
    let shown = TABLE.iter().filter(|row| !row.hidden).map(line);
    assert_eq!(lines.collect::<Vec<_>>(), shown.collect::<Vec<_>>());
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
