//! The one thread pool: the caller works too, waits are short spins, an idle pool sleeps.
//!
//! A token's forward is some 150 calls of [`Pool::run`] within milliseconds, so that handing out a
//! job must cost a microsecond; and between requests the cores belong to the server and its clients.
//! So threads that wait first spin, then yield, then park. Each gets a contiguous part of the tasks
//! (the same weights at each token) and, when done, takes from the others' parts.
//!
//! A job needs nobody but its caller. It stands behind a `Gate`: threads enter while it is open,
//! the caller shuts it when no task is left, and then waits only for those inside. A thread that the
//! system has put aside holds nobody up: it finds the gate shut and waits for the next job.

mod gate;
mod wait;

use std::{
    any::Any,
    cell::Cell,
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicPtr, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use gate::Gate;

/// More threads than any machine of ours has cores, and fewer than a gate can count.
const THREADS_MAX: usize = 1024;

/// Threads that wait for work, and the caller.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    /// Held by the caller whose job is running.
    caller: Mutex<()>,
    threads: Vec<JoinHandle<()>>,
}

/// A task of any caller: called with the task's number.
type Task<'a> = &'a (dyn Fn(usize) + Sync);

/// What the threads of a pool share.
#[derive(Debug)]
struct Shared {
    gate: Gate,
    /// One part of the job's tasks for each thread.
    parts: Box<[Part]>,
    /// The job's function, a `Task` on the caller's stack; only read behind the open gate.
    task: AtomicPtr<Task<'static>>,
    /// What the panics of a job said, one a thread at most, the first in front.
    panics: Mutex<Vec<Box<dyn Any + Send>>>,
}

/// Tasks from `next` to `end` that nobody has begun. Alone in its cache lines (two, since
/// processors fetch them in pairs), as threads take from it all the time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part {
    next: AtomicUsize,
    end: AtomicUsize,
}

thread_local! {
    /// Set while this thread runs tasks.
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
}

impl Pool {
    /// A pool of `threads` threads, the caller's among them: at least one, at most 1024.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(threads: usize) -> io::Result<Self> {
        let threads = threads.clamp(1, THREADS_MAX);
        let mut pool = Self {
            shared: Arc::new(Shared {
                gate: Gate::default(),
                parts: (0..threads).map(|_| Part::default()).collect(),
                task: AtomicPtr::new(ptr::null_mut()),
                panics: Mutex::default(),
            }),
            caller: Mutex::new(()),
            threads: Vec::new(),
        };
        for worker in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let thread = thread::Builder::new().name(format!("kernels-{worker}"));
            // On an error the pool is dropped, and the threads so far with it.
            let thread = thread.spawn(move || shared.serve(worker))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Threads, the caller's among them.
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `task(0)` … `task(tasks - 1)`, each once, on all threads, and returns when all are done.
    ///
    /// Called from within a task it does all on this thread; called by two threads at once, one
    /// waits for the other.
    ///
    /// # Panics
    /// A task did. Then all that began are done, some may not have begun, and the pool is as before.
    pub fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if tasks <= 1 || self.threads.is_empty() || IN_TASK.get() {
            return (0..tasks).for_each(task);
        }
        // A poisoned lock tells of an earlier job's panic, which has had its answer.
        let caller = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.hand_out(tasks);
        let job: *const Task<'_> = &task;
        self.shared
            .task
            .store(job.cast_mut().cast(), Ordering::Relaxed);
        self.shared.gate.open();
        for thread in &self.threads {
            // Costs next to nothing where the thread is awake.
            thread.thread().unpark();
        }
        self.shared.work(0, task);
        // `task` is borrowed until here: nobody enters any more, and all who did have left. Nothing
        // above unwinds, since `work` keeps what tasks panic with.
        self.shared.gate.shut();
        let mut panics = mem::take(&mut *self.shared.panics()).into_iter();
        drop(caller);
        if let Some(first) = panics.next() {
            // Before it unwinds: to drop what somebody panicked with may panic.
            drop(panics);
            resume_unwind(first);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.gate.close_for_good();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // Threads catch the panics of tasks and have none of their own.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Gives each thread its part of the tasks. The gate is shut: nobody looks.
    fn hand_out(&self, tasks: usize) {
        let (each, rest) = (tasks / self.parts.len(), tasks % self.parts.len());
        let mut first = 0;
        for (i, part) in self.parts.iter().enumerate() {
            let end = first + each + usize::from(i < rest);
            part.next.store(first, Ordering::Relaxed);
            part.end.store(end, Ordering::Relaxed);
            first = end;
        }
    }

    /// A thread's life: one job after the other, until the pool is dropped.
    fn serve(&self, worker: usize) {
        let mut last = 0;
        while let Some(job) = self.gate.wait_for_job(last) {
            last = job;
            let Some(_inside) = self.gate.enter() else {
                continue;
            };
            let task = self.task.load(Ordering::Relaxed);
            // SAFETY: we are inside the gate, and have seen all that the caller wrote before it
            // opened it (or a later one, whose task we then see). So the pointer is to a `Task` on
            // the stack of `run`, which does not return, nor go on to another job, before it has
            // shut the gate, and that waits until we have left by dropping `_inside`.
            self.work(worker, unsafe { *task });
        }
    }

    /// Runs tasks until none is left: of its own part first, then of the others'.
    fn work(&self, worker: usize, task: Task<'_>) {
        let (before, own) = self.parts.split_at(worker);
        IN_TASK.set(true);
        let done = catch_unwind(AssertUnwindSafe(|| {
            for part in own.iter().chain(before) {
                let end = part.end.load(Ordering::Relaxed);
                // Looked at first, so that `next` passes `end` by a number of threads at most.
                while part.next.load(Ordering::Relaxed) < end {
                    let next = part.next.fetch_add(1, Ordering::Relaxed);
                    if next < end {
                        task(next);
                    }
                }
            }
        }));
        IN_TASK.set(false);
        if let Err(panic) = done {
            // Kept for the caller: to drop it may panic, and here nothing may.
            self.panics().push(panic);
        }
    }

    fn panics(&self) -> MutexGuard<'_, Vec<Box<dyn Any + Send>>> {
        self.panics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
mod tests;
