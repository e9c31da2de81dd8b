//! Plans a reservation, and adapts it to the store's refusals.
//!
//! When a store refuses a reservation, it answers with the row as it is. The row may be of an
//! earlier epoch, so that numbers must be skipped; it may be missing; or it may have too few
//! numbers left. A plan is only numbers: `refill.rs` sends it, and drops a block that is not beyond
//! the process's last one ([`Plan::is_free`]).

use raindrop_core::{
    lease::{History, Token},
    segment::{Block, CodeRow, GapRule, SegmentSpec},
};
use raindrop_store::Reservation;

use super::planted;
use crate::support::status::UnavailableReason;

/// A reservation that is being tried.
#[derive(Debug)]
pub(super) struct Plan {
    spec: SegmentSpec,
    rule: GapRule,
    /// The history in which the process makes the reservation.
    pub(super) history: History,
    /// The count of numbers that it takes.
    pub(super) by: u64,
    /// The count of numbers that it skips before these.
    skip: u64,
    /// The epoch that the row is expected to have.
    row_epoch: Token,
    /// Whether the reservation may create the code's row.
    may_create: bool,
    /// Whether the row is expected to be missing, so that the reservation creates it.
    creates: bool,
    /// The epoch and the end of the last block of this process.
    pub(super) last_block: Option<(Token, u64)>,
}

impl Plan {
    pub(super) fn new(
        spec: SegmentSpec,
        rule: GapRule,
        history: History,
        by: u64,
        may_create: bool,
    ) -> Self {
        let row_epoch = history.epoch();
        let (skip, creates, last_block) = (0, false, None);
        let mut plan =
            Self { spec, rule, history, by, skip, row_epoch, may_create, creates, last_block };
        plan.creates = plan.creates_at_once();
        plan
    }

    /// Returns the reservation, under a fresh token.
    pub(super) fn reservation(&self, token: Token) -> Reservation {
        Reservation {
            by: self.skip.saturating_add(self.by),
            step: self.by,
            end: self.end(),
            token,
            or_begin_at: self.creates.then(|| self.spec.first()),
            epoch: self.history.epoch(),
            row_epoch: self.row_epoch,
        }
    }

    /// Returns the block of the reservation that began with this number.
    pub(super) const fn block(&self, first: u64, token: Token) -> Block {
        let first = first + self.skip;
        Block { first, end: first + self.by, token }
    }

    /// Returns whether a block is beyond those that this process had.
    pub(super) fn is_free(&self, block: &Block) -> bool {
        self.last_block.is_none_or(|(_, end)| block.first >= end)
    }

    /// Returns whether a block below the last one of this process shows that the store was rolled
    /// back within this epoch.
    pub(super) fn shows_rollback(&self) -> bool {
        self.last_block.is_some_and(|(epoch, _)| epoch == self.history.epoch())
    }

    /// Adapts the reservation to the row with which the store refused it. Returns whether a number
    /// is left.
    pub(super) fn adapt(&mut self, row: &CodeRow) -> bool {
        let lost = self.last_end_before().unwrap_or(0).saturating_sub(row.next);
        let skip = self.rule.skipped(&self.spec, row, &self.history).max(lost);
        let room = self.end().saturating_sub(row.next).saturating_sub(skip);
        // The row is as expected, so the reservation was too large: take fewer numbers. Near the
        // end, the last block is all that is left.
        let is_same = (self.row_epoch, self.skip) == (row.epoch, skip);
        let most = if is_same { self.by.saturating_sub(1).max(1) } else { self.by };
        (self.row_epoch, self.skip, self.by) = (row.epoch, skip, most.min(room));
        room > 0
    }

    /// Creates the code, whose row is missing, if that is allowed. The store may have lost an
    /// earlier row.
    pub(super) fn create(&mut self) -> bool {
        let creates = self.may_create && !self.creates;
        if creates {
            self.creates = true;
            self.adapt(&CodeRow::missing(self.spec.first()));
        }
        creates
    }

    /// Starts again in another epoch.
    pub(super) fn enter(&mut self, history: History) {
        (self.row_epoch, self.skip) = (history.epoch(), 0);
        self.history = history;
        self.creates = self.creates_at_once();
    }

    /// Returns the reason why no number is left.
    pub(super) const fn used_up(&self) -> UnavailableReason {
        match self.skip {
            0 => UnavailableReason::NumbersUsedUp,
            _ => UnavailableReason::NumbersSkipped,
        }
    }

    /// Returns whether to create a missing row without trying first: nothing would be skipped.
    fn creates_at_once(&self) -> bool {
        let missing = CodeRow::missing(self.spec.first());
        let skipped = self.rule.skipped(&self.spec, &missing, &self.history);
        self.may_create && planted::creates_at_start(skipped)
    }

    /// Returns the end of the last block, if the block is of an earlier epoch.
    fn last_end_before(&self) -> Option<u64> {
        let (epoch, end) = self.last_block?;
        (epoch != self.history.epoch()).then_some(end)
    }

    /// Returns one past the largest number.
    const fn end(&self) -> u64 {
        self.spec.max + 1
    }
}
