//! Raising every mark, for a store that went back in time.

use std::{collections::HashSet, time::Duration};

use super::{Operator, OperatorError, ROUNDS, Written, millis};
use crate::core::lease::{Recorded, Row, first_due, marks_beyond};

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
        match record.as_ref().map(|record| Recorded::read(&record.words)).transpose()? {
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
        // The rows first: a record without them would let the next node make them from nothing.
        self.add_missing_rows(&layout, &beyond).await?;
        let record = self.store.layout_record(&namespace, &words).await?;
        if record.words != words {
            let found = Some(record.words);
            return Err(OperatorError::RecordChanged { namespace, found });
        }
        let due_ms = self.raise_all(&words, beyond[0]).await?;
        for key in layout.reserved_keys() {
            self.store.mark_complete(&namespace, &key).await?;
        }
        let rows = self.rows_of(&layout).await?.len();
        Ok(Raised { rows, due_ms })
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
            let mut left = 0;
            for listed in &rows {
                let (key, row) = (&listed.reserved_key, &listed.row);
                if row.marks.lanes() != layout.lanes() {
                    return Err(OperatorError::OtherLanes {
                        worker: row.worker,
                        reserved_key: key.clone(),
                        found: row.marks.lanes(),
                        expected: layout.lanes(),
                    });
                }
                if raised.contains(&(key.clone(), row.worker)) {
                    continue;
                }
                left += 1;
                let scope = self.scope(&layout, key);
                let marks = row.marks.at_least(floor);
                if let Written::Done = self.write(&scope, row, row.lane, &marks).await? {
                    raised.insert((key.clone(), row.worker));
                }
            }
            if left == 0 {
                let rows: Vec<Row> = rows.into_iter().map(|listed| listed.row).collect();
                return Ok(first_due(&layout, &rows).unwrap_or(i64::MAX));
            }
        }
        Err(OperatorError::Contended)
    }
}
