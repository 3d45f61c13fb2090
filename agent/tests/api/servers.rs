//! Engines of others that the agent starts: `tests/helpers/fake_openai.rs`, and our own `engine serve`
//! as any other. Servers that run already are in [`super::urls`].

use std::path::Path;
use std::time::Instant;

use contracts::host::HostInfo;
use contracts::run::{
    Device, Dtype, EngineRef, EventKind, Mode, PromptSource, RunSpec, RunState, Stage,
};
use contracts::sample::{Sample, TokenSource};
use nix::sys::signal::Signal;

use crate::fixture::{Agent, EXE, Home, PATIENCE, error_of, spec, start_run};

pub const HELPER: &str = env!("CARGO_BIN_EXE_fake-engine");
pub const MODEL: &str = contracts::defaults::MODEL;

/// An agent whose `engines.toml` has one entry `x` with these lines.
fn agent_with(home: &Home, lines: &str) -> Agent {
    let file = home.path("engines.toml");
    std::fs::write(&file, format!("[engine.x]\nkind = 'server'\n{lines}\n")).unwrap();
    home.agent(&["--engines", file.to_str().unwrap()])
}

/// `command = […]` that starts the helper.
fn helper(args: &str) -> String {
    format!("command = ['{HELPER}', {args}]")
}

pub fn named() -> RunSpec {
    let mut spec = spec("ch01", Mode::Online);
    spec.arm.engine = EngineRef::Named {
        name: "x".to_owned(),
        chapter: None,
    };
    spec.arm.threads = None;
    spec
}

pub async fn samples(agent: &Agent, id: &str) -> Vec<Sample> {
    let text = agent.samples(id, "").await;
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Lines that the engine of a run printed.
async fn log(agent: &Agent, id: &str) -> Vec<String> {
    let lines = agent.events(id).await.into_iter();
    lines
        .filter_map(|event| match event.what {
            EventKind::Log { line } => Some(line),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn an_engine_of_others_goes_through_the_whole_lifecycle() {
    let home = Home::new();
    let lines = helper("'openai', '{host}:{port}', '{model}', 'threads={threads}'")
        + r#"
        env = { FAKE_ENGINE_SET = "a secret" }
        cwd = "."
        [engine.x.choices.dtype]
        f16 = ["--dtype", "half"]
        [engine.x.choices.cache]
        on = ["--cache"]
        "#;
    let agent = agent_with(&home, &lines);
    let host: HostInfo = agent
        .get("/v1/host")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(host.engines[0].kind, "server");

    let mut spec = named();
    spec.arm.threads = Some(3);
    spec.arm.dtype = Some(Dtype::F16);
    spec.arm.options.insert("cache".to_owned(), "on".to_owned());
    let status = agent.run(&spec).await;
    assert_eq!(status.state, RunState::Done, "{status:?}");
    let provenance = status.provenance.as_ref().unwrap();
    let command = &provenance.command;
    assert_eq!(command[..2], [HELPER, "openai"]);
    assert_eq!(
        command[3..],
        [MODEL, "threads=3", "--cache", "--dtype", "half"]
    );
    let addr = command[2].clone();
    assert_eq!(provenance.served_name.as_deref(), Some(MODEL));
    assert!(provenance.engine_binary_sha256.is_some() && provenance.tokenizer_sha256.is_some());
    assert!(provenance.engine_build.is_none() && provenance.engine_title.is_none());
    assert!(status.lifecycle.ready_ms.is_some() && status.lifecycle.stop_ms.is_some());
    assert_eq!(status.lifecycle.exit.as_deref(), Some("killed by SIGTERM"));
    assert!(!status.lifecycle.killed);

    let samples = samples(&agent, &status.run_id).await;
    assert_eq!(samples.len(), 4);
    for sample in &samples {
        assert_eq!(
            (sample.output_tokens, sample.error.as_ref()),
            (Some(3), None)
        );
        assert_eq!(sample.token_source, Some(TokenSource::Usage));
    }
    let log = log(&agent, &status.run_id).await;
    let has = |line: &str| log.iter().any(|said| said == line);
    assert!(has(&format!(
        "args openai|{addr}|{MODEL}|threads=3|--cache|--dtype|half"
    )));
    assert!(
        has("set Some(\"a secret\")") && has("token None"),
        "{log:?}"
    );
    let cwd = home.path("").canonicalize().unwrap();
    assert!(has(&format!("cwd {}", cwd.display())), "{log:?}");
    // The dummy has a chat template, so that it is a chat; the value of a variable is in no record.
    let asked = log
        .iter()
        .find(|line| line.starts_with("POST /v1/chat/completions"));
    assert!(
        asked.unwrap().contains(&format!("\"model\":\"{MODEL}\"")),
        "{asked:?}"
    );
    let stored = agent.file(&format!("runs/{}/status.json", status.run_id));
    assert!(
        stored.contains("threads=3") && !stored.contains("a secret"),
        "{stored}"
    );

    assert!(std::net::TcpStream::connect(addr.as_str()).is_err());
    assert_eq!(home.processes(), [agent.pid()], "only the agent is left");
}

#[tokio::test]
async fn the_name_of_the_model_is_asked_for() {
    // (names of the server, what the run declares, what it is asked for)
    for (names, declared, expected) in [
        ("the-only-one", MODEL, Ok("the-only-one")),
        ("b,a", "a", Ok("a")),
        ("-", "a", Ok("a")),
        ("b,c", "a", Err("b, c")),
    ] {
        let home = Home::new();
        let agent = agent_with(
            &home,
            &helper(&format!("'openai', '{{host}}:{{port}}', '{names}'")),
        );
        let mut spec = named();
        spec.workload.model = declared.to_owned();
        let status = agent.run(&spec).await;
        let provenance = status.provenance.unwrap();
        match expected {
            Ok(name) => {
                assert_eq!(status.state, RunState::Done, "{:?}", status.failure);
                assert_eq!(provenance.served_name.as_deref(), Some(name));
                // Our made model has no other name: what is called otherwise has another tokenizer.
                assert!(provenance.tokenizer_sha256.is_none(), "{names}");
            }
            Err(listed) => {
                let failure = status.failure.unwrap();
                assert_eq!(failure.stage, Stage::Load);
                assert!(failure.message.contains(listed), "{}", failure.message);
            }
        }
        home_is_clean(&home, &agent);
    }
}

fn home_is_clean(home: &Home, agent: &Agent) {
    assert_eq!(home.processes(), [agent.pid()], "only the agent is left");
}

#[tokio::test]
async fn servers_that_do_not_get_ready_fail_with_their_last_words() {
    for (args, timeout_ms, words) in [
        (
            "'die', '3', '50', 'no such model', '{port}'",
            30_000,
            "exit status 3",
        ),
        ("'unhealthy', '{host}:{port}'", 600, "HTTP 503"),
        ("'silent', '{host}:{port}'", 600, "not ready within 0.6 s"),
        (
            "'healthy', '{host}:0', 'x{port}'",
            600,
            "not ready within 0.6 s",
        ),
    ] {
        let home = Home::new();
        let agent = agent_with(&home, &helper(args));
        let mut spec = named();
        spec.limits.ready_timeout_ms = timeout_ms;
        let status = agent.run(&spec).await;
        assert_eq!(status.state, RunState::Failed);
        let failure = status.failure.unwrap();
        assert_eq!(failure.stage, Stage::Load, "{failure:?}");
        assert!(failure.message.contains(words), "{failure:?}");
        if args.contains("die") {
            assert_eq!(
                failure.log_tail.first().map(String::as_str),
                Some("no such model")
            );
        }
        home_is_clean(&home, &agent);
    }
}

#[tokio::test]
async fn an_entrys_own_waits_count_where_they_are_longer() {
    let home = Home::new();
    let lines = helper("'openai-stubborn', '{host}:{port}', 'm'") + "\ngrace = '300ms'";
    let agent = agent_with(&home, &lines);
    let mut spec = named();
    spec.limits.stop_grace_ms = 0;
    let status = agent.run(&spec).await;
    assert_eq!(status.state, RunState::Done, "{status:?}");
    // Whoever cancels such a run knows by this how long to wait for its end.
    assert_eq!(status.lifecycle.grace_ms, Some(300));
    assert!(status.lifecycle.killed, "{status:?}");
    assert!(status.lifecycle.stop_ms.unwrap() >= 300.0, "{status:?}");
    assert_eq!(status.lifecycle.exit.as_deref(), Some("killed by SIGKILL"));
    home_is_clean(&home, &agent);
}

#[tokio::test]
async fn what_a_server_leaves_behind_is_swept() {
    let home = Home::new();
    let pids = home.path("pids");
    let args = format!(
        "'openai-parent', '{{host}}:{{port}}', 'm', '{}'",
        pids.display()
    );
    let agent = agent_with(&home, &helper(&args));
    let status = agent.run(&named()).await;
    assert_eq!(status.state, RunState::Done, "{status:?}");
    assert_eq!(status.lifecycle.swept, 1);
    assert_eq!(std::fs::read_to_string(pids).unwrap().lines().count(), 1);
    home_is_clean(&home, &agent);

    // Also when the agent is killed: its keeper sees to it.
    drop(agent);
    let agent = agent_with(&home, &helper("'unhealthy', '{host}:{port}'"));
    let id = agent.start(&named()).await;
    let begun = Instant::now();
    while log(&agent, &id).await.is_empty() {
        assert!(begun.elapsed() < PATIENCE);
    }
    agent.end(Signal::SIGKILL);
    home.empty(PATIENCE).await;
}

#[tokio::test]
async fn what_an_entry_does_not_offer_is_refused_before_a_start() {
    let home = Home::new();
    let lines = helper("'openai', '{host}:{port}', 'm'")
        + "\n[engine.x.choices.cache]\non = []\n[engine.gone]\nkind = 'server'\ncommand = ['no-such-engine', '{port}']";
    let agent = agent_with(&home, &lines);
    type Spoil = fn(&mut RunSpec);
    let cases: [(&str, &str, Spoil); 7] = [
        ("arm.options.cache", "it offers: on", |s| {
            s.arm.options.insert("cache".to_owned(), "off".to_owned());
        }),
        ("arm.options.batch", "there are: cache", |s| {
            s.arm.options.insert("batch".to_owned(), "1".to_owned());
        }),
        ("arm.dtype", "engine x", |s| s.arm.dtype = Some(Dtype::F32)),
        ("arm.device", "engine x", |s| {
            s.arm.device = Device::Cuda { index: 0 }
        }),
        ("arm.mode", "engine x", |s| s.arm.mode = Mode::Offline),
        ("arm.engine.chapter", "no chapters", |s| {
            s.arm.engine = EngineRef::Named {
                name: "x".to_owned(),
                chapter: Some("ch02".to_owned()),
            };
        }),
        (
            "arm.engine.name",
            "engine gone: the program no-such-engine",
            |s| {
                s.arm.engine = EngineRef::Named {
                    name: "gone".to_owned(),
                    chapter: None,
                };
            },
        ),
    ];
    for (field, words, spoil) in cases {
        let mut spoiled = named();
        spoil(&mut spoiled);
        let asked = agent.post("/v1/runs").json(&start_run(&spoiled));
        let error = error_of(asked.send().await.unwrap(), 422).await;
        assert_eq!(error.field.as_deref(), Some(field), "{}", error.message);
        assert!(error.message.contains(words), "{}", error.message);
    }
}

#[tokio::test]
async fn our_own_server_as_an_engine_of_others_says_the_same_words() {
    let home = Home::new();
    let command = format!(
        "command = ['{EXE}', 'engine', 'serve', '--chapter', '2', '--model', '{{model}}', '--host', '{{host}}', '--port', '{{port}}']"
    );
    let agent = agent_with(&home, &command);
    assert!(Path::new(EXE).is_absolute());
    let mut texts = Vec::new();
    for mut spec in [named(), spec("ch02", Mode::Online)] {
        spec.workload.prompts = PromptSource::Texts {
            texts: vec!["Once".to_owned(), "upon a time".to_owned()],
        };
        let status = agent.run(&spec).await;
        assert_eq!(status.state, RunState::Done, "{status:?}");
        let samples = samples(&agent, &status.run_id).await;
        let hashes = samples.iter().map(|s| s.output_sha256.clone());
        texts.push(hashes.collect::<Vec<_>>());
    }
    assert!(texts[0].iter().all(Option::is_some));
    assert_eq!(texts[0], texts[1]);
    home_is_clean(&home, &agent);
}
