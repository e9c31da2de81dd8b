//! What the machine itself costs: whatever hands out IDs pays some of this.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use raindrop::core::clock::{Clock, SystemClock};
use raindrop_bench::rounds::{Rounds, alone, in_pairs};
use rustix::time::{ClockId, clock_gettime};

use crate::ours::Ours;

pub(crate) const SYSTEM_CLOCK: &str = "the system clock, in milliseconds";
pub(crate) const COARSE_CLOCK: &str = "the kernel's coarse clock (`CLOCK_REALTIME_COARSE`)";
pub(crate) const CACHED_CLOCK: &str = "a cached reading (one load)";
pub(crate) const FETCH_ADD: &str = "`fetch_add`";
pub(crate) const LOOP: &str = "compare-and-swap loop";
pub(crate) const LOOP_SYSTEM: &str = "compare-and-swap loop + the system clock";
pub(crate) const LOOP_CACHED: &str = "compare-and-swap loop + a cached reading";
pub(crate) const INCREMENT: &str = "`u64 += 1` in memory";
pub(crate) const COPY: &str = "copying 22 bytes, of 22 kB at once";

/// Those that one thread is measured with, in the order of the report.
pub(crate) const ALONE: [&str; 9] = [
    INCREMENT,
    COPY,
    CACHED_CLOCK,
    COARSE_CLOCK,
    SYSTEM_CLOCK,
    FETCH_ADD,
    LOOP,
    LOOP_CACHED,
    LOOP_SYSTEM,
];

/// Those that two threads share.
pub(crate) const PAIRED: [&str; 4] = [FETCH_ADD, LOOP, LOOP_CACHED, LOOP_SYSTEM];

/// A counter with cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

impl Line {
    fn add(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel)
    }

    /// The least that a generator does: it goes on where it was, or where the clock is.
    fn swap(&self, at_least: u64) -> u64 {
        let mut next = self.0.load(Ordering::Acquire);
        loop {
            let first = next.max(at_least);
            let swapped =
                self.0.compare_exchange_weak(next, first + 1, Ordering::AcqRel, Ordering::Acquire);
            match swapped {
                Ok(_) => return first,
                Err(moved) => next = moved,
            }
        }
    }
}

/// The first position of a millisecond.
fn position(now_ms: i64) -> u64 {
    now_ms.cast_unsigned() << 22
}

/// Adds what one thread is measured with.
pub(crate) fn add_alone(rounds: &mut Rounds<'_>, ours: &Ours) {
    let mut counter = 0_u64;
    rounds.add(INCREMENT, alone(move || *black_box(&mut counter) += 1));

    let (from, mut to) = (vec![b'1'; 22_000], vec![0; 22_000]);
    rounds.add(COPY, {
        let mut copy = alone(move || black_box(&mut to).copy_from_slice(black_box(&from)));
        // So that a copy counts as the 1000 texts that it holds.
        move |times| copy(times.div_ceil(1000)).scaled(times, times.div_ceil(1000) * 1000)
    });

    let system = SystemClock::default();
    let recent = ours.recent();
    rounds.add(
        CACHED_CLOCK,
        alone({
            let recent = recent.clone();
            move || recent.ms()
        }),
    );
    rounds.add(
        COARSE_CLOCK,
        alone(|| {
            let now = clock_gettime(ClockId::RealtimeCoarse);
            now.tv_sec * 1000 + now.tv_nsec / 1_000_000
        }),
    );
    rounds.add(SYSTEM_CLOCK, alone(move || system.now_ms()));

    let line = Box::new(Line::default());
    rounds.add(FETCH_ADD, alone(move || line.add()));
    let line = Box::new(Line::default());
    rounds.add(LOOP, alone(move || line.swap(black_box(0))));
    let line = Box::new(Line::default());
    rounds.add(LOOP_CACHED, alone(move || line.swap(position(recent.ms()))));
    let line = Box::new(Line::default());
    rounds.add(LOOP_SYSTEM, alone(move || line.swap(position(system.now_ms()))));
}

/// Adds what two threads share.
pub(crate) fn add_paired(rounds: &mut Rounds<'_>, ours: &Ours) {
    let line = Arc::new(Line::default());
    rounds.add(
        FETCH_ADD,
        in_pairs(move |_| {
            let line = Arc::clone(&line);
            move || line.add()
        }),
    );
    let line = Arc::new(Line::default());
    rounds.add(
        LOOP,
        in_pairs(move |_| {
            let line = Arc::clone(&line);
            move || line.swap(black_box(0))
        }),
    );
    let (line, recent) = (Arc::new(Line::default()), ours.recent());
    rounds.add(
        LOOP_CACHED,
        in_pairs(move |_| {
            let (line, recent) = (Arc::clone(&line), recent.clone());
            move || line.swap(position(recent.ms()))
        }),
    );
    let (line, system) = (Arc::new(Line::default()), SystemClock::default());
    rounds.add(
        LOOP_SYSTEM,
        in_pairs(move |_| {
            let line = Arc::clone(&line);
            move || line.swap(position(system.now_ms()))
        }),
    );
}
