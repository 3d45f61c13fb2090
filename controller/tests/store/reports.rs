//! Reports of servers: the newest of a server is found, and stays with the runs made under it.

use contracts::doctor::{Finding, Grade, ServerReport};
use contracts::sample::TokenSource;
use controller::store::RunFilter;

use crate::fixtures::*;

fn report(url: &str, counting: TokenSource) -> ServerReport {
    ServerReport {
        url: url.to_owned(),
        model: "m".to_owned(),
        server: None,
        findings: vec![Finding {
            topic: "usage".to_owned(),
            grade: Grade::Limits,
            seen: "none; 'quoted'".to_owned(),
        }],
        counting,
        counting_reason: "no usage".to_owned(),
        usage_per_event: false,
        tokens_per_event: Some(1.5),
    }
}

#[tokio::test]
async fn the_newest_report_of_a_server_stays_with_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = with_run(&folder.path().join("bench.db"), "01RUN").await;
    let url = "http://gpu:8000";
    assert_eq!(store.server_report(url).await.unwrap(), None);
    let add = async |url: &str, counting, now| {
        let report = report(url, counting);
        store.add_server_report(report, "box", now).await.unwrap()
    };
    let first = add(url, TokenSource::Events, 1).await;
    add("http://other:8000", TokenSource::Events, 9).await;
    let found = store.server_report("HTTP://GPU:8000/v1/").await.unwrap();
    assert_eq!(found.as_ref(), Some(&first));

    let mut run = queued("01URL", "01SESSION");
    run.server_report = found;
    store.create_run(&run, &host()).await.unwrap();
    let second = add(url, TokenSource::Usage, 2).await;
    assert_eq!(store.server_report(url).await.unwrap(), Some(second));
    // What a run was made under does not change with a later look.
    assert_eq!(store.run_by_prefix("01URL").await.unwrap(), run);
    let runs = store.runs(&RunFilter::default()).await.unwrap();
    let kept: Vec<bool> = runs.iter().map(|run| run.server_report.is_some()).collect();
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 1);
}
