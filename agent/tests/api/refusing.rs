//! What the agent refuses: callers, specs, second runs, second agents. Each in one clear line.

use contracts::api::{ErrorCode, PROTOCOL_HEADER};
use contracts::run::{EngineRef, Mode, RunSpec};

use crate::fixture::{Home, error_of, fake, spec, start_run, token_file};

const TOKEN: &str = "a-token-for-tests-only";

#[tokio::test]
async fn only_the_token_and_our_protocol_come_in() {
    let home = Home::new();
    let file = home.path("token");
    token_file(&file, TOKEN);
    let mut agent = home.agent(&["--token-file", file.to_str().unwrap()]);
    let error = error_of(agent.get("/v1/host").send().await.unwrap(), 401).await;
    assert_eq!(error.code, ErrorCode::Unauthorized);
    assert!(!error.message.contains(TOKEN));
    agent.token = Some(format!("{TOKEN}x"));
    error_of(agent.get("/v1/runs").send().await.unwrap(), 401).await;
    error_of(agent.get("/nowhere").send().await.unwrap(), 401).await;
    // Health is open, to whoever.
    let health = agent.get("/health").send().await.unwrap();
    assert_eq!(health.text().await.unwrap(), r#"{"status":"ok"}"#);

    agent.token = Some(TOKEN.to_owned());
    assert_eq!(
        agent
            .get("/v1/host")
            .send()
            .await
            .unwrap()
            .status()
            .as_u16(),
        200
    );
    let url = format!("{}/v1/host", agent.base);
    let client = agent::process::http_client(crate::fixture::PATIENCE).unwrap();
    for request in [
        client.get(&url),
        client.get(&url).header(PROTOCOL_HEADER, "2"),
    ] {
        let error = error_of(request.bearer_auth(TOKEN).send().await.unwrap(), 426).await;
        assert_eq!(error.code, ErrorCode::Protocol);
    }
}

#[tokio::test]
async fn every_error_has_the_one_shape() {
    let home = Home::new();
    let agent = home.agent(&[]);
    assert_eq!(
        error_of(agent.get("/v1/nowhere").send().await.unwrap(), 404)
            .await
            .code,
        ErrorCode::NotFound
    );
    error_of(agent.delete("/v1/host").send().await.unwrap(), 405).await;
    error_of(agent.post("/v1/runs").body("{").send().await.unwrap(), 400).await;
    let error = error_of(
        agent
            .post("/v1/runs")
            .body("{\"spec\":1}")
            .send()
            .await
            .unwrap(),
        400,
    )
    .await;
    assert_eq!(error.code, ErrorCode::BadRequest);
    for path in [
        "/v1/runs/..%2f..%2fetc",
        "/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "/v1/runs/x/events",
        "/v1/runs/x/samples",
    ] {
        let error = error_of(agent.get(path).send().await.unwrap(), 404).await;
        assert_eq!(error.code, ErrorCode::NotFound, "{path}");
    }
    error_of(agent.post("/v1/runs/x/cancel").send().await.unwrap(), 404).await;
}

#[tokio::test]
async fn a_spec_that_cannot_run_names_its_field() {
    let home = Home::new();
    let agent = home.agent(&[]);
    type Spoil = fn(&mut RunSpec);
    let cases: [(&str, &str, Spoil); 9] = [
        ("arm.engine.id", "ch02", |s| {
            s.arm.engine = EngineRef::Chapter {
                id: "ch07".to_owned(),
            }
        }),
        ("arm.engine.name", "none", |s| {
            s.arm.engine = EngineRef::Named {
                name: "vllm".to_owned(),
                chapter: None,
            };
        }),
        ("workload.n_runs", "0", |s| s.workload.n_runs = 0),
        ("workload.sampling.max_tokens", "1024", |s| {
            s.workload.sampling.max_tokens = 5_000
        }),
        ("workload.sampling.stop", "17 strings", |s| {
            s.workload.sampling.stop = vec!["x".to_owned(); 17]
        }),
        ("workload.sampling.presence_penalty", "-2 to 2", |s| {
            s.workload.sampling.presence_penalty = 2.5
        }),
        ("workload.load", "offline", |s| {
            s.workload.load = contracts::run::Load::Burst {
                max_in_flight: None,
            };
        }),
        ("workload.model", "model roots", |s| {
            s.workload.model = "/etc".to_owned()
        }),
        ("workload.model", "dummy:nobody", |s| {
            s.workload.model = "dummy:nobody".to_owned()
        }),
    ];
    for (field, word, spoil) in cases {
        let mut spoiled = spec("ch01", Mode::Offline);
        spoil(&mut spoiled);
        let start = agent.post("/v1/runs").json(&start_run(&spoiled));
        let check = agent.post("/v1/check").json(&contracts::api::CheckRequest {
            spec: spoiled,
            with_binary: false,
        });
        for request in [start, check] {
            let error = error_of(request.send().await.unwrap(), 422).await;
            assert_eq!(
                (error.code, error.field.as_deref()),
                (ErrorCode::CannotRun, Some(field))
            );
            assert!(error.message.contains(word), "{}", error.message);
        }
    }
    let mut request = start_run(&spec("ch01", Mode::Offline));
    request.run_id = "../../x".to_owned();
    let error = error_of(
        agent.post("/v1/runs").json(&request).send().await.unwrap(),
        422,
    )
    .await;
    assert_eq!(error.field.as_deref(), Some("run_id"));
    assert_eq!(
        agent
            .get("/v1/runs")
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
        r#"{"runs":[]}"#
    );
}

#[tokio::test]
async fn one_run_at_a_time_on_an_agent_and_on_a_device() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let id = agent.stuck(Mode::Online).await;
    let next = agent
        .post("/v1/runs")
        .json(&start_run(&fake(Mode::Offline, &[])));
    let error = error_of(next.send().await.unwrap(), 409).await;
    assert_eq!(
        (error.code, error.holder.as_deref()),
        (ErrorCode::Busy, Some(id.as_str()))
    );

    // Another agent of this machine finds the device taken, and can wait for it.
    let state = home.path("other-state");
    let other = home.agent(&["--state-dir", state.to_str().unwrap()]);
    let mut patient = fake(Mode::Offline, &[]);
    let refused = other
        .post("/v1/runs")
        .json(&start_run(&patient))
        .send()
        .await
        .unwrap();
    let error = error_of(refused, 409).await;
    assert_eq!(error.code, ErrorCode::Busy);
    assert!(error.holder.unwrap().contains(&id));
    patient.limits.device_wait_ms = 30_000;
    let waiting = other.start(&patient).await;
    agent.cancel(&id).await;
    let status = other.wait_final(&waiting).await;
    assert_eq!(status.state, contracts::run::RunState::Done, "{status:?}");
}

#[tokio::test]
async fn quarantine_holds_until_a_person_removes_it() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let file = home.path("state/chapterbench/agent/quarantine");
    std::fs::write(&file, "pid 7 does not die").unwrap();
    let refused = agent
        .post("/v1/runs")
        .json(&start_run(&fake(Mode::Offline, &[])));
    let error = error_of(refused.send().await.unwrap(), 503).await;
    assert_eq!(error.code, ErrorCode::Quarantined);
    assert!(error.message.contains("pid 7") && error.message.contains("quarantine"));
    std::fs::remove_file(&file).unwrap();
    agent.run(&fake(Mode::Offline, &[])).await;
}

#[test]
fn settings_that_cannot_be_used_end_the_program() {
    let home = Home::new();
    let ends = |args: &[&str], code: i32, word: &str| {
        let output = home.command(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(word), "{said}");
    };
    ends(&["--listen", "0.0.0.0:0"], 2, "needs a token");
    ends(&["--listen", "nonsense"], 2, "--listen nonsense");
    ends(&["--no-such-flag"], 2, "--no-such-flag");
    ends(&["--model-root", "/no/such/folder"], 2, "/no/such/folder");
    let agent = home.agent(&[]);
    let holder = format!("pid {}", agent.pid());
    ends(&["--listen", "127.0.0.1:0"], 3, &holder);
    let taken = agent.base.trim_start_matches("http://").to_owned();
    let other = home.path("other-state");
    ends(
        &["--listen", &taken, "--state-dir", other.to_str().unwrap()],
        1,
        "a program listens there already",
    );
}
