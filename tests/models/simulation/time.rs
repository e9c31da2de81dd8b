//! True time, and the clocks that deviate from it.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use raindrop_core::clock::{Clock, Recent};
use tokio::time::Instant;

/// True time: tokio's paused time, plus the time for which all machines slept together.
#[derive(Debug)]
pub(crate) struct Time {
    origin: Instant,
    began_ms: i64,
    slept_ms: AtomicI64,
}

impl Time {
    pub(crate) fn new(began_ms: i64) -> Arc<Self> {
        Arc::new(Self { origin: Instant::now(), began_ms, slept_ms: AtomicI64::new(0) })
    }

    /// Returns the time since the simulation began.
    pub(crate) fn elapsed_ms(&self) -> i64 {
        let elapsed = self.origin.elapsed().as_millis();
        i64::try_from(elapsed).expect("a short simulation") + self.slept_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.began_ms + self.elapsed_ms()
    }

    /// Suspends every machine: all clocks move on, and no timer of a process does.
    pub(crate) fn sleep_all(&self, ms: i64) {
        self.slept_ms.fetch_add(ms.max(0), Ordering::Relaxed);
    }
}

type Interruption = Box<dyn FnOnce() + Send>;

/// A machine's clock.
pub(crate) struct SkewedClock {
    time: Arc<Time>,
    error: Mutex<ClockError>,
    highest_ms: AtomicI64,
    /// Readings with their numbers: each is higher than all later ones.
    falling: Mutex<Vec<(u64, i64)>>,
    readings: AtomicU64,
    last_ms: AtomicI64,
    went_back: AtomicBool,
    recent: Option<Recent>,
    interruption: Mutex<Option<Interruption>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ClockError {
    offset_ms: i64,
    drift_ppm: i64,
    since_ms: i64,
}

impl ClockError {
    fn at(self, elapsed_ms: i64) -> i64 {
        self.offset_ms + (elapsed_ms - self.since_ms) * self.drift_ppm / 1_000_000
    }
}

impl fmt::Debug for SkewedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkewedClock").field("error", &self.error).finish_non_exhaustive()
    }
}

impl SkewedClock {
    pub(crate) fn new(time: &Arc<Time>, offset_ms: i64, keeps_recent: bool) -> Arc<Self> {
        Arc::new(Self {
            time: Arc::clone(time),
            error: Mutex::new(ClockError { offset_ms, ..ClockError::default() }),
            highest_ms: AtomicI64::new(i64::MIN),
            falling: Mutex::default(),
            readings: AtomicU64::new(0),
            last_ms: AtomicI64::new(i64::MIN),
            went_back: AtomicBool::new(false),
            recent: keeps_recent.then(|| Recent::new(i64::MIN)),
            interruption: Mutex::default(),
        })
    }

    /// Renews the recent reading.
    pub(crate) fn renew(&self) {
        if let Some(recent) = &self.recent {
            recent.set(self.peek_ms());
        }
    }

    /// Returns the last reading.
    pub(crate) fn last_ms(&self) -> i64 {
        self.last_ms.load(Ordering::Relaxed)
    }

    /// Returns how often the clock was read.
    pub(crate) fn readings(&self) -> u64 {
        self.readings.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut ClockError)) {
        let elapsed_ms = self.time.elapsed_ms();
        let mut error = self.error.lock().expect("unpoisoned");
        *error = ClockError { offset_ms: error.at(elapsed_ms), since_ms: elapsed_ms, ..*error };
        change(&mut error);
    }

    pub(crate) fn step(&self, by_ms: i64) {
        self.change(|error| error.offset_ms += by_ms);
    }

    pub(crate) fn drift(&self, ppm: i64) {
        self.change(|error| error.drift_ppm = ppm);
    }

    pub(crate) fn put_right(&self) {
        self.change(|error| (error.offset_ms, error.drift_ppm) = (0, 0));
    }

    /// Returns the present time of the clock without counting as a reading.
    pub(crate) fn peek_ms(&self) -> i64 {
        let elapsed_ms = self.time.elapsed_ms();
        self.time.now_ms() + self.error.lock().expect("unpoisoned").at(elapsed_ms)
    }

    /// Returns the highest reading.
    pub(crate) fn highest_ms(&self) -> i64 {
        self.highest_ms.load(Ordering::Relaxed)
    }

    /// Returns whether a reading was ever below an earlier one.
    pub(crate) fn went_back(&self) -> bool {
        self.went_back.load(Ordering::Relaxed)
    }

    /// Returns the highest reading since the clock had this many.
    pub(crate) fn highest_since_ms(&self, readings: u64) -> i64 {
        let falling = self.falling.lock().expect("unpoisoned");
        let since = falling.iter().find(|(number, _)| *number >= readings);
        since.map_or(i64::MIN, |(_, reading)| *reading)
    }

    /// Sets what happens between the next reading of this clock and its use.
    pub(crate) fn interrupt(&self, interruption: Option<Interruption>) {
        *self.interruption.lock().expect("unpoisoned") = interruption;
    }
}

impl Clock for SkewedClock {
    fn now_ms(&self) -> i64 {
        let reading = self.peek_ms();
        let number = self.readings.fetch_add(1, Ordering::Relaxed);
        self.last_ms.store(reading, Ordering::Relaxed);
        let highest_before = self.highest_ms.fetch_max(reading, Ordering::Relaxed);
        self.went_back.fetch_or(reading < highest_before, Ordering::Relaxed);
        let mut falling = self.falling.lock().expect("unpoisoned");
        while falling.pop_if(|(_, before)| *before <= reading).is_some() {}
        falling.push((number, reading));
        drop(falling);
        let interruption = self.interruption.lock().expect("unpoisoned").take();
        if let Some(interruption) = interruption {
            interruption();
        }
        reading
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.time.elapsed_ms().unsigned_abs())
    }

    fn recent(&self) -> Option<Recent> {
        self.recent.clone()
    }
}
