//! Tells whether the store still has what it acknowledged to this process.
//!
//! If a store is rolled back in place (a backup, a snapshot), its counters are those of the backup,
//! and its epoch does not change until a holder notices. So what is counted in the store without a
//! lease, as IDs for a past time are, asks the row that the process holds. [`OwnWrite::confirms`]
//! is the whole decision.
//!
//! `docs/safety/backfill.md` has the argument. The caller must read the row *after* the store
//! acknowledged the reservation, and the record after the row; if nothing is confirmed, it drops
//! the reserved numbers. Its caller is `crates/keeper/src/backfill.rs`. Tests are at the end of
//! this file.

use std::time::Duration;

use super::{Row, Token, planted};

/// The last acknowledged write of the row that a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnWrite {
    /// The token that the row had when its lease began; it identifies the lease.
    pub lease: Token,
    /// The worker id of the row.
    pub worker: u64,
    /// The token that the write set.
    pub token: Token,
}

impl OwnWrite {
    /// Returns whether the store has lost nothing that it acknowledged after `before`, this
    /// process's last write when it sent the reservation. `self` is the last write now, of this
    /// `age` by the steady clock; `row` was read after the reservation.
    ///
    /// Two facts prove it. First, the row shows the last write, and that is of the same lease as
    /// `before`: so each write between them was a swap from the write before it. Second, the last
    /// write is younger than `longest`, and every backup is older: so no backup contains it.
    pub fn confirms(
        &self,
        before: &Self,
        row: Option<&Row>,
        age: Duration,
        longest: Duration,
    ) -> bool {
        let is_shown = row.is_some_and(|row| row.token == self.token);
        let is_same_lease = self.lease == before.lease && self.worker == before.worker;
        planted::confirms(is_shown && is_same_lease && Self::is_recent(age, longest))
    }

    /// Returns whether a write of this age is young enough to confirm anything.
    pub fn is_recent(age: Duration, longest: Duration) -> bool {
        planted::is_recent(age < longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::HighWaterMarks;

    const LONGEST: Duration = Duration::from_secs(45);

    fn row(token: u128) -> Row {
        Row {
            worker: 3,
            token: Token::from_bits(token),
            holder: String::new(),
            lane: 0,
            marks: HighWaterMarks::all_at(0, 1),
            free: false,
            epoch: Token::UNUSED,
            heartbeat_ms: 0,
            expires_ms: 0,
        }
    }

    fn write(token: u128) -> OwnWrite {
        OwnWrite { lease: Token::from_bits(1), worker: 3, token: Token::from_bits(token) }
    }

    #[test]
    fn the_last_write_confirms_while_the_row_shows_it() {
        let young = LONGEST - Duration::from_millis(1);
        assert!(write(2).confirms(&write(2), Some(&row(2)), young, LONGEST));
        // The keeper renewed the lease meanwhile.
        assert!(write(3).confirms(&write(2), Some(&row(3)), young, LONGEST));
    }

    #[test]
    fn another_token_an_old_write_and_another_lease_confirm_nothing() {
        let own = write(2);
        assert!(!own.confirms(&own, None, Duration::ZERO, LONGEST));
        assert!(!own.confirms(&own, Some(&row(1)), Duration::ZERO, LONGEST));
        assert!(!own.confirms(&own, Some(&row(2)), LONGEST, LONGEST));
        let of_another_lease = OwnWrite { lease: Token::from_bits(9), ..own };
        assert!(!own.confirms(&of_another_lease, Some(&row(2)), Duration::ZERO, LONGEST));
        let of_another_row = OwnWrite { worker: 4, ..own };
        assert!(!own.confirms(&of_another_row, Some(&row(2)), Duration::ZERO, LONGEST));
    }
}
