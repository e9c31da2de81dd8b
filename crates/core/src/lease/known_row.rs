//! Tracks what a process knows about a row, and what a write with an unknown outcome means.
//!
//! A write is recorded with [`KnownRow::sent`] *before* the caller sends it, so the caller may be
//! cancelled at any time. If the store does not answer, the caller reads the row and calls
//! [`KnownRow::resolve`]. The token that it finds says which write took place. A lost reply is
//! never taken for a failure: the next write names the same token, so at most one of them succeeds.
//!
//! It sends nothing and changes no lease. A write that was only seen is not durable. A lease is
//! extended by an [`Acknowledged`] write, and only the [`Sent`] write that the store acknowledged
//! becomes one. Tests: `known_row/tests.rs`; the models in `tests/models`, which find the planted
//! bugs `OwnByHolder`, `VisibleIsDurable` and `LostReplyIsFailure`.

use super::{HighWaterMarks, Row, RowWrite, Token, planted};

/// A write that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt<T> {
    /// The values that it sets.
    pub write: RowWrite,
    /// The facts about it that its sender needs once its outcome is known.
    pub intent: T,
}

/// What one process knows about one row: the token and marks that it last read or wrote there, and
/// its writes whose outcome is unknown.
///
/// Every unresolved write names the same token. So at most one of them can take place, and the next
/// write from that token makes the store refuse all that are still in flight.
///
/// A store may show a write before it is durable, and lose it in a crash. So a write of this
/// process that a read shows is only [`visible`](Self::visible). The write counts once the store
/// acknowledges a later write of this process that names its token ([`Sent::acknowledged`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KnownRow<T> {
    worker: u64,
    token: Token,
    epoch: Token,
    marks: HighWaterMarks,
    /// The write that set `token`, if a read showed it and the store has not acknowledged it.
    visible: Option<Attempt<T>>,
    unresolved: Vec<Attempt<T>>,
}

/// A recorded write, to be sent to the store. Its outcome is unknown until the store acknowledges
/// it, and stays unknown if this value is dropped.
#[derive(Debug)]
pub struct Sent<'a, T> {
    known_row: &'a mut KnownRow<T>,
    index: usize,
}

impl<T> Sent<'_, T> {
    /// Returns the worker id of the row.
    pub const fn worker(&self) -> u64 {
        self.known_row.worker
    }

    /// Returns the token that the row must have.
    pub const fn expected(&self) -> Token {
        self.known_row.token
    }

    /// Returns the values that the write sets.
    pub fn write(&self) -> &RowWrite {
        &self.known_row.unresolved[self.index].write
    }

    /// Records that the store acknowledged this write.
    pub fn acknowledged(self) -> Acknowledged<T> {
        self.known_row.visible = None;
        Acknowledged { intent: self.known_row.took_place(self.index).intent }
    }
}

/// The proof that the store acknowledged a write: without one, no lease is extended.
#[derive(Debug)]
pub struct Acknowledged<T> {
    intent: T,
}

impl<T> Acknowledged<T> {
    /// Returns the intent of the write.
    pub const fn intent(&self) -> &T {
        &self.intent
    }
}

/// The outcome of the unresolved writes, as a read of the row shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The row has the same token as before. A write may still arrive, so the next one must name
    /// that token.
    Unchanged,
    /// The row has the token of one of these writes; none of the others can take place. The next
    /// write must name the token of that one.
    Visible,
    /// The row has another token: another process wrote it, or the store lost writes.
    Lost,
    /// The row is not there.
    Vanished,
}

impl<T> KnownRow<T> {
    /// Starts from a row as it was read.
    pub fn of(row: &Row) -> Self {
        Self {
            worker: row.worker,
            token: row.token,
            epoch: row.epoch,
            marks: row.marks.clone(),
            visible: None,
            unresolved: Vec::new(),
        }
    }

    /// Returns the worker id.
    pub const fn worker(&self) -> u64 {
        self.worker
    }

    /// Returns the token that the next write must name.
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Returns the epoch that the row had with [`Self::token`].
    pub const fn epoch(&self) -> Token {
        self.epoch
    }

    /// Returns the marks that were set with [`Self::token`].
    pub const fn marks(&self) -> &HighWaterMarks {
        &self.marks
    }

    /// Returns whether the outcome of a write is unknown. Then the row must be read before anything
    /// else.
    pub const fn is_unresolved(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// Returns the write of this process that set [`Self::token`], if the store has shown it but
    /// not acknowledged it.
    pub const fn visible(&self) -> Option<&Attempt<T>> {
        self.visible.as_ref()
    }

    /// Returns the last write of this process that may still take place, or may still be lost.
    pub fn unconfirmed(&self) -> Option<&Attempt<T>> {
        self.unresolved.last().or(self.visible.as_ref())
    }

    /// Records a write *before* it is sent.
    pub fn sent(&mut self, write: RowWrite, intent: T) -> Sent<'_, T> {
        let index = self.unresolved.len();
        self.unresolved.push(Attempt { write, intent });
        Sent { known_row: self, index }
    }

    /// Resolves the writes with an unknown outcome by the row as it was read; `None` if there is no
    /// row.
    pub fn resolve(&mut self, row: Option<&Row>) -> Resolution {
        let Some(row) = row else { return Resolution::Vanished };
        if row.token == self.token {
            return Resolution::Unchanged;
        }
        let is_own =
            |attempt: &Attempt<T>| planted::is_own(attempt.write.token == row.token, attempt, row);
        match self.unresolved.iter().position(is_own) {
            Some(index) => {
                self.visible = Some(self.took_place(index));
                // The same token, unless a planted bug took another process's write for its own.
                self.token = row.token;
                Resolution::Visible
            }
            None => Resolution::Lost,
        }
    }

    /// Continues from the row as it was found, because the store lost writes of this process. For
    /// each lane the higher mark of the known one and the found one counts.
    pub fn adopt(&mut self, row: &Row) {
        (self.token, self.epoch) = (row.token, row.epoch);
        self.marks = self.marks.raised_to(&row.marks);
        self.visible = None;
        self.unresolved.clear();
    }

    /// Forgets the writes that name an epoch other than this one, which must be the present one.
    /// None of them can take place any more, and a visible one has no effect.
    pub fn forget_before(&mut self, epoch: Token) {
        self.visible.take_if(|attempt| attempt.write.epoch != epoch);
        self.unresolved.retain(|attempt| attempt.write.epoch == epoch);
    }

    /// Continues in this epoch, in which the row's marks count as these.
    pub fn continue_in(&mut self, epoch: Token, marks: HighWaterMarks) {
        (self.epoch, self.marks) = (epoch, marks);
        self.forget_before(epoch);
    }

    fn took_place(&mut self, index: usize) -> Attempt<T> {
        let attempt = self.unresolved.swap_remove(index);
        self.token = attempt.write.token;
        self.epoch = attempt.write.epoch;
        self.marks = attempt.write.marks.clone();
        // The others name the old token, which no write sets again.
        self.unresolved.clear();
        attempt
    }
}

/// For planted bugs and the models only.
#[cfg(feature = "planted")]
impl<T> KnownRow<T> {
    /// Passes every token and epoch in here to `rename`: models rename them to find equal states.
    pub fn rename(&mut self, rename: &mut impl FnMut(&mut Token)) {
        rename(&mut self.token);
        rename(&mut self.epoch);
        for attempt in self.visible.iter_mut().chain(&mut self.unresolved) {
            rename(&mut attempt.write.token);
            rename(&mut attempt.write.epoch);
        }
    }

    /// Discards the writes whose outcome is unknown.
    pub fn discard_unresolved(&mut self) {
        self.unresolved.clear();
    }

    /// Returns the write that was recorded last. A model hands out its answer in a later step.
    pub fn last_sent(&mut self) -> Option<Sent<'_, T>> {
        let index = self.unresolved.len().checked_sub(1)?;
        Some(Sent { known_row: self, index })
    }

    /// Takes a visible write as acknowledged.
    pub fn take_visible(&mut self) -> Option<Acknowledged<T>> {
        self.visible.take().map(|Attempt { intent, .. }| Acknowledged { intent })
    }
}

#[cfg(test)]
mod tests;
