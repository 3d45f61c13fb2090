//! The metronome as a child of this agent: started, asked for its log, ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Context;

use crate::metronome::{self, Served, read_log};
use crate::process::{self, Child, ChildSpec, port};
use crate::run::Bench;

/// Where it finds its listening socket.
const LISTEN_FD: i32 = 3;
/// It has nothing to load.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// Its log is some MB, made and sent at once.
const LOG_LIMIT: Duration = Duration::from_secs(30);
/// SIGTERM to SIGKILL.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// A running metronome. Dropped, it is ended in the background.
pub(super) struct Metronome {
    child: Child,
    addr: SocketAddr,
}

impl Metronome {
    /// Starts one that answers with `tokens` tokens by its usual times. Its keeper holds `lock`.
    pub async fn start(bench: &Bench, lock: OwnedFd, tokens: u32) -> anyhow::Result<Self> {
        let program = bench.config.program.clone();
        let (listener, addr) = port::listen_for_child().context("open a port")?;
        let mut spec = ChildSpec::new(program.clone(), bench.state.calibrate_log_file());
        spec.fds.push((listener, LISTEN_FD));
        spec.keep = vec![lock];
        let (listen_fd, tokens) = (LISTEN_FD.to_string(), tokens.to_string());
        spec.args = [
            "engine",
            metronome::COMMAND,
            "--listen-fd",
            &listen_fd,
            "--tokens",
            &tokens,
        ]
        .map(OsString::from)
        .to_vec();
        let child = process::spawn(&program, spec).await?;
        let metronome = Self { child, addr };
        let health = format!("{}/health", metronome.url());
        process::wait_ready(
            &metronome.child,
            &health,
            None,
            &BTreeMap::new(),
            READY_LIMIT,
        )
        .await?;
        Ok(metronome)
    }

    /// Where it answers.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What it did since it was last asked; to be asked when nothing is under way.
    pub async fn log(&self) -> anyhow::Result<Vec<Served>> {
        let client = process::http_client(LOG_LIMIT)?;
        let asked = client.get(format!("{}/log", self.url())).send().await;
        let bytes = asked.context("its log")?.bytes().await.context("its log")?;
        Ok(read_log(&bytes)?)
    }

    /// Ends it and all that is left of it.
    pub async fn stop(self) -> anyhow::Result<()> {
        let report = self.child.stop(STOP_GRACE).await;
        anyhow::ensure!(report.clean, "its server could not be ended");
        Ok(())
    }
}
