//! Keeping a row: renewing it, and moving to another lane.

use std::sync::Arc;

use super::{
    LeaseOperation, LeaseOutcome,
    context::{Context, Sent, Settled, Stamp, Surveyed, Swapped, millis},
};
use crate::{
    core::{
        issue::Grant,
        lease::{
            ClockVerdict, HeldLanes, Lease, LimitRequest, Purpose, Tenure, limit_for, usable_lane,
        },
        planted::{Bug, planted},
    },
    store::StoreError,
};

/// A row that is ours, and the grant of its present lane.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) tenure: Tenure<Sent>,
    pub(super) grant: Arc<Grant>,
    pub(super) lanes: HeldLanes,
    renewed: Stamp,
}

/// How a renewal ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    Renewed,
    /// An earlier write of ours took place instead; worth another try.
    Overtaken,
    /// There is nothing to be gained before the next regular renewal.
    NothingToGain,
    /// The node's clock is ahead by this many ms.
    ClockAhead(i64),
    /// Somebody else wrote the row.
    Lost,
    /// The row or the namespace's record is gone.
    Vanished,
}

/// How a move to another lane ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rotation {
    Rotated,
    /// An earlier write of ours took place instead; worth another try.
    Overtaken,
    /// No other lane's mark is past.
    NoLane,
    Lost,
    Vanished,
}

impl From<Renewal> for Rotation {
    /// What a rotation makes of writes that had to be settled first.
    fn from(ended: Renewal) -> Self {
        match ended {
            Renewal::Lost => Self::Lost,
            Renewal::Vanished => Self::Vanished,
            _ => Self::Overtaken,
        }
    }
}

impl Held {
    pub(super) fn new(
        context: &Context,
        tenure: Tenure<Sent>,
        lease: Lease,
        judged: Stamp,
    ) -> Self {
        let grant = context.grant(tenure.worker(), lease);
        let lanes = HeldLanes::on(lease.lane);
        Self { tenure, grant, lanes, renewed: judged }
    }

    /// Raises the limit. `woken` says that no heartbeat is due, so that a write which gains
    /// nothing is left out.
    pub(super) async fn renew(
        &mut self,
        context: &mut Context,
        has_renewed: bool,
        woken: bool,
    ) -> Result<Renewal, StoreError> {
        if let Some(ended) = self.settle(context).await? {
            return Ok(ended);
        }
        let surveyed = context.survey(Some(&self.renewed)).await?;
        if !context.is_recorded(&surveyed) {
            return Ok(Renewal::Vanished);
        }
        match surveyed.verdict {
            ClockVerdict::Ahead(ahead_ms) => {
                context.observe(LeaseOperation::Renew, LeaseOutcome::ClockAhead);
                return Ok(Renewal::ClockAhead(ahead_ms));
            }
            ClockVerdict::StoreBehind(behind_ms) => {
                let namespace = &context.settings.namespace;
                tracing::warn!(
                    namespace,
                    behind_ms,
                    "the store's clock is behind; it is ridden out"
                );
            }
            ClockVerdict::Trusted => {}
        }
        // A renewal that claims ask for early is still the first lease's.
        let limit = self.next_limit(context, &surveyed, has_renewed || !woken);
        if woken && limit == self.grant.limit() && !self.lanes.has_lowered_mark() {
            return Ok(Renewal::NothingToGain);
        }
        let lane = self.lanes.present();
        let mut write = context.held_write(&self.tenure, &self.lanes, lane, limit);
        if planted(Bug::RenewalKeepsToken) {
            write.token = self.tenure.token();
        }
        if planted(Bug::MarkAfterIssuing) {
            self.grant.raise_limit(limit, context.shared.present());
        }
        let (purpose, operation) = (Purpose::Renew { limit }, LeaseOperation::Renew);
        let sent = Sent { purpose, operation, judged: surveyed.judged };
        match context.swap(&mut self.tenure, write, sent).await {
            Swapped::Done(sent) => {
                self.apply(context, sent);
                Ok(Renewal::Renewed)
            }
            Swapped::Refused => Ok(self.settle(context).await?.unwrap_or(Renewal::Overtaken)),
            Swapped::Unknown(error) => Err(error),
        }
    }

    fn next_limit(&self, context: &Context, surveyed: &Surveyed, whole_window: bool) -> u64 {
        let request = LimitRequest {
            old_limit: self.grant.limit(),
            start: self.grant.start(),
            highest_next: self.grant.highest_next(),
            refused: self.grant.take_refused(),
            now_ms: surveyed.now_ms,
            reach_ms: context.reach_ms(whole_window),
        };
        limit_for(&context.settings.layout, &request)
    }

    /// Leases another lane of the row, for a clock that went back.
    pub(super) async fn rotate(
        &mut self,
        context: &mut Context,
        has_renewed: bool,
    ) -> Result<Rotation, StoreError> {
        let left = self.lanes.present();
        if let Some(ended) = self.settle(context).await? {
            return Ok(ended.into());
        }
        if self.lanes.present() != left {
            return Ok(Rotation::Rotated);
        }
        let surveyed = context.survey(Some(&self.renewed)).await?;
        if !context.is_recorded(&surveyed) {
            return Ok(Rotation::Vanished);
        }
        let (marks, present) = (self.tenure.marks(), Some(self.lanes.present()));
        let layout = &context.settings.layout;
        let Some(lane) = usable_lane(layout, marks, surveyed.now_ms, present) else {
            context.observe(LeaseOperation::Rotate, LeaseOutcome::NoneFree);
            return Ok(Rotation::NoLane);
        };
        let reach_ms = context.reach_ms(has_renewed);
        let operation = LeaseOperation::Rotate;
        let (write, sent) =
            context.lease_write(&self.tenure, &self.lanes, lane, &surveyed, reach_ms, operation);
        match context.swap(&mut self.tenure, write, sent).await {
            Swapped::Done(sent) => {
                self.apply(context, sent);
                Ok(Rotation::Rotated)
            }
            Swapped::Refused => Ok(match self.settle(context).await? {
                // An earlier write of ours was faster: perhaps a rotation, perhaps not.
                None if self.lanes.present() != left => Rotation::Rotated,
                None => Rotation::Overtaken,
                Some(ended) => ended.into(),
            }),
            Swapped::Unknown(error) => Err(error),
        }
    }

    /// Settles writes whose outcome is unknown; something only if nothing else can be done now.
    async fn settle(&mut self, context: &mut Context) -> Result<Option<Renewal>, StoreError> {
        Ok(match context.settle(&mut self.tenure).await? {
            Settled::Unchanged => None,
            Settled::Acknowledged(sent) => {
                self.apply(context, sent);
                None
            }
            Settled::Overtaken => Some(Renewal::Overtaken),
            Settled::Lost => Some(Renewal::Lost),
            Settled::Vanished => Some(Renewal::Vanished),
        })
    }

    /// Does what an acknowledged write allows.
    fn apply(&mut self, context: &Context, sent: Sent) {
        let Sent { purpose, judged, .. } = sent;
        self.lanes.confirmed(self.tenure.marks());
        self.renewed = judged;
        match purpose {
            Purpose::Renew { limit } => {
                if planted(Bug::TablePerRenewal) {
                    let (worker, start) = (self.grant.worker(), self.grant.start());
                    let lane = self.lanes.present();
                    self.grant = context.grant(worker, Lease { lane, start, limit });
                    let grant = Some(Arc::clone(&self.grant));
                    context.shared.generator.replace_grant(grant);
                }
                self.grant.raise_limit(limit, context.shared.present());
            }
            Purpose::Lease(lease) => {
                let grant = context.grant(self.tenure.worker(), lease);
                context.shared.generator.replace_grant(Some(Arc::clone(&grant)));
                let old = std::mem::replace(&mut self.grant, grant);
                self.lanes.moved_to(lease.lane, old.seal());
            }
            // A row that is given back is not held.
            Purpose::Release => {}
        }
    }

    /// By how much the clock is behind the highest reading that IDs were issued under, when that
    /// is more than `hold`.
    pub(super) fn rolled_back_ms(&self, context: &Context) -> Option<i64> {
        if !self.grant.is_rolled_back() {
            return None;
        }
        let behind_ms = self.grant.highest_ms().saturating_sub(context.now_ms());
        Some(behind_ms).filter(|behind_ms| *behind_ms > millis(context.settings.issue.hold))
    }
}
