//! Raises every mark, for a store that went back in time.

use std::time::Duration;

use raindrop_core::lease::{History, Relayout, RelayoutStage, Row, RowExpiry, first_due};
use raindrop_store::LayoutRecord;

use super::{
    KeeperSettings, LayoutError, Operator, OperatorError, ROUNDS, check_lanes, valid_until_ms,
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
        let layout = self.settings.layout.clone();
        let canonical = layout.canonical();
        let record = self.record_to_raise().await?;
        let now_ms = self.store_now_ms().await?;
        let beyond = self.marks_beyond(&layout, now_ms, window)[0];
        let tick = layout.tick_of(beyond);
        if record.is_none() {
            return self.begin_beyond(tick).await;
        }
        self.follow_history().await?;
        if layout.backfill_per_tick() > 0 {
            // Which IDs for a past time were issued since the backup is unknown.
            self.write_settled(|record| record.since_tick = record.since_tick.max(tick)).await?;
        }
        self.add_lost_rows(window).await?;
        // The marks that were read are this layout's, and a swap refuses what comes later.
        let raised = self.rewrite_rows(&layout, Some(&canonical), |listed| {
            check_lanes(&layout, listed)?;
            Ok((listed.row.marks.at_least(beyond), RowExpiry::Released))
        });
        let raised: Vec<Row> = raised.await?.into_iter().map(|listed| listed.row).collect();
        let due_ms = first_due(&layout, &raised).unwrap_or(i64::MAX);
        self.write_settled(|record| record.complete = layout.reserved_keys()).await?;
        let rows = self.rows_of(&layout).await?.len();
        Ok(RaisedMarks { rows, due_ms })
    }

    /// Returns the record of the configured layout; `None` for a store that was never used.
    pub(super) async fn record_to_raise(&self) -> Result<Option<LayoutRecord>, OperatorError> {
        let KeeperSettings { namespace, layout, .. } = &self.settings;
        let record = self.store.read_record(namespace).await?;
        match &record {
            Some(record) => LayoutError::check(namespace, &layout.canonical(), &record.canonical)?,
            // Rows without a record: their marks may be another layout's.
            None if !self.rows_of(layout).await?.is_empty() => {
                return Err(OperatorError::NoRecord { namespace: namespace.clone() });
            }
            None => {}
        }
        Ok(record)
    }

    /// Fills an empty store, such as one restored from before the first start. It is a move from
    /// the layout to itself, so that no node creates rows of its own meanwhile.
    async fn begin_beyond(&mut self, tick: u64) -> Result<RaisedMarks, OperatorError> {
        let layout = self.settings.layout.clone();
        let (canonical, stage) = (layout.canonical(), RelayoutStage::Converting { tick });
        let text = Relayout { stage, from: canonical.clone(), to: canonical }.to_string();
        let scope = self.scope(&layout, &layout.reserved_key());
        let identity = self.store.glance(&scope).await?.identity;
        let (epoch, token) = (self.random.fresh_token(), self.random.fresh_token());
        let reach_ms = self.settings.lease.reach_beyond_ms();
        let history = History::first(&identity.unwrap_or_default(), epoch, reach_ms);
        let ours = LayoutRecord::new(&text, token, tick, history);
        let record = self.store.create_record(&self.settings.namespace, &ours).await?;
        if record.token != ours.token {
            return Err(self.record_changed(Some(record)));
        }
        let (record, _) = self.follow_history().await?;
        if record.canonical != text {
            return Err(self.record_changed(Some(record)));
        }
        self.convert(record, tick).await?;
        let rows = self.rows_of(&layout).await?.len();
        Ok(RaisedMarks { rows, due_ms: layout.start_of_tick_ms(tick) })
    }

    /// Adds the missing rows, beyond everything that could have been leased on them.
    async fn add_lost_rows(&mut self, window: Duration) -> Result<(), OperatorError> {
        let layout = self.settings.layout.clone();
        for _ in 0..ROUNDS {
            let record = self.still_recorded(&layout.canonical()).await?;
            let until_ms = valid_until_ms(&*self.store, self.store_now_ms().await?);
            let marks = self.marks_beyond(&layout, until_ms, window);
            if self.add_missing_rows(&layout, &marks, record.token, until_ms).await? {
                return Ok(());
            }
        }
        Err(OperatorError::Contended)
    }

    /// Changes the record of the configured layout, which nodes may change at the same time.
    async fn write_settled(
        &mut self,
        change: impl Fn(&mut LayoutRecord),
    ) -> Result<(), OperatorError> {
        let canonical = self.settings.layout.canonical();
        for _ in 0..ROUNDS {
            let record = self.still_recorded(&canonical).await?;
            match self.write_record(&record, &change).await {
                // Unless its text changed, it is still the record of this layout.
                Err(OperatorError::RecordChanged { .. }) => {}
                written => return written.map(drop),
            }
        }
        Err(OperatorError::Contended)
    }
}
