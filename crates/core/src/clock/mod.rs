//! The only module that reads clocks.
//!
//! There are two clocks. The wall clock gives IDs their time and may be wrong: it may step back,
//! jump ahead or stand still. The steady clock never steps, and counts the time for which the
//! machine was suspended; comparing both shows whether the wall clock jumped. No clock decides
//! whether an ID is unique. `.clippy.toml` forbids readings elsewhere, and [`ManualClock`] lets
//! tests and simulations set both.

mod recent;

use std::{
    fmt::Debug,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

pub use self::recent::Recent;

/// A source of wall time and steady time.
pub trait Clock: Debug + Send + Sync {
    /// Returns the wall clock's time in Unix milliseconds. The clock may step in either direction.
    fn now_ms(&self) -> i64;

    /// Returns the time since a fixed but unknown instant. It never steps, and includes the time
    /// for which the machine was suspended, where the operating system counts that.
    fn steady(&self) -> Duration;

    /// Returns a reading of the wall clock that costs only a load from memory, if this clock keeps
    /// one. Generators update the reading whenever they read the clock themselves.
    fn recent(&self) -> Option<Recent> {
        None
    }

    /// Updates the recent reading, if no thread of the clock does.
    fn refresh(&self) {}
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the wall clock")]
    fn now_ms(&self) -> i64 {
        let now = std::time::SystemTime::now();
        match now.duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            // Round down: the last millisecond before 1970 is -1.
            Err(before) => {
                let millis = before.duration().as_nanos().div_ceil(1_000_000);
                i64::try_from(millis).map_or(i64::MIN, |millis| -millis)
            }
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn steady(&self) -> Duration {
        steady_of(rustix::time::ClockId::Boottime)
    }

    // Outside Linux no portable clock counts suspension; the monotonic clock comes nearest.
    #[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
    fn steady(&self) -> Duration {
        steady_of(rustix::time::ClockId::Monotonic)
    }

    #[cfg(not(unix))]
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the steady clock")]
    fn steady(&self) -> Duration {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }
}

#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "this is the place that reads the steady clock")]
fn steady_of(clock: rustix::time::ClockId) -> Duration {
    Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default()
}

/// A clock that is moved by hand, for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    steady_ms: AtomicU64,
}

impl ManualClock {
    /// Makes a clock whose wall time is `now_ms`.
    pub fn new(now_ms: i64) -> Self {
        Self { wall_ms: AtomicI64::new(now_ms), steady_ms: AtomicU64::new(0) }
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).expect("a duration a test can wait for");
        self.steady_ms.fetch_add(by, Ordering::SeqCst);
        self.step(i64::try_from(by).expect("a duration a test can wait for"));
    }

    /// Steps the wall clock alone, as an operator or NTP would.
    pub fn step(&self, by_ms: i64) {
        self.wall_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Sets the wall clock alone.
    pub fn set(&self, now_ms: i64) {
        self.wall_ms.store(now_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.steady_ms.load(Ordering::SeqCst))
    }
}

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
