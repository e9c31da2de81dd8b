//! Which numbers of a strict code a process must undo before it reserves again.
//!
//! The numbers of a strict code ascend over all processes in real time: a number that a caller has
//! is smaller than those of requests that begin afterwards. So no process holds numbers ahead. It
//! reserves exactly those that its claims wait for, and issues them when the store acknowledges the
//! reservation. Some may be left over: of callers that gave up meanwhile, and all of them if no
//! answer came. They would be gaps, so the process undoes them
//! (`SegmentStore::undo` in the store) before it reserves again.
//!
//! Why neither way issues a number twice, nor out of order:
//!
//! - A number is issued only by the acknowledgement of its reservation, never because the row shows
//!   it: what is shown may be lost in a crash of the store. From then on it is not undone:
//!   [`StrictWrites::acknowledged`] leaves only the numbers behind it.
//! - What an undo may name is issued by nobody. The process gave those numbers to no caller and
//!   forgets them: it does not issue them later, whatever becomes of the undo.
//! - A number for a claim with an idempotency key counts as issued as soon as its text is sent to the
//!   store. It is undone only if the store holds another text for that key, which is final: so no late
//!   write can give the number to the key ([`StrictWrites::returned`]).
//! - An undo names the token of the reservation, and every write of the row replaces the token. So
//!   it lowers the next number only if no process wrote after the reservation, and no number above
//!   the undone ones was ever reserved. If it is late or repeated, the same holds.
//! - A reservation that arrives after its process gave it up raises the next number, as any does.
//!   If that is after the undo, the undo found another token and changed nothing. The numbers are a
//!   gap.
//!
//! The process sends one write of the code at a time, but any of them may arrive late. Tests:
//! `tests/models/simulation/segments` has strict codes.

use super::planted;
use crate::lease::Token;

/// Numbers at the end of a reservation that no caller got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unissued {
    /// By how much the next number is lowered when they are undone.
    pub by: u64,
    /// The token that the reservation wrote, or may have written.
    pub reserved: Token,
    /// The epoch of the reservation.
    pub epoch: Token,
}

/// What a process knows about its last write of a strict code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StrictWrites(Option<Unissued>);

impl StrictWrites {
    /// Notes a reservation before it is sent: until its answer, all of its numbers may be left over.
    /// Earlier numbers must be settled.
    pub const fn sends(&mut self, reservation: Unissued) {
        self.0 = Some(reservation);
    }

    /// Notes that the store refused the reservation.
    pub const fn refused(&mut self) {
        self.0 = None;
    }

    /// Notes that the store acknowledged the reservation, and that callers get its first `issued`
    /// numbers, counted with those between the code's own.
    pub fn acknowledged(&mut self, issued: u64) {
        let left_over = |sent: Unissued| {
            let by = planted::left_over(sent.by, issued);
            (by > 0).then_some(Unissued { by, ..sent })
        };
        self.0 = self.0.and_then(left_over);
    }

    /// Notes that the last numbers issued of the acknowledged reservation are not: the callers whom
    /// they were for have others, and the store refused to keep them.
    pub fn returned(&mut self, numbers: Unissued) {
        let by = numbers.by + self.0.map_or(0, |left_over| left_over.by);
        self.0 = Some(Unissued { by, ..numbers });
    }

    /// Returns the numbers to undo before the next reservation.
    pub const fn to_undo(&self) -> Option<Unissued> {
        self.0
    }

    /// Notes that the store answered an undo: it is done, or can never be done.
    pub const fn settled(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent() -> Unissued {
        Unissued { by: 5, reserved: Token::from_bits(1), epoch: Token::from_bits(2) }
    }

    fn after(change: impl FnOnce(&mut StrictWrites)) -> Option<Unissued> {
        let mut writes = StrictWrites::default();
        writes.sends(sent());
        change(&mut writes);
        writes.to_undo()
    }

    #[test]
    fn only_numbers_that_nobody_got_are_undone() {
        assert_eq!(StrictWrites::default().to_undo(), None);
        assert_eq!(after(|_| ()), Some(sent()), "the outcome is unknown");
        assert_eq!(after(StrictWrites::refused), None);
        assert_eq!(after(StrictWrites::settled), None);
        assert_eq!(after(|writes| writes.acknowledged(5)), None);
        assert_eq!(after(|writes| writes.acknowledged(3)), Some(Unissued { by: 2, ..sent() }));
        assert_eq!(after(|writes| writes.acknowledged(0)), Some(sent()));
        let last = Unissued { by: 1, ..sent() };
        let returned = |issued| {
            after(|writes| {
                writes.acknowledged(issued);
                writes.returned(last);
            })
        };
        assert_eq!(returned(5), Some(last));
        assert_eq!(returned(3), Some(Unissued { by: 3, ..sent() }));
    }
}
