//! Renews a lease, and moves it to another lane.

use std::sync::Arc;

use super::{
    LeaseOperation, LeaseOutcome,
    lease_store::{ClockReading, JudgedSurvey, LeaseError, LeaseStore, WriteIntent, millis},
    state_file::{Entry, KeepingFailed},
};
use crate::core::{
    instant::format_unix_ms_or_year,
    issue::Grant,
    lease::{
        ClockVerdict, HeldLanes, Lease, LimitRequest, Purpose, ResumeRequest, RowExpiry, Tenure,
        limit_for, usable_lane,
    },
    planted::{Bug, planted},
};

/// A row that is ours, and the grant of its present lane.
pub(super) struct HeldLease {
    pub(super) tenure: Tenure<WriteIntent>,
    pub(super) grant: Arc<Grant>,
    pub(super) lanes: HeldLanes,
    /// The clocks that were judged for the last write that this process saw acknowledged.
    renewed: Option<ClockReading>,
    /// Whether the state file bounds the grant.
    is_kept: bool,
    /// Another lane that was leased, until the state file has its lease.
    moving: Option<Lease>,
}

impl HeldLease {
    pub(super) fn new(
        leases: &LeaseStore,
        tenure: Tenure<WriteIntent>,
        lease: Lease,
        renewed: Option<ClockReading>,
    ) -> Self {
        let is_kept = leases.usable_keeping().is_some();
        let grant = leases.grant(tenure.worker(), lease, is_kept);
        let lanes = HeldLanes::on(lease.lane);
        Self { tenure, grant, lanes, renewed, is_kept, moving: None }
    }

    /// Resumes the lease that the state file keeps; `None` if there is none, or it is refused.
    pub(super) async fn resume(leases: &LeaseStore) -> Option<Self> {
        let keeping = Arc::clone(leases.keeping.as_ref()?);
        let (namespace, layout) = (&leases.settings.namespace, &leases.settings.layout);
        let refused = |reason: &str| {
            tracing::warn!(namespace, reason, "lease in the state file refused: acquiring another");
            leases.observe(LeaseOperation::Resume, LeaseOutcome::Refused);
        };
        let now_ms = leases.state.clock.now_ms();
        let issue = &leases.settings.issue;
        let ahead = [issue.borrow_ahead, issue.max_wait, issue.hold];
        let check = |entry: &Entry| {
            entry.lease.check(&ResumeRequest {
                layout,
                kept_layout: &entry.layout,
                min_worker: leases.settings.min_worker,
                max_worker: leases.settings.max_worker,
                now_ms,
                issued_ahead_ms: ahead.map(millis).iter().sum(),
            })
        };
        let kept = match keeping.resumable(check).await {
            Ok(Some(kept)) => kept,
            Ok(None) => {
                leases.observe(LeaseOperation::Resume, LeaseOutcome::NoneFree);
                return None;
            }
            Err(reason) => {
                refused(&reason);
                return None;
            }
        };
        let lease =
            Lease { lane: kept.lane, start: kept.start(layout, now_ms), limit: kept.limit() };
        let mut held = Self::new(leases, kept.tenure(), lease, None);
        held.grant.note_reading(now_ms);
        if let Err(LeaseError::NotKept(KeepingFailed(reason))) = held.keep(leases).await {
            refused(&reason);
            return None;
        }
        let (worker, lane) = (kept.worker, kept.lane);
        let until_ms = layout.start_of_tick_ms(layout.tick_of(lease.limit.saturating_sub(1)) + 1);
        let valid_until = format_unix_ms_or_year(until_ms);
        tracing::info!(namespace, worker, lane, valid_until, "lease resumed from the state file");
        leases.observe(LeaseOperation::Resume, LeaseOutcome::Done);
        Some(held)
    }

    /// Whether the limit is below what the store acknowledged, so that claims wait for the state file
    /// and not for a renewal.
    pub(super) fn waits_for_file(&self) -> bool {
        self.grant.limit() < self.grant.acknowledged()
    }

    /// Raises the limit. When the task was `woken`, no heartbeat is due: then a write that gains
    /// nothing is left out, and this returns `false`.
    pub(super) async fn renew(
        &mut self,
        leases: &mut LeaseStore,
        woken: bool,
    ) -> Result<bool, LeaseError> {
        self.settle(leases).await?;
        let judged = self.survey(leases).await?;
        match judged.verdict {
            ClockVerdict::Ahead(ahead_ms) => {
                leases.observe(LeaseOperation::Renew, LeaseOutcome::ClockAhead);
                return Err(LeaseError::ClockAhead(ahead_ms));
            }
            ClockVerdict::StoreBehind(behind_ms) => {
                let namespace = &leases.settings.namespace;
                tracing::warn!(
                    namespace,
                    behind_ms,
                    "store clock behind: leases follow the node's clock"
                );
            }
            ClockVerdict::Trusted => {}
        }
        // A renewal that claims ask for early still belongs to the first lease.
        let limit = self.next_limit(leases, &judged, leases.has_renewed || !woken);
        if woken && limit == self.grant.acknowledged() && !self.lanes.has_lowered_mark() {
            return Ok(false);
        }
        let expiry = RowExpiry::After(leases.settings.lease.ttl);
        let lane = self.lanes.present();
        let mut write = leases.write(&self.tenure, &self.lanes, lane, limit, expiry);
        if planted(Bug::RenewalKeepsToken) {
            write.token = self.tenure.token();
        }
        if planted(Bug::MarkAfterIssuing) {
            self.grant.raise_limit(limit, leases.state.present());
        }
        let (purpose, operation) = (Purpose::Renew { limit }, LeaseOperation::Renew);
        let intent = WriteIntent { purpose, operation, clocks: judged.clocks };
        if leases.swap(&mut self.tenure, write, intent).await? {
            self.apply(leases, intent);
            self.keep(leases).await?;
            return Ok(true);
        }
        self.settle(leases).await?;
        Err(LeaseError::Overtaken)
    }

    /// Leases another lane of the row, for a clock that went back; `false` when no other lane's
    /// mark is past.
    pub(super) async fn rotate(&mut self, leases: &mut LeaseStore) -> Result<bool, LeaseError> {
        let left = self.lanes.present();
        self.settle(leases).await?;
        if self.lanes.present() != left {
            return Ok(true);
        }
        let judged = self.survey(leases).await?;
        let (layout, marks) = (&leases.settings.layout, self.tenure.marks());
        let Some(lane) = usable_lane(layout, marks, judged.now_ms, Some(left)) else {
            leases.observe(LeaseOperation::Rotate, LeaseOutcome::NoneFree);
            return Ok(false);
        };
        let operation = LeaseOperation::Rotate;
        let taken = leases.take_lane(&mut self.tenure, &self.lanes, lane, &judged, operation);
        if let Some(intent) = taken.await? {
            self.apply(leases, intent);
            self.keep(leases).await?;
            return Ok(true);
        }
        self.settle(leases).await?;
        // An earlier write of ours was faster: perhaps a rotation, perhaps not.
        if self.lanes.present() == left { Err(LeaseError::Overtaken) } else { Ok(true) }
    }

    /// Looks at the clocks and the record before a write.
    async fn survey(&self, leases: &LeaseStore) -> Result<JudgedSurvey, LeaseError> {
        let judged = leases.survey(self.renewed.as_ref()).await?;
        if leases.is_recorded(&judged) { Ok(judged) } else { Err(LeaseError::Vanished) }
    }

    fn next_limit(&self, leases: &LeaseStore, judged: &JudgedSurvey, whole_window: bool) -> u64 {
        let request = LimitRequest {
            old_limit: self.grant.acknowledged(),
            start: self.grant.start(),
            highest_next: self.grant.highest_next(),
            refused: self.grant.take_refused(),
            now_ms: judged.now_ms,
            reach_ms: leases.reach_ms(whole_window),
        };
        limit_for(&leases.settings.layout, &request)
    }

    /// Settles writes whose outcome is unknown, and applies the one that took effect.
    async fn settle(&mut self, leases: &mut LeaseStore) -> Result<(), LeaseError> {
        // A step may have been dropped before the file had the lane that was leased.
        if self.moving.is_some() {
            self.keep(leases).await?;
        }
        if let Some(intent) = leases.settle(&mut self.tenure).await? {
            self.apply(leases, intent);
            self.keep(leases).await?;
        }
        Ok(())
    }

    /// Lets the state file have what the store acknowledged, and then claims use it. Without a state
    /// file this does not wait.
    pub(super) async fn keep(&mut self, leases: &LeaseStore) -> Result<(), LeaseError> {
        let keeping = leases.keeping.as_ref().filter(|_| self.is_kept);
        let grant = match self.moving {
            Some(lease) => leases.grant(self.tenure.worker(), lease, self.is_kept),
            None => Arc::clone(&self.grant),
        };
        if let Some(keeping) = keeping {
            keeping.keep(&self.tenure, &grant).await?;
        }
        if let Some(lease) = self.moving.take() {
            leases.state.generator.replace_grant(Some(Arc::clone(&grant)));
            let old = std::mem::replace(&mut self.grant, grant);
            self.lanes.moved_to(lease.lane, old.seal());
        }
        Ok(())
    }

    /// Ends the lease. Returns what is known of its row, its lanes, and where the next lease of the
    /// present lane may begin.
    pub(super) fn end(self) -> (Tenure<WriteIntent>, HeldLanes, u64) {
        let (mut lanes, mut mark) = (self.lanes, self.grant.seal());
        // Nothing was issued on a lane that the state file does not have yet.
        if let Some(lease) = self.moving {
            lanes.moved_to(lease.lane, mark);
            mark = lease.start;
        }
        (self.tenure, lanes, mark)
    }

    /// Does what an acknowledged write allows; [`Self::keep`] follows.
    fn apply(&mut self, leases: &LeaseStore, intent: WriteIntent) {
        self.lanes.confirmed(self.tenure.marks());
        self.renewed = Some(intent.clocks);
        match intent.purpose {
            Purpose::Renew { limit } => {
                if planted(Bug::TablePerRenewal) {
                    let (worker, start) = (self.grant.worker(), self.grant.start());
                    let lane = self.lanes.present();
                    let lease = Lease { lane, start, limit };
                    self.grant = leases.grant(worker, lease, self.is_kept);
                    leases.state.generator.replace_grant(Some(Arc::clone(&self.grant)));
                }
                leases.extend(&self.grant, limit, self.is_kept);
            }
            Purpose::Lease(lease) => self.moving = Some(lease),
            // A row that is being released is not held.
            Purpose::Release => {}
        }
    }

    /// Returns by how much the clock is behind the highest reading that IDs were issued under, in
    /// ms, if that is more than `rollback.hold`.
    pub(super) fn rolled_back_ms(&self, leases: &LeaseStore) -> Option<i64> {
        if !self.grant.is_rolled_back() {
            return None;
        }
        let behind_ms = self.grant.highest_ms().saturating_sub(leases.state.clock.now_ms());
        Some(behind_ms).filter(|behind_ms| *behind_ms > millis(leases.settings.issue.hold))
    }
}
