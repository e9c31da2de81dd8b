//! What a process knows of the row it holds, and what a write with an unknown outcome means.

use super::{Marks, Row, RowWrite, Token};
use crate::core::policy::{Bug, Policy, Sound};

/// A write that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt<T> {
    /// What it sets.
    pub write: RowWrite,
    /// What the writer wants to remember with it until the outcome is known.
    pub purpose: T,
}

/// One process's knowledge of one row: the token it last knew to stand there, the marks that
/// came with it, and its writes whose outcome is unknown.
///
/// Every unresolved write started from the same token, so at most one of them can ever take
/// place, and the next write from that token refuses all that are still under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tenure<T, P = Sound> {
    policy: P,
    worker: u64,
    token: Token,
    marks: Marks,
    unresolved: Vec<Attempt<T>>,
}

/// What reading the row says about the unresolved writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution<T> {
    /// The row is unchanged. A write may still arrive: the next one must start from the same
    /// token.
    Unchanged,
    /// This write took place, and no other of ours can.
    TookPlace(Attempt<T>),
    /// Somebody else wrote the row.
    Lost,
    /// The row is gone from the store, or was made anew: no write ever sets
    /// [`Token::UNUSED`].
    Vanished,
}

impl<T, P: Policy> Tenure<T, P> {
    /// Begins with a row as it was read.
    pub fn of(row: &Row) -> Self {
        Self {
            policy: P::default(),
            worker: row.worker,
            token: row.token,
            marks: row.marks.clone(),
            unresolved: Vec::new(),
        }
    }

    /// The worker id.
    pub const fn worker(&self) -> u64 {
        self.worker
    }

    /// The token that the next write must name.
    pub const fn token(&self) -> Token {
        self.token
    }

    /// The marks that came with [`Self::token`].
    pub const fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Whether a write's outcome is unknown; then the row must be read before anything else.
    pub const fn is_unresolved(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// Notes a write *before* it is sent.
    pub fn sent(&mut self, write: RowWrite, purpose: T) {
        self.unresolved.push(Attempt { write, purpose });
    }

    /// Forgets writes whose outcome is unknown, as no sound process does.
    pub fn forget(&mut self) {
        debug_assert!(self.policy.has(Bug::LostReplyIsFailure), "unknown is not failed");
        self.unresolved.clear();
    }

    /// The store confirmed the write that was noted last.
    ///
    /// # Panics
    ///
    /// When no write was noted.
    pub fn confirmed(&mut self) -> Attempt<T> {
        let last =
            self.unresolved.len().checked_sub(1).expect("a write was noted before it was sent");
        self.took_place(last)
    }

    /// Resolves the unresolved writes by the row as it stands in the store.
    pub fn resolve(&mut self, row: Option<&Row>) -> Resolution<T> {
        let Some(row) = row else { return Resolution::Vanished };
        if row.token == self.token {
            return Resolution::Unchanged;
        }
        if row.token == Token::UNUSED {
            return Resolution::Vanished;
        }
        let is_own = |attempt: &Attempt<T>| {
            attempt.write.token == row.token
                || (self.policy.has(Bug::OwnByHolder) && attempt.write.holder == row.holder)
        };
        match self.unresolved.iter().position(is_own) {
            Some(index) => {
                let attempt = self.took_place(index);
                // The same, unless a planted bug took a stranger's write for ours.
                self.token = row.token;
                Resolution::TookPlace(attempt)
            }
            None => Resolution::Lost,
        }
    }

    fn took_place(&mut self, index: usize) -> Attempt<T> {
        let attempt = self.unresolved.swap_remove(index);
        self.token = attempt.write.token;
        self.marks = attempt.write.marks.clone();
        // The others named the old token, which never comes back.
        self.unresolved.clear();
        attempt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::lease::RowExpiry;

    fn row(token: u128, mark: u64) -> Row {
        Row {
            worker: 7,
            token: Token::from_bits(token),
            holder: "same".into(),
            lane: 0,
            marks: Marks::all_at(mark, 1),
            free: false,
            heartbeat_ms: 0,
            expires_ms: 0,
        }
    }

    fn write(token: u128, mark: u64) -> RowWrite {
        RowWrite {
            token: Token::from_bits(token),
            holder: "same".into(),
            lane: 0,
            marks: Marks::all_at(mark, 1),
            expiry: RowExpiry::Released,
        }
    }

    #[test]
    fn a_confirmed_write_becomes_the_new_base() {
        let mut tenure: Tenure<&str> = Tenure::of(&row(1, 10));
        tenure.sent(write(2, 20), "renew");
        assert_eq!(tenure.confirmed().purpose, "renew");
        assert_eq!(tenure.token(), Token::from_bits(2));
        assert_eq!(tenure.marks()[0], 20);
        assert!(!tenure.is_unresolved());
    }

    #[test]
    fn an_unchanged_row_keeps_its_writes_unresolved() {
        let mut tenure: Tenure<&str> = Tenure::of(&row(1, 10));
        tenure.sent(write(2, 20), "first");
        assert_eq!(tenure.resolve(Some(&row(1, 10))), Resolution::Unchanged);
        assert_eq!(tenure.token(), Token::from_bits(1));
        tenure.sent(write(3, 30), "second");
        // The first arrived late and refused the second.
        let Resolution::TookPlace(attempt) = tenure.resolve(Some(&row(2, 20))) else {
            panic!("the first write took place")
        };
        assert_eq!(attempt.purpose, "first");
        assert_eq!(tenure.marks()[0], 20);
        assert!(!tenure.is_unresolved());
    }

    #[test]
    fn another_token_means_the_row_is_lost_whatever_the_holder_says() {
        let mut tenure: Tenure<&str> = Tenure::of(&row(1, 10));
        tenure.sent(write(2, 20), "renew");
        assert_eq!(tenure.resolve(Some(&row(9, 10))), Resolution::Lost);
        assert_eq!(tenure.resolve(None), Resolution::Vanished);
    }

    #[test]
    fn a_row_that_was_made_anew_has_vanished() {
        let mut tenure: Tenure<&str> = Tenure::of(&row(1, 10));
        tenure.sent(write(2, 20), "renew");
        assert_eq!(tenure.resolve(Some(&row(0, 0))), Resolution::Vanished);
        // A fresh row that nobody wrote yet is as it was.
        let mut tenure: Tenure<&str> = Tenure::of(&row(0, 0));
        tenure.sent(write(2, 20), "acquire");
        assert_eq!(tenure.resolve(Some(&row(0, 0))), Resolution::Unchanged);
    }
}
