//! A clock that caches its reading.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{Clock, Recent, SystemClock};

/// How often the reading is updated.
const PERIOD: Duration = Duration::from_millis(1);

/// The machine's clocks, and a reading of the wall clock that a thread updates every millisecond.
/// The reading costs a load from memory instead of a system call.
///
/// The reading lags while the machine is too busy to run the thread, and after a pause of the
/// process. IDs are unique all the same; their timestamps may be early by the lag. A generator
/// never refuses or delays a claim because of the lag: it reads the clock itself before it does.
///
/// The thread ends when the clock is dropped.
#[derive(Debug)]
pub struct CachedClock {
    system: SystemClock,
    recent: Recent,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CachedClock {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When the operating system cannot start a thread.
    pub fn start() -> io::Result<Self> {
        let system = SystemClock::default();
        let recent = Recent::new(system.now_ms());
        let stopping = Arc::new(AtomicBool::new(false));
        let renew = {
            let (recent, stopping) = (recent.clone(), Arc::clone(&stopping));
            move || {
                while !stopping.load(Ordering::Relaxed) {
                    recent.renew(|| system.now_ms());
                    thread::park_timeout(PERIOD);
                }
            }
        };
        let thread = thread::Builder::new().name("raindrop-clock".into()).spawn(renew)?;
        Ok(Self { system, recent, stopping, thread: Some(thread) })
    }
}

impl Clock for CachedClock {
    fn now_ms(&self) -> i64 {
        self.system.now_ms()
    }

    fn steady(&self) -> Duration {
        self.system.steady()
    }

    fn recent(&self) -> Option<Recent> {
        Some(self.recent.clone())
    }
}

impl Drop for CachedClock {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread cannot fail.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_updated_until_the_clock_is_dropped() {
        let clock = CachedClock::start().expect("a thread");
        let recent = clock.recent().expect("it has one");
        let began = recent.ms();
        while recent.ms() == began {
            thread::yield_now();
        }
        assert!(recent.ms() <= clock.now_ms());
        drop(clock);
        // The thread has dropped its clone.
        recent.set(began);
        assert_eq!(recent.ms(), began);
        assert_eq!(recent.holders(), 1);
    }
}
