//! Keeps the leases of a namespace in step with the history of their store.

use raindrop_core::lease::{ClockVerdict, EpochClocks};
use raindrop_store::{LayoutRecord, StoreError, Survey};

use super::context::{JudgedSurvey, LeaseStore};
use crate::{ground::status::UnavailableReason, history::known::HistoryContext};

impl LeaseStore {
    /// Returns the instant of the barrier while that is ahead, as the reason why no lease begins
    /// before.
    pub(crate) fn barrier_ahead(&self) -> Option<UnavailableReason> {
        let layout = &self.settings.layout;
        let barrier = self.history.barrier(layout);
        let due_ms = layout.start_of_tick_ms(layout.tick_of(barrier));
        let is_ahead = barrier > 0 && due_ms > self.state.clock.now_ms();
        is_ahead.then_some(UnavailableReason::FailedOver { due_ms })
    }

    /// Follows the history that the namespace's record tells; see
    /// [`KnownHistory::follow`](crate::history::known::KnownHistory::follow).
    ///
    /// A lease that is computed from an instant `ahead_ms`, which is ahead of the store's clock, must be
    /// within the reach that the record tells: a node whose clock is trusted although it is ahead first
    /// registers that.
    pub(crate) async fn follow_history(
        &mut self,
        survey: &Survey,
        record: &LayoutRecord,
        clocks: EpochClocks,
        ahead_ms: Option<i64>,
    ) -> Result<bool, StoreError> {
        let lease = &self.settings.lease;
        let own = lease.of_node();
        let context = HistoryContext {
            store: &*self.store,
            steady: self.state.clock.steady(),
            observer: &*self.state.observer,
            namespace: &self.scope.namespace,
            layout: Some(&self.settings.layout),
            clocks,
            own,
            until_ms: ahead_ms.map(|now_ms| now_ms.saturating_add(own.reach_ms)),
        };
        let fresh = || self.random.fresh_token();
        self.history.follow(&context, survey, record, fresh).await
    }

    /// Follows the history that a survey found, if its record is ours.
    pub(crate) async fn is_followed(&mut self, judged: &JudgedSurvey) -> Result<bool, StoreError> {
        if judged.survey.record.is_some() {
            self.was_foreign = !self.is_recorded(judged);
        }
        match &judged.survey.record {
            Some(record) if self.is_recorded(judged) => {
                // Otherwise leases are bounded by the store's clock.
                let is_unbounded = matches!(judged.verdict, ClockVerdict::StoreBehind(_));
                let ahead_ms = is_unbounded.then_some(judged.now_ms);
                self.follow_history(&judged.survey, record, judged.epoch_clocks, ahead_ms).await
            }
            _ => Ok(true),
        }
    }
}
