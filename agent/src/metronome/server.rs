//! The loop: sleep until something is due or ready, serve what is ready, send what is due.

use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;

use super::Schedule;
use super::agenda::{Agenda, Key};
use super::answer::{Answer, MODEL, refusal, response};
use super::conn::{Clock, Conn, Scratch, Work};
use super::log::{Served, write_line};
use super::request::{Ask, Call, parse};

/// Sockets looked at in one turn.
const READY_MAX: usize = 256;
/// Contents sent in one turn: then requests are looked at again, so that a late server reads on.
const SENT_PER_TURN_MAX: usize = 256;
/// Answers that the log holds; those after it are not written down. (100 tokens each: 400 MB.)
const LOG_ANSWERS_MAX: usize = 1_000_000;
/// How exactly the kernel wakes us: its usual 50 µs would be a fifth of the figure measured.
const TIMER_SLACK_NS: u64 = 1_000;
/// Names of what is no connection, among epoll's.
const LISTENER: u64 = u64::MAX;
const SIGNALS: u64 = u64::MAX - 1;

pub(super) struct Server {
    listener: TcpListener,
    epoll: Epoll,
    signals: SignalFd,
    clock: Clock,
    agenda: Agenda,
    conns: Vec<Option<Conn>>,
    free: Vec<usize>,
    next_id: u64,
    log: Vec<Served>,
    scratch: Scratch,
}

impl Server {
    /// A server that has yet to run. From here on SIGTERM and SIGINT end it and nothing else.
    pub fn new(listener: TcpListener, schedule: Schedule) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGTERM);
        mask.add(Signal::SIGINT);
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        // Refused: then events are some µs later, which the log shows.
        let _ = prctl::set_timerslack(TIMER_SLACK_NS);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        epoll.add(&signals, EpollEvent::new(EpollFlags::EPOLLIN, SIGNALS))?;
        Ok(Self {
            listener,
            epoll,
            signals,
            clock: Clock::start(),
            agenda: Agenda::new(schedule),
            conns: Vec::new(),
            free: Vec::new(),
            next_id: 1,
            log: Vec::new(),
            scratch: Scratch::new(),
        })
    }

    /// Serves until a signal; then gives what was logged and not fetched.
    pub fn run(mut self) -> io::Result<Vec<u8>> {
        let mut ready = [EpollEvent::empty(); READY_MAX];
        loop {
            self.sleep()?;
            let count = match self.epoll.wait(&mut ready, EpollTimeout::ZERO) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            for event in ready.iter().take(count) {
                match event.data() {
                    SIGNALS => {
                        let _ = self.signals.read_signal();
                        return Ok(self.take_log());
                    }
                    LISTENER => self.accept(),
                    slot => self.ready(usize::try_from(slot).unwrap_or(usize::MAX)),
                }
            }
            self.send_due();
        }
    }

    /// Until a socket is ready or a content is due.
    fn sleep(&self) -> io::Result<()> {
        let wait = match self.agenda.next_due_ns() {
            Some(at_ns) => match at_ns.saturating_sub(self.clock.now_ns()) {
                0 => return Ok(()),
                wait_ns => Some(TimeSpec::from(Duration::from_nanos(wait_ns))),
            },
            None => None,
        };
        let mut fds = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, wait, None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&mut self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Nobody more; or no descriptor for him, and then he waits in the queue.
                Err(_) => return,
            };
            let Ok(conn) = Conn::new(stream) else {
                continue;
            };
            let slot = self.free.pop().unwrap_or(self.conns.len());
            let event = EpollEvent::new(EpollFlags::EPOLLIN, slot as u64);
            if self.epoll.add(&conn.wire.stream, event).is_err() {
                self.free.push(slot);
                continue;
            }
            match self.conns.get_mut(slot) {
                Some(place) => *place = Some(conn),
                None => self.conns.push(Some(conn)),
            }
        }
    }

    /// A connection can be read or written.
    fn ready(&mut self, slot: usize) {
        let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let flushed = conn.wire.backlog.is_empty() || conn.wire.flush().is_ok();
        let open = flushed && conn.read(&mut self.scratch, self.clock).unwrap_or(false);
        if open {
            self.answer_next(slot);
        } else {
            self.close(slot);
        }
    }

    /// Answers what the connection asks, until it asks for something that takes time.
    fn answer_next(&mut self, slot: usize) {
        loop {
            let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else {
                return;
            };
            let request = if conn.work.is_none() {
                parse(&conn.inbox)
            } else {
                None
            };
            let Some(request) = request else {
                return self.watch(slot);
            };
            conn.inbox.drain(..request.used.min(conn.inbox.len()));
            let json = |body: String| response(200, "application/json", body.as_bytes(), false);
            let bytes = match request.call {
                Call::Generate(ask) => {
                    self.begin(slot, &ask, request.close);
                    continue;
                }
                Call::Models => json(format!(
                    r#"{{"object":"list","data":[{{"id":"{MODEL}","object":"model","created":1,"owned_by":"chapterbench"}}]}}"#
                )),
                Call::Health => json(format!(
                    r#"{{"status":"ok","now_ns":{}}}"#,
                    self.clock.now_ns()
                )),
                Call::Log => response(200, "application/x-ndjson", &self.take_log(), false),
                Call::Refused(status, words) => refusal(status, &words),
            };
            if !self.send(slot, &bytes) || request.close {
                return self.close(slot);
            }
        }
    }

    /// Takes a request in: its head leaves at once, its contents by the schedule.
    fn begin(&mut self, slot: usize, ask: &Ask, close: bool) {
        let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let id = self.next_id;
        self.next_id += 1;
        let tokens = self.agenda.tokens(ask.tokens_max);
        let answer = Answer::new(ask, id, tokens);
        let head_sent = conn.wire.send(&answer.head).is_ok();
        let served = Served {
            id,
            received_ns: conn.received_ns,
            read_ns: conn.read_ns,
            gaps_ns: Vec::with_capacity(answer.tokens.saturating_sub(1) as usize),
            ..Served::default()
        };
        conn.work = Some(Work {
            answer,
            served,
            written: 0,
            last_ns: 0,
            admitted: false,
            tokens_at_once: if ask.stream { 1 } else { tokens },
            close,
        });
        let begun_ns = conn.received_ns;
        if !head_sent {
            self.close(slot);
        } else if self.agenda.has_place((slot, id)) {
            self.admit((slot, id), begun_ns);
        }
    }

    /// Gives the answer a place: its schedule begins. False if it is no longer there.
    fn admit(&mut self, key: Key, begun_ns: u64) -> bool {
        let (slot, id) = key;
        let conn = self.conns.get_mut(slot).and_then(Option::as_mut);
        let work = conn.and_then(|conn| conn.work.as_mut());
        let Some(work) = work.filter(|work| work.served.id == id) else {
            return false;
        };
        work.admitted = true;
        work.served.begun_ns = begun_ns;
        self.agenda.admit(key, begun_ns, work.tokens_at_once);
        true
    }

    /// An answer has given its place back.
    fn admit_next(&mut self) {
        self.agenda.leave();
        let now_ns = self.clock.now_ns();
        while let Some(key) = self.agenda.next_waiting() {
            if self.admit(key, now_ns) {
                return;
            }
        }
    }

    fn send_due(&mut self) {
        let now_ns = self.clock.now_ns();
        for _ in 0..SENT_PER_TURN_MAX {
            match self.agenda.pop_due(now_ns) {
                Some(key) => self.send_one(key),
                None => return,
            }
        }
    }

    /// The next content of an answer, and after its last the end.
    fn send_one(&mut self, key: Key) {
        let (slot, id) = key;
        let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let Conn { wire, work, .. } = conn;
        let Some(work) = work.as_mut().filter(|work| work.served.id == id) else {
            return;
        };
        let tokens = work.answer.tokens;
        let bytes = match work.written {
            n if n + 1 == tokens => &work.answer.last,
            0 => &work.answer.first,
            _ => &work.answer.middle,
        };
        let mut sent = wire.send(bytes).is_ok();
        let now_ns = self.clock.now_ns();
        if work.written == 0 {
            work.served.first_ns = now_ns;
        } else {
            let gap_ns = now_ns.saturating_sub(work.last_ns);
            let gap_ns = u32::try_from(gap_ns).unwrap_or(u32::MAX);
            work.served.gaps_ns.push(gap_ns);
        }
        work.last_ns = now_ns;
        work.written += 1;
        if work.written < tokens {
            self.agenda
                .plan_next(key, work.served.begun_ns, work.written);
        } else if !work.answer.tail.is_empty() {
            sent = sent && wire.send(&work.answer.tail).is_ok();
        }
        if !sent {
            return self.close(slot);
        }
        self.watch(slot);
        self.finish(slot);
    }

    /// Writes an answer down whose last byte has been sent.
    fn finish(&mut self, slot: usize) {
        let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let done = |work: &mut Work| work.written == work.answer.tokens;
        let Some(work) = conn.work.take_if(done) else {
            return;
        };
        let mut served = work.served;
        served.end_ns = self.clock.now_ns();
        if self.log.len() < LOG_ANSWERS_MAX {
            self.log.push(served);
        }
        self.admit_next();
        if work.close {
            self.close(slot);
        } else {
            self.answer_next(slot);
        }
    }

    /// Sends bytes that belong to no answer. False if the client has gone.
    fn send(&mut self, slot: usize, bytes: &[u8]) -> bool {
        let conn = self.conns.get_mut(slot).and_then(Option::as_mut);
        conn.is_some_and(|conn| conn.wire.send(bytes).is_ok())
    }

    /// Asks epoll for room to write where something waits for it.
    fn watch(&mut self, slot: usize) {
        let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let waits = !conn.wire.backlog.is_empty();
        if waits != conn.wire.watched {
            let mut flags = EpollFlags::EPOLLIN;
            flags.set(EpollFlags::EPOLLOUT, waits);
            let mut event = EpollEvent::new(flags, slot as u64);
            if self.epoll.modify(&conn.wire.stream, &mut event).is_ok() {
                conn.wire.watched = waits;
            }
        }
    }

    /// The client has gone, or asked for that. A place it held is given back.
    fn close(&mut self, slot: usize) {
        let Some(conn) = self.conns.get_mut(slot).and_then(Option::take) else {
            return;
        };
        self.free.push(slot);
        if conn.work.is_some_and(|work| work.admitted) {
            self.admit_next();
        }
    }

    fn take_log(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for served in self.log.drain(..) {
            write_line(&mut bytes, &served);
        }
        bytes
    }
}
