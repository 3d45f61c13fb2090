//! Request bodies made ahead, in order of index, by a thread of their own: reading a prompt,
//! counting its tokens and writing its JSON never delays a request that is under way.
//!
//! The order of the shelf is the order of the run: who takes from it takes the next request, and
//! no index is kept anywhere else. What needs the answers before it is left out and made by the
//! slot that has them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::Notify;

use crate::load::client::without_usage;
use crate::load::tally::Phase;
use crate::load::workload::{Bodies, Body, BodyError};

/// Groups that lie ready, at least and at most. Between them it is one for each slot, so that all
/// slots can go on at once.
const AHEAD_MIN: usize = 64;
const AHEAD_MAX: usize = 4_096;
/// Bytes of all bodies that lie ready, from which on no more are made: long prompts are not many.
const AHEAD_BYTES_MAX: usize = 16 << 20;

/// The requests that one slot makes one after the other: one, or a conversation.
pub(super) struct Group {
    pub phase: Phase,
    /// Of the first.
    pub index: u32,
    /// At least one; none for those that need the answers before them.
    pub first: Result<Body, BodyError>,
    /// The others of a conversation; no allocation where there are none.
    pub rest: Vec<Option<Body>>,
}

impl Group {
    fn bytes(&self) -> usize {
        let rest = self.rest.iter().flatten().map(|body| body.bytes.len());
        self.first.as_ref().map_or(0, |body| body.bytes.len()) + rest.sum::<usize>()
    }
}

/// Where bodies lie between the thread that makes them and the load thread.
pub(super) struct Shelf {
    state: Mutex<State>,
    /// Something was taken.
    room: Condvar,
    /// Something was put, or nothing more will be.
    news: Notify,
    /// It was full for the first time, or all is made.
    filled: Notify,
    ahead_max: usize,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Group>,
    bytes: usize,
    /// All are made.
    ended: bool,
    /// Nobody takes any more.
    closed: bool,
}

/// Dropped when nothing more will be put.
struct Ends<'a>(&'a Shelf);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let Self(shelf) = self;
        let mut state = shelf.lock();
        if thread::panicking() {
            let lost = "the thread that makes requests has ended; see the agent's log";
            state.ready.push_back(Group {
                phase: Phase::Measure,
                index: 0,
                first: Err(BodyError::Lost(lost.to_owned())),
                rest: Vec::new(),
            });
        }
        state.ended = true;
        drop(state);
        shelf.news.notify_waiters();
        shelf.filled.notify_one();
    }
}

/// What the load thread holds; dropping it ends the other thread.
pub(super) struct Taker(Arc<Shelf>);

impl Shelf {
    /// Starts to make bodies: `warmup` requests, then `measured` ones. Once `usage_refused`, none
    /// asks for usage, which the client would have to take out.
    pub fn start(
        bodies: Bodies,
        slots: usize,
        (warmup, measured): (u32, u32),
        usage_refused: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<Taker> {
        let shelf = Arc::new(Self {
            state: Mutex::default(),
            room: Condvar::new(),
            news: Notify::new(),
            filled: Notify::new(),
            ahead_max: slots.clamp(AHEAD_MIN, AHEAD_MAX),
        });
        let taker = Taker(Arc::clone(&shelf));
        thread::Builder::new()
            .name("bodies".to_owned())
            .spawn(move || {
                let maker = Maker {
                    bodies,
                    usage_refused,
                };
                // On a panic too: a drive must not wait for bodies that nobody makes.
                let ends = Ends(&shelf);
                ends.0.make_all(&maker, warmup, measured);
            })?;
        Ok(taker)
    }

    fn make_all(&self, maker: &Maker<impl Fn() -> bool>, warmup: u32, measured: u32) {
        for (phase, total) in [(Phase::Warmup, warmup), (Phase::Measure, measured)] {
            let mut index = 0;
            while index < total {
                let turns = turns(&maker.bodies, index, total);
                let group = maker.group(phase, index, turns);
                let failed = group.first.is_err();
                if !self.put(group) || failed {
                    return;
                }
                index += turns;
            }
        }
    }

    /// Waits for room. False: nobody takes any more.
    fn put(&self, group: Group) -> bool {
        let mut state = self.lock();
        while !state.closed && self.is_full(&state) {
            self.filled.notify_one();
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += group.bytes();
        state.ready.push_back(group);
        let open = !state.closed;
        drop(state);
        self.news.notify_one();
        open
    }

    fn is_full(&self, state: &State) -> bool {
        state.ready.len() >= self.ahead_max || state.bytes >= AHEAD_BYTES_MAX
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No holder of it can panic half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taker {
    /// The next group; none once all were taken. Those who wait get theirs in the order in which
    /// they began to wait.
    pub async fn take(&self) -> Option<Group> {
        loop {
            // Made before the look, so that no news between look and wait is missed.
            let news = self.0.news.notified();
            if let Some(taken) = self.try_take() {
                return taken;
            }
            news.await;
        }
    }

    /// None: nothing is ready yet. None within: all were taken.
    pub fn try_take(&self) -> Option<Option<Group>> {
        let mut state = self.0.lock();
        let was_full = self.0.is_full(&state);
        match state.ready.pop_front() {
            Some(group) => {
                state.bytes -= group.bytes();
                drop(state);
                if was_full {
                    self.0.room.notify_one();
                }
                Some(Some(group))
            }
            None => state.ended.then_some(None),
        }
    }

    /// Returns when as much is ready as may be, so that the first requests do not wait for theirs.
    pub async fn filled(&self) {
        self.0.filled.notified().await;
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.room.notify_one();
    }
}

/// How many requests from `index` on go together; a phase's end cuts a conversation.
pub(super) fn turns(bodies: &Bodies, index: u32, total: u32) -> u32 {
    let together = bodies.prompts.together(index).max(1);
    together.min(total.saturating_sub(index)).max(1)
}

/// Makes groups, on the thread of bodies.
struct Maker<F> {
    bodies: Bodies,
    usage_refused: F,
}

impl<F: Fn() -> bool> Maker<F> {
    fn group(&self, phase: Phase, index: u32, turns: u32) -> Group {
        let rest = (index + 1..index + turns).map(|index| {
            // One that cannot be made is made again by its slot, which then says why.
            let alone = !self.bodies.prompts.needs_answers(index);
            alone.then(|| self.body(phase, index).ok()).flatten()
        });
        Group {
            phase,
            index,
            first: self.body(phase, index),
            rest: rest.collect(),
        }
    }

    fn body(&self, phase: Phase, index: u32) -> Result<Body, BodyError> {
        let mut body = self.bodies.body(phase == Phase::Warmup, index, &[])?;
        if (self.usage_refused)()
            && let Some(bytes) = without_usage(&body.bytes)
        {
            body.bytes = bytes;
        }
        Ok(body)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use contracts::generate::SamplingParams;

    use super::*;
    use crate::load::Route;
    use crate::prompts::Prompts;

    fn bodies(text: &str) -> Bodies {
        Bodies {
            route: Route::Completions,
            model: "m".to_owned(),
            prompts: Arc::new(Prompts::texts(vec![text.to_owned()], 4)),
            sampling: SamplingParams::default(),
            stream: true,
            return_token_ids: false,
            extra: BTreeMap::new(),
        }
    }

    #[tokio::test]
    async fn groups_come_in_order_and_then_no_more() {
        let taker = Shelf::start(bodies("p"), 1, (2, 300), || false).unwrap();
        let mut taken = Vec::new();
        while let Some(group) = taker.take().await {
            assert!(group.first.is_ok() && group.rest.is_empty());
            taken.push((group.phase, group.index));
        }
        let warmup = (0..2).map(|i| (Phase::Warmup, i));
        let measured = (0..300).map(|i| (Phase::Measure, i));
        assert_eq!(taken, warmup.chain(measured).collect::<Vec<_>>());
        assert!(taker.take().await.is_none());
    }

    #[tokio::test]
    async fn no_more_lie_ready_than_may() {
        let taker = Shelf::start(bodies("p"), 100, (0, 1_000_000), || false).unwrap();
        taker.filled().await;
        assert_eq!(taker.0.lock().ready.len(), 100);
        // A long prompt is bounded by its bytes.
        let long = "x".repeat(1 << 20);
        let taker = Shelf::start(bodies(&long), 100, (0, 1_000_000), || false).unwrap();
        taker.filled().await;
        assert_eq!(taker.0.lock().ready.len(), 16);
    }

    #[tokio::test]
    async fn a_server_that_refuses_the_question_for_usage_is_not_asked_again() {
        for refused in [false, true] {
            let taker = Shelf::start(bodies("p"), 1, (0, 1), move || refused).unwrap();
            let body = taker.take().await.unwrap().first.unwrap();
            let text = String::from_utf8(body.bytes.to_vec()).unwrap();
            assert_eq!(text.contains("include_usage"), !refused, "{text}");
        }
    }

    #[tokio::test]
    async fn a_thread_that_panics_is_an_error_of_the_run_and_no_endless_wait() {
        let taker = Shelf::start(bodies("p"), 1, (0, 9), || unreachable!("a bug")).unwrap();
        let message = taker.take().await.unwrap().first.unwrap_err().to_string();
        assert!(message.contains("see the agent's log"), "{message}");
        assert!(taker.take().await.is_none());
    }

    #[tokio::test]
    async fn the_thread_ends_when_nobody_takes() {
        let taker = Shelf::start(bodies("p"), 1, (0, 1_000_000), || false).unwrap();
        taker.filled().await;
        let shelf = Arc::downgrade(&taker.0);
        drop(taker);
        for _ in 0..1_000 {
            if shelf.strong_count() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        unreachable!("the thread still holds the shelf");
    }
}
