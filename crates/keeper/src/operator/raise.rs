//! Begins an epoch beyond everything that was ever leased, for a store that went back in time.

use std::time::Duration;

use raindrop_core::lease::{EpochClocks, History, Token};
use raindrop_store::{LayoutRecord, Survey};

use super::{KeeperSettings, LayoutError, Operator, ROUNDS, error::OperatorError};
use crate::ground::lease_times::LeaseTimes;

impl Operator {
    /// Begins an epoch in which no lease goes on: each next one begins at its barrier, the store's
    /// present plus `window` and twice the allowed clock skew, or later. Returns that instant, in Unix
    /// ms. However many rows there are, this is one write.
    ///
    /// Safe at any time, because leases only begin later. It makes a *restored backup* safe if no node
    /// leased a row between the restore and this, and `window` is the largest of any node that used
    /// the store before: such nodes may still issue, but not beyond what they had leased.
    ///
    /// # Errors
    ///
    /// When the store names another layout, when clocks disagree, or when the store fails: the
    /// operation can be repeated.
    pub async fn raise(&mut self, window: Duration) -> Result<i64, OperatorError> {
        let layout = self.settings.layout.clone();
        for _ in 0..ROUNDS {
            let record = self.record_to_raise().await?;
            let survey = self.survey().await?;
            let fresh = [self.random.fresh_token(), self.random.fresh_token()];
            let history = self.raised(record.as_ref(), &survey, window, fresh);
            let tick = layout.tick_of(history.barrier(&layout));
            let due_ms = layout.start_of_tick_ms(tick);
            let Some(record) = record else {
                let token = self.random.fresh_token();
                let mut ours = LayoutRecord::new(layout.canonical(), token, tick, history);
                ours.since_tick = tick;
                let stored = self.store.create_record(&self.settings.namespace, &ours).await?;
                if stored.token == token {
                    return Ok(due_ms);
                }
                continue;
            };
            let written = self.write_record(&record, |record| {
                record.history = history.clone();
                if layout.backfill_per_tick() > 0 {
                    // Which IDs for a past time were issued since the backup is unknown.
                    record.since_tick = record.since_tick.max(tick);
                }
            });
            match written.await {
                // Nodes write it, too.
                Err(OperatorError::RecordChanged { .. }) => {}
                written => return written.map(|_| due_ms),
            }
        }
        Err(OperatorError::Contended)
    }

    /// Returns the history that [`Self::raise`] writes.
    pub(super) fn raised(
        &self,
        record: Option<&LayoutRecord>,
        survey: &Survey,
        window: Duration,
        fresh: [Token; 2],
    ) -> History {
        let own = LeaseTimes { window, ..self.settings.lease }.of_node();
        let clocks = EpochClocks::of_store(survey.now_ms);
        let server = survey.identity.as_deref();
        match record {
            Some(LayoutRecord { history, .. }) => {
                let server = server.unwrap_or(&history.identity);
                history.raised(server, fresh, clocks, own)
            }
            None => {
                let server = server.unwrap_or_default();
                let [first, next] = fresh;
                History::first(server, first, own).next(server, next, clocks, own)
            }
        }
    }

    /// Returns the record of the configured layout; `None` for a store that was never used.
    pub(super) async fn record_to_raise(&self) -> Result<Option<LayoutRecord>, OperatorError> {
        let KeeperSettings { namespace, layout, .. } = &self.settings;
        let record = self.store.read_record(namespace).await?;
        match &record {
            Some(record) => LayoutError::check(namespace, &layout.canonical(), &record.canonical)?,
            // Rows without a record: their marks may be another layout's. A store that lists rows in
            // the record counts these all the same.
            None => {
                for key in layout.reserved_keys() {
                    let survey = self.store.survey(&self.scope(layout, &key)).await?;
                    if survey.held + survey.free > 0 {
                        return Err(OperatorError::NoRecord { namespace: namespace.clone() });
                    }
                }
            }
        }
        Ok(record)
    }
}
