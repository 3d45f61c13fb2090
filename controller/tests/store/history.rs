//! `controller history` on a real database: the step between two builds, in all three forms.

use std::path::Path;
use std::process::{Command, Output};

use contracts::run::{Mode, RunState};
use contracts::sample::Sample;
use controller::store::Store;

use crate::fixtures::*;

/// Runs of a night each: ten around 1200 ms, then ten of another build around 1100 ms.
async fn nights(path: &Path) {
    let store = Store::open(path).await.unwrap();
    for night in 0..20_i32 {
        let (wall_ms, build) = match night {
            0..10 => (1200.0, "0.1.0+abc1234"),
            _ => (1100.0, "0.1.0+def5678"),
        };
        let wall_ms = wall_ms + f64::from(night * 7 % 5) * 4.0;
        let session_id = format!("01SESSION{night:02}");
        session(&store, &session_id).await;
        let mut run = queued(&format!("01NIGHT{night:02}"), &session_id);
        run.status.spec.arm.mode = Mode::Offline;
        run.created_unix_ms += i64::from(night) * 86_400_000;
        store.create_run(&run, &host()).await.unwrap();
        let mut run = ended(run);
        run.status.state = RunState::Done;
        run.status.failure = None;
        if let Some(provenance) = &mut run.status.provenance {
            provenance.engine_build = Some(build.to_owned());
        }
        let samples = (0..20).map(|index| answer(index, wall_ms)).collect();
        store.finish_run(&run, ok(samples), &[]).await.unwrap();
    }
    store.close().await;
}

fn answer(index: u32, wall_ms: f64) -> Sample {
    let sent_ns = u64::from(index) * 2_000_000_000;
    Sample {
        index,
        due_ns: sent_ns,
        start_ns: sent_ns,
        sent_ns: Some(sent_ns),
        done_ns: Some(sent_ns + (wall_ms * 1e6) as u64),
        wall_ms: Some(wall_ms),
        output_tokens: Some(40),
        requested_tokens: 40,
        ..Sample::default()
    }
}

fn history(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_controller"))
        .args(["--db", "bench.db", "history"])
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .output()
        .unwrap()
}

fn printed(folder: &Path, args: &[&str]) -> String {
    let output = history(folder, args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(stderr, "");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_step_is_shown_with_its_builds_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    nights(&folder.path().join("bench.db")).await;
    let text = printed(folder.path(), &["--chapter", "2"]);
    insta::assert_snapshot!("history", text);

    let json = printed(folder.path(), &["--chapter", "2", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    let series = &document["series"][0];
    assert_eq!(series["runs"].as_array().unwrap().len(), 20);
    assert_eq!(series["steps"].as_array().unwrap().len(), 1);
    let step = &series["steps"][0];
    assert_eq!(
        (&step["first"], &step["faster"]),
        (&10.into(), &true.into())
    );
    assert_eq!(step["run_id"], "01NIGHT10");
    assert_eq!(step["build_before"], "0.1.0+abc1234");
    assert_eq!(step["build_after"], "0.1.0+def5678");

    let markdown = printed(folder.path(), &["--chapter", "2", "--format", "markdown"]);
    let change = step["change"].as_f64().unwrap() * 100.0;
    let told = format!("{change:+.1} %, faster");
    assert!(
        markdown.contains(&told) && text.contains(&told),
        "{markdown}"
    );
    assert!(markdown.contains("build abc1234 → def5678"), "{markdown}");
}

#[tokio::test]
async fn flags_choose_runs_and_metric() {
    let folder = tempfile::tempdir().unwrap();
    nights(&folder.path().join("bench.db")).await;
    let text = printed(folder.path(), &["--metric", "tok_per_s"]);
    assert!(
        text.contains("Tok/s of 20 runs, more is better; 1 step"),
        "{text}"
    );
    for nothing in [
        ["--chapter", "9"],
        ["--mode", "online"],
        ["--host", "other"],
    ] {
        assert_eq!(printed(folder.path(), &nothing), "no run to show\n");
    }
    // Twenty answers are too few for a p95.
    let text = printed(folder.path(), &["--metric", "wall_ms_p95"]);
    let told = "20 runs are left out: no value of this metric";
    assert!(
        text.contains(told) && text.contains("from 8 runs on; it has 0"),
        "{text}"
    );

    let refused = history(folder.path(), &["--metric", "speed"]);
    assert_eq!(refused.status.code(), Some(2));
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(
        stderr.contains("--metric speed") && stderr.contains("tok_per_s"),
        "{stderr}"
    );
}
