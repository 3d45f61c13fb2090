//! Ends that nobody planned: cancels in every state, deaths, deadlines, signals. Nothing is left.

use contracts::run::{Mode, RunSpec, RunState, Stage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fixture::{Agent, Home, fake, stalling, start_run};

async fn next_run_works(agent: &Agent) {
    let status = agent.run(&fake(Mode::Online, &[])).await;
    assert_eq!(status.state, RunState::Done, "{status:?}");
}

#[tokio::test]
async fn a_cancel_works_in_every_state_and_again() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let cases: [(RunSpec, RunState); 6] = [
        (
            fake(Mode::Online, &[("load_ms", "20000")]),
            RunState::Starting,
        ),
        (
            fake(Mode::Offline, &[("load_ms", "20000")]),
            RunState::Starting,
        ),
        (fake(Mode::Online, &[("stall_at", "0")]), RunState::Warming),
        (fake(Mode::Offline, &[("stall_at", "0")]), RunState::Warming),
        (stalling(Mode::Online), RunState::Measuring),
        (stalling(Mode::Offline), RunState::Measuring),
    ];
    for (spec, state) in cases {
        let id = agent.start(&spec).await;
        agent.wait(&id, |status| status.state == state).await;
        agent.cancel(&id).await;
        let status = agent.wait_final(&id).await;
        assert_eq!(
            (status.state, &status.failure),
            (RunState::Cancelled, &None),
            "{state:?}"
        );
        assert!(status.samples.is_some());
        assert_eq!(
            agent.cancel(&id).await,
            status,
            "a second cancel changes nothing"
        );
        assert_eq!(home.processes(), [agent.pid()], "{state:?}");
    }
    next_run_works(&agent).await;
}

#[tokio::test]
async fn a_cancelled_run_keeps_what_was_measured() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let id = agent.stuck(Mode::Online).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    agent.cancel(&id).await;
    let status = agent.wait_final(&id).await;
    let samples = agent.samples(&id, "").await;
    // Warm-up, one that went well, and the one in flight, recorded as aborted.
    assert_eq!(status.samples.unwrap().count, 3);
    assert!(
        samples.lines().last().unwrap().contains("\"aborted\""),
        "{samples}"
    );
}

#[tokio::test]
async fn an_engine_that_dies_while_measuring_fails_the_run_at_once() {
    let home = Home::new();
    let agent = home.agent(&[]);
    for mode in [Mode::Online, Mode::Offline] {
        let id = agent.stuck(mode).await;
        for pid in home.engines() {
            kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        }
        let status = agent.wait_final(&id).await;
        let failure = status.failure.unwrap();
        assert_eq!(
            (status.state, failure.stage),
            (RunState::Failed, Stage::Measure),
            "{failure:?}"
        );
        assert!(failure.message.contains("killed by SIGKILL"), "{failure:?}");
        assert!(status.samples.unwrap().count >= 2);
    }
    next_run_works(&agent).await;
}

#[tokio::test]
async fn a_failed_request_fails_the_run_and_says_why() {
    let home = Home::new();
    let agent = home.agent(&[]);
    for mode in [Mode::Online, Mode::Offline] {
        let status = agent.run(&fake(mode, &[("fail_at", "2")])).await;
        let failure = status.failure.unwrap();
        assert_eq!(
            (status.state, failure.stage),
            (RunState::Failed, Stage::Measure),
            "{failure:?}"
        );
        assert!(
            failure.message.contains("request 2 of 3 failed"),
            "{failure:?}"
        );
        assert_eq!(status.validity.failed_requests, 1);
        assert_eq!(status.samples.unwrap().count, 3);
    }
    next_run_works(&agent).await;
}

#[tokio::test]
async fn a_deadline_ends_a_run() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let mut request = start_run(&stalling(Mode::Online));
    request.deadline_s = 1;
    agent.post("/v1/runs").json(&request).send().await.unwrap();
    let status = agent.wait_final(&request.run_id).await;
    assert_eq!(status.state, RunState::Failed);
    assert!(status.failure.unwrap().message.contains("deadline of 1 s"));
    next_run_works(&agent).await;
}

#[tokio::test]
async fn a_server_that_gets_never_ready_is_ended() {
    let home = Home::new();
    let agent = home.agent(&[]);
    for mode in [Mode::Online, Mode::Offline] {
        let mut spec = fake(mode, &[("load_ms", "60000")]);
        spec.limits.ready_timeout_ms = 500;
        let status = agent.run(&spec).await;
        assert_eq!(status.failure.unwrap().stage, Stage::Load);
        assert_eq!(home.processes(), [agent.pid()]);
    }
    next_run_works(&agent).await;
}

#[tokio::test]
async fn a_signal_stops_the_child_first_and_the_run_is_kept() {
    for (signal, code) in [(Signal::SIGTERM, 0), (Signal::SIGINT, 130)] {
        let home = Home::new();
        let agent = home.agent(&[]);
        let id = agent.stuck(Mode::Online).await;
        assert_eq!(agent.end(signal).code(), Some(code));
        assert_eq!(home.processes(), [0; 0]);
        let agent = home.agent(&[]);
        let status = agent.status(&id).await;
        assert_eq!(status.state, RunState::Cancelled);
        assert_eq!(status.warnings.last().unwrap().code, "agent_shutdown");
        assert!(status.samples.unwrap().count >= 2);
    }
}
