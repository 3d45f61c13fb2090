//! Events: complete, in order, resumable from any point, live and afterwards.

use contracts::run::{EventKind, Mode, RunEvent, RunState};

use crate::fixture::{Agent, Home, events_of, fake};

async fn whole(agent: &Agent, id: &str, query: &str) -> Vec<RunEvent> {
    let answer = agent
        .get(&format!("/v1/runs/{id}/events{query}"))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    events_of(&answer.text().await.unwrap())
}

fn states(events: &[RunEvent]) -> Vec<RunState> {
    let state = |event: &RunEvent| match event.what {
        EventKind::State { state } => Some(state),
        _ => None,
    };
    events.iter().filter_map(state).collect()
}

#[tokio::test]
async fn a_stream_tells_the_whole_story_live_and_from_disk() {
    use RunState::{Done, Measuring, Queued, Starting, Stopping, Warming};
    let home = Home::new();
    let agent = home.agent(&[]);
    let id = agent.start(&fake(Mode::Online, &[("ttft_ms", "20")])).await;
    let live = whole(&agent, &id, "").await;
    assert_eq!(
        states(&live),
        [Queued, Starting, Warming, Measuring, Stopping, Done]
    );
    let seqs: Vec<u64> = live.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=live.len() as u64).collect::<Vec<_>>());

    // From any point on, by query or by header; after the end there is nothing.
    let last = live.len() as u64;
    assert_eq!(whole(&agent, &id, "?after=3").await, live[3..]);
    assert!(
        whole(&agent, &id, &format!("?after={last}"))
            .await
            .is_empty()
    );
    let path = format!("/v1/runs/{id}/events");
    let resumed = agent
        .get(&path)
        .header("Last-Event-ID", "4")
        .send()
        .await
        .unwrap();
    assert_eq!(events_of(&resumed.text().await.unwrap()), live[4..]);

    // The next run takes the place in memory: the same events come from disk.
    agent.run(&fake(Mode::Offline, &[])).await;
    assert_eq!(whole(&agent, &id, "").await, live);
    assert_eq!(whole(&agent, &id, "?after=3").await, live[3..]);
}

#[tokio::test]
async fn what_the_engine_prints_is_told_and_kept() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let status = agent
        .run(&fake(Mode::Online, &[("no_such_option", "1")]))
        .await;
    assert_eq!(status.state, RunState::Failed);
    let failure = status.failure.unwrap();
    assert!(
        failure
            .log_tail
            .iter()
            .any(|line| line.contains("no_such_option")),
        "{failure:?}"
    );
    let log = home
        .path("state/chapterbench/agent/runs")
        .join(&status.run_id)
        .join("log.txt");
    assert!(
        std::fs::read_to_string(log)
            .unwrap()
            .contains("no_such_option")
    );
}
