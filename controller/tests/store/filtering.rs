//! Which runs a filter lets through.

use contracts::run::{EngineRef, Mode, RunState};
use controller::record::RunRecord;
use controller::store::{RunFilter, Store};

use crate::fixtures::*;

/// Four runs that differ in all that is asked for.
async fn filled(store: &Store) {
    session(store, "01SESSION").await;
    let change = |id: &str, created: i64, by: fn(&mut RunRecord)| {
        let mut run = queued(id, "01SESSION");
        run.created_unix_ms = created;
        by(&mut run);
        run
    };
    let runs = [
        change("01A", 10, |_| {}),
        change("01B", 20, |run| {
            run.engine = "ch01".to_owned();
            run.status.spec.arm.engine = EngineRef::Chapter {
                id: "ch01".to_owned(),
            };
            run.status.spec.arm.mode = Mode::Offline;
            run.agent_name = "other".to_owned();
        }),
        // Another build of ours that is called like a chapter.
        change("01C", 30, |run| {
            run.status.spec.arm.engine = EngineRef::Named {
                name: "ch02".to_owned(),
                chapter: None,
            };
            run.status.spec.workload.model = "other/model".to_owned();
            run.session_id = "01TAGGED".to_owned();
            run.label = None;
            run.tags = [("pr", "12"), ("who", "it's \"me\"")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into();
        }),
        change("01D", 40, |run| {
            run.session_id = "02OTHER".to_owned();
            run.label = Some("nightly".to_owned());
        }),
    ];
    for run in &runs {
        let mut host = host();
        if run.run_id == "01D" {
            host.fingerprint = "beef1".to_owned();
            host.hostname = "lab".to_owned();
        }
        let run = RunRecord {
            host_fingerprint: host.fingerprint.clone(),
            ..run.clone()
        };
        store.create_run(&run, &host).await.unwrap();
    }
    let mut failed = ended(runs[3].clone());
    failed.stats = None;
    store.finish_run(&failed, ok(samples()), &[]).await.unwrap();
}

#[tokio::test]
async fn each_condition_lets_through_what_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("bench.db")).await.unwrap();
    filled(&store).await;
    let cases: Vec<(&str, RunFilter)> = vec![
        ("01A 01B 01C 01D", RunFilter::default()),
        ("01A 01D", filter(|f| f.chapters = words(&["ch02", "ch09"]))),
        ("01A 01C 01D", filter(|f| f.engines = words(&["ch02"]))),
        (
            "01A 01B 01D",
            filter(|f| f.chapters = words(&["ch02", "ch01"])),
        ),
        ("01B", filter(|f| f.mode = Some(Mode::Offline))),
        ("01D", filter(|f| f.host = Some("lab".to_owned()))),
        ("01D", filter(|f| f.host = Some("bee".to_owned()))),
        ("", filter(|f| f.host = Some("la".to_owned()))),
        ("", filter(|f| f.host = Some("%".to_owned()))),
        ("01B", filter(|f| f.agent = Some("other".to_owned()))),
        ("01C", filter(|f| f.model = Some("other/model".to_owned()))),
        (
            "01A 01B 01D",
            filter(|f| f.label = Some("nightly".to_owned())),
        ),
        ("01C", filter(|f| f.unlabelled = true)),
        (
            "01C",
            filter(|f| f.tags = pairs(&[("pr", "12"), ("who", "it's \"me\"")])),
        ),
        (
            "",
            filter(|f| f.tags = pairs(&[("pr", "12"), ("who", "me")])),
        ),
        ("", filter(|f| f.tags = pairs(&[("pr", "1")]))),
        (
            "01D",
            filter(|f| f.states = vec![RunState::Failed, RunState::Done]),
        ),
        ("01A 01B 01C", filter(|f| f.unfinished = true)),
        ("01B 01C 01D", filter(|f| f.since_unix_ms = Some(20))),
        ("01A", filter(|f| f.before_unix_ms = Some(20))),
        ("01C", filter(|f| f.session = Some("01t".to_owned()))),
        ("01A 01B 01C", filter(|f| f.session = Some("01".to_owned()))),
        ("01C 01D", filter(|f| f.limit = Some(2))),
        (
            "01A",
            filter(|f| (f.limit, f.before_unix_ms) = (Some(1), Some(20))),
        ),
        (
            "",
            filter(|f| (f.mode, f.label) = (Some(Mode::Online), Some("x".to_owned()))),
        ),
    ];
    for (expected, filter) in cases {
        let runs = store.runs(&filter).await.unwrap();
        let ids: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
        assert_eq!(ids.join(" "), expected, "{filter:?}");
        let lines = store.run_lines(&filter).await.unwrap();
        assert_eq!(lines.len(), runs.len(), "{filter:?}");
    }
}

fn filter(change: impl Fn(&mut RunFilter)) -> RunFilter {
    let mut filter = RunFilter::default();
    change(&mut filter);
    filter
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}
