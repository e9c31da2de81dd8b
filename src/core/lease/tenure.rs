//! What a process knows about a row, and what a write with an unknown outcome means.

use super::{Marks, Row, RowWrite, Token};
use crate::core::planted::{Bug, planted};

/// A write that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt<T> {
    /// What it sets.
    pub write: RowWrite,
    /// What the write is for, kept until its outcome is known.
    pub purpose: T,
}

/// What one process knows about one row: the token and marks that it last read or wrote there, and
/// its writes whose outcome is unknown.
///
/// Every unresolved write names the same token, so at most one of them can take place, and the next
/// write from that token refuses all that are still under way.
///
/// A store may show a write before it is durable, and lose it in a crash. So a write of this process
/// that was read is only [`visible`](Self::visible). It takes effect once a later write of this
/// process from its token is [`acknowledged`](Self::acknowledged).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tenure<T> {
    worker: u64,
    token: Token,
    marks: Marks,
    /// The write that set `token`, if it was read and is not acknowledged.
    visible: Option<Attempt<T>>,
    unresolved: Vec<Attempt<T>>,
}

/// What a read of the row says about the unresolved writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The row is unchanged. A write may still arrive, so the next one must name the same token.
    Unchanged,
    /// One of these writes is visible, and none of the others can take place. The next write names
    /// its token.
    Visible,
    /// Another process wrote the row, or the store lost a write that it had shown.
    Lost,
    /// The row is gone, or was created again as if nothing had been issued.
    Vanished,
}

impl<T> Tenure<T> {
    /// Starts from a row as it was read.
    pub fn of(row: &Row) -> Self {
        Self {
            worker: row.worker,
            token: row.token,
            marks: row.marks.clone(),
            visible: None,
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

    /// The marks that were set with [`Self::token`].
    pub const fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Whether the outcome of a write is unknown; then the row must be read before anything else.
    pub const fn is_unresolved(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// The write of this process that set [`Self::token`], if the store has shown it and not
    /// acknowledged it.
    pub const fn visible(&self) -> Option<&Attempt<T>> {
        self.visible.as_ref()
    }

    /// Records a write *before* it is sent.
    pub fn sent(&mut self, write: RowWrite, purpose: T) {
        self.unresolved.push(Attempt { write, purpose });
    }

    /// Takes the write that was recorded last as acknowledged by the store.
    ///
    /// # Panics
    ///
    /// When no write is unresolved.
    pub fn acknowledged(&mut self) -> Attempt<T> {
        let last =
            self.unresolved.len().checked_sub(1).expect("a write was recorded before it was sent");
        self.visible = None;
        self.took_place(last)
    }

    /// Resolves the writes with an unknown outcome by the row as it was read.
    pub fn resolve(&mut self, row: Option<&Row>) -> Resolution {
        let Some(row) = row else { return Resolution::Vanished };
        if row.token == self.token {
            return Resolution::Unchanged;
        }
        let is_own = |attempt: &Attempt<T>| {
            attempt.write.token == row.token
                || (planted(Bug::OwnByHolder) && has_our_holder(attempt, row))
        };
        match self.unresolved.iter().position(is_own) {
            Some(index) => {
                self.visible = Some(self.took_place(index));
                // The same, unless a planted bug took another process's write for its own.
                self.token = row.token;
                Resolution::Visible
            }
            // The process that created it did not know that the namespace is in use.
            None if row.was_never_written() && row.marks.iter().all(|mark| mark == 0) => {
                Resolution::Vanished
            }
            None => Resolution::Lost,
        }
    }

    fn took_place(&mut self, index: usize) -> Attempt<T> {
        let attempt = self.unresolved.swap_remove(index);
        self.token = attempt.write.token;
        self.marks = attempt.write.marks.clone();
        // The others name the old token, which never returns.
        self.unresolved.clear();
        attempt
    }
}

/// The test of [`Bug::OwnByHolder`].
fn has_our_holder<T>(attempt: &Attempt<T>, row: &Row) -> bool {
    attempt.write.holder == row.holder
}

/// For planted bugs only.
#[cfg(raindrop_planted)]
impl<T> Tenure<T> {
    /// Discards the writes whose outcome is unknown.
    pub fn forget(&mut self) {
        self.unresolved.clear();
    }

    /// Takes a visible write as acknowledged.
    pub fn believe(&mut self) -> Option<Attempt<T>> {
        self.visible.take()
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
            heartbeat_ms: 1,
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
    fn acknowledged_write_becomes_the_new_base() {
        let mut tenure: Tenure<&str> = Tenure::of(&row(1, 10));
        tenure.sent(write(2, 20), "renew");
        assert_eq!(tenure.acknowledged().purpose, "renew");
        assert_eq!(tenure.token(), Token::from_bits(2));
        assert_eq!(tenure.marks()[0], 20);
        assert!(!tenure.is_unresolved());
        assert_eq!(tenure.visible(), None);
    }

    #[test]
    fn unchanged_row_keeps_its_writes_unresolved() {
        let mut tenure: Tenure<&str> = Tenure::of(&row(1, 10));
        tenure.sent(write(2, 20), "first");
        assert_eq!(tenure.resolve(Some(&row(1, 10))), Resolution::Unchanged);
        assert_eq!((tenure.token(), tenure.is_unresolved()), (Token::from_bits(1), true));
        assert_eq!(tenure.visible(), None);
        tenure.sent(write(3, 30), "second");
        // The first arrived late and refused the second.
        assert_eq!(tenure.resolve(Some(&row(2, 20))), Resolution::Visible);
        assert_eq!(tenure.visible().map(|attempt| attempt.purpose), Some("first"));
        assert_eq!((tenure.token(), tenure.marks()[0]), (Token::from_bits(2), 20));
        assert!(!tenure.is_unresolved());
    }

    #[test]
    fn visible_write_counts_only_after_a_later_acknowledgement() {
        let mut tenure: Tenure<&str> = Tenure::of(&row(1, 10));
        tenure.sent(write(2, 20), "renew");
        assert_eq!(tenure.resolve(Some(&row(2, 20))), Resolution::Visible);
        tenure.sent(write(3, 20), "renew");
        // Its outcome is unknown, and the row shows what was visible before.
        assert_eq!(tenure.resolve(Some(&row(2, 20))), Resolution::Unchanged);
        assert!(tenure.visible().is_some());
        tenure.sent(write(4, 20), "renew");
        assert_eq!(tenure.acknowledged().write.token, Token::from_bits(4));
        assert_eq!(tenure.visible(), None);
    }

    #[test]
    fn row_that_fell_back_behind_a_visible_write_is_lost() {
        let mut tenure: Tenure<&str> = Tenure::of(&row(1, 10));
        tenure.sent(write(2, 20), "renew");
        assert_eq!(tenure.resolve(Some(&row(2, 20))), Resolution::Visible);
        tenure.sent(write(3, 20), "renew");
        assert_eq!(tenure.resolve(Some(&row(1, 10))), Resolution::Lost);
    }

    #[test]
    fn another_token_means_the_row_is_lost_whatever_the_holder_says() {
        let mut tenure: Tenure<&str> = Tenure::of(&row(1, 10));
        tenure.sent(write(2, 20), "renew");
        assert_eq!(tenure.resolve(Some(&row(9, 10))), Resolution::Lost);
        assert_eq!(tenure.resolve(None), Resolution::Vanished);
    }

    #[test]
    fn row_that_was_created_again_has_vanished() {
        let fresh = |token| Row { heartbeat_ms: 0, ..row(token, 0) };
        let mut tenure: Tenure<&str> = Tenure::of(&row(1, 10));
        tenure.sent(write(2, 20), "renew");
        assert_eq!(tenure.resolve(Some(&fresh(5))), Resolution::Vanished);
        // Beyond every lease: it was added to a namespace that is in use.
        let added = Row { marks: Marks::all_at(50, 1), ..fresh(5) };
        assert_eq!(tenure.resolve(Some(&added)), Resolution::Lost);
        // A fresh row that nobody wrote yet is as it was.
        let mut tenure: Tenure<&str> = Tenure::of(&fresh(6));
        tenure.sent(write(2, 20), "acquire");
        assert_eq!(tenure.resolve(Some(&fresh(6))), Resolution::Unchanged);
    }
}
