//! What each thread counts for itself.
//!
//! Threads that count in one place pass its cache line back and forth, which costs more than the
//! rest of counting. So each has a line of its own, and whoever reads adds them up.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread::available_parallelism,
};

use prometheus::IntCounter;

/// With more threads than this, some share a line.
const MOST_LINES: usize = 64;

/// A value for each thread, as long as there are not many more threads than cores.
#[derive(Debug)]
pub(super) struct PerThread<T>(Box<[Line<T>]>);

/// Processors fetch lines of 64 bytes in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

impl<T> PerThread<T> {
    /// Values that this function makes.
    pub(super) fn new(value: impl Fn() -> T) -> Self {
        let threads = available_parallelism().map_or(1, usize::from);
        let lines = threads.next_power_of_two().min(MOST_LINES);
        Self((0..lines).map(|_| Line(value())).collect())
    }

    /// The value of this thread.
    pub(super) fn own(&self) -> &T {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static NUMBER: usize = THREADS.fetch_add(1, Relaxed);
        }
        // While a thread ends, its number may be gone.
        let number = NUMBER.try_with(|number| *number).unwrap_or(0);
        &self.0[number % self.0.len()].0
    }

    /// The values of all threads.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|Line(value)| value)
    }
}

impl<T> PerThread<Mutex<T>> {
    /// Locks the value of this thread, which nobody else wants but a reader.
    pub(super) fn lock_own(&self) -> MutexGuard<'_, T> {
        self.own().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the values of all threads, one after the other.
    pub(super) fn lock_all(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.all().map(|value| value.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A counter to which every thread adds in its own line.
#[derive(Debug)]
pub(super) struct ThreadCounter {
    counter: IntCounter,
    added: PerThread<AtomicU64>,
}

impl ThreadCounter {
    pub(super) fn new(counter: IntCounter) -> Self {
        Self { counter, added: PerThread::new(AtomicU64::default) }
    }

    pub(super) fn add(&self, count: u64) {
        self.added.own().fetch_add(count, Relaxed);
    }

    /// Moves what the threads added to the counter.
    pub(super) fn flush(&self) {
        for added in self.added.all() {
            self.counter.inc_by(added.swap(0, Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;

    #[test]
    fn what_threads_add_is_counted_once() {
        let counter = IntCounter::new("added", "What threads added.").expect("a valid name");
        let by_thread = ThreadCounter::new(counter.clone());
        thread::scope(|scope| {
            for count in 1..=100 {
                let by_thread = &by_thread;
                scope.spawn(move || {
                    by_thread.add(count);
                    by_thread.flush();
                    by_thread.add(1);
                });
            }
        });
        by_thread.flush();
        by_thread.flush();
        assert_eq!(counter.get(), 5_050 + 100);
    }

    #[test]
    fn threads_have_lines_of_their_own() {
        let lines = PerThread::new(AtomicU64::default);
        let address = |line: &AtomicU64| std::ptr::from_ref(line).addr();
        assert_eq!(address(lines.own()), address(lines.own()));
        let all: HashSet<usize> = lines.all().map(address).collect();
        let spawned = || thread::scope(|scope| scope.spawn(|| address(lines.own())).join());
        let used: HashSet<usize> = (0..all.len() * 2).map(|_| spawned().expect("joins")).collect();
        // Other tests start threads meanwhile, so which lines these get is not known.
        assert!(used.is_subset(&all) && used.len() > all.len() / 2, "{used:?} of {all:?}");
        let mut lines: Vec<usize> = all.into_iter().collect();
        lines.sort_unstable();
        assert!(lines.windows(2).all(|pair| pair[1] - pair[0] >= 128), "{lines:?}");
    }
}
