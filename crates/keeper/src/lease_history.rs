//! Keeps the leases of a namespace in step with the history of their store.

use raindrop_core::{instant::millis, lease::ClockVerdict};
use raindrop_store::{LayoutRecord, StoreError, Survey};

use super::{
    UnavailableReason,
    history::HistoryContext,
    lease_store::{JudgedSurvey, LeaseStore},
};

impl LeaseStore {
    /// Returns the instant of the barrier while that is ahead, as the reason why no lease begins
    /// before.
    pub(super) fn barrier_ahead(&self) -> Option<UnavailableReason> {
        let layout = &self.settings.layout;
        let barrier = self.history.barrier(layout);
        let due_ms = layout.start_of_tick_ms(layout.tick_of(barrier));
        let is_ahead = barrier > 0 && due_ms > self.state.clock.now_ms();
        is_ahead.then_some(UnavailableReason::FailedOver { due_ms })
    }

    /// Follows the history that the namespace's record tells; see
    /// [`KnownHistory::follow`](super::history::KnownHistory::follow).
    ///
    /// A lease that is computed from `now_ms` must be within the reach that the record tells: a node
    /// whose clock is trusted although it is ahead of the store's first raises that.
    pub(super) async fn follow_history(
        &mut self,
        survey: &Survey,
        record: &LayoutRecord,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let lease = &self.settings.lease;
        let skew_ms = millis(lease.max_clock_skew).max(1_000);
        let ahead_ms = now_ms.saturating_sub(survey.now_ms).saturating_sub(skew_ms).max(0);
        // In steps, so that a clock that drifts does not change the record all the time.
        let ahead_ms = (ahead_ms.saturating_add(skew_ms - 1) / skew_ms).saturating_mul(skew_ms);
        let context = HistoryContext {
            store: &*self.store,
            steady: self.state.clock.steady(),
            observer: &*self.state.observer,
            namespace: &self.scope.namespace,
            layout: Some(&self.settings.layout),
            reach_ms: lease.reach_beyond_ms().saturating_add(ahead_ms),
        };
        let fresh = || self.random.fresh_token();
        self.history.follow(&context, survey, record, fresh).await
    }

    /// Follows the history that a survey found, if its record is ours.
    pub(super) async fn is_followed(&mut self, judged: &JudgedSurvey) -> Result<bool, StoreError> {
        if judged.survey.record.is_some() {
            self.was_foreign = !self.is_recorded(judged);
        }
        match &judged.survey.record {
            Some(record) if self.is_recorded(judged) => {
                // Otherwise leases are bounded by the store's clock.
                let is_unbounded = matches!(judged.verdict, ClockVerdict::StoreBehind(_));
                let now_ms = if is_unbounded { judged.now_ms } else { judged.survey.now_ms };
                self.follow_history(&judged.survey, record, now_ms).await
            }
            _ => Ok(true),
        }
    }
}
