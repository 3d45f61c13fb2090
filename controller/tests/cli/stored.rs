//! Databases with a few runs, for the tests of what is done with stored runs.

use std::ffi::OsString;
use std::path::PathBuf;

use contracts::run::RunState;
use contracts::sample::Sample;
use controller::record::RunRecord;
use controller::store::Store;
use serde_json::Value;

use crate::fixtures;
use crate::home::{Home, stderr, stdout};

/// A home whose database has the runs `01A` (`ch02`, done), `01B` (another engine, failed) and
/// `01RUNNING`.
pub fn filled() -> Home {
    let home = Home::new();
    let other = |run: &mut RunRecord| run.engine = "other".to_owned();
    store(&home, "01A", &fixtures::samples(), |_| {});
    store(&home, "01B", &fixtures::samples(), other);
    in_store(&home, async |store| {
        let run = fixtures::queued("01RUNNING", "01SESSION");
        store.create_run(&run, &fixtures::host()).await.unwrap();
    });
    home
}

fn in_store(home: &Home, work: impl AsyncFnOnce(&Store)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let path = home.path().join(".local/share/chapterbench/bench.db");
    runtime.block_on(async {
        let store = Store::open(&path).await.unwrap();
        work(&store).await;
        store.close().await;
    });
}

/// Stores a run: `01A` done, others failed.
pub fn store(home: &Home, run_id: &str, samples: &[Sample], change: impl Fn(&mut RunRecord)) {
    in_store(home, async |store| {
        let mut run = fixtures::queued(run_id, "01SESSION");
        change(&mut run);
        store.create_run(&run, &fixtures::host()).await.unwrap();
        let mut run = fixtures::ended(run);
        if run_id == "01A" {
            run.status.state = RunState::Done;
            run.status.failure = None;
        }
        run.status.samples.as_mut().unwrap().count = samples.len() as u64;
        let (samples, events) = (fixtures::ok(samples.to_vec()), fixtures::events());
        store.finish_run(&run, samples, &events).await.unwrap();
    });
}

pub fn done(home: &Home, args: &[&str]) -> String {
    let output = home
        .command(args)
        .current_dir(home.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

pub fn json(home: &Home, args: &[&str]) -> Value {
    let args = [args, &["--format", "json"]].concat();
    serde_json::from_str(&done(home, &args)).unwrap()
}

pub fn ids(document: &Value) -> Vec<&str> {
    let runs = document["runs"].as_array().unwrap().iter();
    runs.map(|run| run["run_id"].as_str().unwrap()).collect()
}

/// A Python with pyarrow, if the tests were given one.
pub fn python() -> Option<OsString> {
    let python = std::env::var_os("CHAPTERBENCH_PYTHON");
    if python.is_none() {
        eprintln!("skipped: CHAPTERBENCH_PYTHON does not name a python with the pyarrow package");
    }
    python
}

pub fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli")
        .join(name)
}
