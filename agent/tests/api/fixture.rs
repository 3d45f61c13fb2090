//! An agent process of a test's own, and specs for it. Nothing of it survives the test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use contracts::api::{ErrorBody, PROTOCOL_HEADER, StartRun};
use contracts::generate::SamplingParams;
use contracts::run::{
    AllowFailures, Arm, CacheState, Device, Endpoint, EngineRef, Limits, Load, Mode, PromptSource,
    RunEvent, RunSpec, RunStatus, Workload,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::{Client, RequestBuilder, Response, StatusCode};

/// The binary under test.
pub const EXE: &str = env!("CARGO_BIN_EXE_agent");
/// Anything that should happen has happened by then, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Folders of one test.
pub struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// An agent's command with everything of this home and nothing of the user's.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(EXE);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CHAPTERBENCH_") {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", self.dir.path())
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("CHAPTERBENCH_LOCK_DIR", self.path("locks"))
            .args(args)
            .stdin(Stdio::null());
        command
    }

    /// An agent that serves on a port of its own.
    pub fn agent(&self, args: &[&str]) -> Agent {
        let listen = ["--listen", "127.0.0.1:0"];
        let listen = if args.contains(&"--listen") {
            &[][..]
        } else {
            &listen[..]
        };
        let mut command = self.command(&[listen, args].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let base = loop {
            let line = lines.next().and_then(Result::ok);
            let line = line.unwrap_or_else(|| unreachable!("no agent: {}", said.lock().unwrap()));
            if let Some((_, url)) = line.split_once("listens on ") {
                break url.to_owned();
            }
            said.lock().unwrap().push_str(&line);
        };
        std::thread::spawn(move || lines.for_each(drop));
        let mut args = args.iter().skip_while(|arg| **arg != "--state-dir");
        let state = args.nth(1).map(PathBuf::from);
        Agent {
            child,
            state: state.unwrap_or_else(|| self.path("state/chapterbench/agent")),
            base,
            token: None,
            client: agent::process::http_client(PATIENCE).unwrap(),
        }
    }

    /// Pids of all processes that carry this home's lock folder: agents, keepers, engines.
    pub fn processes(&self) -> Vec<i32> {
        let mark = format!("CHAPTERBENCH_LOCK_DIR={}", self.path("locks").display());
        let ours = |pid: &i32| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ
                .split(|b| *b == 0)
                .any(|entry| entry == mark.as_bytes())
        };
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(ours).collect()
    }

    /// Waits until no process of this home is left.
    pub async fn empty(&self, within: Duration) {
        let begun = Instant::now();
        while !self.processes().is_empty() {
            assert!(
                begun.elapsed() < within,
                "left running: {:?}",
                self.processes()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Pids of children that run an engine: `engine serve` or `engine offline`.
    pub fn engines(&self) -> Vec<i32> {
        let is_engine = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|b| *b == 0)
                .any(|arg| arg == b"serve" || arg == b"offline")
        };
        self.processes().into_iter().filter(is_engine).collect()
    }
}

/// A running agent.
pub struct Agent {
    child: Child,
    state: PathBuf,
    pub base: String,
    pub token: Option<String>,
    client: Client,
}

impl Agent {
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.with_headers(self.client.get(format!("{}{path}", self.base)))
    }

    pub fn post(&self, path: &str) -> RequestBuilder {
        self.with_headers(self.client.post(format!("{}{path}", self.base)))
    }

    pub fn delete(&self, path: &str) -> RequestBuilder {
        self.with_headers(self.client.delete(format!("{}{path}", self.base)))
    }

    fn with_headers(&self, mut request: RequestBuilder) -> RequestBuilder {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request.header(PROTOCOL_HEADER, contracts::PROTOCOL)
    }

    /// Starts a run that must be accepted; its id.
    pub async fn start(&self, spec: &RunSpec) -> String {
        let request = start_run(spec);
        let answer = self.post("/v1/runs").json(&request).send().await.unwrap();
        assert_eq!(
            answer.status(),
            StatusCode::ACCEPTED,
            "{}",
            answer.text().await.unwrap()
        );
        request.run_id
    }

    pub async fn status(&self, id: &str) -> RunStatus {
        let answer = self.get(&format!("/v1/runs/{id}")).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        answer.json().await.unwrap()
    }

    /// Waits for a state.
    pub async fn wait(&self, id: &str, done: impl Fn(&RunStatus) -> bool) -> RunStatus {
        let begun = Instant::now();
        loop {
            let status = self.status(id).await;
            if done(&status) {
                return status;
            }
            assert!(
                begun.elapsed() < PATIENCE && !status.state.is_final(),
                "{status:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn wait_final(&self, id: &str) -> RunStatus {
        self.wait(id, |status| status.state.is_final()).await
    }

    /// A run from start to end.
    pub async fn run(&self, spec: &RunSpec) -> RunStatus {
        let id = self.start(spec).await;
        self.wait_final(&id).await
    }

    /// A run that measures and does not end by itself; its id.
    pub async fn stuck(&self, mode: Mode) -> String {
        let id = self.start(&stalling(mode)).await;
        // Warm-up and one measured request are on disk; the next one is about to fall silent.
        let file = format!("runs/{id}/samples.ndjson");
        let begun = Instant::now();
        while self.file(&file).matches('\n').count() < 2 {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.status(&id).await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        id
    }

    /// A file of its state folder; empty while it is not there.
    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.state.join(name)).unwrap_or_default()
    }

    /// Events so far, without waiting for more.
    pub async fn events(&self, id: &str) -> Vec<RunEvent> {
        let mut answer = self
            .get(&format!("/v1/runs/{id}/events"))
            .send()
            .await
            .unwrap();
        let mut bytes = Vec::new();
        let pause = Duration::from_millis(200);
        while let Ok(Ok(Some(chunk))) = tokio::time::timeout(pause, answer.chunk()).await {
            bytes.extend_from_slice(&chunk);
        }
        events_of(&String::from_utf8(bytes).unwrap())
    }

    pub async fn cancel(&self, id: &str) -> RunStatus {
        let answer = self
            .post(&format!("/v1/runs/{id}/cancel"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        answer.json().await.unwrap()
    }

    pub async fn samples(&self, id: &str, query: &str) -> String {
        let answer = self
            .get(&format!("/v1/runs/{id}/samples{query}"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        answer.text().await.unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Signals it and waits for its end.
    pub fn end(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.child.wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Its keepers see their pipe close and end what is left.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The error of an answer that must be one.
pub async fn error_of(answer: Response, status: u16) -> contracts::api::ApiError {
    assert_eq!(answer.status().as_u16(), status);
    let body: ErrorBody = answer.json().await.unwrap();
    assert!(!body.error.message.contains('\n') && !body.error.message.is_empty());
    body.error
}

/// Events of a stream's text.
pub fn events_of(text: &str) -> Vec<RunEvent> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// A request that starts `spec` under a new id.
pub fn start_run(spec: &RunSpec) -> StartRun {
    StartRun {
        secrets: Default::default(),
        run_id: ulid::Ulid::generate().to_string(),
        spec: spec.clone(),
        deadline_s: 120,
    }
}

/// A small run of a chapter.
pub fn spec(chapter: &str, mode: Mode) -> RunSpec {
    let ms = 30_000;
    RunSpec {
        arm: Arm {
            name: None,
            engine: EngineRef::Chapter {
                id: chapter.to_owned(),
            },
            mode,
            dtype: None,
            device: Device::Cpu,
            threads: Some(1),
            stream: true,
            options: BTreeMap::new(),
            header_names: Vec::new(),
            extra: BTreeMap::new(),
            no_keepalive: false,
        },
        workload: Workload {
            model: contracts::defaults::MODEL.to_owned(),
            prompts: PromptSource::Texts {
                texts: vec!["Why is the sky blue?".to_owned()],
            },
            endpoint: Endpoint::Auto,
            sampling: SamplingParams {
                max_tokens: 6,
                ..SamplingParams::default()
            },
            load: Load::Closed { concurrency: 1 },
            n_runs: 3,
            warmup: 1,
            duration_ms: None,
            cache: CacheState::AsIs,
            tokenizer: None,
            allow_failures: AllowFailures::Count { n: 0 },
        },
        limits: Limits {
            ready_timeout_ms: ms,
            stop_grace_ms: 2_000,
            request_timeout_ms: ms,
            stall_timeout_ms: ms,
            device_wait_ms: 0,
        },
        salt: String::new(),
        slo: None,
    }
}

/// The fake chapter with options.
pub fn fake(mode: Mode, options: &[(&str, &str)]) -> RunSpec {
    let mut spec = spec("fake", mode);
    let owned = options
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    spec.arm.options = owned.collect();
    spec
}

/// Warm-up and one measured request go well, the next one falls silent.
pub fn stalling(mode: Mode) -> RunSpec {
    fake(mode, &[("stall_at", "2")])
}

/// Writes a token file that only its owner reads.
pub fn token_file(path: &Path, token: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, token).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
