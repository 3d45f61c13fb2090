//! The keeper: `EXE engine keeper`, a small process between the agent and one child.
//!
//! It starts the child, tells the agent at once when the child ends, ends it on order, and whatever
//! happens sweeps until nothing of the tree is left. It has one thread and no runtime: the parent
//! death signal of the child is tied to the thread that forked. Its standard input is the control
//! socket; when the agent is gone, however it went, that socket closes and the keeper ends
//! everything. Signals of a terminal don't reach it (own session, and blocked besides); SIGTERM
//! means the same as a closed socket.
//!
//! What is started and how is [`super::exec`]; how a tree is found and killed is [`super::sweep`].

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::setsid;

use super::exec::{self, Started};
use super::protocol::{Order, OrderReader, Report, StartOrder, line, receive_fds};
use super::sweep::{Death, Reaped, SWEEP_LIMIT, reap, sweep};

/// From SIGTERM to SIGKILL when the agent is gone: short, since nothing may survive two seconds.
const ORPHAN_GRACE: Duration = Duration::from_millis(500);
/// A killed process that is not collected after this hangs in the kernel.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// Exit status for wrong use.
const USAGE: u8 = 2;

/// The whole program of `EXE engine keeper`; `args` is what follows that word, which is nothing.
///
/// A `main` calls this before it starts threads or opens files: the process becomes the keeper.
pub fn keeper_main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    if args.next().is_some() {
        eprintln!("keeper: takes no arguments; the agent starts it, not a person");
        return ExitCode::from(USAGE);
    }
    match keep() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("keeper: {error}");
            ExitCode::FAILURE
        }
    }
}

fn keep() -> io::Result<()> {
    let mut control = take_control()?;
    one_thread()?;
    // EPERM: it already leads a session, which is as good.
    let _ = setsid();
    prctl::set_child_subreaper(true)?;
    // Started from a descriptor, it would be listed under a number.
    prctl::set_name(c"bench-keeper")?;
    let mask = block_signals()?;
    exec::seal_inherited_fds()?;
    let fds = receive_fds(&control)?;
    let mut reader = OrderReader::default();
    let Some(order) = first_order(&mut control, &mut reader)? else {
        return Ok(());
    };
    // After the child's descriptors have their numbers, so that this one can't take them.
    let started = exec::start(order, fds);
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    match started {
        Ok(started) => Keeper::new(control, reader, signals, started).run(),
        Err(error) => {
            let report = Report::Failed {
                message: error.to_string(),
            };
            control.write_all(&line(&report)?)
        }
    }
}

/// Standard input is the control socket; it moves away, and `/dev/null` takes its place.
fn take_control() -> io::Result<UnixStream> {
    let fd: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let control = UnixStream::from(exec::move_high(fd)?);
    if control.peer_addr().is_err() {
        return Err(io::Error::other(
            "standard input is no socket; the agent starts this program",
        ));
    }
    nix::unistd::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Ok(control)
}

fn one_thread() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        n => Err(io::Error::other(format!(
            "started from a process with {n} threads, needs 1"
        ))),
    }
}

/// Signals come through a descriptor, so that one `poll` waits for them and for the agent.
fn block_signals() -> io::Result<SigSet> {
    let mut mask = SigSet::empty();
    for signal in [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ] {
        mask.add(signal);
    }
    mask.thread_block()?;
    Ok(mask)
}

/// The order to start; `None` if the agent went away first.
fn first_order(
    control: &mut UnixStream,
    reader: &mut OrderReader,
) -> io::Result<Option<StartOrder>> {
    loop {
        match reader.next()? {
            Some(Order::Start(order)) => return Ok(Some(order)),
            Some(Order::Stop { .. }) => return Ok(None),
            None if !reader.fill(control)? => return Ok(None),
            None => {}
        }
    }
}

/// What can happen while the child runs.
enum Event {
    /// The child was collected.
    Ended,
    /// The agent wants it to end.
    Stop(Duration),
    /// The agent is gone, or somebody sent SIGTERM.
    Orphaned,
    /// The deadline passed.
    Late,
}

struct Keeper {
    /// `None` once the agent is gone.
    control: Option<UnixStream>,
    reader: OrderReader,
    signals: SignalFd,
    started: Started,
    ended: bool,
}

impl Keeper {
    fn new(
        control: UnixStream,
        reader: OrderReader,
        signals: SignalFd,
        started: Started,
    ) -> Keeper {
        Keeper {
            control: Some(control),
            reader,
            signals,
            started,
            ended: false,
        }
    }

    fn run(mut self) -> io::Result<()> {
        self.report(&Report::Started {
            pid: self.started.pid.as_raw(),
        });
        let killed = self.until_ended();
        let child = self.started.pid;
        let mut late_death = None;
        let (swept, clean) = sweep(SWEEP_LIMIT, |death| {
            if death.pid == child.as_raw() {
                late_death = Some(death);
            }
        });
        if let Some(death) = late_death {
            self.child_died(death);
        }
        self.report(&Report::Swept {
            killed,
            swept,
            clean,
        });
        if !clean {
            // Something hangs in the kernel. The device is not free, so its lock must not be: stay
            // as long as it takes, and try again each time.
            while !sweep(SWEEP_LIMIT, |_| {}).1 {}
        }
        drop(self.started.held);
        Ok(())
    }

    /// Waits for the end of the child, and brings it about on order. Returns whether it took
    /// SIGKILL.
    fn until_ended(&mut self) -> bool {
        let mut deadline: Option<Instant> = None;
        let mut killed = false;
        while !self.ended {
            match self.next_event(deadline) {
                Event::Ended => {}
                Event::Stop(grace) => deadline = self.terminate(deadline, grace),
                Event::Orphaned => deadline = self.terminate(deadline, ORPHAN_GRACE),
                Event::Late if killed => break,
                Event::Late => {
                    // Only the child: the sweep that follows takes the others, and counts them.
                    let _ = kill(self.started.pid, Signal::SIGKILL);
                    killed = true;
                    deadline = Some(Instant::now() + KILL_LIMIT);
                }
            }
        }
        killed
    }

    /// SIGTERM to the group at the first order; a later one can only shorten the wait.
    fn terminate(&self, deadline: Option<Instant>, grace: Duration) -> Option<Instant> {
        // A grace beyond what a clock can hold is a wait without an end.
        let wanted = Instant::now().checked_add(grace);
        match deadline {
            None => {
                let _ = killpg(self.started.pid, Signal::SIGTERM);
                wanted
            }
            Some(set) => Some(wanted.map_or(set, |wanted| wanted.min(set))),
        }
    }

    fn next_event(&mut self, deadline: Option<Instant>) -> Event {
        loop {
            self.collect();
            if self.ended {
                return Event::Ended;
            }
            match self.reader.next() {
                Ok(Some(Order::Stop { grace_ms })) => {
                    return Event::Stop(Duration::from_millis(grace_ms));
                }
                Ok(Some(Order::Start(_)) | None) => {}
                Err(_) => return self.orphaned(),
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Event::Late;
            }
            let (control_ready, signal_ready) = self.wait(left);
            if signal_ready && self.read_signals() {
                return Event::Orphaned;
            }
            if control_ready && !self.read_control() {
                return self.orphaned();
            }
        }
    }

    /// Waits for the agent or for a signal.
    fn wait(&self, limit: Option<Duration>) -> (bool, bool) {
        // Rounded up: a wait of 0.4 ms must not become a loop of waits of nothing.
        let timeout = limit.map_or(PollTimeout::NONE, |left| {
            PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(
            self.control
                .iter()
                .map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)),
        );
        // EINTR and the like: nothing is ready, the loop looks again.
        let _ = poll(&mut fds, timeout);
        let ready = |at: usize| fds.get(at).and_then(PollFd::any).unwrap_or(false);
        (ready(1), ready(0))
    }

    /// Empties the signal descriptor; whether SIGTERM was among them.
    fn read_signals(&self) -> bool {
        let mut terminate = false;
        while let Ok(Some(signal)) = self.signals.read_signal() {
            terminate |= signal.ssi_signo == Signal::SIGTERM as u32;
        }
        terminate
    }

    /// Whether the agent is still there.
    fn read_control(&mut self) -> bool {
        let reader = &mut self.reader;
        self.control
            .as_mut()
            .is_some_and(|control| reader.fill(control).unwrap_or(false))
    }

    fn orphaned(&mut self) -> Event {
        self.control = None;
        self.reader = OrderReader::default();
        Event::Orphaned
    }

    /// Reaps what has ended; tells the agent at once if it was the child.
    fn collect(&mut self) {
        while let Reaped::Death(death) = reap() {
            if death.pid == self.started.pid.as_raw() {
                self.child_died(death);
            }
        }
    }

    fn child_died(&mut self, death: Death) {
        self.ended = true;
        let Death {
            code,
            signal,
            rss_bytes_max,
            ..
        } = death;
        self.report(&Report::Exited {
            code,
            signal,
            rss_bytes_max,
        });
    }

    /// A report that can't be sent has nobody to read it: the agent is gone, and the closed socket
    /// says so by itself.
    fn report(&mut self, report: &Report) {
        if let (Some(control), Ok(bytes)) = (self.control.as_mut(), line(report)) {
            let _ = control.write_all(&bytes);
        }
    }
}
