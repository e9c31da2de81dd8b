//! Counts of each namespace in the last ten minutes, for people who watch a node without
//! Prometheus.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

/// The length of an interval.
const EVERY: Duration = Duration::from_secs(10);
/// The number of intervals in the history, which together last ten minutes.
const KEPT: usize = 60;

/// Counts since the service was started, or in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct Counts {
    /// IDs issued.
    pub(in crate::server) issued: u64,
    /// Claims that waited for their tick.
    pub(in crate::server) waited: u64,
    /// Claims that were refused because the tick was used up.
    pub(in crate::server) refused: u64,
    /// Steps back of the clock.
    pub(in crate::server) rollbacks: u64,
}

/// The counts of the last intervals by namespace.
#[derive(Debug, Default)]
pub(in crate::server) struct History(Mutex<BTreeMap<String, Recent>>);

/// The counts of a namespace.
#[derive(Debug, Default)]
struct Recent {
    totals: Counts,
    series: Series,
}

/// The history in the response of `/cluster`.
#[derive(Debug, Serialize)]
pub(in crate::server) struct Report {
    every_seconds: u64,
    namespaces: BTreeMap<String, Series>,
}

/// Counts by interval, oldest first.
#[derive(Clone, Debug, Default, Serialize)]
struct Series {
    issued: VecDeque<u64>,
    waited: VecDeque<u64>,
    refused: VecDeque<u64>,
    rollbacks: VecDeque<u64>,
}

impl History {
    /// Ends an interval of a namespace whose counts have reached these totals.
    fn record(&self, namespace: &str, totals: Counts) {
        let mut namespaces = self.lock();
        let Recent { totals: before, series } = namespaces.entry(namespace.to_owned()).or_default();
        for (series, count, before) in [
            (&mut series.issued, totals.issued, before.issued),
            (&mut series.waited, totals.waited, before.waited),
            (&mut series.refused, totals.refused, before.refused),
            (&mut series.rollbacks, totals.rollbacks, before.rollbacks),
        ] {
            if series.len() == KEPT {
                series.pop_front();
            }
            series.push_back(count.saturating_sub(before));
        }
        *before = totals;
    }

    /// Returns the last ten minutes of the namespaces that `is_shown` admits.
    pub(in crate::server) fn report(&self, is_shown: impl Fn(&str) -> bool) -> Report {
        let namespaces = self.lock();
        let series = |(name, recent): (&String, &Recent)| (name.clone(), recent.series.clone());
        let shown = namespaces.iter().filter(|(name, _)| is_shown(name));
        let namespaces = shown.map(series).collect();
        Report { every_seconds: EVERY.as_secs(), namespaces }
    }

    /// Records an interval every ten seconds, from the totals that `counts` returns; never returns.
    /// A restarted task continues the same history.
    pub(in crate::server) async fn follow<'a>(&self, counts: impl Fn() -> Vec<(&'a str, Counts)>) {
        let mut ticks = interval(EVERY);
        // After a suspension of the process there is one long interval, not many empty ones.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            for (namespace, totals) in counts() {
                self.record(namespace, totals);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Recent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_what_was_added_and_the_oldest_is_forgotten() {
        let history = History::default();
        for total in 1..=62 {
            let totals = Counts { issued: total * total, refused: total, ..Counts::default() };
            history.record("default", totals);
        }
        history.record("numbers", Counts { issued: 5, ..Counts::default() });
        let report = history.report(|_| true);
        let default = &report.namespaces["default"];
        assert_eq!((default.issued.len(), default.waited.len()), (KEPT, KEPT));
        assert_eq!((default.issued[0], default.issued[KEPT - 1]), (9 - 4, 62 * 62 - 61 * 61));
        assert!(default.refused.iter().all(|count| *count == 1));
        assert!(default.rollbacks.iter().all(|count| *count == 0));
        assert_eq!(report.namespaces["numbers"].issued, [5]);
        assert_eq!(history.report(|name| name == "numbers").namespaces.len(), 1);
    }
}
