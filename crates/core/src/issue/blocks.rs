//! An iterator-like handle that claims IDs in blocks.

use std::{fmt, ops::Deref, time::Duration};

use super::{ClaimError, CodeHandle, Generator, Run};
use crate::id::Id;

/// The largest age of a block by default.
const MAX_AGE_MS: i64 = 10;

/// Claims IDs of one code in blocks and returns them one by one; each costs one addition.
///
/// The speed has two drawbacks. First, the timestamp of an ID is that of the ID's block, which may
/// be up to [`max_age`](Self::with_max_age) old, 10 ms by default; `Blocks` discards the rest of an
/// older block. Second, IDs ascend within one `Blocks` only: two threads with a `Blocks` each draw
/// from different blocks.
///
/// Use a clock that keeps a [recent](crate::clock::Clock::recent) reading. With another clock, each
/// ID costs one reading of the clock.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use raindrop_core::{clock::CachedClock, issue::{Generator, IssueSettings}, preset::Preset};
///
/// let layout = Preset::Raindrop.spec().build()?;
/// let clock = Arc::new(CachedClock::start()?);
/// let generator = Generator::with_worker(layout, 7, &IssueSettings::default(), clock)?;
/// let mut orders = generator.handle("order")?.into_blocks(512);
/// assert!(orders.next_id()? < orders.next_id()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Blocks<G> {
    handle: CodeHandle<G>,
    size: u32,
    max_age_ms: i64,
    /// The next ID of the present tick.
    next: u64,
    /// The last ID of the present tick plus `step`.
    end: u64,
    /// The difference between neighbouring IDs.
    step: u64,
    /// The latest reading of the clock at which the block may still be used.
    last_ms: i64,
    /// The IDs of the block in later ticks.
    later: Option<Run>,
}

impl<G> Blocks<G> {
    pub(super) const fn new(handle: CodeHandle<G>, size: u32) -> Self {
        Self {
            handle,
            size,
            max_age_ms: MAX_AGE_MS,
            next: 0,
            end: 0,
            step: 0,
            last_ms: i64::MIN,
            later: None,
        }
    }

    /// Sets the largest age of a block, in whole milliseconds.
    #[must_use]
    pub fn with_max_age(mut self, max_age: Duration) -> Self {
        self.max_age_ms = i64::try_from(max_age.as_millis()).unwrap_or(i64::MAX);
        self
    }
}

impl<G: Deref<Target = Generator>> Blocks<G> {
    /// Returns the next ID.
    ///
    /// # Errors
    ///
    /// When a new block is needed and cannot be claimed at once; see [`ClaimError`].
    #[inline]
    pub fn next_id(&mut self) -> Result<Id, ClaimError> {
        match self.take_quickly() {
            Some(id) => Ok(id),
            None => self.next_id_slowly(),
        }
    }

    #[cold]
    fn next_id_slowly(&mut self) -> Result<Id, ClaimError> {
        match self.take_by_clock() {
            Some(id) => Ok(id),
            None => self.take_after_refill(),
        }
    }

    /// Returns the next ID of the block, if it has one and by the recent reading is not too old.
    #[inline]
    #[doc(hidden)]
    pub fn take_quickly(&mut self) -> Option<Id> {
        (self.next != self.end && self.handle.recent_ms() <= self.last_ms).then(|| self.take())
    }

    /// Returns the next ID of the block, if it has one and is not too old, with any clock.
    #[doc(hidden)]
    pub fn take_by_clock(&mut self) -> Option<Id> {
        (self.next != self.end && self.handle.read_ms() <= self.last_ms).then(|| self.take())
    }

    /// Returns the next ID of the block's next tick or of a new block.
    #[doc(hidden)]
    pub fn take_after_refill(&mut self) -> Result<Id, ClaimError> {
        self.refill()?;
        Ok(self.take())
    }

    #[inline]
    fn take(&mut self) -> Id {
        let id = Id::from_composed(self.next);
        // May overflow after the last ID. Then `next == end`, and the value is not used.
        self.next = self.next.wrapping_add(self.step);
        id
    }

    fn refill(&mut self) -> Result<(), ClaimError> {
        let now_ms = self.handle.read_ms();
        let later = self.later.take().filter(|_| now_ms <= self.last_ms);
        let mut run = match later {
            Some(run) => run,
            None => {
                // The rest of the last block is discarded.
                self.end = self.next;
                let run = self.handle.claim_at_once(self.size)?.ids;
                self.last_ms = now_ms.saturating_add(self.max_age_ms);
                run
            }
        };
        let range = run.next_range(u64::MAX).expect("a block has at least one ID");
        (self.next, self.step) = (range.first.get(), range.step);
        self.end = range.last.get().wrapping_add(range.step);
        self.later = (run.len() > 0).then_some(run);
        Ok(())
    }
}

impl<G> fmt::Debug for Blocks<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks")
            .field("handle", &self.handle)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
