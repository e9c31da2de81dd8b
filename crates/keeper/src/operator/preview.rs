//! Shows what an operation would do, without writing anything.

use raindrop_core::{
    id::Id,
    layout::Layout,
    lease::{Recorded, Relayout, RelayoutStage, Row},
};
use raindrop_store::ListedRow;

use super::{LayoutError, Operator, error::OperatorError};

/// The result that [`Operator::raise`] would have now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaisePreview {
    /// Number of held rows, of those with the present reserved value.
    pub held: u64,
    /// The store's clock, in Unix ms.
    pub now_ms: i64,
    /// No new lease would begin before this instant, in Unix ms of the store's clock.
    pub due_ms: i64,
    /// No new lease begins now before this instant, in Unix ms; set if a clock that was ahead set
    /// the barrier.
    pub far_ms: Option<i64>,
}

/// The result that [`Operator::relayout`] would have now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayoutPreview {
    /// Nothing: the namespace has the configured layout.
    NothingToDo,
    /// Move the namespace to the configured layout.
    Move {
        /// The old layout, as its canonical text.
        from: String,
        /// Number of rows that the move would write or add.
        rows: usize,
        /// Number of held rows of the old layout.
        held: usize,
        /// The largest ID that the old marks allow; `None` if they allow none.
        largest_old: Option<Id>,
        /// The smallest ID of the new layout.
        smallest_new: Id,
    },
    /// Finish an interrupted move, whose marks were already judged.
    Finish {
        /// The old layout, as its canonical text.
        from: String,
        /// Number of rows that it would write or add.
        rows: usize,
    },
    /// Undo an interrupted move away from the configured layout.
    Revert {
        /// The layout that it would have moved to.
        to: String,
    },
}

impl Operator {
    /// Returns the row that [`Self::release`] would free.
    ///
    /// # Errors
    ///
    /// When the layout or the store has no such worker id, or the store fails.
    pub async fn preview_release(&self, worker: u64) -> Result<Row, OperatorError> {
        self.check_worker(worker)?;
        let scope = self.scope(&self.settings.layout, &self.settings.layout.reserved_key());
        self.store.read_row(&scope, worker).await?.ok_or(OperatorError::NoRow { worker })
    }

    /// Returns what [`Self::relayout`] would do.
    ///
    /// # Errors
    ///
    /// The errors that [`Self::relayout`] returns before it writes anything.
    pub async fn preview_relayout(&self) -> Result<RelayoutPreview, OperatorError> {
        let namespace = self.settings.namespace.clone();
        let to = self.settings.layout.canonical();
        let record = self.store.read_record(&namespace).await?;
        let Some(record) = record else { return Err(OperatorError::NoRecord { namespace }) };
        let rows = row_count(&self.settings.layout);
        let from = match Recorded::read(&record.canonical)? {
            Recorded::Settled(from) if from == to => return Ok(RelayoutPreview::NothingToDo),
            Recorded::Moving(Relayout { stage: RelayoutStage::Fencing, from, to: other })
                if from == to =>
            {
                return Ok(RelayoutPreview::Revert { to: other });
            }
            Recorded::Settled(from)
            | Recorded::Moving(Relayout { stage: RelayoutStage::Fencing, from, .. }) => from,
            Recorded::Moving(Relayout { to: other, .. }) if other != to => {
                return Err(LayoutError::Moving { namespace, to: other }.into());
            }
            Recorded::Moving(Relayout { from, .. }) => {
                return Ok(RelayoutPreview::Finish { from, rows });
            }
        };
        let old = Layout::from_canonical(&from)?;
        let old_rows = self.rows_under(&record, &old).await?;
        let is_held = |listed: &&ListedRow| !listed.row.free;
        let held = old_rows.iter().filter(is_held).count();
        let (largest_old, _, smallest_new) = self.judge(&old, &record, &old_rows).await?;
        let rows = rows.max(old_rows.len());
        Ok(RelayoutPreview::Move { from, rows, held, largest_old, smallest_new })
    }
}

/// Returns the number of rows of a complete namespace of this layout.
fn row_count(layout: &Layout) -> usize {
    let workers = usize::try_from(layout.largest_worker()).unwrap_or(usize::MAX);
    layout.reserved_keys().len().saturating_mul(workers.saturating_add(1))
}
