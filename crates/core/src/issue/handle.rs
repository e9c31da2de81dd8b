//! Claims on one code without looking up the code.
//!
//! A handle remembers the cursor and a *window*: the positions of one tick that its last claim
//! found free of further checks. As long as the clock reads the same, an ID costs one addition to
//! the cursor ([`CodeHandle::take_in_window`]). An addition may return a position beyond the
//! window, an *overrun*. The handle keeps it, and issues it only after [`Grant::may_issue`] allows
//! it; a position that is never issued is only a gap. When other threads move the cursor too, the
//! handle claims a *run* of up to 64 positions at a time, so that the threads pass the cursor's
//! cache line on less often. A clone never gets the run. `docs/safety/handles.md` has the argument,
//! `models/handles.rs` the models.

use std::{fmt, ops::Deref};

use super::{
    Blocks, Claim, ClaimError, Generator,
    cursor::Cursor,
    grant::{Denied, Grant, Granted},
    planted,
    rules::ClaimTime,
};
use crate::{clock::Recent, id::Id, sync::Arc};

/// Issues IDs of one code. It caches the code's cursor and the positions that the clock and the
/// lease allow, so that most IDs cost one reading of the clock and one atomic step.
///
/// One thread or task uses a handle at a time; clones draw from the same cursor. When several
/// handles use a code, each claims up to 64 IDs at a time. The IDs of one handle ascend. The IDs of
/// several ascend by tick, unless ticks were borrowed or the clock went back.
///
/// Reading the clock costs almost nothing with a clock that keeps a
/// [recent](crate::clock::Clock::recent) reading, such as
/// [`CachedClock`](crate::clock::CachedClock).
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
/// let mut order = generator.handle("order")?;
/// assert!(order.try_next_id()? < order.try_next_id()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CodeHandle<G> {
    generator: G,
    code: Box<str>,
    /// The clock's recent reading, or [`NO_READING`].
    recent: Recent,
    cached: Option<CachedCursor>,
    window: Window,
}

/// The cursor of the code, and the grant that it belongs to.
#[derive(Clone, Debug)]
struct CachedCursor {
    grant: Arc<Grant>,
    cursor: Arc<Cursor>,
}

/// The largest number of positions in a run.
const LONGEST_RUN: u64 = if cfg!(feature = "loom") { 2 } else { 64 };
/// The smallest number of runs that share a tick, so that the end of a tick wastes little.
const PART_OF_TICK: u64 = if cfg!(feature = "loom") { 2 } else { 64 };
/// A handle checks for contention at every position that this power of two divides.
const SAMPLE_INTERVAL: u64 = if cfg!(feature = "loom") { 1 } else { 32 };
/// The `read_ms` of a window that cannot be used.
const NEVER: i64 = i64::MIN;
/// Stands for the recent reading of a clock that keeps none. No window has this reading and no
/// block is young enough for it, so the handle reads the clock.
const NO_READING: i64 = i64::MAX;

/// Positions of one tick that can be claimed without checking limit and rules again, as long as the
/// clock reads the same. Claiming them still moves the cursor.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// The reading of the clock at which the window may be used.
    read_ms: i64,
    /// The positions of the window are `first..end`.
    first: u64,
    end: u64,
    /// The limit of the grant when the window was made.
    limit: u64,
    /// Where the cursor was last seen; while runs have one position, at the last check for
    /// contention.
    seen: u64,
    /// The run is `next..run_end`: positions that this handle claimed and has not issued yet.
    next: u64,
    run_end: u64,
    /// How many positions the next run has. It doubles when other threads moved the cursor since
    /// the last run, and shrinks by a quarter, down to one position, when none did.
    run_length: u64,
    longest_run: u64,
    /// The ID at `first`.
    first_id: u64,
    /// The difference between neighbouring IDs.
    step: u64,
}

impl<G: Deref<Target = Generator>> CodeHandle<G> {
    /// Makes a handle for a code of this generator, which may be borrowed or shared.
    ///
    /// # Errors
    ///
    /// When the code is invalid or not among those that are allowed.
    pub fn new(generator: G, code: &str) -> Result<Self, ClaimError> {
        let code = generator.check_code(code)?.into();
        let recent = generator.clock.recent().unwrap_or_else(|| Recent::new(NO_READING));
        Ok(Self { generator, code, recent, cached: None, window: Window::UNUSABLE })
    }

    /// Returns one ID of the present tick, which needs no wait.
    ///
    /// # Errors
    ///
    /// See [`ClaimError`]. When the sequence numbers of the tick are used up, use [`Self::claim`]:
    /// it may claim in a later tick and returns how long to wait.
    #[inline]
    pub fn try_next_id(&mut self) -> Result<Id, ClaimError> {
        match self.take_in_window() {
            Ok(id) => Ok(id),
            Err(claimed) => self.next_id_slowly(claimed),
        }
    }

    /// Returns one ID of the window or the run, if either has one.
    #[inline]
    #[doc(hidden)]
    pub fn take_quickly(&mut self) -> Option<Id> {
        match self.take_in_window() {
            Ok(id) => Some(id),
            Err(claimed) => self.take_slowly(claimed),
        }
    }

    /// Takes one ID of the window or the run without any further check. If that needs a check,
    /// returns the position that the addition claimed, or `None` if there was no addition. It calls
    /// no other function, so that the compiler saves no registers.
    #[inline]
    fn take_in_window(&mut self) -> Result<Id, Option<u64>> {
        let window = &mut self.window;
        let Some(cached) = &self.cached else { return Err(None) };
        if self.recent.ms() != window.read_ms {
            return Err(None);
        }
        if window.next != window.run_end {
            return Ok(window.take());
        }
        if window.run_length != 1 {
            return Err(None);
        }
        let position = cached.cursor.advance(1);
        if position < window.end && position & (SAMPLE_INTERVAL - 1) != 0 {
            return Ok(window.id(position));
        }
        Err(Some(position))
    }

    #[cold]
    #[inline(never)]
    fn next_id_slowly(&mut self, claimed: Option<u64>) -> Result<Id, ClaimError> {
        if let Some(id) = self.take_slowly(claimed) {
            return Ok(id);
        }
        let mut claim = self.claim_slowly(1, false)?;
        Ok(claim.ids.next().expect("a claim of one has one ID"))
    }

    /// Takes one ID of the window or the run, with any clock. `claimed` is a position that
    /// [`Self::take_in_window`] claimed: an overrun, or one at which contention is checked.
    #[cold]
    #[inline(never)]
    fn take_slowly(&mut self, claimed: Option<u64>) -> Option<Id> {
        let is_present = claimed.is_some() || self.read_ms() == self.window.read_ms;
        let cached = self.cached.as_ref().filter(|_| is_present);
        let id = cached.and_then(|cached| self.window.take_slowly(&cached.cursor, claimed));
        id.or_else(|| self.issue_overrun())
    }

    /// Returns one ID of an overrun, if the present tick contains all of it.
    #[cold]
    fn issue_overrun(&mut self) -> Option<Id> {
        let generator = &*self.generator;
        let Window { next, run_end, run_length, limit, .. } = self.window;
        let overrun = Some(next..run_end).filter(|it| !it.is_empty() && it.end <= limit)?;
        let cached = self.cached.as_ref()?;
        let grant = Some(&cached.grant).filter(|grant| generator.is_current(grant))?;
        let time = grant.claim_time(&generator.rules, || generator.read_clock()).ok()?;
        if !grant.may_issue(&time, &overrun) {
            return None;
        }
        self.window = Window::new(grant, &time, run_length);
        (self.window.seen, self.window.next, self.window.run_end) = (run_end, next, run_end);
        Some(self.window.take())
    }

    /// Claims `count` IDs in one atomic step, if necessary in a later tick.
    ///
    /// # Errors
    ///
    /// See [`ClaimError`].
    pub fn claim(&mut self, count: u32) -> Result<Claim, ClaimError> {
        self.claim_or_wait(count, true)
    }

    /// Claims `count` IDs that need no wait.
    #[doc(hidden)]
    pub fn claim_at_once(&mut self, count: u32) -> Result<Claim, ClaimError> {
        self.claim_or_wait(count, false)
    }

    /// Claims `count` positions of the window, and returns the first.
    #[inline]
    fn positions_quickly(&mut self, count: u32) -> Option<(&CachedCursor, u64)> {
        if self.read_ms() != self.window.read_ms {
            return None;
        }
        let cached = self.cached.as_ref()?;
        let Window { first, end, seen, next, run_end, .. } = &mut self.window;
        let position = cached.cursor.take_within(seen, u64::from(count), *first, *end)?;
        // Discard the run, which is below these positions: the IDs of a handle ascend.
        *next = *run_end;
        Some((cached, position))
    }

    /// Turns the handle into one that claims blocks of `size` IDs; see [`Blocks`].
    pub const fn into_blocks(self, size: u32) -> Blocks<G> {
        Blocks::new(self, size)
    }

    /// Returns the wall clock's recent reading, or reads the clock if it keeps none.
    #[inline]
    pub(super) fn read_ms(&self) -> i64 {
        match self.recent_ms() {
            NO_READING => self.generator.clock.now_ms(),
            recent_ms => recent_ms,
        }
    }

    /// Returns the clock's recent reading, or [`NO_READING`].
    #[inline]
    pub(super) fn recent_ms(&self) -> i64 {
        self.recent.ms()
    }

    fn claim_or_wait(&mut self, count: u32, waits: bool) -> Result<Claim, ClaimError> {
        self.generator.check_count(count)?;
        match self.positions_quickly(count) {
            Some((cached, first)) => Ok(Claim::within_tick(cached.grant.composer(), first, count)),
            None => self.claim_slowly(count, waits),
        }
    }

    #[cold]
    fn claim_slowly(&mut self, count: u32, waits: bool) -> Result<Claim, ClaimError> {
        let generator = &*self.generator;
        loop {
            let known = self.cached.take().filter(|cached| generator.is_current(&cached.grant));
            let (grant, cursor) = match known {
                Some(cached) => (cached.grant, Some(cached.cursor)),
                None => (generator.grant().ok_or(ClaimError::NoLease)?, None),
            };
            let known = cursor.clone();
            if let Some(next) = cursor.as_ref().and_then(|cursor| cursor.next()) {
                // Check here, too: of two handles that take turns, one may never get a position at
                // which contention is checked.
                self.window.detect_contention(next);
            }
            match self.claim_from(&grant, cursor, count, waits) {
                Ok((cursor, granted)) => {
                    self.window = Window::new(&grant, &granted.time, self.window.run_length);
                    self.window.seen = granted.plan.end;
                    let claim = Claim::new(&grant, granted);
                    self.cached = Some(CachedCursor { grant, cursor });
                    return Ok(claim);
                }
                Err(denied) => {
                    if let Err(error) = generator.retry_or_fail(&grant, &denied) {
                        // Keep the cursor: the overrun may be issued in the next tick.
                        self.cached = known.map(|cursor| CachedCursor { grant, cursor });
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Claims from a cursor of this grant; looks up the cursor if the caller does not have it.
    fn claim_from(
        &self,
        grant: &Grant,
        cursor: Option<Arc<Cursor>>,
        count: u32,
        waits: bool,
    ) -> Result<(Arc<Cursor>, Granted), Denied> {
        let generator = &*self.generator;
        let rules = &generator.rules;
        let time = grant.claim_time(rules, || generator.read_clock())?;
        let cursor = cursor.map_or_else(|| grant.cursor(&self.code, None, &time), Ok)?;
        let time = if waits { time } else { time.at_once() };
        let granted = grant.claim_from(&cursor, time, count.into(), rules)?;
        Ok((cursor, granted))
    }
}

impl Window {
    const UNUSABLE: Self = Self {
        read_ms: NEVER,
        first: 0,
        end: 0,
        limit: 0,
        seen: 0,
        next: 0,
        run_end: 0,
        run_length: 1,
        longest_run: 1,
        first_id: 0,
        step: 0,
    };

    /// Makes a window of the tick of `time`, at which the caller has just claimed positions.
    fn new(grant: &Grant, time: &ClaimTime, run_length: u64) -> Self {
        let (positions, limit) = grant.unchecked_positions(time);
        let composer = grant.composer();
        Self {
            read_ms: time.now_ms,
            first: positions.start,
            end: positions.end,
            limit,
            run_length,
            longest_run: (time.positions_per_tick() / PART_OF_TICK).clamp(1, LONGEST_RUN),
            first_id: composer.compose(positions.start).get(),
            step: composer.step(),
            ..Self::UNUSABLE
        }
    }

    fn take_slowly(&mut self, cursor: &Cursor, claimed: Option<u64>) -> Option<Id> {
        match claimed {
            None if self.next != self.run_end => Some(self.take()),
            None => self.claim_run(cursor),
            Some(position) if position >= planted::window_end(self.end) => {
                self.keep_overrun(position, position + 1)
            }
            Some(position) => {
                self.detect_contention(position);
                self.seen = position;
                Some(self.id(position))
            }
        }
    }

    /// Makes runs longer if other threads moved the cursor. A handle without competitors gets every
    /// position that [`SAMPLE_INTERVAL`] divides, so a missing one means that another thread has
    /// it.
    const fn detect_contention(&mut self, position: u64) {
        if self.run_length < self.longest_run && position > self.seen + SAMPLE_INTERVAL {
            self.run_length += 1;
        }
    }

    /// Claims a run, and returns the ID of its first position.
    fn claim_run(&mut self, cursor: &Cursor) -> Option<Id> {
        let first = cursor.advance(self.run_length);
        let is_contended = first != self.seen;
        self.seen = first + self.run_length;
        if first >= self.end {
            return self.keep_overrun(first, self.seen);
        }
        (self.next, self.run_end) = (first, self.seen.min(self.end));
        self.run_length = if is_contended {
            (2 * self.run_length).min(self.longest_run)
        } else {
            (3 * self.run_length / 4).max(1)
        };
        Some(self.take())
    }

    /// Keeps positions beyond the window until [`CodeHandle::issue_overrun`] can decide about them,
    /// and makes the window unusable.
    const fn keep_overrun(&mut self, first: u64, end: u64) -> Option<Id> {
        (self.read_ms, self.next, self.run_end) = (NEVER, first, end);
        None
    }

    /// Takes the next position of the run, which is not empty, and returns its ID.
    #[inline]
    fn take(&mut self) -> Id {
        let position = self.next;
        self.next += 1;
        self.id(position)
    }

    #[inline]
    fn id(&self, position: u64) -> Id {
        Id::from_composed(self.first_id + (position - self.first) * self.step)
    }
}

impl<G: Clone> Clone for CodeHandle<G> {
    fn clone(&self) -> Self {
        Self {
            generator: self.generator.clone(),
            code: self.code.clone(),
            recent: self.recent.clone(),
            cached: self.cached.clone(),
            // The run stays with the original: each position is issued once.
            window: Window { next: 0, run_end: 0, ..self.window },
        }
    }
}

impl<G> fmt::Debug for CodeHandle<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeHandle").field("code", &self.code).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
