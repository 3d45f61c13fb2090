//! The program as a child that descriptors are handed to, as the agent does.

use std::{
    io,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A child that is killed if a test forgets it.
pub struct Engine(Option<Child>);

/// Starts the command with each descriptor under the number given.
pub fn spawn(mut command: Command, fds: Vec<(OwnedFd, RawFd)>) -> Engine {
    let numbers: Vec<(RawFd, RawFd)> = fds
        .iter()
        .map(|(fd, number)| (fd.as_raw_fd(), *number))
        .collect();
    // SAFETY: between fork and exec only dup2 is called, which is async-signal-safe; the
    // descriptors stay open until the child has been started.
    unsafe {
        command.pre_exec(move || {
            for (from, to) in &numbers {
                if nix::libc::dup2(*from, *to) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    Engine(Some(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    ))
}

impl Engine {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.0.as_ref().unwrap().id()).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Its end, within a bound that only a hang reaches.
    pub fn output(mut self) -> Output {
        let mut child = self.0.take().unwrap();
        let status = wait(&mut child);
        let mut output = child.wait_with_output().unwrap();
        output.status = status;
        output
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > Duration::from_secs(60) {
            let _ = child.kill();
            panic!("the child did not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
}
