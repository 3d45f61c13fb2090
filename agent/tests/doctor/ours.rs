//! Our own server, as any other: what the doctor says of it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent::doctor::examine;
use contracts::doctor::Grade;
use contracts::sample::TokenSource;

use super::{has, not_fine, request};

/// Anything that should happen has happened by then, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// `engine serve` with the chapter for tests; it ends with this.
struct Ours {
    child: Child,
    url: String,
}

impl Ours {
    fn start(options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command.args(["engine", "serve", "--chapter", "fake", "--port", "0"]);
        for option in options {
            command.args(["--option", option]);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let after = line.split_once("listens on ")?.1.to_owned();
                Some(after.split_whitespace().next()?.to_owned())
            })
            .unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }
}

impl Ours {
    async fn ready(&self) {
        let client = agent::process::http_client(PATIENCE).unwrap();
        let begun = Instant::now();
        loop {
            let answer = client.get(format!("{}/health", self.url)).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "not ready");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn our_own_server() {
    let ours = Ours::start(&["tokens=5"]);
    ours.ready().await;
    let report = examine(&request(&ours.url)).await.unwrap();
    assert_eq!(report.counting, TokenSource::Usage, "{report:#?}");
    assert_eq!(report.tokens_per_event, Some(1.0));
    has(&report, "ignore_eos", Grade::Fine, "after 5 tokens");
    has(&report, "role_chunk", Grade::Fine, "empty content");
    // It says the same whatever the seed.
    has(&report, "seed", Grade::Unknown, "two seeds");
    has(&report, "extensions", Grade::Fine, "repetition_penalty");
    assert_eq!(not_fine(&report), ["seed"], "{report:#?}");
}
