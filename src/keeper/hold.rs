//! Keeping a row: renewing it, moving to another lane, giving it back.

use std::sync::Arc;

use super::{
    LeaseOperation, LeaseOutcome,
    context::{Context, Sent, Stamp, Surveyed, Swapped, millis},
};
use crate::{
    core::{
        issue::Grant,
        lease::{
            ClockVerdict, HeldLanes, Lease, LimitRequest, Purpose, Resolution, Tenure, limit_for,
            usable_lane,
        },
        policy::{Bug, Policy},
    },
    store::StoreError,
};

/// A row that is ours, and the grant of its present lane.
#[derive(Debug)]
pub(super) struct Held<P: Policy> {
    pub(super) tenure: Tenure<Sent, P>,
    pub(super) grant: Arc<Grant<P>>,
    lanes: HeldLanes,
    renewed: Stamp,
    released: bool,
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

impl<P: Policy> Held<P> {
    pub(super) fn new(
        context: &Context<P>,
        tenure: Tenure<Sent, P>,
        lease: Lease,
        judged: Stamp,
    ) -> Self {
        let grant = context.grant(tenure.worker(), lease);
        let lanes = HeldLanes::on(lease.lane);
        Self { tenure, grant, lanes, renewed: judged, released: false }
    }

    /// Raises the limit. `woken` says that no heartbeat is due, so that a write which gains
    /// nothing is left out.
    pub(super) async fn renew(
        &mut self,
        context: &mut Context<P>,
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
        if woken && limit == self.grant.limit() && !self.lanes.has_left_one() {
            return Ok(Renewal::NothingToGain);
        }
        let lane = self.lanes.present();
        let mut write = context.held_write(&self.tenure, &self.lanes, lane, limit);
        if context.policy.has(Bug::RenewalKeepsToken) {
            write.token = self.tenure.token();
        }
        if context.policy.has(Bug::MarkAfterIssuing) {
            self.grant.raise_limit(limit, context.shared.present());
        }
        let sent = Sent { purpose: Purpose::Renew { limit }, judged: surveyed.judged };
        match context.swap(&mut self.tenure, write, sent, LeaseOperation::Renew).await {
            Swapped::Done(sent) => {
                self.took_place(context, sent);
                Ok(Renewal::Renewed)
            }
            Swapped::Refused => Ok(self.settle(context).await?.unwrap_or(Renewal::Overtaken)),
            Swapped::Unknown(error) => Err(error),
        }
    }

    fn next_limit(&self, context: &Context<P>, surveyed: &Surveyed, whole_window: bool) -> u64 {
        let request = LimitRequest {
            old_limit: self.grant.limit(),
            start: self.grant.start(),
            highest_next: self.grant.highest_next(),
            refused: self.grant.take_refused(),
            now_ms: surveyed.now_ms,
            reach_ms: context.reach_ms(whole_window),
        };
        limit_for(&context.settings.layout, &request, context.policy)
    }

    /// Leases another lane of the row, for a clock that went back.
    pub(super) async fn rotate(
        &mut self,
        context: &mut Context<P>,
        has_renewed: bool,
    ) -> Result<Rotation, StoreError> {
        match self.settle(context).await? {
            Some(Renewal::Vanished) => return Ok(Rotation::Vanished),
            Some(_) => return Ok(Rotation::Lost),
            None => {}
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
        let left = self.lanes.present();
        let reach_ms = context.reach_ms(has_renewed);
        let (write, sent) =
            context.lease_write(&self.tenure, &self.lanes, lane, &surveyed, reach_ms);
        match context.swap(&mut self.tenure, write, sent, LeaseOperation::Rotate).await {
            Swapped::Done(sent) => {
                self.took_place(context, sent);
                Ok(Rotation::Rotated)
            }
            Swapped::Refused => Ok(match self.settle(context).await? {
                // An earlier write of ours was faster: perhaps a rotation, perhaps not.
                None if self.lanes.present() != left => Rotation::Rotated,
                None => Rotation::Overtaken,
                Some(Renewal::Vanished) => Rotation::Vanished,
                Some(_) => Rotation::Lost,
            }),
            Swapped::Unknown(error) => Err(error),
        }
    }

    /// Settles writes whose outcome is unknown; something only if the row is not ours any more.
    async fn settle(&mut self, context: &Context<P>) -> Result<Option<Renewal>, StoreError> {
        if !self.tenure.is_unresolved() {
            return Ok(None);
        }
        match context.resolve(&mut self.tenure).await? {
            Resolution::Unchanged => Ok(None),
            Resolution::TookPlace(attempt) => {
                self.took_place(context, attempt.purpose);
                Ok(None)
            }
            Resolution::Lost => Ok(Some(Renewal::Lost)),
            Resolution::Vanished => Ok(Some(Renewal::Vanished)),
        }
    }

    /// Does what a confirmed write allows.
    fn took_place(&mut self, context: &Context<P>, sent: Sent) {
        let Sent { purpose, judged } = sent;
        self.lanes.confirmed(self.tenure.marks());
        match purpose {
            Purpose::Renew { limit } => {
                self.renewed = judged;
                if context.policy.has(Bug::TablePerRenewal) {
                    let (worker, start) = (self.grant.worker(), self.grant.start());
                    let lane = self.lanes.present();
                    self.grant = context.grant(worker, Lease { lane, start, limit });
                    let grant = Some(Arc::clone(&self.grant));
                    context.shared.generator.replace_grant(grant);
                }
                self.grant.raise_limit(limit, context.shared.present());
            }
            Purpose::Lease(lease) => {
                self.renewed = judged;
                let grant = context.grant(self.tenure.worker(), lease);
                context.shared.generator.replace_grant(Some(Arc::clone(&grant)));
                let old = std::mem::replace(&mut self.grant, grant);
                self.lanes.moved_to(lease.lane, old.seal());
            }
            Purpose::Release => self.released = true,
        }
    }

    /// Gives the row back with its true mark. The grant is sealed first, and dead whatever the
    /// store answers. Whether the row is settled: free, or known not to be ours any more.
    pub(super) async fn release(&mut self, context: &mut Context<P>) -> Result<bool, StoreError> {
        self.grant.seal();
        if self.settle(context).await?.is_some() || self.released {
            return Ok(true);
        }
        // Sealed once more: a rotation that turned out to have taken place made another grant.
        let mark = self.grant.seal();
        let write = context.release_write(&self.tenure, &self.lanes, mark);
        let sent = context.releasing();
        match context.swap(&mut self.tenure, write, sent, LeaseOperation::Release).await {
            Swapped::Done(_) => Ok(true),
            Swapped::Refused => Ok(self.settle(context).await?.is_some() || self.released),
            Swapped::Unknown(error) => Err(error),
        }
    }

    /// Goes on above the sealed mark up to the old limit, as no sound process does.
    pub(super) fn revive(&mut self, context: &Context<P>) {
        let (lane, start) = (self.lanes.present(), self.grant.seal());
        let lease = Lease { lane, start, limit: self.grant.limit() };
        self.grant = context.grant(self.grant.worker(), lease);
    }

    /// By how much the clock is behind the highest reading that IDs were issued under, when that
    /// is more than `hold`.
    pub(super) fn rolled_back_ms(&self, context: &Context<P>) -> Option<i64> {
        if !self.grant.is_rolled_back() {
            return None;
        }
        let behind_ms = self.grant.highest_ms().saturating_sub(context.now_ms());
        Some(behind_ms).filter(|behind_ms| *behind_ms > millis(context.settings.issue.hold))
    }
}
