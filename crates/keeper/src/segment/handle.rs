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
use crate::ground::{
    error::IssueError,
    status::{StoreFailure, UnavailableReason},
};

/// When to retry while no better time is known.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Issues numbers of one code; cheap to clone. A handle belongs to one thread or task at a time;
/// others take a clone, which draws from the same blocks.
#[derive(Clone, Debug)]
pub struct SegmentHandle {
    code: Arc<Code>,
    /// Where the code's cursor was last seen.
    seen: u64,
}

impl SegmentHandle {
    pub(super) const fn new(code: Arc<Code>) -> Self {
        Self { code, seen: 0 }
    }

    /// Issues one number, if a block is in hand: takes a few nanoseconds, and never waits. After
    /// `None`, [`Self::next_ids`] can wait for one or return why there is none.
    #[inline]
    pub fn try_next_id(&mut self) -> Option<Id> {
        self.code.cursor.claim_one(&mut self.seen)
    }

    /// Issues `count` numbers, ascending. Waits only while no block is in hand, at most
    /// [`SegmentSettings::max_wait`](super::SegmentSettings::max_wait).
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then. After [`ClaimError::TooManyCodes`] another
    /// handle is needed to try again.
    ///
    /// # Cancel safety
    ///
    /// Numbers that were claimed when the future is dropped are never issued to anybody.
    pub async fn next_ids(&self, count: u32) -> Result<Numbers, IssueError> {
        self.code.claim(count.into()).await
    }
}

impl Code {
    /// See [`SegmentHandle::next_ids`].
    pub(super) async fn claim(&self, count: Count) -> Result<Numbers, IssueError> {
        if count.most() == 0 {
            let none = ClaimError::InvalidCount { count: 0, largest: u32::MAX };
            return Err(IssueError::Refused(none));
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
                    Some(refused @ UnavailableReason::CodeRefused(_)) => refused,
                    _ => UnavailableReason::ShuttingDown,
                }),
                // Once other claims waited in vain, further ones fail at once.
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

fn issue_error(reason: UnavailableReason) -> IssueError {
    match reason {
        UnavailableReason::CodeRefused(refused) => IssueError::Refused(refused),
        UnavailableReason::NumbersUsedUp | UnavailableReason::NumbersSkipped => {
            IssueError::Refused(ClaimError::SequenceExhausted { retry_after: RETRY_LATE })
        }
        reason => IssueError::NoLease { reason, retry_after: RETRY_AFTER },
    }
}
