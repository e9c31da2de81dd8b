//! Renews a lease, and moves it to another lane.

use std::sync::Arc;

use super::{
    LeaseOperation, LeaseOutcome,
    lease_store::{ClockReading, JudgedSurvey, LeaseError, LeaseStore, WriteIntent, millis},
};
use crate::core::{
    issue::Grant,
    lease::{
        ClockVerdict, HeldLanes, Lease, LimitRequest, Purpose, RowExpiry, Tenure, limit_for,
        usable_lane,
    },
    planted::{Bug, planted},
};

/// A row that is ours, and the grant of its present lane.
pub(super) struct HeldLease {
    pub(super) tenure: Tenure<WriteIntent>,
    pub(super) grant: Arc<Grant>,
    pub(super) lanes: HeldLanes,
    /// The clocks that were judged for the last acknowledged write.
    renewed: ClockReading,
}

impl HeldLease {
    pub(super) fn new(
        leases: &LeaseStore,
        tenure: Tenure<WriteIntent>,
        lease: Lease,
        renewed: ClockReading,
    ) -> Self {
        let grant = leases.grant(tenure.worker(), lease);
        Self { tenure, grant, lanes: HeldLanes::on(lease.lane), renewed }
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
        if woken && limit == self.grant.limit() && !self.lanes.has_lowered_mark() {
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
            return Ok(true);
        }
        self.settle(leases).await?;
        // An earlier write of ours was faster: perhaps a rotation, perhaps not.
        if self.lanes.present() == left { Err(LeaseError::Overtaken) } else { Ok(true) }
    }

    /// Looks at the clocks and the record before a write.
    async fn survey(&self, leases: &LeaseStore) -> Result<JudgedSurvey, LeaseError> {
        let judged = leases.survey(Some(&self.renewed)).await?;
        if leases.is_recorded(&judged) { Ok(judged) } else { Err(LeaseError::Vanished) }
    }

    fn next_limit(&self, leases: &LeaseStore, judged: &JudgedSurvey, whole_window: bool) -> u64 {
        let request = LimitRequest {
            old_limit: self.grant.limit(),
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
        if let Some(intent) = leases.settle(&mut self.tenure).await? {
            self.apply(leases, intent);
        }
        Ok(())
    }

    /// Does what an acknowledged write allows.
    fn apply(&mut self, leases: &LeaseStore, intent: WriteIntent) {
        let generator = &leases.state.generator;
        self.lanes.confirmed(self.tenure.marks());
        self.renewed = intent.clocks;
        match intent.purpose {
            Purpose::Renew { limit } => {
                if planted(Bug::TablePerRenewal) {
                    let (worker, start) = (self.grant.worker(), self.grant.start());
                    let lane = self.lanes.present();
                    self.grant = leases.grant(worker, Lease { lane, start, limit });
                    generator.replace_grant(Some(Arc::clone(&self.grant)));
                }
                self.grant.raise_limit(limit, leases.state.present());
            }
            Purpose::Lease(lease) => {
                let grant = leases.grant(self.tenure.worker(), lease);
                generator.replace_grant(Some(Arc::clone(&grant)));
                let old = std::mem::replace(&mut self.grant, grant);
                self.lanes.moved_to(lease.lane, old.seal());
            }
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
