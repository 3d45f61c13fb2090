//! Servers that run already: `tests/helpers/fake_openai.rs` and our own `engine serve`, which the
//! tests start themselves and the agent must leave alone.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use contracts::run::{EngineRef, Mode, RunSpec, RunState, RunStatus, Stage};

use crate::fixture::{Home, PATIENCE, error_of, spec, start_run};
use crate::servers::{HELPER, MODEL, named, samples};

fn at(url: &str, served_name: Option<&str>) -> RunSpec {
    let mut spec = named();
    spec.arm.engine = EngineRef::Url {
        url: url.to_owned(),
        served_name: served_name.map(str::to_owned),
    };
    spec
}

/// A server of a test's own, on a port of its own.
struct Running {
    child: Child,
    url: String,
}

impl Running {
    async fn start(mut command: Command, port: u16) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let running = Self {
            child: child.unwrap(),
            url: format!("http://127.0.0.1:{port}"),
        };
        let client = agent::process::http_client(PATIENCE).unwrap();
        let begun = Instant::now();
        let health = format!("{}/health", running.url);
        while !client
            .get(&health)
            .send()
            .await
            .is_ok_and(|a| a.status().is_success())
        {
            assert!(begun.elapsed() < PATIENCE, "no server at {health}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        running
    }

    async fn fake(names: &str) -> Self {
        let port = free_port();
        let mut command = Command::new(HELPER);
        command.args(["openai", &format!("127.0.0.1:{port}"), names]);
        Self::start(command, port).await
    }

    async fn ours(home: &Home) -> Self {
        let port = free_port();
        let mut command = home.command(&["engine", "serve", "--chapter", "2", "--model", MODEL]);
        command.args(["--port", &port.to_string()]);
        Self::start(command, port).await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    agent::process::port::free_port("127.0.0.1".parse().unwrap()).unwrap()
}

#[tokio::test]
async fn a_server_that_runs_is_measured_and_left_running() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let mut server = Running::ours(&home).await;
    for (form, served_name) in [("", None), ("/v1/", Some("default"))] {
        let status = agent
            .run(&at(&format!("{}{form}", server.url), served_name))
            .await;
        assert_eq!(status.state, RunState::Done, "{status:?}");
        let provenance = status.provenance.unwrap();
        assert_eq!(
            provenance.served_name.as_deref(),
            served_name.or(Some(MODEL))
        );
        // One of ours says what it has loaded, wherever it was started.
        assert_eq!(provenance.model.unwrap().name, MODEL);
        assert!(provenance.engine_build.is_some() && provenance.command.is_empty());
        assert!(provenance.engine_binary_sha256.is_none());
        assert_eq!(status.lifecycle, Default::default());
        let samples = samples(&agent, &status.run_id).await;
        assert!(
            samples
                .iter()
                .all(|s| s.error.is_none() && s.output_tokens == Some(6))
        );
    }
    assert!(server.child.try_wait().unwrap().is_none(), "it runs on");
}

#[tokio::test]
async fn a_run_against_a_server_holds_the_device() {
    let home = Home::new();
    let server = Running::fake("m").await;
    let agent = home.agent(&[]);
    let mut long = at(&server.url, None);
    long.workload.n_runs = 1_000_000;
    let id = agent.start(&long).await;
    agent
        .wait(&id, |status| status.state == RunState::Measuring)
        .await;
    let state = home.path("other-state");
    let other = home.agent(&["--state-dir", state.to_str().unwrap()]);
    let refused = other.post("/v1/runs").json(&start_run(&chapter()));
    let error = error_of(refused.send().await.unwrap(), 409).await;
    assert!(error.holder.unwrap().contains(&id));
    agent.cancel(&id).await;
    let status = agent.wait_final(&id).await;
    assert_eq!(status.state, RunState::Cancelled);
    assert!(status.samples.unwrap().count > 0);
    // The lock is free again.
    let status = other.run(&chapter()).await;
    assert_eq!(status.state, RunState::Done, "{status:?}");
}

fn chapter() -> RunSpec {
    spec("ch01", Mode::Online)
}

#[tokio::test]
async fn a_server_that_is_not_what_it_should_be_is_said_at_once() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let several = Running::fake("b,c").await;
    let gone = format!("http://127.0.0.1:{}", free_port());
    let (silent, silent_url) = silent_listener();
    for (url, words) in [
        (several.url.as_str(), "b, c"),
        (gone.as_str(), "refused"),
        ("http://no-such-host.invalid:8000", "no-such-host.invalid"),
        (silent_url.as_str(), "not ready within 0.7 s"),
    ] {
        let mut spec = at(url, None);
        spec.limits.ready_timeout_ms = if url == silent_url { 700 } else { 60_000 };
        let begun = Instant::now();
        let status = agent.run(&spec).await;
        assert!(begun.elapsed() < Duration::from_secs(30), "{url}");
        assert_eq!(status.state, RunState::Failed);
        let failure = status.failure.unwrap();
        assert_eq!(failure.stage, Stage::Load);
        assert!(
            failure.message.contains(words),
            "{url}: {}",
            failure.message
        );
    }
    drop(silent);
    for (url, field) in [
        ("nonsense", "arm.engine.url"),
        ("http://u:p@h", "arm.engine.url"),
    ] {
        let asked = agent.post("/v1/runs").json(&start_run(&at(url, None)));
        let error = error_of(asked.send().await.unwrap(), 422).await;
        assert_eq!(error.field.as_deref(), Some(field));
    }
}

/// Accepts, by its backlog, and never answers.
fn silent_listener() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test]
async fn a_model_that_lies_elsewhere_may_be_declared_and_another_name_is_a_doubt() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let server = Running::fake("llama").await;
    let mut spec = at(&server.url, None);
    spec.workload.model = "/on/another/host/llama.gguf".to_owned();
    let status = agent.run(&spec).await;
    assert_eq!(status.state, RunState::Done, "{status:?}");
    let doubt = |status: &RunStatus| {
        let mut doubts = status.warnings.iter();
        doubts.find(|w| w.code == "served_model").cloned()
    };
    assert!(doubt(&status).is_none(), "{status:?}");
    spec.workload.model = "org/mistral".to_owned();
    spec.workload.tokenizer = Some(MODEL.to_owned());
    let status = agent.run(&spec).await;
    assert_eq!(status.state, RunState::Done, "{status:?}");
    assert!(
        doubt(&status).unwrap().message.contains("llama"),
        "{status:?}"
    );
    // A tokenizer that the user names is taken at their word, and must be there.
    assert!(status.provenance.unwrap().tokenizer_sha256.is_some());
    spec.workload.tokenizer = Some("/no/such/tokenizer.json".to_owned());
    let asked = agent.post("/v1/runs").json(&start_run(&spec));
    let error = error_of(asked.send().await.unwrap(), 422).await;
    assert_eq!(error.field.as_deref(), Some("workload.tokenizer"));
}
