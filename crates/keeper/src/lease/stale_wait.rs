//! Waits while the store may be one that was restored: whoever has no memory of its present cannot tell.

use std::time::Duration;

use raindrop_core::{
    instant::millis,
    lease::ClockVerdict,
    planted::{Bug, planted},
};
use raindrop_store::{Scope, StoreError, Survey};

use super::{
    context::{JudgedSurvey, LeaseContext},
    stale::StaleStore,
};
use crate::ground::{lease_times::LeaseTimes, observer::StoreOperation};

/// The wait for the holders of a stale store.
#[derive(Clone, Copy, Default)]
pub(crate) struct StaleWait(Option<StaleStore>);

impl StaleWait {
    /// Whether the store was found stale, be it that the wait is over.
    pub(crate) const fn has_begun(&self) -> bool {
        self.0.is_some()
    }

    /// Returns what is waited for if the store is stale, and was not for long enough. Whoever holds a row
    /// of the namespace counts, also beyond this node's worker ids, and whoever renews most seldom must
    /// have had the time. `read` is what was just read of the rows of this node's worker ids, if it was.
    pub(crate) async fn look(
        &mut self,
        context: &LeaseContext,
        judged: &JudgedSurvey,
        read: Option<&Survey>,
    ) -> Result<Option<StaleStore>, StoreError> {
        let LeaseTimes { stale_wait, max_clock_skew, .. } = context.settings.lease;
        if !context.waits_if_stale() || planted(Bug::StaleStoreTaken) {
            return Ok(None);
        }
        let seldom_ms = context.history.present().map_or(0, |history| history.longest.renew_ms);
        let wait_ms = millis(stale_wait).max(seldom_ms / 2 * 3);
        let wait = Duration::from_millis(wait_ms.unsigned_abs());
        // The store's clock may have been changed by that. No living holder renews less often.
        let skew_ms = millis(max_clock_skew);
        let oldest_ms = wait_ms.saturating_sub(skew_ms).max(seldom_ms / 8 * 9);
        // A clock that is known to be behind proves no heartbeat young.
        let is_behind = matches!(judged.verdict, ClockVerdict::StoreBehind(_));
        let is_stale = |renewed_ms: &i64| {
            let age_ms = judged.survey.now_ms.saturating_sub(*renewed_ms);
            is_behind || !(-skew_ms..=oldest_ms).contains(&age_ms)
        };
        let max_worker = context.settings.layout.largest_worker();
        let is_read = read.is_some() && context.scope.workers() > max_worker;
        let mut newest_ms = read.and_then(|survey| survey.newest_heartbeat_ms);
        if !is_read && newest_ms.as_ref().is_none_or(is_stale) {
            let all = Scope { min_worker: 0, max_worker, ..context.scope.clone() };
            let survey = context.store.survey(&all);
            newest_ms = context.call(StoreOperation::Read, survey).await?.newest_heartbeat_ms;
        }
        let newest_ms = newest_ms.filter(is_stale);
        // Whoever wrote at last the row that was written in the future leaves another such row.
        let is_future = |ms: i64| ms > judged.survey.now_ms.saturating_add(skew_ms);
        self.0.take_if(|stale| {
            let both_future = is_future(stale.renewed_ms) && newest_ms.is_some_and(is_future);
            !is_behind && !both_future && Some(stale.renewed_ms) != newest_ms
        });
        let Some(renewed_ms) = newest_ms else { return Ok(None) };
        let steady = context.shared.clock.steady();
        let due_ms = context.shared.clock.now_ms().saturating_add(millis(wait));
        let met = StaleStore { renewed_ms, until: steady.saturating_add(wait), due_ms };
        let stale = *self.0.get_or_insert(met);
        Ok((!stale.left(steady).is_zero()).then_some(stale))
    }
}
