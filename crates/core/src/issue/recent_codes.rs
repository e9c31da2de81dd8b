//! The cursors that this thread used last, by code.
//!
//! A claim by name on a recent code needs no look-up in the table, no lock and no check of the
//! name. Like a [handle](super::CodeHandle), it moves the cursor within a window: the positions
//! that the last claim found free of further checks, as long as the clock reads the same. A closed
//! cursor refuses it. Unlike a handle, it has no runs and never issues a position beyond the
//! window, so IDs that are claimed by name ascend across threads.
//!
//! Each thread remembers up to 512 cursors; an older one with the same hash is forgotten. A
//! forgotten code only costs a look-up, so an attacker who chooses names that collide gains
//! nothing.

use std::{
    cell::RefCell,
    hash::{BuildHasher, Hasher},
    sync::atomic::{AtomicU64, Ordering},
};

use foldhash::fast::FixedState;

use super::{Claim, cursor::Cursor, generator::Generator, grant::Grant, planted, rules::ClaimTime};
use crate::{
    layout::Composer,
    sync::{Arc, thread_local},
};

/// How many codes a thread remembers; a power of two.
const SLOTS: usize = 512;

thread_local! {
    static RECENT: RefCell<Vec<Option<RecentCode>>> = RefCell::default();
}

/// Tells generators and grants apart: no two of a process have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InstanceId(u64);

impl InstanceId {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

#[derive(Debug)]
struct RecentCode {
    generator: InstanceId,
    grant: InstanceId,
    code: Box<str>,
    cursor: Arc<Cursor>,
    composer: Composer,
    /// The reading of the clock for which `first..end` need no further check.
    read_ms: i64,
    first: u64,
    end: u64,
    /// Where the cursor was last seen.
    seen: u64,
}

impl RecentCode {
    /// Claims `count` positions of the window, and returns the first.
    #[inline]
    fn take(&mut self, count: u64) -> Option<u64> {
        if count != 1 {
            let Self { cursor, seen, first, end, .. } = self;
            return (count > 1).then(|| cursor.take_within(seen, count, *first, *end))?;
        }
        if self.seen >= self.end {
            return None;
        }
        let position = self.cursor.advance(1);
        self.seen = position + 1;
        // A position beyond the end is never issued: another thread may have claimed above it, and
        // IDs that are claimed by name ascend.
        (position < planted::window_end(self.end)).then_some(position)
    }
}

impl Generator {
    /// Claims from the cursor of a recent code. Returns `None` if this thread does not know the
    /// code, if the clock has moved since its last claim, or if the window has too few positions
    /// left.
    #[inline]
    pub(super) fn claim_recent(&self, code: &str, count: u32, read_ms: i64) -> Option<Claim> {
        self.with_recent(code, |recent| {
            if recent.read_ms != read_ms {
                return None;
            }
            let position = recent.take(count.into())?;
            Some(Claim::within_tick(recent.composer, position, count))
        })
    }

    /// Returns the cursor of a recent code under this grant, unless it is closed.
    pub(super) fn recent_cursor(&self, code: &str, grant: &Grant) -> Option<Arc<Cursor>> {
        self.with_recent(code, |recent| {
            let is_open = recent.grant == grant.instance && recent.cursor.next().is_some();
            is_open.then(|| Arc::clone(&recent.cursor))
        })
    }

    /// Remembers the cursor of a code. The caller has claimed positions up to `end` from it at
    /// `time`.
    pub(super) fn remember(
        &self,
        code: &str,
        grant: &Grant,
        cursor: Arc<Cursor>,
        time: &ClaimTime,
        end: u64,
    ) {
        let (positions, _) = grant.unchecked_positions(time);
        // This fails while the thread ends, once its memory is gone.
        let _ = RECENT.try_with(|slots| {
            let mut slots = slots.borrow_mut();
            if slots.is_empty() {
                slots.resize_with(SLOTS, || None);
            }
            let slot = &mut slots[self.slot_of(code)];
            // Reuse the text of the code: most claims replace an entry of the same code.
            let known = slot.take().map(|recent| recent.code).filter(|known| **known == *code);
            *slot = Some(RecentCode {
                generator: self.instance,
                grant: grant.instance,
                code: known.unwrap_or_else(|| code.into()),
                cursor,
                composer: grant.composer(),
                read_ms: time.now_ms,
                first: positions.start,
                end: positions.end,
                seen: end,
            });
        });
    }

    #[inline]
    fn with_recent<T>(
        &self,
        code: &str,
        read: impl FnOnce(&mut RecentCode) -> Option<T>,
    ) -> Option<T> {
        let found = RECENT.try_with(|slots| {
            let mut slots = slots.borrow_mut();
            let recent = slots.get_mut(self.slot_of(code))?.as_mut()?;
            (recent.generator == self.instance && *recent.code == *code).then(|| read(recent))?
        });
        found.ok().flatten()
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "only the low bits are used")]
    fn slot_of(&self, code: &str) -> usize {
        let mut hasher = FixedState::with_seed(self.slot_seed).build_hasher();
        hasher.write(code.as_bytes());
        hasher.finish() as usize % SLOTS
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{
        clock::{Clock, Recent},
        id::Id,
        issue::{Generator, IssueSettings},
        layout::{LayoutSpec, TimeUnit},
        sync::Arc,
    };

    const NOW_MS: i64 = 1_763_650_000_000;

    #[derive(Debug)]
    struct StoppedClock(Recent);

    impl Clock for StoppedClock {
        fn now_ms(&self) -> i64 {
            self.0.ms()
        }

        fn steady(&self) -> Duration {
            Duration::ZERO
        }

        fn recent(&self) -> Option<Recent> {
            Some(self.0.clone())
        }
    }

    /// Eight positions in a tick, of which a claim may use the next tick's, too.
    fn generator() -> (Generator, Recent) {
        let recent = Recent::new(NOW_MS);
        let spec =
            LayoutSpec { max_sequence: Some(7), ..LayoutSpec::for_unit(TimeUnit::Millisecond) };
        let settings = IssueSettings {
            max_wait: Duration::from_millis(1),
            sequence_spread_bits: 0,
            codes_shared: false,
            ..IssueSettings::default()
        };
        let clock = Arc::new(StoppedClock(recent.clone()));
        let layout = spec.build().expect("valid");
        let generator = Generator::with_worker(layout, 1, &settings, clock).expect("fits");
        (generator, recent)
    }

    fn claim(generator: &Generator, code: &str, count: u32) -> Vec<Id> {
        generator.claim(code, count).map(|claim| claim.ids.collect()).unwrap_or_default()
    }

    #[test]
    fn claims_by_name_ascend_across_threads_and_ticks() {
        let (generator, recent) = generator();
        let mut ids = Vec::new();
        for tick in 0..50 {
            recent.set(NOW_MS + tick);
            for count in [1, 2, 1, 1] {
                ids.extend(claim(&generator, "a", count));
                std::thread::scope(|scope| {
                    ids.extend(scope.spawn(|| claim(&generator, "a", 1)).join().expect("no panic"));
                });
            }
        }
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert!(ids.len() > 50 * 7, "{} IDs of 50 ticks", ids.len());
    }

    #[test]
    fn one_thread_gets_every_position_of_a_tick() {
        let (generator, recent) = generator();
        let of_tick = |tick| {
            recent.set(NOW_MS + tick);
            std::iter::repeat_with(|| claim(&generator, "a", 1)).take_while(|ids| !ids.is_empty())
        };
        // The present tick and the next one, for which a claim may wait.
        assert_eq!((of_tick(0).count(), of_tick(1).count()), (16, 8));
    }

    #[test]
    fn generators_and_codes_are_told_apart() {
        let ((one, _), (other, _)) = (generator(), generator());
        let first = claim(&one, "a", 1);
        assert_eq!(claim(&other, "a", 1), first);
        assert_eq!(claim(&one, "b", 1), first);
        assert_ne!(claim(&one, "a", 1), first);
    }

    #[test]
    fn wrong_names_and_counts_are_refused_after_right_ones() {
        let (generator, _) = generator();
        assert_eq!(claim(&generator, "a", 1).len(), 1);
        for (code, count) in [("a", 0), ("a", 100), ("", 1), ("a/b", 1)] {
            assert!(generator.claim(code, count).is_err(), "{code:?} {count}");
        }
        assert_eq!(claim(&generator, "a", 2).len(), 2);
    }
}
