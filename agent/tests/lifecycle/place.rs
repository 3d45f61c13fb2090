//! What every test of the lifecycle needs: a folder, the helper, and looks at processes.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agent::process::{Child, ChildSpec, Program, port, spawn};
use tempfile::TempDir;

/// Longer than any child here needs to get ready on a busy machine.
pub const LONG: Duration = Duration::from_secs(20);
/// Between SIGTERM and SIGKILL, where a test wants the second.
pub const SHORT_GRACE: Duration = Duration::from_millis(200);
/// A busy machine may add this to every promise.
pub const MARGIN: Duration = Duration::from_secs(3);

pub struct Place {
    pub dir: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn spec(&self, args: &[&str]) -> ChildSpec {
        let mut spec = ChildSpec::new(helper(), self.path("child.log"));
        spec.args = args.iter().map(OsString::from).collect();
        spec
    }

    pub async fn start(&self, args: &[&str]) -> Child {
        spawn(&helper(), self.spec(args)).await.unwrap()
    }

    /// Starts and waits for its word that everything is in place.
    pub async fn start_up(&self, args: &[&str]) -> Child {
        self.spec_up(self.spec(args)).await
    }

    /// The same for a server in `mode`, on a socket that is handed over: no other test takes its port.
    pub async fn server_up(&self, mode: &str, rest: &[&str]) -> (Child, SocketAddr) {
        let (socket, addr) = port::listen_for_child().unwrap();
        let mut spec = self.spec(&[&[mode, "fd:3"][..], rest].concat());
        spec.fds = vec![(socket, 3)];
        (self.spec_up(spec).await, addr)
    }

    async fn spec_up(&self, spec: ChildSpec) -> Child {
        let child = spawn(&helper(), spec).await.unwrap();
        let up = || child.log().tail(100).iter().any(|line| line == "up");
        assert!(comes_true(LONG, up).await, "{:?}", child.log().tail(100));
        child
    }

    /// Pids that grandchildren wrote.
    pub fn pids(&self, name: &str) -> Vec<i32> {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

pub fn helper() -> Program {
    Program::open(Path::new(env!("CARGO_BIN_EXE_fake-engine"))).unwrap()
}

pub fn alive(pid: i32) -> bool {
    procfs::process::Process::new(pid)
        .and_then(|process| process.stat())
        .is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

pub async fn comes_true(within: Duration, mut what: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < within {
        if what() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    what()
}

pub fn url(addr: SocketAddr) -> String {
    format!("http://{addr}/health")
}

/// A port for a server that must open it by itself. Another test may take it first: where a socket
/// can be handed over, use [`Place::server_up`].
pub fn free_addr() -> SocketAddr {
    let host = "127.0.0.1".parse().unwrap();
    SocketAddr::new(host, port::free_port(host).unwrap())
}
