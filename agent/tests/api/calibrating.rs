//! `POST /v1/calibrate`: the load generator against the metronome, alone on its host.

use std::time::{Duration, Instant};

use contracts::api::{CalibrateRequest, ErrorCode};
use contracts::calibrate::ClientFloor;
use contracts::host::HostInfo;
use contracts::run::Mode;

use crate::fixture::{Agent, Home, PATIENCE, error_of, fake, start_run};

fn request(streams: &[u32]) -> CalibrateRequest {
    CalibrateRequest {
        streams: streams.to_vec(),
    }
}

async fn busy_with(agent: &Agent) -> Option<String> {
    let info: HostInfo = agent
        .get("/v1/host")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    info.busy_with
}

/// Until the agent is busy, or is not any more.
async fn wait_busy(agent: &Agent, busy: bool) {
    let begun = Instant::now();
    while busy_with(agent).await.is_some() != busy {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn each_request_finds_its_partner_in_the_servers_log() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let asked = agent.post("/v1/calibrate").json(&request(&[8, 4]));
    let floor: ClientFloor = asked.send().await.unwrap().json().await.unwrap();
    let streams: Vec<u32> = floor.levels.iter().map(|level| level.streams).collect();
    assert_eq!(streams, [8, 4]);
    for level in &floor.levels {
        // Warm-up too: a round of it, and two measured.
        assert_eq!((level.requests, level.lost), (level.streams * 3, 0));
        // Both clocks saw the same tokens: what is left is far below their schedule's 50 ms.
        let errors = [level.ttft_error_ms, level.itl_error_ms, level.wall_error_ms];
        assert!(
            errors.iter().all(|error| error.p50.abs() < 40.0),
            "{level:?}"
        );
        assert!(
            level.in_flight_share > 0.3 && level.in_flight_share < 1.01,
            "{level:?}"
        );
        assert!(level.client_cpu_ms_per_1000_tokens > 0.0);
    }
    assert!(!floor.host_fingerprint.is_empty() && !floor.agent_build.is_empty());
    assert_eq!(home.processes(), [agent.pid()], "only the agent is left");
    assert_eq!(busy_with(&agent).await, None);
}

#[tokio::test]
async fn nothing_runs_beside_it_and_who_hangs_up_ends_it() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let asked = agent.post("/v1/calibrate").json(&request(&[2; 8]));
    let waiting = tokio::spawn(asked.send());
    wait_busy(&agent, true).await;
    let start = agent
        .post("/v1/runs")
        .json(&start_run(&fake(Mode::Online, &[])));
    let error = error_of(start.send().await.unwrap(), 409).await;
    assert_eq!(error.code, ErrorCode::Busy);
    assert_eq!(error.holder.as_deref(), Some("a calibration"));
    let again = agent.post("/v1/calibrate").json(&request(&[1]));
    error_of(again.send().await.unwrap(), 409).await;
    waiting.abort();
    wait_busy(&agent, false).await;
    assert_eq!(
        home.processes(),
        [agent.pid()],
        "its server was ended first"
    );
}

#[tokio::test]
async fn a_run_keeps_the_host_to_itself() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let id = agent.stuck(Mode::Online).await;
    let asked = agent.post("/v1/calibrate").json(&request(&[1]));
    let error = error_of(asked.send().await.unwrap(), 409).await;
    assert_eq!(error.holder, Some(id.clone()));
    agent.cancel(&id).await;
    agent.wait_final(&id).await;
}

#[tokio::test]
async fn numbers_of_streams_have_bounds() {
    let home = Home::new();
    let agent = home.agent(&[]);
    for streams in [&[][..], &[0], &[1, 1_000_000], &[1; 9]] {
        let asked = agent.post("/v1/calibrate").json(&request(streams));
        let error = error_of(asked.send().await.unwrap(), 422).await;
        assert_eq!(error.field.as_deref(), Some("streams"));
    }
}
