//! Breaks the rules of the lease protocol, for checkers.
//!
//! Each function returns what the rule says, its first argument, so production code can be read as
//! if it were not there. Only in a build for checkers, and only if its [`Bug`] is planted, it
//! returns something else.

use super::{Attempt, History, HistoryVerdict, LimitRequest, Row, Token};
use crate::{
    layout::Layout,
    planted::{Bug, planted},
};

/// Returns the token of the next write.
pub(super) fn next_token(fresh: Token, before: Token) -> Token {
    if planted(Bug::TokenDerived) { before.plus(1) } else { fresh }
}

/// Returns whether a process made this attempt of a write that set the row's token.
pub(super) fn is_own<T>(has_token: bool, attempt: &Attempt<T>, row: &Row) -> bool {
    has_token || planted(Bug::OwnByHolder) && attempt.write.holder == row.holder
}

/// Returns the limit of a lease.
pub(super) fn limit(limit: u64, layout: &Layout, request: &LimitRequest) -> u64 {
    if !planted(Bug::LimitWithoutCap) {
        return limit;
    }
    let present = layout.first_position(layout.tick_clamped(request.now_ms));
    let ticks = u64::try_from(request.reach_ms / layout.unit().millis()).unwrap_or(0);
    request.old_limit.max(present) + layout.first_position(ticks.max(1))
}

/// Returns whether a released row keeps its marks.
pub(super) fn keeps_marks(is_free: bool) -> bool {
    is_free || planted(Bug::ReleaseKeepsMark)
}

/// Returns the first position of a lease that is resumed.
pub(super) fn resumed_start(local_mark: u64, layout: &Layout, now_ms: i64) -> u64 {
    if planted(Bug::ResumedAtClock) {
        layout.first_position(layout.tick_clamped(now_ms))
    } else {
        local_mark
    }
}

/// Returns whether a saved lease must leave the state file before a write is sent.
pub(super) fn is_ended(is_ended: bool) -> bool {
    is_ended && !planted(Bug::KeptWhileLowered)
}

/// Returns whether a write is young enough to confirm anything.
pub(super) fn is_recent(is_recent: bool) -> bool {
    is_recent || planted(Bug::OldWriteConfirms)
}

/// Returns whether a write confirms that the store has lost nothing since.
pub(super) fn confirms(confirms: bool) -> bool {
    confirms || planted(Bug::PastUnconfirmed)
}

/// Returns the token of a new epoch.
pub(super) fn epoch(fresh: Token, identity: &str) -> Token {
    if planted(Bug::EpochIsIdentity) {
        Token::from_bits(identity.bytes().fold(1, |bits, byte| (bits << 8) | u128::from(byte)))
    } else {
        fresh
    }
}

/// Returns whether a new epoch begins because the store lost one.
pub(super) fn is_loss(is_loss: bool) -> bool {
    is_loss && !planted(Bug::LostEpochPassed)
}

/// Returns the history in which an operator began two epochs, of which `first` is the first.
pub(super) fn raised(raised: History, first: &History) -> History {
    if planted(Bug::RaisePassed) {
        first.clone().begun_by(HistoryVerdict::Continued)
    } else {
        raised
    }
}

/// Returns whether the record forgot an epoch, and did not lose it.
pub(super) fn is_forgotten(is_forgotten: bool) -> bool {
    is_forgotten && !planted(Bug::ForgottenEpochIsLost)
}

/// Returns whether another server has the record.
pub(super) fn is_other_server(is_other: bool) -> bool {
    is_other && !planted(Bug::IdentityIgnored)
}

/// Returns whether a row is of the present epoch.
pub(super) fn is_present(is_present: bool) -> bool {
    is_present || planted(Bug::EpochNotInRows)
}

/// Returns whether a holder may continue its lease in a new epoch.
pub(super) fn is_unbroken(is_unbroken: bool) -> bool {
    is_unbroken || planted(Bug::RenewedAcrossEpochs)
}

/// Returns whether the row shows the last write of a holder that missed several epochs.
pub(super) fn is_shown(is_shown: bool) -> bool {
    is_shown || planted(Bug::RolledBackRowPassed)
}

/// Returns whether the row of a holder that missed several epochs had not expired.
pub(super) fn is_held(is_held: bool) -> bool {
    is_held || planted(Bug::TtlPassed)
}

/// Returns by how much a lowered barrier must be ahead, in ms.
pub(super) fn reach_ms(reach_ms: i64) -> i64 {
    if planted(Bug::BarrierLoweredToNow) { 0 } else { reach_ms }
}

/// Returns whether a node that uses the longest time confirms that now.
pub(super) fn is_confirmed(is_due: bool) -> bool {
    is_due && !planted(Bug::LongestNotConfirmed)
}

/// Returns when a reach that falls was last used, Unix ms; `None` if none falls.
pub(super) fn used_ms(used_ms: Option<i64>) -> Option<i64> {
    if planted(Bug::FallenReachForgotten) { None } else { used_ms }
}
