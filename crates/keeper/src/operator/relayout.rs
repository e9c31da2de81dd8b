//! Moves a namespace to another layout.
//!
//! 1. The record says that the namespace is being moved. From then on no node takes or renews a
//!    row, because each node reads the record between reading a row and writing it.
//! 2. *Fencing*: every row gets a fresh token; its marks stay. From then on earlier writes are
//!    refused, so the marks are final: nothing beyond them will ever be issued. A row that is held
//!    stays so until its holder could not go on after a fail-over, in case the move is reverted.
//! 3. The new layout's smallest ID of now must be above everything that these marks allow.
//! 4. *Converting*: every row of the new layout gets its present tick's first position as its
//!    marks. Rows that the new layout does not use stay as they are, fenced.
//! 5. The record gets the text of the new layout.
//!
//! Each change of the record is a compare-and-swap on its token. An operator that resumes a move
//! first takes the record over, under a fresh token.

use std::time::Duration;

use raindrop_core::{
    id::Id,
    instant::millis,
    layout::Layout,
    lease::{
        HighWaterMarks, InvalidRelayout, Recorded, Relayout, RelayoutStage, RelayoutVerdict,
        RowExpiry, judge_relayout, largest_id_allowed,
    },
    planted::{Bug, planted},
};
use raindrop_store::{LayoutRecord, ListedRow};

use super::{LayoutError, Operator, ROUNDS, WriteOutcome, check_lanes, error::OperatorError};

/// The outcome of a move to the configured layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayoutOutcome {
    /// The namespace had the configured layout already.
    NothingToDo,
    /// The namespace has the configured layout now.
    Moved(FinishedMove),
    /// A move away from the configured layout had begun, and was reverted.
    Reverted {
        /// The layout that it would have moved to.
        to: String,
    },
}

/// A finished move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedMove {
    /// The old layout, as its canonical text.
    pub from: String,
    /// The largest ID that the old marks allow; `None` when they allow none, or when the move was
    /// resumed.
    pub largest_old: Option<Id>,
    /// The smallest ID that the new layout will ever issue.
    pub smallest_new: Id,
    /// Whether an earlier move was resumed, whose marks had been judged then.
    pub resumed: bool,
}

impl Operator {
    /// Moves the namespace to the configured layout, or finishes a move that was interrupted.
    ///
    /// Nodes may run meanwhile: those of the old layout stop at their limits, and all of their IDs
    /// are below the new layout's first. They must be restarted afterwards.
    ///
    /// # Errors
    ///
    /// [`OperatorError::IdsTooSmall`] if the move is not allowed now: the namespace stays as it
    /// is. After any other error the record may say that the namespace is being moved; then repeat
    /// the operation.
    pub async fn relayout(&mut self) -> Result<RelayoutOutcome, OperatorError> {
        let to = self.settings.layout.canonical();
        let (record, _) = self.follow_history().await?;
        let from = match Recorded::read(&record.canonical)? {
            Recorded::Settled(from) if from == to => return Ok(RelayoutOutcome::NothingToDo),
            Recorded::Settled(from) => {
                // Refused before anything is touched, if it can be.
                let old = Layout::from_canonical(&from)?;
                let rows = self.rows_under(&record, &old).await?;
                self.judge(&old, &record, &rows).await?;
                from
            }
            Recorded::Moving(Relayout { stage: RelayoutStage::Fencing, from, to: other }) => {
                if from == to {
                    self.write_record(&record, |record| record.canonical = to.clone()).await?;
                    return Ok(RelayoutOutcome::Reverted { to: other });
                }
                // Marks are still the old layout's: any layout may be moved to.
                from
            }
            Recorded::Moving(Relayout { to: other, .. }) if other != to => {
                let namespace = self.settings.namespace.clone();
                return Err(LayoutError::Moving { namespace, to: other }.into());
            }
            Recorded::Moving(Relayout {
                stage: RelayoutStage::Converting { tick }, from, ..
            }) => {
                // No mark lies there: marks would begin again at 0.
                if tick > self.settings.layout.last_tick() {
                    return Err(InvalidRelayout::of(&record.canonical).into());
                }
                let record = self.write_record(&record, |_| ()).await?;
                self.convert(record, tick).await?;
                let smallest_new = self.settings.layout.smallest_id(tick);
                let moved = FinishedMove { from, largest_old: None, smallest_new, resumed: true };
                return Ok(RelayoutOutcome::Moved(moved));
            }
        };
        let old = Layout::from_canonical(&from)?;
        let text = |stage| Relayout { stage, from: from.clone(), to: to.clone() }.to_string();
        let fencing = text(RelayoutStage::Fencing);
        let record =
            self.write_record(&record, |record| record.canonical = fencing.clone()).await?;
        // As long as a lease counts as unbroken at most.
        let held_ms = record.history.reach.ms.unsigned_abs() / 2;
        let held = RowExpiry::After(Duration::from_millis(held_ms));
        let rows = if planted(Bug::RelayoutWithoutFencing) {
            self.rows_of(&old).await?
        } else {
            self.rewrite_rows(&old, &record, |listed| {
                let expiry = if listed.row.free { RowExpiry::Released } else { held };
                Ok((listed.row.marks.clone(), expiry))
            })
            .await?
        };
        let (largest_old, tick, smallest_new) = match self.judge(&old, &record, &rows).await {
            Ok(judged) => judged,
            Err(refused) => {
                // Marks rose meanwhile. Nothing but tokens has changed.
                self.write_record(&record, |record| record.canonical = from.clone()).await?;
                return Err(refused);
            }
        };
        let converting = text(RelayoutStage::Converting { tick });
        let record =
            self.write_record(&record, |record| record.canonical = converting.clone()).await?;
        self.convert(record, tick).await?;
        Ok(RelayoutOutcome::Moved(FinishedMove { from, largest_old, smallest_new, resumed: false }))
    }

    /// Returns the largest ID that the rows' marks allow, and the tick and smallest ID at which the
    /// new layout may begin.
    pub(super) async fn judge(
        &self,
        old: &Layout,
        record: &LayoutRecord,
        rows: &[ListedRow],
    ) -> Result<(Option<Id>, u64, Id), OperatorError> {
        let now_ms = self.survey().await?.now_ms;
        rows.iter().try_for_each(|listed| check_lanes(old, listed))?;
        let mut marks: Vec<HighWaterMarks> =
            rows.iter().map(|listed| listed.row.marks.clone()).collect();
        let is_missing_some = |key: &String| {
            let Some(made) = record.made_rows(key) else { return false };
            let is_there = |listed: &&ListedRow| {
                listed.reserved_key == *key && made.contains(listed.row.worker)
            };
            let there = rows.iter().filter(is_there).count() as u64;
            there < made.count(&(0..=old.largest_worker()))
        };
        if old.reserved_keys().iter().any(is_missing_some) {
            // A row that is missing may have been in use.
            marks.push(HighWaterMarks::all_at(record.history.beyond(old, now_ms), old.lanes()));
        }
        if old.min_sequence() > 0 {
            // IDs for a past time reach up to now, whatever the marks are.
            let at_ms = now_ms.saturating_add(millis(self.settings.lease.max_clock_skew));
            let mark = old.first_position(old.tick_clamped(at_ms) + 1);
            marks.push(HighWaterMarks::all_at(mark, old.lanes()));
        }
        let largest_old = largest_id_allowed(old, &marks);
        match (judge_relayout(&self.settings.layout, now_ms, largest_old), largest_old) {
            (RelayoutVerdict::Allowed { tick, smallest_new }, _) => {
                Ok((largest_old, tick, smallest_new))
            }
            (RelayoutVerdict::TooSmall { smallest_new, from_ms }, Some(largest_old)) => {
                Err(OperatorError::IdsTooSmall { largest_old, smallest_new, from_ms })
            }
            _ => Err(OperatorError::OutOfRange { now_ms }),
        }
    }

    /// Gives every row of the new layout its marks, and the record its text.
    pub(super) async fn convert(
        &mut self,
        record: LayoutRecord,
        tick: u64,
    ) -> Result<(), OperatorError> {
        let new = self.settings.layout.clone();
        // If a fail-over lost the end of this move, nodes of the new layout have issued.
        let tick = tick.max(new.tick_of(self.history.barrier(&new)));
        let marks = HighWaterMarks::all_at(new.first_position(tick), new.lanes());
        for _ in 0..ROUNDS {
            // From here on no node can add a row with other marks: these hold as long as the move.
            let is_filled = self.add_missing_rows(&new, &marks, record.token, i64::MAX).await?;
            // While the record is ours, no node of the new layout can have written these rows.
            let mut rows = self.rows_under(&record, &new).await?;
            if !is_filled {
                continue;
            }
            rows.retain(|listed| listed.row.marks != marks);
            if rows.is_empty() {
                self.write_record(&record, |record| {
                    record.canonical = new.canonical();
                    record.complete = new.reserved_keys();
                    (record.since_tick, record.first_tick) = (tick, tick);
                })
                .await?;
                return Ok(());
            }
            for listed in &rows {
                let scope = self.scope(&new, &listed.reserved_key);
                // Refused writes are looked at in the next round.
                let _: WriteOutcome =
                    self.write(&scope, &listed.row, 0, (&marks, RowExpiry::Released)).await?;
            }
        }
        Err(OperatorError::Contended)
    }
}
