//! Raising every mark, for a store that went back in time.

use std::{collections::HashSet, time::Duration};

use super::{DECIDED_FOR, Operator, OperatorError, ROUNDS, Written, check_lanes, millis};
use crate::{
    core::lease::{Recorded, Relayout, RelayoutStage, Row, first_due, marks_beyond},
    store::LayoutRecord,
};

/// What was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// How many rows were written or added.
    pub rows: usize,
    /// When the first mark comes due, from which on IDs are issued again, in Unix ms of the
    /// store's clock.
    pub due_ms: i64,
}

impl Operator {
    /// Raises every mark to beyond everything that was ever leased: the first position after the
    /// store's present, `window` and the allowed clock skew; frees every row, and adds those that
    /// are missing.
    ///
    /// Safe at any time, because marks only rise. It makes a *restored backup* safe if no node
    /// wrote a row between the restore and this, and `window` is the largest of any node that used
    /// the store before: such nodes may still issue, but not beyond what they had leased.
    ///
    /// # Errors
    ///
    /// When the store says another layout, when clocks disagree, or when the store fails: rows
    /// that were raised stay so, and the operation can be repeated.
    pub async fn raise(&mut self, window: Duration) -> Result<Raised, OperatorError> {
        let namespace = self.settings.namespace.clone();
        let layout = self.settings.layout.clone();
        let words = layout.words();
        let record = self.store.read_record(&namespace).await?;
        let is_recorded = record.is_some();
        match record.map(|record| Recorded::read(&record.words)).transpose()? {
            Some(Recorded::Settled(recorded)) if recorded != words => {
                return Err(OperatorError::LayoutConflict { namespace, ours: words, recorded });
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
        let due_ms = self.raise_all(&words, beyond[0]).await?;
        self.write_settled(&words, |record| record.complete = layout.reserved_keys()).await?;
        let rows = self.rows_of(&layout).await?.len();
        Ok(Raised { rows, due_ms })
    }

    /// Fills a store that is empty, as one that was restored from before the first start: like a
    /// move to the layout from itself, so that no node makes rows of its own meanwhile.
    async fn begin_beyond(&mut self, tick: u64) -> Result<Raised, OperatorError> {
        let namespace = self.settings.namespace.clone();
        let layout = self.settings.layout.clone();
        let (words, stage) = (layout.words(), RelayoutStage::Converting { tick });
        let text = Relayout { stage, from: words.clone(), to: words }.to_string();
        let ours = LayoutRecord::new(text, self.fresh_token(), tick);
        let record = self.store.create_record(&namespace, &ours).await?;
        if record.token != ours.token {
            return Err(OperatorError::RecordChanged { namespace, found: Some(record.words) });
        }
        self.convert(record, tick).await?;
        let rows = self.rows_of(&layout).await?.len();
        Ok(Raised { rows, due_ms: layout.start_of_tick_ms(tick) })
    }

    /// Adds the rows that are missing, beyond everything that could have been leased on them.
    async fn add_lost_rows(&mut self, words: &str, window: Duration) -> Result<(), OperatorError> {
        let layout = self.settings.layout.clone();
        let skew_ms = millis(self.settings.lease.max_clock_skew);
        for _ in 0..ROUNDS {
            let record = self.still_recorded(words).await?;
            let until_ms = self.store_now_ms().await?.saturating_add(millis(DECIDED_FOR));
            let marks = marks_beyond(&layout, until_ms, millis(window), skew_ms);
            if self.add_missing_rows(&layout, &marks, record.token, until_ms).await? {
                return Ok(());
            }
        }
        Err(OperatorError::Contended)
    }

    /// Lets IDs for a past time begin at this tick: which of the ticks before it were handed out
    /// since the backup, nobody knows.
    async fn raise_since(&mut self, words: &str, tick: u64) -> Result<(), OperatorError> {
        if self.settings.layout.backfill_per_tick() == 0 {
            return Ok(());
        }
        self.write_settled(words, |record| record.since_tick = record.since_tick.max(tick)).await
    }

    /// Changes the record of a settled layout, which nodes may be changing too.
    async fn write_settled(
        &mut self,
        words: &str,
        change: impl Fn(&mut LayoutRecord),
    ) -> Result<(), OperatorError> {
        for _ in 0..ROUNDS {
            let record = self.still_recorded(words).await?;
            match self.write_record(&record, &change).await {
                // Only the words tell whether it is another layout's.
                Err(OperatorError::RecordChanged { .. }) => {}
                written => return written.map(drop),
            }
        }
        Err(OperatorError::Contended)
    }

    /// Raises what others do not write meanwhile, again and again until nothing is left; when the
    /// first mark comes due.
    async fn raise_all(&mut self, words: &str, floor: u64) -> Result<i64, OperatorError> {
        let layout = self.settings.layout.clone();
        let mut raised = HashSet::new();
        for _ in 0..ROUNDS {
            let rows = self.rows_of(&layout).await?;
            // The marks that were read are this layout's, and a swap refuses what comes later.
            self.still_recorded(words).await?;
            let mut all_written = true;
            for listed in &rows {
                let (key, row) = (&listed.reserved_key, &listed.row);
                check_lanes(&layout, listed)?;
                if raised.contains(&(key.clone(), row.worker)) {
                    continue;
                }
                all_written = false;
                let scope = self.scope(&layout, key);
                let marks = row.marks.at_least(floor);
                if let Written::Done = self.write(&scope, row, row.lane, &marks).await? {
                    raised.insert((key.clone(), row.worker));
                }
            }
            if all_written {
                let rows: Vec<Row> = rows.into_iter().map(|listed| listed.row).collect();
                return Ok(first_due(&layout, &rows).unwrap_or(i64::MAX));
            }
        }
        Err(OperatorError::Contended)
    }
}
