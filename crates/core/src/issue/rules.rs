//! Which positions a claim may take: arithmetic on positions and instants, without state.
//!
//! [`Rules::claim_time`] turns a reading of the clock into positions. While the clock is behind a
//! reading at which IDs were issued by at most `hold`, claims continue in the tick of the highest
//! reading; beyond that, the rollback policy applies. [`Rules::plan`] then
//! places one claim on one cursor: in the effective tick, in a later one that `borrow_ahead` or
//! `max_wait` allows, or nowhere. A claim never ends above the limit. The rules read no clock and
//! move no cursor: the caller repeats `plan` whenever the cursor has moved.

use std::{ops::Range, time::Duration};

use super::{IssueSettings, RollbackPolicy, planted};
use crate::{
    instant::millis,
    layout::{FieldOrder, Layout, TimeUnit},
};

/// How far ahead of the clock a claim of "up to `n`" IDs may reach, in milliseconds.
const SOON_MS: i64 = 10;

/// The settings of claims, with durations in milliseconds.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) layout: Layout,
    borrow_ahead_ms: i64,
    max_wait_ms: i64,
    hold_ms: i64,
    waits_for_rollback: bool,
    spread_mask: u64,
    largest_claim: u32,
    /// Whether each client has a share of new codes. In ticks below a minute, no client can
    /// use up all cursors. Where all codes share one cursor, there is nothing to use up.
    pub(crate) has_shares: bool,
}

/// A reading of the clock, as positions that a claim may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClaimTime {
    /// The clock's reading.
    pub(crate) now_ms: i64,
    /// The later of the reading and the highest reading at which IDs were issued.
    effective_ms: i64,
    /// The first position of the effective tick. Cursors below it may be evicted.
    pub(crate) first: u64,
    /// One past the last position of the effective tick.
    tick_end: u64,
    /// A claim that ends here or below needs no wait.
    at_once_end: u64,
    /// A claim that ends here or below can be granted, if necessary with a wait.
    wait_end: u64,
    /// The longest wait, in milliseconds.
    max_wait_ms: i64,
    /// Whether the clock is behind a reading at which IDs were issued.
    pub(crate) held: bool,
    /// How far the clock is behind, in milliseconds, if that is more than `hold`.
    pub(crate) rolled_back_ms: Option<i64>,
}

impl ClaimTime {
    /// Returns the same reading for a caller that does not wait.
    pub(crate) const fn at_once(self) -> Self {
        Self { wait_end: self.at_once_end, max_wait_ms: 0, ..self }
    }

    pub(crate) const fn positions_per_tick(&self) -> u64 {
        self.tick_end - self.first
    }

    /// Returns the positions of the effective tick; none while the clock is behind, so that every
    /// claim checks the clock until it has caught up.
    pub(crate) const fn present(&self) -> Range<u64> {
        self.first..if self.held { self.first } else { self.tick_end }
    }
}

/// A claim that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) first: u64,
    pub(crate) end: u64,
    /// How long the caller must wait before it uses the IDs, on a clock that does not step.
    pub(crate) wait: Duration,
    /// Whether the claim reaches beyond the effective tick and needs no wait.
    pub(crate) borrowed: bool,
}

/// Why a claim is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The claim ends in a tick that is further ahead than a caller may wait.
    Exhausted { retry_after: Duration },
    /// The claim ends above the limit. It needs `needed` positions, counted from the cursor or from
    /// the effective tick, whichever is higher.
    Limit { needed: u64 },
}

impl Rules {
    pub(crate) fn new(layout: Layout, settings: &IssueSettings) -> Self {
        let spread_bits = match layout.order() {
            FieldOrder::WorkerSequence => {
                settings.sequence_spread_bits.min(layout.widths().sequence.saturating_sub(3))
            }
            // The lowest bits are those of the worker, which do not change.
            FieldOrder::SequenceWorker => 0,
        };
        let borrow_ahead_ms = millis(settings.borrow_ahead);
        let max_wait_ms = millis(settings.max_wait);
        let ticks = borrow_ahead_ms.max(max_wait_ms).unsigned_abs();
        let ticks = ticks.div_ceil(layout.unit().millis().unsigned_abs()) + 1;
        let largest_claim = ticks.saturating_mul(layout.positions_per_tick());
        Self {
            borrow_ahead_ms,
            max_wait_ms,
            hold_ms: millis(settings.hold),
            waits_for_rollback: settings.rollback == RollbackPolicy::Wait,
            spread_mask: (1 << spread_bits) - 1,
            largest_claim: u32::try_from(largest_claim).unwrap_or(u32::MAX),
            has_shares: !settings.codes_shared
                && layout.unit().millis() >= TimeUnit::Minute.millis(),
            layout,
        }
    }

    /// Returns the largest claim that an idle code can serve.
    pub(crate) const fn largest_claim(&self) -> u32 {
        self.largest_claim
    }

    /// Returns which positions claims may take when the clock reads `now_ms`. `highest_ms` is the
    /// highest reading at which IDs were issued; `refuse_rollback` says that no other lane or
    /// worker is available.
    ///
    /// # Errors
    ///
    /// When the layout has no tick for the reading, or when the clock is behind by more than `hold`
    /// and claims wait: by policy, or because no other lane or worker is available.
    pub(crate) fn claim_time(
        &self,
        now_ms: i64,
        highest_ms: i64,
        refuse_rollback: bool,
    ) -> Result<ClaimTime, ClaimTimeError> {
        let behind_ms = highest_ms.saturating_sub(now_ms);
        let held = behind_ms > 0;
        let rolled_back_ms = Some(behind_ms).filter(|behind| held && *behind > self.hold_ms);
        if let Some(behind_ms) = rolled_back_ms
            && (refuse_rollback || self.waits_for_rollback)
        {
            return Err(ClaimTimeError::RolledBack {
                behind_ms,
                retry_after: self.caught_up(behind_ms),
            });
        }
        let effective_ms = now_ms.max(highest_ms);
        let tick = self.layout.tick_in_range(effective_ms).ok_or(ClaimTimeError::OutOfRange)?;
        let ahead_ms = self.borrow_ahead_ms.saturating_add(if held { self.hold_ms } else { 0 });
        let end_of = |ahead: i64| {
            let tick = self.layout.tick_clamped(effective_ms.saturating_add(ahead));
            self.layout.first_position(tick + 1)
        };
        let first = self.layout.first_position(tick);
        let at_once_end = end_of(ahead_ms);
        Ok(ClaimTime {
            now_ms,
            effective_ms,
            first,
            tick_end: first + self.layout.positions_per_tick(),
            at_once_end,
            wait_end: end_of(self.max_wait_ms).max(at_once_end),
            max_wait_ms: self.max_wait_ms,
            held,
            rolled_back_ms,
        })
    }

    /// Returns how long a clock that is `behind_ms` behind takes until it is behind by `hold` only.
    pub(crate) fn caught_up(&self, behind_ms: i64) -> Duration {
        Duration::from_millis(behind_ms.saturating_sub(self.hold_ms).unsigned_abs())
    }

    /// Returns how many positions a claim of "up to `n`" IDs may take from a cursor that stands at
    /// `next`.
    ///
    /// The position after them is due within [`SOON_MS`]. Of a tick that lasts longer, the claim
    /// takes at most half of the rest, and always at most half of the positions below `limit`, so
    /// that other callers get some without a wait.
    pub(crate) fn spare(&self, time: &ClaimTime, next: u64, limit: u64) -> u64 {
        let from = next.max(time.first);
        let soon = self.layout.tick_clamped(time.effective_ms.saturating_add(SOON_MS));
        let due = self.layout.first_position(soon).min(time.wait_end).saturating_sub(from);
        let half_of_tick = time.tick_end.saturating_sub(from) / 2;
        due.max(half_of_tick).min(limit.saturating_sub(from).div_ceil(2))
    }

    /// Plans a claim of `count` positions, all below `limit`, on a cursor that stands at `next`.
    ///
    /// # Errors
    ///
    /// When they end later than a caller may wait for, or above the limit.
    pub(crate) fn plan(
        &self,
        time: &ClaimTime,
        next: u64,
        count: u64,
        limit: u64,
    ) -> Result<Plan, Refusal> {
        let first =
            if next < time.first { self.spread(time.first, next, count, limit) } else { next };
        let end = first + count;
        if end > time.wait_end {
            return Err(Refusal::Exhausted {
                retry_after: self.due_in(time, end, time.max_wait_ms),
            });
        }
        if end > planted::limit(limit) {
            return Err(Refusal::Limit { needed: end - next.max(time.first) });
        }
        if end <= time.at_once_end {
            return Ok(Plan { first, end, wait: Duration::ZERO, borrowed: end > time.tick_end });
        }
        Ok(Plan { first, end, wait: self.due_in(time, end, 0), borrowed: false })
    }

    /// Returns the first position of a claim that begins a new tick.
    ///
    /// Its low sequence bits continue from those of the last ID, so that `id % shards` is evenly
    /// spread even at low rates. If that would push the claim into the next tick or beyond `limit`,
    /// the claim starts at the beginning of the tick.
    fn spread(&self, first: u64, next: u64, count: u64, limit: u64) -> u64 {
        let min_sequence = self.layout.min_sequence();
        let wanted = match next.checked_sub(1) {
            Some(last) => self.layout.sequence_of(last) + 1,
            None => min_sequence,
        };
        let offset = wanted.wrapping_sub(min_sequence) & self.spread_mask;
        let end = offset.saturating_add(count);
        if end <= self.layout.positions_per_tick().min(limit.saturating_sub(first)) {
            first + offset
        } else {
            first
        }
    }

    /// Returns how long it takes until the last tick of a claim that ends at `end` begins in at
    /// most `ahead_ms`.
    fn due_in(&self, time: &ClaimTime, end: u64, ahead_ms: i64) -> Duration {
        let due_ms = self.layout.start_of_tick_ms(self.layout.tick_of(end - 1));
        let wait_ms = due_ms.saturating_sub(time.effective_ms).saturating_sub(ahead_ms);
        Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0))
    }
}

/// Why no position can be claimed at a reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimTimeError {
    /// The clock is before the epoch or past the timestamp's end.
    OutOfRange,
    /// The clock is behind by more than `hold`, and the rollback policy waits, or no other lane or
    /// worker is available.
    RolledBack { behind_ms: i64, retry_after: Duration },
}

#[cfg(test)]
mod tests;
