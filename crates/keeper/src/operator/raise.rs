//! Begins an epoch beyond everything that was ever leased, for a store that was rolled back.
//!
//! A raise is one write of the record, for any number of rows: the new epoch has a barrier beyond
//! every lease, and no lease continues in it. It writes no row and lowers no mark, so it is safe at
//! any time. [`Operator::lower_barrier`] is not: the operator must know that no write was lost.
//!
//! It cannot stop nodes, and cannot know which of them leased a row between a restore and the
//! raise. The operator must see to that, and give the largest `window` of any node. A preview
//! writes nothing. Tests: `operators.rs`, `previews.rs` and `barriers.rs` in `src/tests`.

use std::time::Duration;

use raindrop_core::{
    layout::Layout,
    lease::{EpochClocks, History, Token},
};
use raindrop_store::{LayoutRecord, Survey};

use super::{
    KeeperSettings, LayoutError, Operator, ROUNDS, error::OperatorError, preview::RaisePreview,
};
use crate::lease::settings::LeaseTimes;

/// The barrier of the epoch that an operator begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RaisedBarrier {
    /// Ahead of the store's clock by the longest lease, or unchanged if it was later.
    Risen,
    /// Ahead of the clocks by the longest lease, although a clock that was ahead had set it later.
    Lowered,
}

impl Operator {
    /// Begins an epoch in which no lease continues: each later lease starts at the epoch's barrier.
    /// The barrier is the store's clock plus `window` and twice the allowed clock skew, or later.
    /// Returns the barrier, in Unix ms. One write suffices for any number of rows.
    ///
    /// Safe at any time, because leases only start later. The raise makes a *restored backup* safe
    /// under two conditions: no node leased a row between the restore and the raise, and `window`
    /// is the largest of any node that used the store before. Such nodes may still issue, but only
    /// what they had leased.
    ///
    /// # Errors
    ///
    /// When the store names another layout, when clocks disagree, or when the store fails. The
    /// operation can be repeated.
    pub async fn raise(&mut self, window: Duration) -> Result<i64, OperatorError> {
        self.begin_epoch(window, RaisedBarrier::Risen).await
    }

    /// Begins an epoch like [`Self::raise`], whose barrier is the store's clock plus the longest
    /// lease, although that of the present epoch is later. Returns that instant, in Unix ms.
    ///
    /// Safe only if the store lost no write that a process made while a clock was ahead: neither in
    /// a fail-over, nor by a restore, nor in a crash. No store can show this; the operator states
    /// it. Marks stay, so a worker id that was leased under such a clock comes due with its mark.
    /// Ticks that are closed to IDs for a past time stay closed.
    ///
    /// # Errors
    ///
    /// [`OperatorError::BarrierStays`] with the reason when the barrier cannot be lowered,
    /// [`OperatorError::NoRecord`] when there is no record, and the errors of [`Self::raise`].
    pub async fn lower_barrier(&mut self, window: Duration) -> Result<i64, OperatorError> {
        self.begin_epoch(window, RaisedBarrier::Lowered).await
    }

    async fn begin_epoch(
        &mut self,
        window: Duration,
        barrier: RaisedBarrier,
    ) -> Result<i64, OperatorError> {
        let layout = self.settings.layout.clone();
        for _ in 0..ROUNDS {
            let record = self.record_to_raise().await?;
            let survey = self.survey().await?;
            let fresh = [self.random.fresh_token(), self.random.fresh_token()];
            let history = self.raised(record.as_ref(), &survey, window, fresh, barrier)?;
            let (tick, due_ms) = due(&layout, &history);
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
                    // The store does not show which IDs for a past time nodes issued since the
                    // backup.
                    record.since_tick = record.since_tick.max(tick);
                }
            });
            match written.await {
                // Nodes write the record, too.
                Err(OperatorError::RecordChanged { .. }) => {}
                written => return written.map(|_| due_ms),
            }
        }
        Err(OperatorError::Contended)
    }

    /// Returns what [`Self::raise`] would do.
    ///
    /// # Errors
    ///
    /// The errors that [`Self::raise`] returns before it writes anything.
    pub async fn preview_raise(&self, window: Duration) -> Result<RaisePreview, OperatorError> {
        self.preview_epoch(window, RaisedBarrier::Risen).await
    }

    /// Returns what [`Self::lower_barrier`] would do.
    ///
    /// # Errors
    ///
    /// The errors that [`Self::lower_barrier`] returns before it writes anything.
    pub async fn preview_lower_barrier(
        &self,
        window: Duration,
    ) -> Result<RaisePreview, OperatorError> {
        self.preview_epoch(window, RaisedBarrier::Lowered).await
    }

    async fn preview_epoch(
        &self,
        window: Duration,
        barrier: RaisedBarrier,
    ) -> Result<RaisePreview, OperatorError> {
        let layout = &self.settings.layout;
        let record = self.record_to_raise().await?;
        let survey = self.survey().await?;
        let raised = self.raised(record.as_ref(), &survey, window, [Token::UNUSED; 2], barrier)?;
        let present = record.map(|record| record.history);
        let far = present.filter(|present| present.is_far_ahead(self.right_ms(&survey)));
        Ok(RaisePreview {
            held: survey.held,
            now_ms: survey.now_ms,
            due_ms: due(layout, &raised).1,
            far_ms: far.map(|far| due(layout, &far).1),
        })
    }

    /// Returns the later of the store's clock and this machine's, which agree, in Unix ms.
    fn right_ms(&self, survey: &Survey) -> i64 {
        survey.now_ms.max(self.clock.now_ms())
    }

    /// Returns the history that the operation would write.
    fn raised(
        &self,
        record: Option<&LayoutRecord>,
        survey: &Survey,
        window: Duration,
        fresh: [Token; 2],
        barrier: RaisedBarrier,
    ) -> Result<History, OperatorError> {
        let namespace = || self.settings.namespace.clone();
        let own = LeaseTimes { window, ..self.settings.lease }.of_node();
        let clocks = EpochClocks::of_store(survey.now_ms);
        let server = survey.identity.as_deref();
        match record.map(|record| &record.history) {
            Some(history) if barrier == RaisedBarrier::Lowered => history
                .lowered(server, fresh, self.right_ms(survey), own)
                .map_err(|why| OperatorError::BarrierStays { namespace: namespace(), why }),
            None if barrier == RaisedBarrier::Lowered => {
                Err(OperatorError::NoRecord { namespace: namespace() })
            }
            Some(history) => {
                let server = server.unwrap_or(&history.identity);
                Ok(history.raised(server, fresh, clocks, own))
            }
            None => {
                let server = server.unwrap_or_default();
                let [first, next] = fresh;
                Ok(History::first(server, first, own).next(server, next, clocks, own))
            }
        }
    }

    /// Returns the record of the configured layout; `None` for a store that was never used.
    pub(super) async fn record_to_raise(&self) -> Result<Option<LayoutRecord>, OperatorError> {
        let KeeperSettings { namespace, layout, .. } = &self.settings;
        let record = self.store.read_record(namespace).await?;
        match &record {
            Some(record) => LayoutError::check(namespace, &layout.canonical(), &record.canonical)?,
            // Rows without a record may be of another layout. Counts them instead of listing them,
            // because a store that finds its rows by the record can still count these.
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

/// Returns the tick of the barrier, and the instant when it comes due, in Unix ms.
fn due(layout: &Layout, history: &History) -> (u64, i64) {
    let tick = layout.tick_of(history.barrier(layout));
    (tick, layout.start_of_tick_ms(tick))
}
