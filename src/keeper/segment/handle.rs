//! Numbers of one code.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::{
    code::Code,
    shared::{Namespace, Shared},
};
use crate::{
    core::{
        id::Id,
        issue::ClaimError,
        segment::{Denied, Numbers},
    },
    keeper::{IssueError, Trouble},
};

/// When it is worth trying again while nothing better is known.
const RETRY_SOON: Duration = Duration::from_secs(1);
/// When it is worth trying again once a code has no numbers left for ever.
const RETRY_EXHAUSTED: Duration = Duration::from_hours(1);

/// Issues numbers of one code; cheap to clone. A handle belongs to one thread or task at a time;
/// others take a clone, which draws from the same blocks.
#[derive(Clone, Debug)]
pub struct SegmentHandle {
    shared: Arc<Shared>,
    namespace: Arc<Namespace>,
    code: Arc<Code>,
    /// Where the code's cursor was last seen.
    seen: u64,
}

impl SegmentHandle {
    pub(super) fn new(shared: &Arc<Shared>, namespace: &Arc<Namespace>, code: Arc<Code>) -> Self {
        Self { shared: Arc::clone(shared), namespace: Arc::clone(namespace), code, seen: 0 }
    }

    /// One number, if a block is in hand: a few nanoseconds, and never a wait. `None` means that
    /// [`Self::next_ids`] can wait for one, or tell why there is none.
    #[inline]
    pub fn try_next_id(&mut self) -> Option<Id> {
        self.code.cursor.claim_one(&mut self.seen)
    }

    /// `count` numbers, ascending. Waits only while no block is in hand, at most
    /// [`SegmentSettings::max_wait`](super::SegmentSettings::max_wait).
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then.
    ///
    /// # Cancel safety
    ///
    /// Numbers that were claimed when the future is dropped are never issued to anybody.
    pub async fn next_ids(&self, count: u32) -> Result<Numbers, IssueError> {
        claim(&self.shared, &self.namespace, &self.code, count).await
    }
}

/// See [`SegmentHandle::next_ids`].
pub(super) async fn claim(
    shared: &Shared,
    namespace: &Namespace,
    code: &Code,
    count: u32,
) -> Result<Numbers, IssueError> {
    if count == 0 {
        let none = ClaimError::InvalidCount { count, largest: u32::MAX };
        return Err(IssueError::Refused(none));
    }
    match code.cursor.claim(u64::from(count)) {
        Ok(numbers) => Ok(numbers),
        Err(_) => Box::pin(claim_again(shared, namespace, code, u64::from(count))).await,
    }
}

#[cold]
async fn claim_again(
    shared: &Shared,
    namespace: &Namespace,
    code: &Code,
    count: u64,
) -> Result<Numbers, IssueError> {
    let max_wait = namespace.settings.max_wait;
    let deadline = Instant::now() + max_wait;
    // Subscribed before the claim is tried again, so that no block is missed.
    let mut changes = code.trouble.subscribe();
    loop {
        let trouble = changes.borrow_and_update().clone();
        let denied = match code.cursor.claim(count) {
            Ok(numbers) => return Ok(numbers),
            Err(denied) => denied,
        };
        let trouble = match denied {
            Denied::Sealed => Some(Trouble::ShuttingDown),
            // Once others have waited in vain, nobody else has to.
            Denied::Short { .. } => trouble.or_else(|| shared.failing_for(max_wait)),
        };
        if let Some(trouble) = trouble {
            return Err(explain(trouble));
        }
        if !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
            let in_vain = || Trouble::StoreUnavailable("no block came in time".into());
            return Err(explain(shared.failing_for(Duration::ZERO).unwrap_or_else(in_vain)));
        }
    }
}

fn explain(trouble: Trouble) -> IssueError {
    match trouble {
        Trouble::NumbersUsedUp => {
            IssueError::Refused(ClaimError::SequenceExhausted { retry_after: RETRY_EXHAUSTED })
        }
        trouble => IssueError::NoLease { trouble, retry_after: RETRY_SOON },
    }
}
