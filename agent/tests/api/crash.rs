//! `kill -9` of the agent: nothing survives, the next start tells what happened, the next run works.

use std::time::{Duration, Instant};

use contracts::run::{EventKind, Mode, RunState, Stage};
use nix::sys::signal::Signal;

use crate::fixture::{Home, PATIENCE, fake};

/// Two seconds is what the lifecycle promises; the rest is for a machine that is busy with tests.
const GONE_WITHIN: Duration = Duration::from_secs(6);

#[tokio::test]
async fn a_killed_agent_leaves_nothing_running_and_loses_nothing_measured() {
    for mode in [Mode::Online, Mode::Offline] {
        let home = Home::new();
        let agent = home.agent(&[]);
        let id = agent.stuck(mode).await;
        assert_eq!(home.engines().len(), 1, "{mode:?}");
        agent.end(Signal::SIGKILL);
        home.empty(GONE_WITHIN).await;

        let agent = home.agent(&[]);
        let status = agent.status(&id).await;
        let failure = status.failure.as_ref().unwrap();
        assert_eq!(
            (status.state, failure.stage),
            (RunState::Failed, Stage::Measure),
            "{failure:?}"
        );
        assert!(
            failure.message.contains("the agent ended during measuring"),
            "{failure:?}"
        );
        assert!(status.provenance.is_some(), "known since it had loaded");
        let samples = agent.samples(&id, "").await;
        assert_eq!(
            samples.lines().count() as u64,
            status.samples.as_ref().unwrap().count
        );
        assert!(
            samples.lines().count() >= 2,
            "warm-up and one measured request were done"
        );
        let last = agent.events(&id).await.pop().unwrap();
        assert_eq!(
            last.what,
            EventKind::State {
                state: RunState::Failed
            }
        );

        let next = agent.run(&fake(mode, &[])).await;
        assert_eq!(next.state, RunState::Done, "{next:?}");
    }
}

#[tokio::test]
async fn a_run_that_was_loading_is_reported_as_such() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let id = agent
        .start(&fake(Mode::Online, &[("load_ms", "60000")]))
        .await;
    // Written with the engine's identity, once it lives.
    let begun = Instant::now();
    while !agent.file("current.json").contains(r#""stage":"load""#) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", agent.status(&id).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    agent.end(Signal::SIGKILL);
    home.empty(GONE_WITHIN).await;
    let agent = home.agent(&[]);
    let status = agent.status(&id).await;
    assert_eq!(status.failure.unwrap().stage, Stage::Load);
    assert_eq!(status.samples.unwrap().count, 0);
}
