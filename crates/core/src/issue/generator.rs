//! The generator: it hands out IDs from the present grant.

use std::{hash::BuildHasher, sync::Arc, task::Waker, time::Duration};

use super::{
    Claim, ClaimError, CodeHandle, Count, IssueSettings, RollbackPolicy,
    grant::{Denied, Grant, Granted},
    recent_codes::InstanceId,
    rules::{ClaimTimeError, Rules},
    table::Share,
};
use crate::{
    clock::{Clock, Recent},
    code::is_valid_code,
    instant::format_unix_ms,
    layout::{FieldOutOfRange, Layout},
    sync::{HashState, Slot},
};

/// The name of the cursor that all codes share, if they do; not a valid code. Not empty either: comparing
/// no bytes at a dangling address takes some processors 100 ns.
const SHARED: &str = "*";

/// Hands out IDs without a store and without sleeping; lock-free except for a sharded look-up of the
/// code.
///
/// A claim can return IDs of a tick that is not due yet. Then the caller must wait for
/// [`Claim::wait`] before it uses them.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use raindrop_core::{clock::SystemClock, issue::{Generator, IssueSettings}, preset::Preset};
///
/// let layout = Preset::Raindrop.spec().build()?;
/// let generator = Generator::with_worker(layout, 7, &IssueSettings::default(), Arc::new(SystemClock::default()))?;
/// let claim = generator.claim("order", 3)?;
/// std::thread::sleep(claim.wait);
/// let ids: Vec<_> = claim.ids.collect();
/// assert!(ids[0] < ids[1] && ids[1] < ids[2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Generator {
    pub(super) rules: Rules,
    settings: IssueSettings,
    pub(super) clock: Arc<dyn Clock>,
    recent: Option<Recent>,
    grant: Slot<Grant>,
    pub(super) instance: InstanceId,
    /// Of the hashes that choose a slot of the recent codes.
    pub(super) slot_seed: u64,
}

impl Generator {
    /// Makes a generator for a worker id that no other process uses, without a store.
    ///
    /// Its promise is weaker than that of a leased worker id: two processes with one worker id issue
    /// equal IDs, and so does a restart with the clock set back, or, with units above a millisecond,
    /// any restart within a tick.
    ///
    /// # Errors
    ///
    /// When the worker id does not fit the layout.
    pub fn with_worker(
        layout: Layout,
        worker: u64,
        settings: &IssueSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, FieldOutOfRange> {
        let now_ms = clock.now_ms();
        let start = layout.first_position(layout.tick_clamped(now_ms));
        let lane = u64::from(layout.rollback_initial());
        let codes_max = settings.codes_max;
        let grant = Grant::new(&layout, worker, lane, start, codes_max, Waker::noop().clone())?;
        grant.note_reading(now_ms);
        grant.raise_limit(layout.end_position(), layout.end_position());
        // It has no other lane or worker to change to.
        let settings = IssueSettings { rollback: RollbackPolicy::Wait, ..settings.clone() };
        let generator = Self::without_lease(layout, settings, clock);
        generator.replace_grant(Some(Arc::new(grant)));
        Ok(generator)
    }
}

impl Generator {
    #[doc(hidden)]
    pub fn without_lease(layout: Layout, settings: IssueSettings, clock: Arc<dyn Clock>) -> Self {
        let rules = Rules::new(layout, &settings);
        let instance = InstanceId::new();
        Self {
            rules,
            settings,
            recent: clock.recent(),
            clock,
            grant: Slot::empty(),
            instance,
            // Simulations and models must take the same steps again.
            slot_seed: if cfg!(any(feature = "planted", feature = "loom")) {
                0
            } else {
                HashState::default().hash_one(instance)
            },
        }
    }

    /// The layout of the IDs.
    pub const fn layout(&self) -> &Layout {
        &self.rules.layout
    }

    /// The largest claim that fits on an idle code.
    pub const fn largest_claim(&self) -> u32 {
        self.rules.largest_claim()
    }

    #[doc(hidden)]
    pub const fn settings(&self) -> &IssueSettings {
        &self.settings
    }

    #[doc(hidden)]
    pub fn grant(&self) -> Option<Arc<Grant>> {
        self.grant.load_full()
    }

    /// Replaces the grant that claims use. The caller seals the old one *afterwards*, so that no
    /// claim is refused in between; claims that still use the old one stay inside its range.
    #[doc(hidden)]
    pub fn replace_grant(&self, grant: Option<Arc<Grant>>) -> Option<Arc<Grant>> {
        self.grant.swap(grant)
    }

    /// Claims `count` IDs of a code in one atomic step.
    ///
    /// # Errors
    ///
    /// See [`ClaimError`].
    pub fn claim(&self, code: &str, count: u32) -> Result<Claim, ClaimError> {
        self.claim_for(None, code, count.into())
    }

    /// Claims for a client, who is identified only if the code is new, and may then be refused its
    /// cursor.
    #[doc(hidden)]
    pub fn claim_for(
        &self,
        client: Option<&(dyn Fn() -> u64 + Sync)>,
        code: &str,
        count: Count,
    ) -> Result<Claim, ClaimError> {
        let is_shared = self.settings.codes_shared;
        // A recent cursor of the code alone says that the code is valid.
        let name = if is_shared { self.check_code(code)? } else { code };
        if let (Count::Exactly(count), Some(read_ms)) = (count, self.recent_ms())
            && let Some(claim) = self.claim_recent(name, count, read_ms)
        {
            return Ok(claim);
        }
        if !is_shared {
            self.check_code(code)?;
        }
        let max = self.settings.codes_max_per_client;
        let share = client.filter(|_| self.rules.has_shares).map(|client| Share { client, max });
        self.check_count(count.most())?;
        loop {
            let grant = self.grant.load();
            let grant = grant.as_ref().ok_or(ClaimError::NoLease)?;
            match self.claim_from(grant, name, share, count) {
                Ok(granted) => return Ok(Claim::new(grant, granted)),
                Err(denied) => self.retry_or_fail(grant, &denied)?,
            }
        }
    }

    /// The clock's recent reading, if it keeps one.
    #[inline]
    pub(super) fn recent_ms(&self) -> Option<i64> {
        self.recent.as_ref().map(Recent::ms)
    }

    /// Reads the clock, and updates its recent reading: nobody may go on with positions of an earlier
    /// tick once others have claimed later ones.
    pub(super) fn read_clock(&self) -> i64 {
        match &self.recent {
            Some(recent) => recent.renew(|| self.clock.now_ms()),
            None => self.clock.now_ms(),
        }
    }

    /// Claims from a grant on the cursor of this name, and remembers the cursor.
    pub(super) fn claim_from(
        &self,
        grant: &Grant,
        name: &str,
        share: Option<Share<'_>>,
        count: Count,
    ) -> Result<Granted, Denied> {
        let time = grant.claim_time(&self.rules, || self.read_clock())?;
        let cursor = match self.recent.as_ref().and_then(|_| self.recent_cursor(name, grant)) {
            Some(cursor) => cursor,
            None => grant.cursor(name, share, &time)?,
        };
        let granted = grant.claim_from(&cursor, time, count, &self.rules)?;
        if self.recent.is_some() {
            self.remember(name, grant, cursor, &granted.time, granted.plan.end);
        }
        Ok(granted)
    }

    /// Makes a handle for one code, which claims without looking up its name.
    ///
    /// # Errors
    ///
    /// When the code is invalid or not among those that are allowed.
    pub fn handle(&self, code: &str) -> Result<CodeHandle<&Self>, ClaimError> {
        CodeHandle::new(self, code)
    }

    /// Decides what follows a denied claim on this grant: `Ok` starts over.
    ///
    /// # Errors
    ///
    /// When starting over is useless.
    #[cold]
    pub(super) fn retry_or_fail(
        &self,
        grant: &Arc<Grant>,
        denied: &Denied,
    ) -> Result<(), ClaimError> {
        match denied {
            Denied::Closed if grant.is_sealed() && self.is_current(grant) => {
                Err(ClaimError::NoLease)
            }
            Denied::Closed => Ok(()),
            // This thread may have slept after reading the clock, while others went on.
            Denied::Exhausted { read_ms, .. } if self.clock.now_ms() > *read_ms => Ok(()),
            denied => Err(self.claim_error(denied)),
        }
    }

    /// Checks a code and returns the name of its cursor.
    pub(super) fn check_code<'a>(&self, code: &'a str) -> Result<&'a str, ClaimError> {
        if !is_valid_code(code) {
            return Err(ClaimError::InvalidCode(code.to_owned()));
        }
        if self.settings.codes_allow.as_ref().is_some_and(|allowed| !allowed.contains(code)) {
            return Err(ClaimError::UnknownCode(code.to_owned()));
        }
        Ok(if self.settings.codes_shared { SHARED } else { code })
    }

    pub(super) fn check_count(&self, count: u32) -> Result<(), ClaimError> {
        let largest = self.largest_claim();
        if count == 0 || count > largest {
            return Err(ClaimError::InvalidCount { count, largest });
        }
        Ok(())
    }

    pub(super) fn is_current(&self, grant: &Arc<Grant>) -> bool {
        self.grant.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, grant))
    }

    #[cold]
    fn claim_error(&self, denied: &Denied) -> ClaimError {
        let layout = &self.rules.layout;
        match *denied {
            Denied::Closed => ClaimError::NoLease,
            Denied::Limit => ClaimError::LimitReached,
            Denied::Exhausted { retry_after, .. } => ClaimError::SequenceExhausted { retry_after },
            Denied::RolledBack { behind_ms } => ClaimError::ClockRollback {
                behind_ms,
                retry_after: self.rules.caught_up(behind_ms),
            },
            Denied::Time(ClaimTimeError::RolledBack { behind_ms, retry_after }) => {
                ClaimError::ClockRollback { behind_ms, retry_after }
            }
            Denied::Time(ClaimTimeError::OutOfRange) => ClaimError::ClockOutOfRange {
                now: format_unix_ms(self.clock.now_ms()),
                from: format_unix_ms(layout.epoch_ms()),
                until: format_unix_ms(layout.valid_until_ms()),
            },
            Denied::TableFull => {
                let (max, retry_after) = (self.settings.codes_max, self.rest_of_tick());
                ClaimError::TooManyCodes { max, retry_after }
            }
            Denied::ShareUsed => {
                let (max, retry_after) = (self.settings.codes_max_per_client, self.rest_of_tick());
                ClaimError::ClientShareUsed { max, retry_after }
            }
        }
    }

    fn rest_of_tick(&self) -> Duration {
        let (layout, now_ms) = (&self.rules.layout, self.clock.now_ms());
        let over_ms = layout.start_of_tick_ms(layout.tick_clamped(now_ms) + 1);
        Duration::from_millis(over_ms.saturating_sub(now_ms).max(0).unsigned_abs())
    }
}

#[cfg(test)]
mod tests;
