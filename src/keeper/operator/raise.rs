//! Raises every mark, for a store that went back in time.

use std::time::Duration;

use super::{
    DECISION_VALID_FOR, LayoutError, Operator, OperatorError, ROUNDS, check_lanes, millis,
};
use crate::{
    core::lease::{Recorded, Relayout, RelayoutStage, Row, first_due, marks_beyond},
    store::LayoutRecord,
};

/// The outcome of raising every mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaisedMarks {
    /// How many rows were written or added.
    pub rows: usize,
    /// When the first mark comes due and IDs are issued again, in Unix ms of the store's clock.
    pub due_ms: i64,
}

impl Operator {
    /// Raises every mark beyond everything that was ever leased: to the first position after the
    /// store's present, `window` and the allowed clock skew. Frees every row, and adds those that
    /// are missing.
    ///
    /// Safe at any time, because marks only rise. It makes a *restored backup* safe if no node
    /// wrote a row between the restore and this, and `window` is the largest of any node that used
    /// the store before: such nodes may still issue, but not beyond what they had leased.
    ///
    /// # Errors
    ///
    /// When the store names another layout, when clocks disagree, or when the store fails: rows
    /// that were raised stay so, and the operation can be repeated.
    pub async fn raise(&mut self, window: Duration) -> Result<RaisedMarks, OperatorError> {
        let namespace = self.settings.namespace.clone();
        let layout = self.settings.layout.clone();
        let words = layout.words();
        let record = self.store.read_record(&namespace).await?;
        let is_recorded = record.is_some();
        match record.map(|record| Recorded::read(&record.words)).transpose()? {
            Some(Recorded::Settled(recorded)) if recorded != words => {
                return Err(LayoutError::Conflict { namespace, ours: words, recorded }.into());
            }
            Some(Recorded::Moving(relayout)) => return Err(self.moving(relayout)),
            Some(Recorded::Settled(_)) => {}
            // Rows without a record: their marks may be another layout's.
            None if !self.rows_of(&layout).await?.is_empty() => {
                return Err(OperatorError::NoRecord { namespace });
            }
            None => {}
        }
        let now_ms = self.store_now_ms().await?;
        let skew_ms = millis(self.settings.lease.max_clock_skew);
        let beyond = marks_beyond(&layout, now_ms, millis(window), skew_ms);
        if !is_recorded {
            return self.begin_beyond(layout.tick_of(beyond[0])).await;
        }
        self.raise_since(&words, layout.tick_of(beyond[0])).await?;
        self.add_lost_rows(&words, window).await?;
        // The marks that were read are this layout's, and a swap refuses what comes later.
        let raised = self.rewrite_rows(&layout, Some(&words), |listed| {
            check_lanes(&layout, listed)?;
            Ok(listed.row.marks.at_least(beyond[0]))
        });
        let raised: Vec<Row> = raised.await?.into_iter().map(|listed| listed.row).collect();
        let due_ms = first_due(&layout, &raised).unwrap_or(i64::MAX);
        self.write_settled(&words, |record| record.complete = layout.reserved_keys()).await?;
        let rows = self.rows_of(&layout).await?.len();
        Ok(RaisedMarks { rows, due_ms })
    }

    /// Fills an empty store, such as one restored from before the first start. It is a move from
    /// the layout to itself, so that no node creates rows of its own meanwhile.
    async fn begin_beyond(&mut self, tick: u64) -> Result<RaisedMarks, OperatorError> {
        let layout = self.settings.layout.clone();
        let (words, stage) = (layout.words(), RelayoutStage::Converting { tick });
        let text = Relayout { stage, from: words.clone(), to: words }.to_string();
        let ours = LayoutRecord::new(text, self.fresh_token(), tick);
        let record = self.store.create_record(&self.settings.namespace, &ours).await?;
        if record.token != ours.token {
            return Err(self.record_changed(Some(record)));
        }
        self.convert(record, tick).await?;
        let rows = self.rows_of(&layout).await?.len();
        Ok(RaisedMarks { rows, due_ms: layout.start_of_tick_ms(tick) })
    }

    /// Adds the missing rows, beyond everything that could have been leased on them.
    async fn add_lost_rows(&mut self, words: &str, window: Duration) -> Result<(), OperatorError> {
        let layout = self.settings.layout.clone();
        let skew_ms = millis(self.settings.lease.max_clock_skew);
        for _ in 0..ROUNDS {
            let record = self.still_recorded(words).await?;
            let until_ms = self.store_now_ms().await?.saturating_add(millis(DECISION_VALID_FOR));
            let marks = marks_beyond(&layout, until_ms, millis(window), skew_ms);
            if self.add_missing_rows(&layout, &marks, record.token, until_ms).await? {
                return Ok(());
            }
        }
        Err(OperatorError::Contended)
    }

    /// Closes the ticks before this one for past times: which of their IDs were issued since the
    /// backup is unknown.
    async fn raise_since(&mut self, words: &str, tick: u64) -> Result<(), OperatorError> {
        if self.settings.layout.backfill_per_tick() == 0 {
            return Ok(());
        }
        self.write_settled(words, |record| record.since_tick = record.since_tick.max(tick)).await
    }

    /// Changes the record of a settled layout, which nodes may change at the same time.
    async fn write_settled(
        &mut self,
        words: &str,
        change: impl Fn(&mut LayoutRecord),
    ) -> Result<(), OperatorError> {
        for _ in 0..ROUNDS {
            let record = self.still_recorded(words).await?;
            match self.write_record(&record, &change).await {
                // Unless the words changed, it is still the record of this layout.
                Err(OperatorError::RecordChanged { .. }) => {}
                written => return written.map(drop),
            }
        }
        Err(OperatorError::Contended)
    }
}
