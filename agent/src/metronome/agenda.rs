//! Whose turn it is: which answers have a place, which wait for one, and which content is due when.
//! Pure; the server has the clock and the sockets.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use super::Schedule;

/// An answer: its connection, and its serial number, since a connection's place in the list is
/// used again when it has gone.
pub(super) type Key = (usize, u64);

/// All answers under way.
pub(super) struct Agenda {
    schedule: Schedule,
    due: BinaryHeap<Reverse<(u64, Key)>>,
    /// Oldest first. Who has gone is still in it, and found out when its turn comes.
    waiting: VecDeque<Key>,
    /// Answers that have a place.
    active: u32,
}

impl Agenda {
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            due: BinaryHeap::new(),
            waiting: VecDeque::new(),
            active: 0,
        }
    }

    /// Contents of an answer whose request names this ceiling.
    pub fn tokens(&self, asked: Option<u32>) -> u32 {
        asked.unwrap_or(u32::MAX).min(self.schedule.tokens).max(1)
    }

    /// Whether a new answer can have a place; else it waits.
    pub fn has_place(&mut self, key: Key) -> bool {
        let parallel = self.schedule.parallel;
        let free = parallel == 0 || self.active < parallel;
        if !free {
            self.waiting.push_back(key);
        }
        free
    }

    /// An answer has a place: when its schedule began, and how many tokens its first write carries.
    pub fn admit(&mut self, key: Key, begun_ns: u64, tokens_at_once: u32) {
        self.active += 1;
        let first = self.schedule.ttft + self.schedule.itl * (tokens_at_once - 1);
        self.plan(key, begun_ns + ns(first));
    }

    /// A place is free again: the answer that has waited longest, if any.
    pub fn next_waiting(&mut self) -> Option<Key> {
        self.waiting.pop_front()
    }

    /// An answer gives its place back.
    pub fn leave(&mut self) {
        self.active = self.active.saturating_sub(1);
    }

    /// Content `index` of an answer that has a place is the next; from its first it is due by the
    /// schedule, however late those before it were.
    pub fn plan_next(&mut self, key: Key, begun_ns: u64, index: u32) {
        let after = self.schedule.ttft + self.schedule.itl * index;
        self.plan(key, begun_ns + ns(after));
    }

    /// At the tick at or after its time.
    fn plan(&mut self, key: Key, at_ns: u64) {
        let at_ns = match ns(self.schedule.tick) {
            0 => at_ns,
            tick_ns => at_ns.div_ceil(tick_ns) * tick_ns,
        };
        self.due.push(Reverse((at_ns, key)));
    }

    /// When the next content is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// The answer whose content is due by now, the longest due first.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<Key> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        self.due.pop().map(|Reverse((_, key))| key)
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn agenda(parallel: u32, tick_ms: u64) -> Agenda {
        Agenda::new(Schedule {
            ttft: Duration::from_millis(50),
            itl: Duration::from_millis(10),
            tokens: 100,
            parallel,
            tick: Duration::from_millis(tick_ms),
        })
    }

    #[test]
    fn contents_are_due_by_the_schedule_and_on_the_grid() {
        let mut agenda = agenda(0, 4);
        agenda.admit((0, 1), MS / 2, 1);
        assert_eq!(agenda.pop_due(51 * MS), None);
        assert_eq!(agenda.next_due_ns(), Some(52 * MS));
        assert_eq!(agenda.pop_due(52 * MS), Some((0, 1)));
        agenda.plan_next((0, 1), MS / 2, 1);
        assert_eq!(agenda.next_due_ns(), Some(64 * MS));
    }

    #[test]
    fn without_a_grid_each_has_its_own_time() {
        let mut agenda = agenda(0, 0);
        agenda.admit((0, 1), 7, 1);
        // One that comes whole is due when its last token is.
        agenda.admit((1, 2), 5, 3);
        assert_eq!(agenda.next_due_ns(), Some(50 * MS + 7));
        assert_eq!(agenda.pop_due(u64::MAX), Some((0, 1)));
        assert_eq!(agenda.next_due_ns(), Some(70 * MS + 5));
    }

    #[test]
    fn places_go_to_who_waits_longest() {
        let mut agenda = agenda(1, 1);
        assert!(agenda.has_place((0, 1)));
        agenda.admit((0, 1), 0, 1);
        assert!(!agenda.has_place((1, 2)) && !agenda.has_place((2, 3)));
        agenda.leave();
        assert_eq!(agenda.next_waiting(), Some((1, 2)));
        agenda.admit((1, 2), 0, 1);
        assert!(!agenda.has_place((3, 4)));
        assert_eq!(agenda.next_waiting(), Some((2, 3)));
    }

    #[test]
    fn a_ceiling_is_kept_and_never_exceeds_ours() {
        let agenda = agenda(0, 1);
        let tokens = [None, Some(7), Some(500), Some(0)].map(|asked| agenda.tokens(asked));
        assert_eq!(tokens, [100, 7, 100, 1]);
    }
}
