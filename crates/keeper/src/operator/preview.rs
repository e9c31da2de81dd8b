//! Reads what an operation would do, without writing anything.

use raindrop_core::{
    id::Id,
    layout::Layout,
    lease::{Recorded, Relayout, RelayoutStage, Row},
};
use raindrop_store::ListedRow;

use super::{LayoutError, Operator, error::OperatorError};

/// What [`Operator::raise`] would do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaisePreview {
    /// How many rows are held, of those that the present reserved value has.
    pub held: u64,
    /// The store's clock, in Unix ms.
    pub now_ms: i64,
    /// Before when no new lease would begin, in Unix ms of the store's clock.
    pub due_ms: i64,
    /// Before when no new lease begins now, in Unix ms, if a clock that was ahead put the barrier there.
    pub far_ms: Option<i64>,
    /// When a node last confirmed a longer `lease.window` that counts, in Unix ms of the store's clock;
    /// `None` if no node with a shorter one has leased since.
    pub longer_used_ms: Option<i64>,
}

/// What [`Operator::relayout`] would do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayoutPreview {
    /// Nothing: the namespace has the configured layout.
    NothingToDo,
    /// Move the namespace to the configured layout.
    Move {
        /// The old layout, as its canonical text.
        from: String,
        /// How many rows it would write or add.
        rows: usize,
        /// How many of the old layout's are held.
        held: usize,
        /// The largest ID that the old marks allow; `None` when they allow none.
        largest_old: Option<Id>,
        /// The smallest ID of the new layout.
        smallest_new: Id,
    },
    /// Finish an interrupted move, whose marks were judged already.
    Finish {
        /// The old layout, as its canonical text.
        from: String,
        /// How many rows it would write or add.
        rows: usize,
    },
    /// Undo an interrupted move away from the configured layout.
    Revert {
        /// The layout that it would have moved to.
        to: String,
    },
}

impl Operator {
    /// Reads the row that [`Self::release`] would free.
    ///
    /// # Errors
    ///
    /// When the layout or the store has no such worker id, or the store fails.
    pub async fn preview_release(&self, worker: u64) -> Result<Row, OperatorError> {
        self.check_worker(worker)?;
        let scope = self.scope(&self.settings.layout, &self.settings.layout.reserved_key());
        self.store.read_row(&scope, worker).await?.ok_or(OperatorError::NoRow { worker })
    }

    /// Reads what [`Self::relayout`] would do.
    ///
    /// # Errors
    ///
    /// What [`Self::relayout`] would fail with before it writes anything.
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

/// Returns how many rows a complete namespace of this layout has.
fn row_count(layout: &Layout) -> usize {
    let workers = usize::try_from(layout.largest_worker()).unwrap_or(usize::MAX);
    layout.reserved_keys().len().saturating_mul(workers.saturating_add(1))
}
