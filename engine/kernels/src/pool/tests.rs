//! The pool: each task once, whatever the numbers; panics, callers in each other's way, sleep.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use super::*;

/// Fewer where an interpreter is at work.
const TIMES: usize = if cfg!(miri) { 20 } else { 20_000 };

fn pool(threads: usize) -> Pool {
    Pool::new(threads).unwrap()
}

/// Runs `tasks` and counts how often each was called.
fn counts(pool: &Pool, tasks: usize) -> Vec<usize> {
    let counts: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
    pool.run(tasks, &|task| {
        counts[task].fetch_add(1, Relaxed);
    });
    counts.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn each_task_is_called_once() {
    for threads in [0, 1, 2, 3, 7] {
        let pool = pool(threads);
        assert_eq!(pool.threads(), threads.max(1));
        for tasks in [0, 1, 2, 3, 8, 100] {
            assert_eq!(counts(&pool, tasks), vec![1; tasks]);
        }
    }
}

#[test]
fn what_tasks_write_is_seen_after_each_of_many_jobs() {
    let pool = pool(3);
    let mut values = vec![0_usize; 5];
    for time in 1..=TIMES {
        let parts = crate::parts::Parts::new(&mut values);
        pool.run(5, &|task| {
            // SAFETY: tasks are run once each.
            let value = unsafe { parts.part(task..task + 1) };
            value[0] += 1;
        });
        assert_eq!(values, [time; 5]);
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
    let pool = pool(3);
    for time in 0..TIMES / 10 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(10, &|task| assert!(task != time % 10, "task {task}"));
        }));
        let said = *caught.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(said, format!("task {}", time % 10));
        assert_eq!(counts(&pool, 10), [1; 10]);
    }
    let all = catch_unwind(AssertUnwindSafe(|| pool.run(10, &|_| panic!("all"))));
    assert_eq!(*all.unwrap_err().downcast::<&str>().unwrap(), "all");
    assert_eq!(counts(&pool, 10), [1; 10]);
}

#[test]
fn a_job_within_a_task_is_done_by_its_thread() {
    let pool = pool(2);
    let calls = AtomicUsize::new(0);
    pool.run(4, &|_| {
        let me = thread::current().id();
        pool.run(4, &|_| {
            assert_eq!(thread::current().id(), me);
            calls.fetch_add(1, Relaxed);
        });
    });
    assert_eq!(calls.into_inner(), 16);
}

#[test]
fn two_callers_take_turns() {
    let pool = pool(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..TIMES / 10 {
                    assert_eq!(counts(&pool, 7), [1; 7]);
                }
            });
        }
    });
}

/// Who is held up leaves its tasks to the others, whose parts come after its own.
#[test]
fn tasks_of_a_held_up_thread_are_done_by_others() {
    let pool = pool(2);
    let caller = thread::current().id();
    let others = AtomicUsize::new(0);
    let start = std::time::Instant::now();
    pool.run(8, &|_| {
        if thread::current().id() != caller {
            others.fetch_add(1, Relaxed);
            return;
        }
        while others.load(Relaxed) < 7 && start.elapsed().as_secs() < 30 {
            thread::yield_now();
        }
    });
    assert!(others.into_inner() >= 7);
}

/// A caller that has nothing left to do sleeps until the last task is done, and is woken.
#[test]
fn a_caller_waits_for_a_long_task() {
    let pool = pool(2);
    let caller = thread::current().id();
    let (others, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for _ in 0..5 {
        pool.run(2, &|_| {
            if thread::current().id() == caller {
                // Leaves the other task to the other thread, however late that is.
                let start = std::time::Instant::now();
                while others.load(Relaxed) == done.load(Relaxed) && start.elapsed().as_secs() < 60 {
                    thread::yield_now();
                }
            } else {
                others.fetch_add(1, Relaxed);
                thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        assert_eq!(others.load(Relaxed), done.fetch_add(1, Relaxed) + 1);
    }
}

/// Threads without work use no processor time: what the system counts for them stands still.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn an_idle_pool_sleeps() {
    use std::{fs, time::Duration};

    /// States of this process's threads of that name. (Other tests have pools as well.)
    fn states(name: &str) -> Vec<char> {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let stats =
            tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
        let of_name = stats.filter(|stat| stat.contains(&format!("({name})")));
        // "pid (name) state …"
        let state = |stat: String| stat.rsplit_once(") ")?.1.chars().next();
        of_name.filter_map(state).collect()
    }

    // No other test has a pool of that many.
    const THREADS: usize = 12;
    let pool = pool(THREADS);
    assert_eq!(counts(&pool, 100), [1; 100]);
    for _ in 0..100 {
        thread::sleep(Duration::from_millis(20));
        if (8..THREADS).all(|i| states(&format!("kernels-{i}")) == ['S']) {
            return;
        }
    }
    panic!("{:?}", states("kernels-11"));
}
