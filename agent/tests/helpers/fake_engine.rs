//! A child that misbehaves on demand, for the tests of the lifecycle. Not for users.
//!
//! ```text
//! fake-engine engine keeper            the keeper, as any of our executables offers it
//! fake-engine healthy ADDR|fd:N ID     answers every request with 200 and instance ID
//! fake-engine unhealthy ADDR|fd:N      answers 503
//! fake-engine moved ADDR|fd:N          answers 302
//! fake-engine locked ADDR|fd:N KEY     answers 401 to who does not show the key
//! fake-engine silent ADDR|fd:N         accepts and never answers
//! fake-engine openai ADDR NAMES         answers as OpenAI's API does and serves NAMES (a,b); - lists none
//! fake-engine openai-stubborn ADDR NAMES           the same, and ignores SIGTERM
//! fake-engine openai-parent ADDR NAMES PIDS        the same, with an escaped child
//! fake-engine idle                     does nothing until a signal ends it
//! fake-engine die CODE MS LINE…        prints the lines, waits, exits
//! fake-engine abort LINE               prints the line and dies of SIGABRT
//! fake-engine stubborn PIDS            adds its pid to the file, ignores SIGTERM
//! fake-engine escaped PIDS             the same in a session of its own
//! fake-engine holder PIDS ADDR         stubborn, and listens on ADDR
//! fake-engine parent MODE PIDS [ADDR]  idle, with a child in one of the three modes above
//! fake-engine leaver MODE PIDS [ADDR]  starts such a child and exits with status 0
//! fake-engine daemon PIDS              idle, with an escaped grandchild whose parent has exited
//! fake-engine bomb PIDS                an escaped child forks without a pause; SIGTERM ends only itself
//! fake-engine inside                   prints what it was given: descriptors, signal mask, variables
//! fake-engine noise                    prints much, with bytes that are no text
//! fake-engine agent DIR MODE PIDS      plays the agent: starts `parent MODE PIDS`, holds the lock
//! fake-engine cycles DIR N             starts and stops N children, prints what leaked
//! ```
//!
//! Lines of output: `up` when everything is in place.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper of tests"
)]

mod fake_openai;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use agent::process::{self, ChildSpec, Program};
use contracts::run::Device;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{ForkResult, fork, setsid};

/// Forks of the bomb, at most, should a sweep fail.
const BOMB_FORKS: u32 = 3000;

fn main() -> ExitCode {
    let mut raw = std::env::args_os().skip(1);
    let args: Vec<OsString> = raw.by_ref().collect();
    let words: Vec<&str> = args.iter().map(|arg| arg.to_str().unwrap()).collect();
    match *words.as_slice() {
        ["engine", "keeper", ..] => return process::keeper_main(args.into_iter().skip(2)),
        ["healthy", at, id] => serve(at, &format!(r#"{{"status":"ok","instance":"{id}"}}"#), 200),
        ["unhealthy", at] => serve(at, r#"{"status":"loading"}"#, 503),
        ["moved", at] => serve(at, "", 302),
        ["locked", at, key] => locked(at, key),
        ["silent", at] => silent(at),
        ["openai", at, names, ..] => fake_openai::serve(listen(at), names),
        ["openai-stubborn", at, names] => {
            ignore_term();
            fake_openai::serve(listen(at), names);
        }
        ["openai-parent", at, names, pids] => {
            start_and_wait("escaped", pids, &[]);
            fake_openai::serve(listen(at), names);
        }
        ["idle"] => up_and_sleep(),
        ["die", code, ms, ref lines @ ..] => {
            lines.iter().for_each(|line| println!("{line}"));
            std::thread::sleep(Duration::from_millis(ms.parse().unwrap()));
            return ExitCode::from(code.parse::<u8>().unwrap());
        }
        ["abort", line] => {
            println!("{line}");
            std::process::abort();
        }
        ["stubborn", pids] => stubborn(pids),
        ["escaped", pids] => {
            setsid().unwrap();
            stubborn(pids);
        }
        ["holder", pids, at] => {
            let _listener = listen(at);
            stubborn(pids);
        }
        ["parent", mode, pids, ref rest @ ..] => {
            start_and_wait(mode, pids, rest);
            up_and_sleep();
        }
        ["leaver", mode, pids, ref rest @ ..] => start_and_wait(mode, pids, rest),
        ["daemon", pids] => {
            let mut middle = myself().args(["leaver", "escaped", pids]).spawn().unwrap();
            middle.wait().unwrap();
            up_and_sleep();
        }
        ["bomb", pids] => bomb(pids),
        ["inside"] => inside(),
        ["noise"] => noise(),
        ["agent", dir, mode, pids] => play_agent(Path::new(dir), mode, pids),
        ["cycles", dir, n] => cycles(Path::new(dir), n.parse().unwrap()),
        _ => {
            eprintln!("fake-engine: unknown mode {words:?}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn myself() -> Command {
    Command::new("/proc/self/exe")
}

fn sleep_for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

fn up_and_sleep() -> ! {
    up();
    sleep_for_ever()
}

/// Says that everything is in place. The agent that would read it may be dead by now; a child
/// that panicked over that would end before the test looks for it.
fn up() {
    let _ = writeln!(std::io::stdout(), "up");
}

fn listen(at: &str) -> TcpListener {
    match at.strip_prefix("fd:") {
        // SAFETY: the test passed a listening socket at this number.
        Some(fd) => unsafe { TcpListener::from_raw_fd(fd.parse().unwrap()) },
        None => TcpListener::bind(at).unwrap(),
    }
}

fn serve(at: &str, body: &str, status: u16) {
    answer_each(at, |_| (status, body));
}

fn locked(at: &str, key: &str) {
    let shown = format!("authorization: Bearer {key}\r\n");
    answer_each(at, |head| match head.contains(&shown) {
        true => (200, "open"),
        false => (401, "closed"),
    });
}

fn answer_each<'a>(at: &str, what: impl Fn(&str) -> (u16, &'a str)) {
    let listener = listen(at);
    up();
    for stream in listener.incoming() {
        // A client that hangs up is none of our business.
        let _ = answer(stream.unwrap(), &what);
    }
}

fn answer<'a>(mut stream: TcpStream, what: impl Fn(&str) -> (u16, &'a str)) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? > 0 {
        head.extend(byte);
    }
    let (status, body) = what(&String::from_utf8_lossy(&head));
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn silent(at: &str) {
    let listener = listen(at);
    up();
    let open: Vec<_> = listener.incoming().collect();
    drop(open);
}

fn add_pid(pids: &str) {
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(pids)
        .unwrap();
    // One write of a short line: whole, whoever else appends.
    file.write_all(format!("{}\n", std::process::id()).as_bytes())
        .unwrap();
}

fn ignore_term() {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { signal(Signal::SIGTERM, SigHandler::SigIgn) }.unwrap();
}

fn stubborn(pids: &str) -> ! {
    ignore_term();
    add_pid(pids);
    up_and_sleep()
}

/// Starts a child in `mode` and waits until it has written its pid.
#[expect(
    clippy::zombie_processes,
    reason = "a child that is left behind is what is tested"
)]
fn start_and_wait(mode: &str, pids: &str, rest: &[&str]) {
    let mut command = myself();
    if mode == "stubborn" {
        // As servers that overwrite their environment: only the session shows whose it is.
        command.env_clear();
    }
    command.args([mode, pids]).args(rest).spawn().unwrap();
    while std::fs::read(pids).unwrap_or_default().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Its child leaves the session and forks a chain: each link starts the next and lives on a little,
/// so that a list of processes is out of date as soon as it is made.
fn bomb(pids: &str) {
    // SAFETY: this process has one thread.
    if let ForkResult::Parent { .. } = unsafe { fork() }.unwrap() {
        while std::fs::read(pids).unwrap_or_default().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        up_and_sleep();
    }
    setsid().unwrap();
    ignore_term();
    add_pid(pids);
    for _ in 0..BOMB_FORKS {
        // SAFETY: this process has one thread.
        if let ForkResult::Parent { .. } = unsafe { fork() }.unwrap() {
            std::thread::sleep(Duration::from_millis(20));
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn inside() {
    // Names first: the folder's own descriptor is among them, and is closed by then.
    let names: Vec<OsString> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    let numbers = names
        .iter()
        .map(|name| name.to_str().unwrap().parse::<i32>().unwrap());
    let is_open = |fd: &i32| std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok();
    let mut open: Vec<i32> = numbers.filter(is_open).collect();
    open.sort_unstable();
    println!("fds {open:?}");
    println!(
        "stdin {}",
        std::fs::read_link("/proc/self/fd/0").unwrap().display()
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    for line in status.lines().filter(|line| line.starts_with("SigBlk")) {
        println!("{}", line.replace('\t', " "));
    }
    println!("cwd {}", std::env::current_dir().unwrap().display());
    println!("arg0 {}", std::env::args().next().unwrap());
    println!("set {:?}", std::env::var("FAKE_ENGINE_SET").ok());
    println!("removed {:?}", std::env::var("PATH").ok());
}

fn noise() {
    let mut out = std::io::stdout().lock();
    for n in 0..2000 {
        writeln!(out, "line {n}").unwrap();
    }
    out.write_all(b"caf\xe9\n").unwrap();
    out.write_all(&vec![b'x'; 100_000]).unwrap();
    out.write_all(b"\nlast, without a newline").unwrap();
}

fn block_on<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

/// Starts a child as an agent does, writes who it is to `DIR/ids.json`, and waits to be killed.
fn play_agent(dir: &Path, mode: &str, pids: &str) {
    let program = Program::of_this_process().unwrap();
    block_on(async {
        let locks = dir.join("locks");
        let lock = process::device_lock::acquire_in(&locks, &Device::Cpu, "run 1", Duration::ZERO);
        let mut spec = ChildSpec::new(program.clone(), dir.join("agent.log"));
        spec.args = ["parent", mode, pids].map(OsString::from).to_vec();
        spec.keep = vec![lock.await.unwrap()];
        let child = process::spawn(&program, spec).await.unwrap();
        while child.log().tail(9).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let ids = serde_json::to_vec(child.identity()).unwrap();
        let (part, whole): (PathBuf, PathBuf) = (dir.join("ids.part"), dir.join("ids.json"));
        std::fs::write(&part, ids).unwrap();
        std::fs::rename(part, whole).unwrap();
        std::future::pending::<()>().await;
    });
}

/// In a process of its own, since what is counted is per process.
fn cycles(dir: &Path, n: u32) {
    let program = Program::of_this_process().unwrap();
    block_on(async {
        let mut open_at_first = 0;
        for cycle in 0..=n {
            let mut spec = ChildSpec::new(program.clone(), dir.join("cycle.log"));
            spec.args = vec!["idle".into()];
            let child = process::spawn(&program, spec).await.unwrap();
            assert!(child.stop(Duration::from_secs(10)).await.clean);
            tokio::task::yield_now().await;
            if cycle == 0 {
                // The runtime opens some at first use.
                open_at_first = open_fds();
            }
        }
        let zombies = procfs::process::all_processes()
            .unwrap()
            .flatten()
            .filter_map(|process| process.stat().ok())
            .filter(|stat| stat.ppid == std::process::id().cast_signed())
            .count();
        println!("fds {open_at_first} -> {}, children {zombies}", open_fds());
    });
}

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
