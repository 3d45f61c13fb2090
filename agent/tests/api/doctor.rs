//! `POST /v1/doctor`: who may look when, and what is refused. What is found is tested in `doctor`.

use std::time::Instant;

use contracts::api::{DoctorRequest, ErrorCode, Secrets};
use contracts::run::Mode;
use tokio::net::TcpListener;

use crate::fixture::{Agent, Home, PATIENCE, error_of, fake, start_run};

fn request(url: &str) -> DoctorRequest {
    DoctorRequest {
        url: url.to_owned(),
        served_name: None,
        request_timeout_ms: u64::try_from(PATIENCE.as_millis()).unwrap(),
        secrets: Secrets::default(),
    }
}

async fn wait_busy(agent: &Agent, busy: bool) {
    let begun = Instant::now();
    loop {
        let answer = agent.get("/v1/host").send().await.unwrap();
        let host: contracts::host::HostInfo = answer.json().await.unwrap();
        if host.busy_with.is_some() == busy {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}", host.busy_with);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn no_look_while_a_run_is_in_progress() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let id = agent.stuck(Mode::Online).await;
    let call = agent
        .post("/v1/doctor")
        .json(&request("http://127.0.0.1:9"));
    let error = error_of(call.send().await.unwrap(), 409).await;
    assert_eq!(error.code, ErrorCode::Busy);
    assert!(error.holder.unwrap().contains(&id));
    agent.cancel(&id).await;
    agent.wait_final(&id).await;
}

#[tokio::test]
async fn no_run_while_a_server_is_looked_at_and_a_caller_that_leaves_ends_the_look() {
    let home = Home::new();
    let agent = home.agent(&[]);
    // It accepts and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let call = agent.post("/v1/doctor").json(&request(&url));
    let looking = tokio::spawn(call.send());
    wait_busy(&agent, true).await;
    let run = start_run(&fake(Mode::Online, &[]));
    let call = agent.post("/v1/runs").json(&run);
    let error = error_of(call.send().await.unwrap(), 409).await;
    assert_eq!(error.code, ErrorCode::Busy);
    assert!(error.message.contains("doctor"), "{}", error.message);
    looking.abort();
    wait_busy(&agent, false).await;
    let call = agent.post("/v1/runs").json(&run);
    assert_eq!(call.send().await.unwrap().status().as_u16(), 202);
    agent.wait_final(&run.run_id).await;
}

#[tokio::test]
async fn no_server_is_an_error() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let call = agent.post("/v1/doctor").json(&request("gpu:80"));
    let error = error_of(call.send().await.unwrap(), 422).await;
    assert_eq!(error.field.as_deref(), Some("url"));
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let call = agent.post("/v1/doctor").json(&request(&url));
    let error = error_of(call.send().await.unwrap(), 502).await;
    assert_eq!(error.code, ErrorCode::Unreachable);
    assert!(error.message.contains("refused"), "{}", error.message);
}
