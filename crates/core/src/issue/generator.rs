//! The generator: issues IDs from the grant that the keeper installed.
//!
//! A claim checks its code, reads the clock, and moves the cursor of the code under the present
//! grant. It never calls a store and never sleeps: the caller waits for [`Claim::wait`] before it
//! uses the IDs, and retries after a refusal. The generator does not decide which positions are
//! safe: the grant's start and limit do, and the keeper sets them. When a grant is replaced, its
//! owner seals the old one afterwards; claims that still use that one stay inside its range. Tests:
//! `generator/tests.rs`, and the models in `models`, which explore claims beside a change of
//! grants.

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

/// The name of the cursor that all codes share with `codes.shared`. No code has this name. An empty
/// name would also do, but comparing an empty string costs 100 ns on some processors.
const SHARED: &str = "*";

/// Issues IDs. It never calls a store and never sleeps. Claims take no lock except that of one
/// shard of the table of codes.
///
/// A claim can return IDs of a tick that has not begun. The caller must then wait for
/// [`Claim::wait`] before it uses them.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use raindrop_core::{clock::SystemClock, issue::{Generator, IssueSettings}, preset::Preset};
///
/// let layout = Preset::Raindrop.spec().build()?;
/// let (settings, clock) = (IssueSettings::default(), Arc::new(SystemClock::default()));
/// let generator = Generator::with_worker(layout, 7, &settings, clock)?;
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
    /// The seed of the hashes by which a thread finds its recent codes.
    pub(super) slot_seed: u64,
}

impl Generator {
    /// Makes a generator for a worker id that the caller assigned and no other process uses.
    ///
    /// The promise is weaker than with a leased worker id. Equal IDs are issued by two processes
    /// with one worker id, by a restart after the clock was set back, and, with a unit above a
    /// millisecond, by any restart within one tick.
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
        // Without a keeper there is no other lane or worker to change to.
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
            // Random, except where simulations and models must be repeatable.
            slot_seed: if cfg!(any(feature = "planted", feature = "loom")) {
                0
            } else {
                HashState::default().hash_one(instance)
            },
        }
    }

    /// Returns the layout of the IDs.
    pub const fn layout(&self) -> &Layout {
        &self.rules.layout
    }

    /// Returns the largest claim that an idle code can serve.
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

    /// Replaces the grant that claims use, and returns the old one. The caller seals the old grant
    /// *afterwards*, so that no claim is refused in between. Claims that still use the old grant
    /// stay inside its range.
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

    /// Claims IDs of a code on behalf of a client. `client` identifies the client and is called
    /// only for a new code, which is refused if the client has had its share of new codes.
    #[doc(hidden)]
    pub fn claim_for(
        &self,
        client: Option<&(dyn Fn() -> u64 + Sync)>,
        code: &str,
        count: Count,
    ) -> Result<Claim, ClaimError> {
        let is_shared = self.settings.codes_shared;
        // A code with a recent cursor was checked when it got the cursor.
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

    /// Returns the clock's recent reading, if it keeps one.
    #[inline]
    pub(super) fn recent_ms(&self) -> Option<i64> {
        self.recent.as_ref().map(Recent::ms)
    }

    /// Reads the clock and updates its recent reading. So no thread continues in an earlier tick
    /// after this thread has claimed in a later one. (The order of IDs depends on this, their
    /// uniqueness does not.)
    pub(super) fn read_clock(&self) -> i64 {
        match &self.recent {
            Some(recent) => recent.renew(|| self.clock.now_ms()),
            None => self.clock.now_ms(),
        }
    }

    /// Claims from the cursor of this name under a grant, and remembers the cursor for this thread.
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

    /// Makes a handle for one code, which claims without looking up the code.
    ///
    /// # Errors
    ///
    /// When the code is invalid or not among those that are allowed.
    pub fn handle(&self, code: &str) -> Result<CodeHandle<&Self>, ClaimError> {
        CodeHandle::new(self, code)
    }

    /// Decides what follows a denied claim on this grant. After `Ok` the caller tries again.
    ///
    /// # Errors
    ///
    /// When another try would be denied, too.
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
            // This thread may have slept after it read the clock; a new tick has begun since.
            Denied::Exhausted { read_ms, .. } if self.clock.now_ms() > *read_ms => Ok(()),
            denied => Err(self.claim_error(denied)),
        }
    }

    /// Checks a code, and returns the name of its cursor: the code itself, or [`SHARED`].
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
