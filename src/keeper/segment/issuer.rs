//! Issues numbers from the blocks in hand.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::{
    SegmentStatus,
    code::Code,
    shared::{Namespace, Shared},
};
use crate::{
    core::{
        code::is_valid_code,
        id::Id,
        issue::ClaimError,
        policy::{Policy, Sound},
        segment::{Denied, Numbers},
    },
    keeper::{IssueError, Trouble},
};

/// When it is worth trying again while nothing better is known.
const RETRY_SOON: Duration = Duration::from_secs(1);
/// When it is worth trying again once a code has no numbers left for ever.
const RETRY_EXHAUSTED: Duration = Duration::from_hours(1);

/// Issues numbers of one segment namespace; cheap to clone.
#[derive(Clone, Debug)]
pub struct SegmentIssuer<P: Policy = Sound> {
    shared: Arc<Shared<P>>,
    namespace: Arc<Namespace<P>>,
}

impl<P: Policy> SegmentIssuer<P> {
    pub(super) fn all(shared: &Arc<Shared<P>>) -> Vec<Self> {
        let issuer = |namespace: &Arc<Namespace<P>>| Self {
            shared: Arc::clone(shared),
            namespace: Arc::clone(namespace),
        };
        shared.namespaces.iter().map(issuer).collect()
    }

    /// One number of this code.
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then.
    pub async fn next_id(&self, code: &str) -> Result<Id, IssueError> {
        let mut numbers = self.next_ids(code, 1).await?;
        Ok(numbers.next().expect("a claim of one has one number"))
    }

    /// `count` numbers of this code, ascending. Waits only while no block is in hand, at most
    /// [`SegmentSettings::max_wait`](super::SegmentSettings::max_wait).
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then.
    ///
    /// # Cancel safety
    ///
    /// Numbers that were claimed when the future is dropped are never issued to anybody.
    pub async fn next_ids(&self, code: &str, count: u32) -> Result<Numbers, IssueError> {
        let refused = |error| Err(IssueError::Refused(error));
        if count == 0 {
            return refused(ClaimError::InvalidCount { count, largest: u32::MAX });
        }
        if !is_valid_code(code) {
            return refused(ClaimError::InvalidCode(code.to_owned()));
        }
        let code = self.namespace.code(code)?;
        let numbers = match code.cursor.claim(u64::from(count)) {
            Ok(numbers) => numbers,
            Err(_) => self.claim_again(&code, u64::from(count)).await?,
        };
        self.namespace.observer.ids_issued(u64::from(count));
        Ok(numbers)
    }

    #[cold]
    async fn claim_again(&self, code: &Code<P>, count: u64) -> Result<Numbers, IssueError> {
        let max_wait = self.namespace.settings.max_wait;
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
                Denied::Short { .. } => trouble.or_else(|| self.failing_for(max_wait)),
            };
            if let Some(trouble) = trouble {
                return Err(explain(trouble));
            }
            if !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
                let in_vain = || Trouble::StoreUnavailable("no block came in time".into());
                return Err(explain(self.failing_for(Duration::ZERO).unwrap_or_else(in_vain)));
            }
        }
    }

    /// How the store fails, if it has for at least this long.
    fn failing_for(&self, duration: Duration) -> Option<Trouble> {
        let failing = self.shared.report.borrow().failing.clone();
        let failing = failing.filter(|failing| failing.since.elapsed() >= duration)?;
        Some(Trouble::StoreUnavailable(failing.how))
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace.settings.namespace
    }

    /// The names of its configured codes.
    pub fn codes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.namespace.settings.codes.keys().map(String::as_str)
    }

    /// Whether further codes are made on demand.
    pub fn makes_codes(&self) -> bool {
        self.namespace.settings.auto_create.is_some()
    }

    /// How the namespace is doing.
    pub fn status(&self) -> SegmentStatus {
        self.shared.status(&self.namespace)
    }

    /// Waits until tables and codes are made.
    pub async fn prepared(&self) {
        let mut reports = self.shared.report.subscribe();
        // The sender lives in what is shared.
        let _ = reports.wait_for(|report| report.prepared).await;
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
