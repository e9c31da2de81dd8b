//! Issues IDs from the keeper's lease.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};

use super::{
    Exhaustion, IssueError, IssuerHandle, RollbackAction, Status, Trouble, shared::Shared,
};
use crate::core::{
    id::Id,
    issue::{Claim, ClaimError, Run},
    layout::Layout,
};

/// When it is worth trying again while nothing better is known.
const RETRY_SOON: Duration = Duration::from_secs(1);

/// Issues IDs of one namespace; cheap to clone.
///
/// IDs go on without the store for as long as the lease reaches ahead.
#[derive(Clone, Debug)]
pub struct Issuer {
    pub(super) shared: Arc<Shared>,
}

impl Issuer {
    /// One ID of this code.
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then.
    ///
    /// # Cancel safety
    ///
    /// An ID that was claimed when the future is dropped is never issued to anybody.
    pub async fn next_id(&self, code: &str) -> Result<Id, IssueError> {
        let mut ids = self.next_ids(code, 1).await?;
        Ok(ids.next().expect("a claim of one has one ID"))
    }

    /// `count` IDs of this code, ascending; waits until the last one's tick has begun, at most
    /// [`IssueSettings::max_wait`](crate::core::issue::IssueSettings::max_wait).
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then.
    pub async fn next_ids(&self, code: &str, count: u32) -> Result<Run, IssueError> {
        let claim = match self.shared.generator.claim(code, count) {
            Ok(claim) => claim,
            // Boxed, so that claims that are not refused carry less from call to call.
            Err(error) => Box::pin(self.claim_again(code, count, error)).await?,
        };
        self.due(&claim).await;
        self.shared.observer.ids_issued(u64::from(count));
        Ok(claim.ids)
    }

    /// A handle for one code, whose IDs are had without looking up its name.
    ///
    /// # Errors
    ///
    /// When the code is no valid name, or not among those that are served.
    pub fn handle(&self, code: &str) -> Result<IssuerHandle, IssueError> {
        IssuerHandle::new(self.clone(), code)
    }

    /// Reports what is special about a claim.
    pub(super) fn report(&self, claim: &Claim) {
        let observer = &self.shared.observer;
        if claim.hold_began {
            observer.clock_rolled_back(RollbackAction::Held);
        }
        if claim.borrowed {
            observer.exhausted(Exhaustion::Borrowed);
        }
        if !claim.wait.is_zero() {
            observer.exhausted(Exhaustion::Waited);
        }
    }

    /// Waits until a claim's last tick has begun.
    pub(super) async fn due(&self, claim: &Claim) {
        self.report(claim);
        if !claim.wait.is_zero() {
            sleep(claim.wait).await;
        }
    }

    /// Tries a refused claim again whenever the lease changes, for as long as a caller may wait.
    #[cold]
    pub(super) async fn claim_again(
        &self,
        code: &str,
        count: u32,
        mut error: ClaimError,
    ) -> Result<Claim, IssueError> {
        let deadline = Instant::now() + self.shared.generator.settings().max_wait;
        // Subscribed before the claim is tried again, so that no change is missed.
        let mut changes = self.shared.report.subscribe();
        loop {
            if !self.may_change(&error, changes.borrow_and_update().trouble.as_ref()) {
                return Err(self.explain(error));
            }
            match self.shared.generator.claim(code, count) {
                Ok(claim) => return Ok(claim),
                Err(again) => error = again,
            }
            if !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
                return Err(self.explain(error));
            }
        }
    }

    /// Whether the keeper may still make room for a refused claim.
    fn may_change(&self, error: &ClaimError, trouble: Option<&Trouble>) -> bool {
        match error {
            ClaimError::LimitReached => {
                !matches!(trouble, Some(Trouble::StoreLost | Trouble::ShuttingDown))
            }
            ClaimError::NoLease => matches!(trouble, None | Some(Trouble::Starting)),
            _ => false,
        }
    }

    fn explain(&self, error: ClaimError) -> IssueError {
        if matches!(error, ClaimError::SequenceExhausted { .. }) {
            self.shared.observer.exhausted(Exhaustion::Refused);
        }
        match error {
            ClaimError::LimitReached => self.no_lease(Trouble::LimitReached),
            ClaimError::NoLease => self.no_lease(Trouble::Starting),
            refused => IssueError::Refused(refused),
        }
    }

    fn no_lease(&self, otherwise: Trouble) -> IssueError {
        let trouble = self.shared.report.borrow().trouble.clone().unwrap_or(otherwise);
        let retry_after = match trouble {
            Trouble::NoFreeWorker { retry_after_seconds } => {
                Duration::from_secs(retry_after_seconds)
            }
            _ => RETRY_SOON,
        };
        IssueError::NoLease { trouble, retry_after }
    }

    /// The layout of the namespace.
    pub fn layout(&self) -> &Layout {
        self.shared.layout()
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.shared.namespace
    }

    /// How the namespace is doing.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Waits until IDs can be issued, or the keeper is shutting down.
    pub async fn leased(&self) -> Status {
        let mut changes = self.shared.report.subscribe();
        loop {
            changes.borrow_and_update();
            let status = self.status();
            if status.is_issuing() || status.trouble == Some(Trouble::ShuttingDown) {
                return status;
            }
            if changes.changed().await.is_err() {
                return self.status();
            }
        }
    }
}
