//! A user of the tests' own: own database, own state, own locks, real binaries; nothing outlives it.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde_json::Value;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

/// Longer than any step of these tests on a busy machine of two cores.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// One user on one machine.
pub struct Lab {
    home: tempfile::TempDir,
}

impl Lab {
    /// Fresh folders.
    pub fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// A path below the user's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn dress(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // What the caller's shell sets must change no test.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"CHAPTERBENCH_") {
                command.env_remove(name);
            }
        }
        for (name, folder) in [
            ("XDG_DATA_HOME", "data"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_CACHE_HOME", "cache"),
            ("CHAPTERBENCH_LOCK_DIR", "locks"),
        ] {
            let path = self.path(folder);
            std::fs::create_dir_all(&path).unwrap();
            command.env(name, path);
        }
        command.stdin(Stdio::null());
        command
    }

    /// `controller ARGS`, not started yet.
    pub fn controller(&self, args: &[&str]) -> Command {
        let mut command = self.dress(Path::new(env!("CARGO_BIN_EXE_controller")));
        command.args(args);
        command
    }

    /// Runs `controller ARGS` to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        finish(&mut self.controller(args), PATIENCE)
    }

    /// Runs `controller ARGS`, which must end with `code`; gives its standard output.
    pub fn expect(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(code),
            "controller {args:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        );
        stdout
    }

    /// Runs `controller ARGS --format json`, which must succeed.
    pub fn json(&self, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        args.extend(["--format", "json"]);
        serde_json::from_str(&self.expect(0, &args)).unwrap()
    }

    /// All runs with their samples, as `runs export` gives them.
    pub fn export(&self) -> Vec<Value> {
        self.json(&["runs", "export"])["runs"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// Runs lines of a shell script as a step of a job would, in the lab's folder and with our program
    /// in its path.
    pub fn shell(&self, script: &str, variables: &[(&str, &str)]) -> Output {
        let folder = Path::new(env!("CARGO_BIN_EXE_controller"))
            .parent()
            .unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut command = self.dress(Path::new("bash"));
        command
            .args(["-euo", "pipefail", "-c", script])
            .env("PATH", format!("{}:{path}", folder.display()))
            .envs(variables.iter().copied())
            .current_dir(self.home.path());
        finish(&mut command, 3 * PATIENCE)
    }

    /// Says of every stored run that it had the machine for itself. The tests beside this one keep
    /// the machine busy, and runs on a busy machine are no evidence: `compare` would refuse them.
    pub fn forget_the_neighbours(&self) {
        let update = "update run set validity_json =
            json_set(validity_json, '$.foreign_cpu_during', 0.01)";
        assert!(self.execute(update) > 0, "no run is stored");
    }

    /// Runs a statement on the built-in agent's database; gives how many rows it changed.
    pub fn execute(&self, statement: &'static str) -> u64 {
        let database = self.path("data/chapterbench/bench.db");
        let options = SqliteConnectOptions::new().filename(database);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut connection = options.connect().await.unwrap();
            let done = sqlx::query(statement).execute(&mut connection).await;
            done.unwrap().rows_affected()
        })
    }

    /// Starts an agent that stays; gives its process and its address.
    pub fn agent(&self, state: &str) -> (Child, String) {
        let state_dir = self.path(state);
        let mut child = self
            .dress(&agent_program())
            .args(["--listen", "127.0.0.1:0", "--state-dir"])
            .arg(state_dir)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            use std::io::BufRead;
            for line in std::io::BufReader::new(stderr)
                .lines()
                .map_while(Result::ok)
            {
                if let Some(start) = line.find("127.0.0.1:") {
                    let address: String = line[start..]
                        .chars()
                        .take_while(|c| c.is_ascii_digit() || ".:".contains(*c))
                        .collect();
                    sender.send(address).ok();
                }
            }
        });
        let address = receiver
            .recv_timeout(PATIENCE)
            .expect("the agent prints its address");
        (child, address)
    }

    /// Processes (by pid) that were started for this lab, whatever became of their parents.
    pub fn processes(&self) -> Vec<u32> {
        let mark = self.home.path().to_str().unwrap().as_bytes().to_vec();
        std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| {
                let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environ.windows(mark.len()).any(|window| window == mark)
            })
            .collect()
    }

    /// Waits for a process that should end; one that does not fails the test.
    pub fn ended(&self, child: &mut Child) -> ExitStatus {
        let mut status = None;
        self.wait("the end of a process", PATIENCE, || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Waits until `done`, at most `within`.
    pub fn wait(&self, what: &str, within: Duration, mut done: impl FnMut() -> bool) {
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < within, "{what}: not within {within:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for pid in self.processes() {
            kill(pid, "KILL");
        }
    }
}

/// Sends a signal by name (`KILL`, `TERM`) to a process that this lab started.
pub fn kill(pid: u32, name: &str) {
    let signal: Signal = format!("SIG{name}").parse().unwrap();
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    // One that has ended in the meantime is as it should be.
    signal::kill(pid, signal).ok();
}

/// Runs a command to its end; one that takes longer than `within` is killed and fails the test.
fn finish(command: &mut Command, within: Duration) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let stdout = read_all(child.stdout.take());
        let stderr = read_all(child.stderr.take());
        let status = child.wait().unwrap();
        sender.send(()).ok();
        Output {
            status,
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
        }
    });
    if receiver.recv_timeout(within).is_err() {
        kill(pid, "KILL");
        panic!("{command:?} did not end: {:?}", waiter.join().unwrap());
    }
    waiter.join().unwrap()
}

fn read_all<R: std::io::Read + Send + 'static>(
    stream: Option<R>,
) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// The agent's binary stands beside ours; `cargo test --workspace` has built it, else it is built now.
fn agent_program() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_controller")).with_file_name("agent");
    if !program.exists() {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--workspace", "--bin", "agent"])
            .status()
            .unwrap();
        assert!(status.success(), "cargo build --bin agent");
    }
    program
}
