//! Moves a namespace to another layout.
//!
//! 1. The operator writes into the record that a move is under way. From then on no node takes or
//!    renews a row: each node reads the record after it reads a row and before it writes the row.
//! 2. *Fencing*: the operator gives every row a fresh token, and keeps the row's marks. From then
//!    on the store refuses earlier writes, so the marks are final: no node will ever issue beyond
//!    them. In case the move is reverted, a held row counts as held until its holder could not
//!    continue after a fail-over.
//! 3. The operator checks that the smallest ID that the new layout can issue now is above
//!    everything that these marks allow.
//! 4. *Converting*: the operator sets the marks of every row of the new layout to the first
//!    position of the new layout's present tick. Rows that the new layout does not use stay fenced.
//! 5. The operator writes the text of the new layout into the record.
//!
//! Each change of the record is a compare-and-swap on its token. An operator that resumes a move
//! first writes the record under a fresh token, so that only one operator works on it.

use std::time::Duration;

use raindrop_core::{
    id::Id,
    instant::millis,
    layout::Layout,
    lease::{
        HighWaterMarks, InvalidRelayout, Recorded, Relayout, RelayoutStage, RelayoutVerdict,
        RowExpiry, judge_relayout, largest_id_allowed,
    },
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
    /// The largest ID that the old marks allow; `None` if they allow none, or if the move was
    /// resumed.
    pub largest_old: Option<Id>,
    /// The smallest ID that the new layout will ever issue.
    pub smallest_new: Id,
    /// Whether this finished an earlier move, whose marks were judged then.
    pub resumed: bool,
}

impl Operator {
    /// Moves the namespace to the configured layout, or finishes a move that was interrupted.
    ///
    /// Nodes may run meanwhile. Those of the old layout stop at their limits, and all of their IDs
    /// are below the new layout's first. Restart all nodes afterwards.
    ///
    /// # Errors
    ///
    /// [`OperatorError::IdsTooSmall`] if the move is not allowed now: the namespace stays as it is.
    /// After any other error the record may say that a move is under way; then repeat the
    /// operation.
    pub async fn relayout(&mut self) -> Result<RelayoutOutcome, OperatorError> {
        let to = self.settings.layout.canonical();
        let (record, _) = self.follow_history().await?;
        let from = match Recorded::read(&record.canonical)? {
            Recorded::Settled(from) if from == to => return Ok(RelayoutOutcome::NothingToDo),
            Recorded::Settled(from) => {
                // Refused before anything is written, if possible.
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
                // The marks are still the old layout's, so any layout can be the target.
                from
            }
            Recorded::Moving(Relayout { to: other, .. }) if other != to => {
                let namespace = self.settings.namespace.clone();
                return Err(LayoutError::Moving { namespace, to: other }.into());
            }
            Recorded::Moving(Relayout {
                stage: RelayoutStage::Converting { tick }, from, ..
            }) => {
                // No version writes such a record: the tick has no position, and marks would start
                // again at 0.
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
        let fencing_text = text(RelayoutStage::Fencing);
        let fencing =
            self.write_record(&record, |record| record.canonical = fencing_text.clone()).await?;
        // The longest time for which a lease can count as unbroken.
        let held_ms = fencing.history.reach.ms.unsigned_abs() / 2;
        let held = RowExpiry::After(Duration::from_millis(held_ms));
        let rewritten = self.rewrite_rows(&old, &fencing, |listed: &ListedRow| {
            let expiry = if listed.row.free { RowExpiry::Released } else { held };
            Ok((listed.row.marks.clone(), expiry))
        });
        let fenced_rows = rewritten.await?;
        let (largest_old, tick, smallest_new) = match self.judge(&old, &fencing, &fenced_rows).await
        {
            Ok(judged) => judged,
            Err(refused) => {
                // Marks rose meanwhile. Only tokens have changed so far.
                self.write_record(&fencing, |record| record.canonical = from.clone()).await?;
                return Err(refused);
            }
        };
        let converting_text = text(RelayoutStage::Converting { tick });
        let converting = self
            .write_record(&fencing, |record| record.canonical = converting_text.clone())
            .await?;
        self.convert(converting, tick).await?;
        Ok(RelayoutOutcome::Moved(FinishedMove { from, largest_old, smallest_new, resumed: false }))
    }

    /// Returns the largest ID that the rows' marks allow, and the tick and the smallest ID from
    /// which the new layout may start.
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
        let keys = old.reserved_keys();
        if keys.iter().any(|key| is_row_missing(key, old, record, rows)) {
            // A missing row may have been in use.
            marks.push(HighWaterMarks::all_at(record.history.beyond(old, now_ms), old.lanes()));
        }
        if old.min_sequence() > 0 {
            // IDs for a past time reach up to now, whatever the marks.
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

    /// Gives every row of the new layout its marks, and then the record its text.
    pub(super) async fn convert(
        &mut self,
        record: LayoutRecord,
        tick: u64,
    ) -> Result<(), OperatorError> {
        let new = self.settings.layout.clone();
        // If a fail-over lost the end of this move, nodes of the new layout may have issued IDs.
        let tick = tick.max(new.tick_of(self.history.barrier(&new)));
        let marks = HighWaterMarks::all_at(new.first_position(tick), new.lanes());
        for _ in 0..ROUNDS {
            // No node can add a row with other marks from here on: these hold as long as the move.
            let is_filled = self.add_missing_rows(&new, &marks, record.token, i64::MAX).await?;
            // While the record is this operator's, no node of the new layout can have written these
            // rows.
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
                // The next round repeats refused writes.
                let _: WriteOutcome =
                    self.write(&scope, &listed.row, 0, (&marks, RowExpiry::Released)).await?;
            }
        }
        Err(OperatorError::Contended)
    }
}
/// Returns whether a row under this reserved key is missing that the record names as created.
fn is_row_missing(key: &str, layout: &Layout, record: &LayoutRecord, rows: &[ListedRow]) -> bool {
    let Some(created) = record.created_rows(key) else { return false };
    let present = rows
        .iter()
        .filter(|listed| listed.reserved_key == key && created.contains(listed.row.worker));
    (present.count() as u64) < created.count(&(0..=layout.largest_worker()))
}
