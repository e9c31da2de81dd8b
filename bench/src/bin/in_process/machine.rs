//! The limits of the machine: every generator pays some of these costs.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
};

use raindrop_bench::rounds::{one_thread, per_item};
use raindrop_core::clock::{Clock, Recent, SystemClock};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    contestants::{Contestant, Group, Threads},
    embedded::Embedded,
};

pub(crate) const INCREMENT: &str = "`u64 += 1` in memory";
const BOUNDED: &str = "the same below an end, up to a reading of the cached clock";
pub(crate) const COPY: &str = "copy of 22 bytes, of 22 kB at once";
pub(crate) const CACHED_CLOCK: &str = "cached clock (one load)";
pub(crate) const COARSE_CLOCK: &str = "coarse clock of the kernel (`CLOCK_REALTIME_COARSE`)";
const SYSTEM_CLOCK: &str = "system clock, in milliseconds";
pub(crate) const FETCH_ADD: &str = "`fetch_add`";
pub(crate) const LOOP: &str = "compare-and-swap loop";
pub(crate) const LOOP_CACHED: &str = "compare-and-swap loop + cached clock";
pub(crate) const LOOP_SYSTEM: &str = "compare-and-swap loop + system clock";

/// A counter that shares its cache lines with no other one.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

impl Line {
    fn leaked() -> &'static Self {
        Box::leak(Box::default())
    }

    fn add(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel)
    }

    /// Takes the next position, or the position of the clock if that is ahead: the least that a
    /// generator does.
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

/// The least that a block iterator does: it has an end, and must not be used after some time.
struct Bounded {
    next: u64,
    end: u64,
    last_ms: i64,
    recent: Recent,
}

impl Bounded {
    fn next(&mut self) -> Option<u64> {
        if self.next == self.end || self.recent.ms() > self.last_ms {
            return None;
        }
        self.next += 1;
        Some(self.next)
    }
}

/// Returns the first position of a millisecond.
fn position(now_ms: i64) -> u64 {
    now_ms.cast_unsigned() << 22
}

/// Returns every limit, in the order of the report.
pub(crate) fn contestants(embedded: &Embedded) -> [Contestant; 10] {
    let limit = |name, threads| Contestant::new(Group::Machine, name, threads);
    let [counter, bare, cached, system] = [(); 4].map(|()| Line::leaked());
    let recent = embedded.recent();
    [
        limit(INCREMENT, {
            let mut count = 0_u64;
            Threads::one(move || {
                // Like all others it returns the number.
                let count = black_box(&mut count);
                *count += 1;
                *count
            })
        }),
        limit(BOUNDED, {
            let recent = recent.clone();
            let mut bounded = Bounded { next: 0, end: u64::MAX, last_ms: i64::MAX, recent };
            Threads::one(move || black_box(&mut bounded).next())
        }),
        limit(COPY, {
            let (from, mut to) = (vec![b'1'; 22_000], vec![0; 22_000]);
            let copy = one_thread(move || black_box(&mut to).copy_from_slice(black_box(&from)));
            Threads { one: Some(Box::new(per_item(1000, copy))), two: None }
        }),
        limit(CACHED_CLOCK, {
            let recent = recent.clone();
            Threads::one(move || recent.ms())
        }),
        limit(
            COARSE_CLOCK,
            Threads::one(|| {
                let now = clock_gettime(ClockId::RealtimeCoarse);
                now.tv_sec * 1000 + now.tv_nsec / 1_000_000
            }),
        ),
        limit(SYSTEM_CLOCK, Threads::one(|| SystemClock::default().now_ms())),
        limit(FETCH_ADD, Threads::shared(move || counter.add())),
        limit(LOOP, Threads::shared(move || bare.swap(black_box(0)))),
        limit(LOOP_CACHED, Threads::shared(move || cached.swap(position(recent.ms())))),
        limit(
            LOOP_SYSTEM,
            Threads::shared(move || system.swap(position(SystemClock::default().now_ms()))),
        ),
    ]
}
