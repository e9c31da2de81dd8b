//! IDs one by one that were claimed in blocks.

use std::{fmt, ops::Deref, time::Duration};

use super::{ClaimError, CodeHandle, Generator, Run};
use crate::core::id::Id;

/// How old a block may grow by default.
const MAX_AGE_MS: i64 = 10;

/// Hands out IDs of one code one by one that are claimed a block at a time, at the cost of an
/// addition for each.
///
/// Two things are given up for it. An ID carries the time of its block: it is at most
/// [`max_age`](Self::with_max_age) old, 10 ms by default, after which the rest of the block is
/// thrown away. And IDs ascend within one `Blocks` only: those of other threads, each with a
/// block of its own, come between.
///
/// Meant for a clock that keeps a [recent](crate::core::clock::Clock::recent) reading; with
/// another one each ID takes a reading of the clock to tell the age by.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use raindrop::core::{clock::CachedClock, issue::{Generator, IssueSettings}, preset::Preset};
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
    /// The next ID of the present tick, and where it ends for this block.
    next: u64,
    end: u64,
    step: u64,
    /// The last reading of the clock under which the block may be used.
    last_ms: i64,
    /// What the block has in later ticks.
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

    /// Lets blocks grow so old, in whole milliseconds.
    #[must_use]
    pub fn with_max_age(mut self, max_age: Duration) -> Self {
        self.max_age_ms = i64::try_from(max_age.as_millis()).unwrap_or(i64::MAX);
        self
    }
}

impl<G: Deref<Target = Generator>> Blocks<G> {
    /// One ID.
    ///
    /// # Errors
    ///
    /// When a new block is needed and cannot be claimed at once; see [`ClaimError`].
    #[inline]
    pub fn next_id(&mut self) -> Result<Id, ClaimError> {
        match self.take_quickly() {
            Some(id) => Ok(id),
            None => self.take_of_next(),
        }
    }

    /// One ID of the present block, if it has one for the present time.
    #[inline]
    pub(crate) fn take_quickly(&mut self) -> Option<Id> {
        (self.next != self.end && self.handle.read_ms() <= self.last_ms).then(|| self.take())
    }

    /// One ID of what comes after.
    #[cold]
    pub(crate) fn take_of_next(&mut self) -> Result<Id, ClaimError> {
        self.refill()?;
        Ok(self.take())
    }

    #[inline]
    fn take(&mut self) -> Id {
        let id = Id::from_composed(self.next);
        // At the end this is no ID, and is not used.
        self.next = self.next.wrapping_add(self.step);
        id
    }

    fn refill(&mut self) -> Result<(), ClaimError> {
        let now_ms = self.handle.read_ms();
        let later = self.later.take().filter(|_| now_ms <= self.last_ms);
        let mut run = match later {
            Some(run) => run,
            None => {
                // What is left of the block before is nobody's now.
                self.end = self.next;
                let run = self.handle.claim_at_once(self.size)?.ids;
                self.last_ms = now_ms.saturating_add(self.max_age_ms);
                run
            }
        };
        let range = run.next_range().expect("a block has at least one ID");
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
