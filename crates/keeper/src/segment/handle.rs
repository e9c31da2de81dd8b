//! Issues numbers of one code.

use std::{sync::Arc, time::Duration};

use raindrop_core::{
    id::Id,
    issue::{ClaimError, Count},
    keeper_api::Denied,
    segment::Numbers,
};
use tokio::time::Instant;

use super::{code::Code, settings::RETRY_LATE};
use crate::support::{
    error::IssueError,
    status::{StoreFailure, UnavailableReason},
};

/// The pause before a retry if no better time is known.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Issues numbers of one code. Cheap to clone. A handle belongs to one thread or task at a time;
/// others take a clone, which draws from the same blocks.
#[derive(Clone, Debug)]
pub struct SegmentHandle {
    code: Arc<Code>,
    /// The position of the code's cursor when this handle last saw it.
    seen: u64,
}

impl SegmentHandle {
    pub(super) const fn new(code: Arc<Code>) -> Self {
        Self { code, seen: 0 }
    }

    /// Issues one number from a reserved block, in a few nanoseconds and without waiting. After
    /// `None`, [`Self::next_ids`] can wait for a block, or return the reason. A strict code has no
    /// blocks: always `None`.
    #[inline]
    pub fn try_next_id(&mut self) -> Option<Id> {
        if self.code.strict.is_some() {
            return None;
        }
        self.code.cursor.claim_one(&mut self.seen)
    }

    /// Issues `count` numbers, ascending. Waits only if no block has them, for at most
    /// [`SegmentSettings::max_wait`](super::SegmentSettings::max_wait).
    ///
    /// # Errors
    ///
    /// See [`IssueError`]. No number was issued then. After [`ClaimError::TooManyCodes`] a retry
    /// needs another handle.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped after it claimed numbers, no caller ever gets them.
    pub async fn next_ids(&self, count: u32) -> Result<Numbers, IssueError> {
        self.code.claim(count.into()).await
    }
}

impl Code {
    /// Claims numbers; see [`SegmentHandle::next_ids`].
    pub(super) async fn claim(&self, count: Count) -> Result<Numbers, IssueError> {
        if count.most() == 0 {
            let none = ClaimError::InvalidCount { count: 0, largest: u32::MAX };
            return Err(IssueError::Refused(none));
        }
        if let Some(strict) = &self.strict {
            return Box::pin(self.claim_strictly(strict, count)).await;
        }
        match self.claim_at_once(count) {
            Ok(numbers) => Ok(numbers),
            Err(_) => Box::pin(self.claim_or_wait(count)).await,
        }
    }

    fn claim_at_once(&self, count: Count) -> Result<Numbers, Denied> {
        match count {
            Count::Exactly(count) => self.cursor.claim(count.into()),
            Count::UpTo(most) => self.cursor.claim_up_to(most.into()),
        }
    }

    #[cold]
    async fn claim_or_wait(&self, count: Count) -> Result<Numbers, IssueError> {
        let max_wait = self.namespace.settings.max_wait;
        let deadline = Instant::now() + max_wait;
        // Subscribed before the claim is retried, so that no block is missed.
        let mut changes = self.reason.subscribe();
        loop {
            let reason = changes.borrow_and_update().clone();
            let reason = match self.claim_at_once(count) {
                Ok(numbers) => return Ok(numbers),
                Err(Denied::Sealed) => Some(match reason {
                    // The code was retired, a code with newer settings has replaced it, or its newer
                    // settings cannot be read, so that nothing replaces it.
                    Some(
                        reason @ (UnavailableReason::CodeRefused(_)
                        | UnavailableReason::Starting
                        | UnavailableReason::UnreadableSettings),
                    ) => reason,
                    _ => UnavailableReason::ShuttingDown,
                }),
                // Once claims have waited in vain for `max_wait`, further ones fail at once.
                Err(Denied::Short { .. }) => reason.or_else(|| self.failing_for(max_wait)),
            };
            if let Some(reason) = reason {
                return Err(issue_error(reason));
            }
            let runtime = &self.namespace.shared.runtime;
            if !matches!(runtime.timeout_at(deadline, changes.changed()).await, Some(Ok(()))) {
                let late = || {
                    let kind = "no block came in time";
                    UnavailableReason::StoreUnavailable(StoreFailure::of_kind(kind))
                };
                return Err(issue_error(self.failing_for(Duration::ZERO).unwrap_or_else(late)));
            }
        }
    }
}

pub(super) fn issue_error(reason: UnavailableReason) -> IssueError {
    match reason {
        UnavailableReason::CodeRefused(refused) => IssueError::Refused(refused),
        UnavailableReason::NumbersUsedUp | UnavailableReason::NumbersSkipped => {
            IssueError::Refused(ClaimError::SequenceExhausted { retry_after: RETRY_LATE })
        }
        reason => IssueError::NoLease { reason, retry_after: RETRY_AFTER },
    }
}
