//! The policy word by word, and over random arrivals, ceilings and cancellations.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Memory as a chapter may have it: runs of positions, first fit, so that it can be fragmented.
struct Memory {
    positions: usize,
    /// Start and length, by request.
    taken: BTreeMap<RequestId, (usize, usize)>,
}

impl Memory {
    fn new(positions: usize) -> Self {
        Self {
            positions,
            taken: BTreeMap::new(),
        }
    }

    fn reserve(&mut self, id: RequestId, positions: usize) -> bool {
        let mut runs: Vec<_> = self.taken.values().copied().collect();
        runs.sort_unstable();
        let mut start = 0;
        for (begins, length) in runs {
            if begins - start >= positions {
                break;
            }
            start = begins + length;
        }
        let fits = start + positions <= self.positions;
        if fits {
            let before = self.taken.insert(id, (start, positions));
            assert_eq!(before, None, "taken twice");
        }
        fits
    }

    fn release(&mut self, id: RequestId) {
        self.taken.remove(&id).unwrap();
    }
}

fn scheduler(max_seqs: usize, max_step_tokens: usize) -> Scheduler {
    Scheduler::new(Bounds {
        max_seqs,
        max_step_tokens,
    })
}

/// Who decodes and whose prompt is run in the next step.
fn next(scheduler: &mut Scheduler, memory: &mut Memory) -> (Vec<RequestId>, Vec<RequestId>) {
    let plan = scheduler.plan(|id, positions| memory.reserve(id, positions));
    (plan.decode, plan.prefill)
}

#[test]
fn what_runs_decodes_and_what_waits_is_admitted_in_order_within_the_tokens() {
    let (mut scheduler, mut memory) = (scheduler(4, 20), Memory::new(1000));
    for (id, prompt_tokens) in [(1, 8), (2, 9), (3, 4), (4, 1)] {
        scheduler.submit(id, prompt_tokens, prompt_tokens + 5);
    }
    // Request 4 would still fit, and does not overtake 3.
    assert_eq!(next(&mut scheduler, &mut memory), (vec![], vec![1, 2]));
    assert_eq!(next(&mut scheduler, &mut memory), (vec![1, 2], vec![3, 4]));
    assert_eq!(
        next(&mut scheduler, &mut memory),
        (vec![1, 2, 3, 4], vec![])
    );
}

#[test]
fn a_prompt_longer_than_the_bound_goes_alone_beside_the_decodes() {
    let (mut scheduler, mut memory) = (scheduler(4, 20), Memory::new(1000));
    for (id, prompt_tokens) in [(1, 3), (2, 300), (3, 1)] {
        scheduler.submit(id, prompt_tokens, prompt_tokens + 5);
    }
    assert_eq!(next(&mut scheduler, &mut memory), (vec![], vec![1]));
    assert_eq!(next(&mut scheduler, &mut memory), (vec![1], vec![2]));
    assert_eq!(next(&mut scheduler, &mut memory), (vec![1, 2], vec![3]));
}

#[test]
fn without_memory_the_first_waits_and_nobody_overtakes_it() {
    let (mut scheduler, mut memory) = (scheduler(4, 20), Memory::new(20));
    for (id, positions) in [(1, 15), (2, 15), (3, 2)] {
        scheduler.submit(id, 1, positions);
    }
    assert_eq!(next(&mut scheduler, &mut memory), (vec![], vec![1]));
    assert_eq!(next(&mut scheduler, &mut memory), (vec![1], vec![]));
    scheduler.leave(1);
    memory.release(1);
    assert_eq!(next(&mut scheduler, &mut memory), (vec![], vec![2, 3]));
}

#[test]
fn leaving_frees_the_place_in_the_queue_and_the_seat() {
    let (mut scheduler, mut memory) = (scheduler(1, 20), Memory::new(100));
    for id in 1..=3 {
        scheduler.submit(id, 2, 4);
    }
    assert_eq!(next(&mut scheduler, &mut memory), (vec![], vec![1]));
    assert_eq!(next(&mut scheduler, &mut memory), (vec![1], vec![]));
    scheduler.leave(99);
    scheduler.leave(2);
    scheduler.leave(1);
    assert_eq!(next(&mut scheduler, &mut memory), (vec![], vec![3]));
    assert!(!scheduler.is_idle());
    scheduler.leave(3);
    assert!(scheduler.is_idle());
}

/// What happens to a scheduler from outside.
#[derive(Debug, Clone)]
enum Move {
    Submit {
        prompt_tokens: usize,
        ceiling: usize,
    },
    /// Of the requests that are not over, the one at this index modulo their number.
    Cancel(prop::sample::Index),
    Step,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        3 => (1_usize..40, 1_usize..12).prop_map(|(prompt_tokens, ceiling)| Move::Submit {
            prompt_tokens,
            ceiling,
        }),
        1 => any::<prop::sample::Index>().prop_map(Move::Cancel),
        4 => Just(Move::Step),
    ];
    prop::collection::vec(one, 1..120)
}

/// A request as the world sees it.
struct Client {
    prompt_tokens: usize,
    positions: usize,
    /// Tokens still to come.
    left: usize,
    began: bool,
    /// Steps by which it must be over, at the latest.
    due: usize,
}

/// A world around a scheduler, which checks every plan.
struct World {
    scheduler: Scheduler,
    memory: Memory,
    bounds: Bounds,
    /// Those that are not over, by id: ids are given in order of arrival.
    clients: BTreeMap<RequestId, Client>,
    arrived: RequestId,
    steps: usize,
}

impl World {
    fn new(bounds: Bounds, positions: usize) -> Self {
        Self {
            scheduler: Scheduler::new(bounds),
            memory: Memory::new(positions),
            bounds,
            clients: BTreeMap::new(),
            arrived: 0,
            steps: 0,
        }
    }

    fn submit(&mut self, prompt_tokens: usize, ceiling: usize) {
        let positions = prompt_tokens + ceiling;
        if positions > self.memory.positions {
            return; // The chapter refuses it.
        }
        let before: usize = self.clients.values().map(|client| client.left).sum();
        self.scheduler
            .submit(self.arrived, prompt_tokens, positions);
        let client = Client {
            prompt_tokens,
            positions,
            left: ceiling,
            began: false,
            due: self.steps + before + ceiling,
        };
        self.clients.insert(self.arrived, client);
        self.arrived += 1;
    }

    fn cancel(&mut self, which: &prop::sample::Index) {
        if !self.clients.is_empty() {
            let id = *self
                .clients
                .keys()
                .nth(which.index(self.clients.len()))
                .unwrap();
            self.over(id);
        }
    }

    fn over(&mut self, id: RequestId) {
        self.scheduler.leave(id);
        if self.clients.remove(&id).unwrap().began {
            self.memory.release(id);
        }
    }

    fn step(&mut self) {
        let memory = &mut self.memory;
        let mut refused = false;
        let plan = self.scheduler.plan(|id, positions| {
            let reserved = memory.reserve(id, positions);
            refused |= !reserved;
            reserved
        });
        self.steps += 1;
        self.check(&plan, refused);
        for id in plan.decode.into_iter().chain(plan.prefill) {
            let client = self.clients.get_mut(&id).unwrap();
            assert_eq!(self.memory.taken[&id].1, client.positions);
            client.began = true;
            client.left -= 1;
            if client.left == 0 {
                assert!(self.steps <= client.due, "{id} starved");
                self.over(id);
            }
        }
    }

    fn check(&self, plan: &Plan, out_of_memory: bool) {
        let began = |began: bool| {
            self.clients
                .iter()
                .filter(move |(_, client)| client.began == began)
                .map(|(id, _)| *id)
        };
        assert!(
            began(true).eq(plan.decode.iter().copied()),
            "all that run decode"
        );
        let admitted = plan.prefill.len();
        assert!(
            began(false).take(admitted).eq(plan.prefill.iter().copied()),
            "those that came first are admitted"
        );
        assert!(plan.decode.len() + admitted <= self.bounds.max_seqs);
        let prompt = |id: RequestId| self.clients[&id].prompt_tokens;
        let prompts: usize = plan.prefill.iter().copied().map(prompt).sum();
        let tokens = plan.decode.len() + prompts;
        assert!(tokens <= self.bounds.max_step_tokens || admitted == 1);
        // Nobody waits without a reason.
        if let Some(next) = began(false).nth(admitted) {
            let seats_are_taken = plan.decode.len() + admitted == self.bounds.max_seqs;
            let tokens_are_used =
                admitted > 0 && tokens + prompt(next) > self.bounds.max_step_tokens;
            assert!(seats_are_taken || tokens_are_used || out_of_memory);
        }
    }
}

proptest! {
    #[test]
    fn every_request_is_served_in_its_turn(
        moves in moves(),
        max_seqs in 1_usize..6,
        room in 1_usize..40,
        positions in 30_usize..120,
    ) {
        let bounds = Bounds { max_seqs, max_step_tokens: max_seqs + room };
        let mut world = World::new(bounds, positions);
        for one in &moves {
            match one {
                Move::Submit { prompt_tokens, ceiling } => world.submit(*prompt_tokens, *ceiling),
                Move::Cancel(which) => world.cancel(which),
                Move::Step => world.step(),
            }
        }
        // The bound on each request's steps makes this end.
        while !world.clients.is_empty() {
            world.step();
            let due = world.clients.values().map(|client| client.due).max();
            prop_assert!(due.is_none_or(|due| world.steps <= due), "lost");
        }
        prop_assert!(world.scheduler.is_idle());
        prop_assert!(world.memory.taken.is_empty());
    }
}
