//! Claims on one code without looking up its name.

use std::{fmt, ops::Deref};

use super::{
    Blocks, Claim, ClaimError, Generator,
    cursor::Cursor,
    grant::{Denied, Grant, Granted},
};
use crate::core::{clock::Recent, id::Id, sync::Arc};

/// Hands out IDs of one code. It caches the code's cursor and the positions that the clock and the
/// lease allow, so that most IDs cost one reading of the clock and one atomic step.
///
/// One thread or task uses a handle at a time. Clones draw from the same cursor.
///
/// The reading of the clock is nearly free with a clock that keeps a
/// [recent](crate::core::clock::Clock::recent) one, such as
/// [`CachedClock`](crate::core::clock::CachedClock).
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
/// let mut order = generator.handle("order")?;
/// assert!(order.try_next_id()? < order.try_next_id()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CodeHandle<G> {
    generator: G,
    code: Box<str>,
    recent: Option<Recent>,
    cached: Option<CachedCursor>,
    window: Window,
}

/// The cursor of the code, and the grant that it belongs to.
#[derive(Clone, Debug)]
struct CachedCursor {
    grant: Arc<Grant>,
    cursor: Arc<Cursor>,
}

/// Positions of one tick that can be claimed without another look at the limit and the rules, as
/// long as the clock reads the same. Claiming them still moves the cursor.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    read_ms: i64,
    first: u64,
    end: u64,
    /// Where the cursor was last seen.
    next: u64,
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
        let recent = generator.clock.recent();
        Ok(Self { generator, code, recent, cached: None, window: Window::default() })
    }

    /// Returns one ID of the present tick, never of a later one.
    ///
    /// # Errors
    ///
    /// See [`ClaimError`]. When the sequence numbers of the tick are used up, [`Self::claim`] can
    /// claim ahead and return how long to wait.
    #[inline]
    pub fn try_next_id(&mut self) -> Result<Id, ClaimError> {
        if let Some(id) = self.take_quickly() {
            return Ok(id);
        }
        let mut claim = self.claim_slowly(1, false)?;
        Ok(claim.ids.next().expect("a claim of one has one ID"))
    }

    /// Returns one ID if the window has one and the clock still reads the same.
    #[inline]
    pub(crate) fn take_quickly(&mut self) -> Option<Id> {
        let (_, position) = self.positions_quickly(1)?;
        Some(self.window.id(position))
    }

    /// Claims `count` IDs in one atomic step.
    ///
    /// # Errors
    ///
    /// See [`ClaimError`].
    pub fn claim(&mut self, count: u32) -> Result<Claim, ClaimError> {
        self.claim_or_wait(count, true)
    }

    /// Claims `count` IDs that need no wait.
    pub(crate) fn claim_at_once(&mut self, count: u32) -> Result<Claim, ClaimError> {
        self.claim_or_wait(count, false)
    }

    /// Claims `count` positions of the window, and returns the first.
    #[inline]
    fn positions_quickly(&mut self, count: u32) -> Option<(&CachedCursor, u64)> {
        if self.read_ms() != self.window.read_ms {
            return None;
        }
        let cached = self.cached.as_ref()?;
        let Window { first, end, next, .. } = &mut self.window;
        let position = cached.cursor.take_within(next, u64::from(count), *first, *end)?;
        Some((cached, position))
    }

    /// Claims IDs in blocks of `size` and hands them out one by one; see [`Blocks`].
    pub const fn into_blocks(self, size: u32) -> Blocks<G> {
        Blocks::new(self, size)
    }

    /// Reads the wall clock: its recent reading, if it keeps one.
    #[inline]
    pub(super) fn read_ms(&self) -> i64 {
        match &self.recent {
            Some(recent) => recent.ms(),
            None => self.generator.clock.now_ms(),
        }
    }

    fn claim_or_wait(&mut self, count: u32, waits: bool) -> Result<Claim, ClaimError> {
        self.generator.check_count(count)?;
        match self.positions_quickly(count) {
            Some((cached, first)) => Ok(Claim::plain(&cached.grant, first, count)),
            None => self.claim_slowly(count, waits),
        }
    }

    #[cold]
    fn claim_slowly(&mut self, count: u32, waits: bool) -> Result<Claim, ClaimError> {
        let generator = &*self.generator;
        // Read before the claim: the window may be used while the clock reads the same.
        let recent_ms = self.recent.as_ref().map(Recent::ms);
        loop {
            let known = self.cached.take().filter(|cached| generator.is_current(&cached.grant));
            let (grant, cursor) = match known {
                Some(cached) => (cached.grant, Some(cached.cursor)),
                None => (generator.grant().ok_or(ClaimError::NoLease)?, None),
            };
            match self.claim_from(&grant, cursor, u64::from(count), waits) {
                Ok((cursor, granted)) => {
                    self.window = Window::new(&grant, &granted, recent_ms);
                    let claim = Claim::new(&grant, granted);
                    self.cached = Some(CachedCursor { grant, cursor });
                    return Ok(claim);
                }
                Err(denied) => generator.retry_or_fail(&grant, &denied)?,
            }
        }
    }

    /// Claims from a cursor of this grant, which is looked up unless it is given.
    fn claim_from(
        &self,
        grant: &Grant,
        cursor: Option<Arc<Cursor>>,
        count: u64,
        waits: bool,
    ) -> Result<(Arc<Cursor>, Granted), Denied> {
        let Generator { rules, clock, .. } = &*self.generator;
        let time = grant.claim_time(rules, || clock.now_ms())?;
        let cursor = cursor.map_or_else(|| grant.cursor(&self.code, None, &time), Ok)?;
        let time = if waits { time } else { time.at_once() };
        let granted = grant.claim_from(&cursor, time, count, rules)?;
        Ok((cursor, granted))
    }
}

impl Window {
    /// The positions of the tick that a claim leaves.
    fn new(grant: &Grant, granted: &Granted, recent_ms: Option<i64>) -> Self {
        let (first, end) = grant.unchecked_positions(&granted.time);
        let composer = grant.composer();
        Self {
            read_ms: recent_ms.unwrap_or(granted.time.now_ms),
            first,
            end,
            next: granted.plan.end,
            first_id: composer.compose(first).get(),
            step: composer.step(),
        }
    }

    #[inline]
    fn id(&self, position: u64) -> Id {
        Id::from_composed(self.first_id + ((position - self.first) * self.step))
    }
}

impl<G: Clone> Clone for CodeHandle<G> {
    fn clone(&self) -> Self {
        Self {
            generator: self.generator.clone(),
            code: self.code.clone(),
            recent: self.recent.clone(),
            cached: self.cached.clone(),
            window: self.window,
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
