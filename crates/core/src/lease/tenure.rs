//! What a process knows about a row, and what a write with an unknown outcome means.

use super::{HighWaterMarks, Row, RowWrite, Token};
use crate::planted::{Bug, planted};

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
    epoch: Token,
    marks: HighWaterMarks,
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
    /// The row has another token: another process wrote it, or the store lost writes.
    Lost,
    /// The row is gone.
    Vanished,
}

impl<T> Tenure<T> {
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

    /// The worker id.
    pub const fn worker(&self) -> u64 {
        self.worker
    }

    /// The token that the next write must name.
    pub const fn token(&self) -> Token {
        self.token
    }

    /// The epoch that the row had with [`Self::token`].
    pub const fn epoch(&self) -> Token {
        self.epoch
    }

    /// The marks that were set with [`Self::token`].
    pub const fn marks(&self) -> &HighWaterMarks {
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

    /// The last write of this process that may take place, or may be lost again.
    pub fn unsettled(&self) -> Option<&Attempt<T>> {
        self.unresolved.last().or(self.visible.as_ref())
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
            None => Resolution::Lost,
        }
    }

    /// Goes on from the row as it was found: the store lost writes of this process. What is known of the
    /// marks stays, unless those that were found are higher.
    pub fn went_back(&mut self, row: &Row) {
        (self.token, self.epoch) = (row.token, row.epoch);
        self.marks = self.marks.raised_to(&row.marks);
        self.visible = None;
        self.unresolved.clear();
    }

    /// Forgets the writes that name an epoch before this one: none can take place any more, and one
    /// that is visible has no effect.
    pub fn forget_before(&mut self, epoch: Token) {
        self.visible.take_if(|attempt| attempt.write.epoch != epoch);
        self.unresolved.retain(|attempt| attempt.write.epoch == epoch);
    }

    /// Takes the row over into this epoch, in which its marks count as these.
    pub fn continue_in(&mut self, epoch: Token, marks: HighWaterMarks) {
        (self.epoch, self.marks) = (epoch, marks);
        self.forget_before(epoch);
    }

    fn took_place(&mut self, index: usize) -> Attempt<T> {
        let attempt = self.unresolved.swap_remove(index);
        self.token = attempt.write.token;
        self.epoch = attempt.write.epoch;
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

/// For planted bugs and the models only.
#[cfg(feature = "planted")]
impl<T> Tenure<T> {
    /// Passes every token and epoch that is known here: models rename them to tell equal states.
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

    /// Takes a visible write as acknowledged.
    pub fn take_visible(&mut self) -> Option<Attempt<T>> {
        self.visible.take()
    }
}

#[cfg(test)]
mod tests;
