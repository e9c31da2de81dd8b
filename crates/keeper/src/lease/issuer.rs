//! Issues IDs from the keeper's lease.
//!
//! An [`Issuer`] claims from the generator. If the claim is refused, it waits for a change of the
//! lease and claims again, for at most `issue.max_wait`; only a refusal that a keeper may still
//! make succeed is retried. A claim may have IDs of a tick that has not begun: the issuer returns
//! them once it has. It renews nothing and calls no store; the task of the lease does (`task.rs`),
//! and both share [`KeeperState`]. When this future is dropped after its claim, the IDs are lost,
//! never issued twice. Tests: `issuing.rs`, `outages.rs` and `runtimes.rs` in `src/tests`.

use std::{sync::Arc, time::Duration};

use raindrop_core::{
    id::Id,
    issue::{Claim, ClaimError, Count, Run},
    keeper_api::Grant,
    layout::Layout,
};
use tokio::time::Instant;

use super::shared::KeeperState;
use crate::{
    lease::settings::LeaseTimes,
    support::{
        error::IssueError,
        observer::{Exhaustion, RollbackAction},
        status::{LeaseView, Status, UnavailableReason},
        tasks::NoRuntime,
    },
};

/// The pause before a retry if no better time is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The longest pause before a retry. After a clock was wrong, a mark may come due only in years.
const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(1);
/// The pause before a retry if an operator may shorten the wait.
const RETRY_FAR: Duration = Duration::from_secs(30);

/// Issues IDs of one namespace. Cheap to clone.
///
/// Issuing continues without the store for as long as the lease reaches ahead.
#[derive(Clone, Debug)]
pub struct Issuer {
    pub(crate) state: Arc<KeeperState>,
}

impl Issuer {
    /// Issues one ID of this code.
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped after it claimed an ID, no caller ever gets that ID.
    pub async fn next_id(&self, code: &str) -> Result<Id, IssueError> {
        let mut ids = self.next_ids(code, 1).await?;
        Ok(ids.next().expect("a claim of one has one ID"))
    }

    /// Issues `count` IDs of this code, ascending; waits until the last one's tick has begun, at
    /// most [`IssueSettings::max_wait`](raindrop_core::issue::IssueSettings::max_wait).
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then.
    pub async fn next_ids(&self, code: &str, count: u32) -> Result<Run, IssueError> {
        self.next_ids_for(None, code, count.into()).await
    }

    /// Issues IDs for a client, which has a share of the new codes of a tick: the setting
    /// `codes_max_per_client` of [`IssueSettings`](raindrop_core::issue::IssueSettings).
    /// The issuer calls `client`, which identifies the client, only if the code is new.
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then.
    pub async fn next_ids_for(
        &self,
        client: Option<&(dyn Fn() -> u64 + Sync)>,
        code: &str,
        count: Count,
    ) -> Result<Run, IssueError> {
        let claim = match self.state.generator.claim_for(client, code, count) {
            Ok(claim) => claim,
            // Boxed, so that the future stays small for a claim that succeeds at once.
            Err(error) => Box::pin(self.claim_again(client, code, count, error)).await?,
        };
        self.report_and_wait(&claim, count).await?;
        self.state.observer.ids_issued(claim.ids.len() as u64);
        Ok(claim.ids)
    }

    /// Reports to the observer whether a claim borrowed, waits, or was the first during a held
    /// rollback. A claim of up to `n` IDs is not reported as borrowed or waiting: it only took more
    /// than it needed.
    pub(crate) fn report(&self, claim: &Claim, count: Count) {
        let observer = &self.state.observer;
        let takes_more = matches!(count, Count::UpTo(_)) && claim.ids.len() > 1;
        if claim.hold_began {
            observer.clock_rolled_back(RollbackAction::Held);
        }
        if claim.borrowed && !takes_more {
            observer.exhausted(Exhaustion::Borrowed);
        }
        if !claim.wait.is_zero() && !takes_more {
            observer.exhausted(Exhaustion::Waited);
        }
    }

    /// Reports a claim, and waits until its last tick has begun. Fails if no runtime has a timer
    /// for the wait; then no caller gets the claimed IDs.
    pub(crate) async fn report_and_wait(
        &self,
        claim: &Claim,
        count: Count,
    ) -> Result<(), IssueError> {
        self.report(claim, count);
        if !claim.wait.is_zero() {
            let slept = self.state.runtime.sleep(claim.wait).await;
            slept.map_err(|NoRuntime| no_lease(UnavailableReason::KeeperEnded))?;
        }
        Ok(())
    }

    /// Retries a refused claim whenever the lease changes, for at most `issue.max_wait`.
    #[cold]
    pub(crate) async fn claim_again(
        &self,
        client: Option<&(dyn Fn() -> u64 + Sync)>,
        code: &str,
        count: Count,
        mut error: ClaimError,
    ) -> Result<Claim, IssueError> {
        let deadline = Instant::now() + self.state.generator.settings().max_wait;
        // Subscribed before the claim is retried, so that no change is missed.
        let mut changes = self.state.report.subscribe();
        loop {
            let grant = self.state.generator.grant();
            let waits_for_file = grant.is_some_and(|grant| grant.limit() < grant.acknowledged());
            let reason = changes.borrow_and_update().reason.clone();
            if !can_succeed_later(&error, reason.as_ref(), waits_for_file) {
                return Err(self.explain(error));
            }
            match self.state.generator.claim_for(client, code, count) {
                Ok(claim) => return Ok(claim),
                Err(again) => error = again,
            }
            let changed = self.state.runtime.timeout_at(deadline, changes.changed()).await;
            if !matches!(changed, Some(Ok(()))) {
                return Err(self.explain(error));
            }
        }
    }

    /// Returns why there is no lease, and when to retry.
    pub(crate) fn no_lease(&self) -> IssueError {
        self.explain(ClaimError::NoLease)
    }

    fn explain(&self, error: ClaimError) -> IssueError {
        if matches!(error, ClaimError::SequenceExhausted { .. }) {
            self.state.observer.exhausted(Exhaustion::Refused);
        }
        let default = match error {
            ClaimError::LimitReached => UnavailableReason::LimitReached,
            ClaimError::NoLease => UnavailableReason::Starting,
            refused => return IssueError::Refused(refused),
        };
        let reason = self.state.report.borrow().reason.clone().unwrap_or(default);
        let retry_after = match reason {
            UnavailableReason::NoFreeWorker { due_ms }
            | UnavailableReason::FailedOver { due_ms }
            | UnavailableReason::StaleStore { due_ms, .. } => {
                let wait_ms = due_ms.saturating_sub(self.state.clock.now_ms()).max(0);
                Duration::from_millis(wait_ms.unsigned_abs()).min(LONGEST_RETRY_AFTER)
            }
            // An operator may mend this sooner.
            UnavailableReason::BarrierFarAhead { .. } => RETRY_FAR,
            _ => RETRY_AFTER,
        };
        IssueError::NoLease { reason, retry_after }
    }

    /// Returns the layout of the namespace.
    pub fn layout(&self) -> &Layout {
        self.state.layout()
    }

    /// Returns how many IDs fit into one claim at most.
    pub fn largest_claim(&self) -> u32 {
        self.state.generator.largest_claim()
    }

    /// Returns the times of the namespace's leases.
    pub fn lease_times(&self) -> LeaseTimes {
        self.state.lease
    }

    /// Returns the name of the namespace.
    pub fn namespace(&self) -> &str {
        &self.state.namespace
    }

    /// Returns a snapshot of the namespace.
    pub fn status(&self) -> Status {
        let report = self.state.report.borrow().clone();
        let layout = self.layout();
        let grant = self.state.generator.grant();
        let is_in_range = layout.tick_in_range(self.state.clock.now_ms()).is_some();
        Status {
            lease: grant.as_ref().map(|grant| self.view(grant)),
            reason: match report.reason {
                None if !is_in_range => Some(UnavailableReason::ClockOutOfRange),
                reason => reason,
            },
            codes: grant.map_or(0, |grant| grant.codes()),
            ..report
        }
    }

    fn view(&self, grant: &Grant) -> LeaseView {
        let (layout, limit) = (self.layout(), grant.limit());
        // Without the store, the limit rises up to here as the state file is written.
        let last_tick = layout.tick_of(grant.acknowledged().saturating_sub(1));
        let next = self.state.present_position().max(grant.highest_next());
        LeaseView {
            worker: grant.worker(),
            lane: grant.lane(),
            valid_until_ms: layout.start_of_tick_ms(last_tick + 1),
            has_range: !grant.is_sealed() && next < limit,
        }
    }

    /// Waits until IDs can be issued, or until the keeper shuts down or has ended.
    pub async fn leased(&self) -> Status {
        let mut changes = self.state.report.subscribe();
        loop {
            changes.borrow_and_update();
            let status = self.status();
            let is_over = matches!(
                status.reason,
                Some(UnavailableReason::ShuttingDown | UnavailableReason::KeeperEnded)
            );
            if status.is_issuing() || is_over {
                return status;
            }
            if changes.changed().await.is_err() {
                return self.status();
            }
        }
    }
}

const fn no_lease(reason: UnavailableReason) -> IssueError {
    IssueError::NoLease { reason, retry_after: RETRY_AFTER }
}

/// Returns whether the keeper may still make a refused claim succeed. `waits_for_file` is true if
/// the limit rises once the state file is written, whatever the store does.
fn can_succeed_later(
    error: &ClaimError,
    reason: Option<&UnavailableReason>,
    waits_for_file: bool,
) -> bool {
    match error {
        ClaimError::LimitReached => match reason {
            Some(UnavailableReason::ShuttingDown | UnavailableReason::KeeperEnded) => false,
            Some(UnavailableReason::StoreLost) => waits_for_file,
            _ => true,
        },
        ClaimError::NoLease => matches!(reason, None | Some(UnavailableReason::Starting)),
        _ => false,
    }
}
