//! Moving a namespace to another layout.
//!
//! 1. The record says that the namespace is being moved: from then on no node takes or renews a
//!    row, because each looks at the record between reading a row and writing it.
//! 2. *Fencing*: every row gets a fresh token, its marks unchanged. What was under way before is
//!    refused from then on, so the marks are final: nothing beyond them will ever be issued.
//! 3. The new layout's smallest ID of now must be above everything that these marks allow.
//! 4. *Converting*: every row of the new layout gets its present tick's first position as its
//!    marks. Rows that the new layout has no use for stay as they are, fenced.
//! 5. The record gets the new words.
//!
//! Each change of the record is a compare-and-swap on its token. Whoever was cut short, or finds a
//! move that was, begins by taking the record over under a fresh one.

use std::collections::HashSet;

use super::{Operator, OperatorError, ROUNDS, Written, check_lanes, millis};
use crate::{
    core::{
        id::Id,
        layout::Layout,
        lease::{
            InvalidRelayout, Marks, Recorded, Relayout, RelayoutStage, RelayoutVerdict,
            judge_relayout, largest_id_allowed, marks_beyond,
        },
        planted::{Bug, planted},
    },
    store::{LayoutRecord, ListedRow},
};

/// How a move to the configured layout ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relaid {
    /// The namespace has the configured layout already.
    NothingToDo,
    /// The namespace has the configured layout now.
    Moved(Moved),
    /// A move away from the configured layout had been begun, and was taken back.
    TakenBack {
        /// The layout that it would have moved to, in words.
        to: String,
    },
}

/// A finished move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The old layout in words.
    pub from: String,
    /// The largest ID that the old marks allow; `None` when they allow none, or when a move was
    /// finished that had been judged before.
    pub largest_old: Option<Id>,
    /// The smallest ID that the new layout will ever issue.
    pub smallest_new: Id,
    /// Whether a move was finished that had been judged before.
    pub resumed: bool,
}

impl Operator {
    /// Moves the namespace to the configured layout, or finishes a move that was cut short.
    ///
    /// Needs no node to be stopped for uniqueness: nodes of the old layout stop at their limits,
    /// all of whose IDs are below the new layout's first. They must be restarted afterwards.
    ///
    /// # Errors
    ///
    /// [`OperatorError::IdsTooSmall`] when it is not allowed now: the namespace stays as it is.
    /// After any other error the record may say that the namespace is being moved; then repeat
    /// the operation.
    pub async fn relayout(&mut self) -> Result<Relaid, OperatorError> {
        let namespace = self.settings.namespace.clone();
        let to = self.settings.layout.words();
        let record = self.store.read_record(&namespace).await?;
        let record = record.ok_or(OperatorError::NoRecord { namespace })?;
        let from = match Recorded::read(&record.words)? {
            Recorded::Settled(words) if words == to => return Ok(Relaid::NothingToDo),
            Recorded::Settled(from) => {
                // Refused before anything is touched, if it can be.
                let old = Layout::from_words(&from)?;
                let rows = self.rows_of(&old).await?;
                self.judge(&old, &record.complete, &rows).await?;
                from
            }
            Recorded::Moving(relayout) => match relayout.stage {
                RelayoutStage::Fencing if relayout.from == to => {
                    self.write_record(&record, |record| record.words = to.clone()).await?;
                    return Ok(Relaid::TakenBack { to: relayout.to });
                }
                // Marks are still the old layout's: any layout may be moved to.
                RelayoutStage::Fencing => relayout.from,
                RelayoutStage::Converting { tick } if relayout.to == to => {
                    // Its marks would be no marks, and begin again at 0.
                    if tick > self.settings.layout.last_tick() {
                        return Err(InvalidRelayout::of(&record.words).into());
                    }
                    let from = relayout.from.clone();
                    let record = self.write_record(&record, |_| ()).await?;
                    self.convert(record, tick).await?;
                    let smallest_new = self.settings.layout.smallest_id(tick);
                    let (largest_old, resumed) = (None, true);
                    return Ok(Relaid::Moved(Moved { from, largest_old, smallest_new, resumed }));
                }
                RelayoutStage::Converting { .. } => return Err(self.moving(relayout)),
            },
        };
        let old = Layout::from_words(&from)?;
        let text = |stage| Relayout { stage, from: from.clone(), to: to.clone() }.to_string();
        let fencing = text(RelayoutStage::Fencing);
        let record = self.write_record(&record, |record| record.words = fencing.clone()).await?;
        let rows = self.fence(&old).await?;
        let (largest_old, tick, smallest_new) =
            match self.judge(&old, &record.complete, &rows).await {
                Ok(judged) => judged,
                Err(refused) => {
                    // Marks rose meanwhile. Rows were freed, and nothing else has changed.
                    self.write_record(&record, |record| record.words = from.clone()).await?;
                    return Err(refused);
                }
            };
        let converting = text(RelayoutStage::Converting { tick });
        let record = self.write_record(&record, |record| record.words = converting.clone()).await?;
        self.convert(record, tick).await?;
        Ok(Relaid::Moved(Moved { from, largest_old, smallest_new, resumed: false }))
    }

    /// The largest ID that the rows' marks allow, and the tick and smallest ID of the new layout
    /// from which on it may be used.
    async fn judge(
        &self,
        old: &Layout,
        complete: &[String],
        rows: &[ListedRow],
    ) -> Result<(Option<Id>, u64, Id), OperatorError> {
        let now_ms = self.store_now_ms().await?;
        let mut marks = Vec::new();
        for listed in rows {
            check_lanes(old, listed)?;
            marks.push(listed.row.marks.clone());
        }
        let is_missing_some = |key: &String| {
            let there = rows.iter().filter(|listed| listed.reserved_key == *key).count();
            complete.contains(key) && (there as u64) <= old.largest_worker()
        };
        if old.reserved_keys().iter().any(is_missing_some) {
            // A row that is missing may have been in use.
            let lease = self.settings.lease;
            let (window_ms, skew_ms) = (millis(lease.window), millis(lease.max_clock_skew));
            marks.push(marks_beyond(old, now_ms, window_ms, skew_ms));
        }
        if old.min_sequence() > 0 {
            // IDs for a past time reach up to now, whatever the marks say.
            marks.push(marks_beyond(old, now_ms, 0, millis(self.settings.lease.max_clock_skew)));
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

    /// Gives every row of the old layout a fresh token, its marks unchanged; the rows afterwards.
    async fn fence(&mut self, old: &Layout) -> Result<Vec<ListedRow>, OperatorError> {
        if planted(Bug::RelayoutWithoutFencing) {
            return self.rows_of(old).await;
        }
        let mut fenced = HashSet::new();
        for _ in 0..ROUNDS {
            let rows = self.rows_of(old).await?;
            let mut all_written = true;
            for listed in &rows {
                let (key, row) = (&listed.reserved_key, &listed.row);
                if fenced.contains(&(key.clone(), row.worker)) {
                    continue;
                }
                all_written = false;
                let scope = self.scope(old, key);
                if let Written::Done = self.write(&scope, row, row.lane, &row.marks).await? {
                    fenced.insert((key.clone(), row.worker));
                }
            }
            if all_written {
                return Ok(rows);
            }
        }
        Err(OperatorError::Contended)
    }

    /// Gives every row of the new layout its marks, and the record its words.
    pub(super) async fn convert(
        &mut self,
        record: LayoutRecord,
        tick: u64,
    ) -> Result<(), OperatorError> {
        let new = self.settings.layout.clone();
        let marks = Marks::all_at(new.first_position(tick), new.lanes());
        for _ in 0..ROUNDS {
            // From here on nobody can add a row with other marks. These hold as long as the move.
            let is_filled = self.add_missing_rows(&new, &marks, record.token, i64::MAX).await?;
            let mut rows = self.rows_of(&new).await?;
            // As long as the record is ours, no node of the new layout has written what was read.
            let present = self.still_recorded(&record.words).await?;
            if present.token != record.token {
                // Another operator goes on with the same move.
                let (namespace, found) = (self.settings.namespace.clone(), Some(present.words));
                return Err(OperatorError::RecordChanged { namespace, found });
            }
            if !is_filled {
                continue;
            }
            rows.retain(|listed| listed.row.marks != marks);
            if rows.is_empty() {
                self.write_record(&record, |record| {
                    record.words = new.words();
                    record.complete = new.reserved_keys();
                    (record.since_tick, record.first_tick) = (tick, tick);
                })
                .await?;
                return Ok(());
            }
            for listed in &rows {
                let scope = self.scope(&new, &listed.reserved_key);
                // Others are looked at in the next round.
                let _: Written = self.write(&scope, &listed.row, 0, &marks).await?;
            }
        }
        Err(OperatorError::Contended)
    }
}
