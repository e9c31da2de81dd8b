//! Releases a row before it expires.

use raindrop_core::{
    layout::Layout,
    lease::{HighWaterMarks, History, Recorded, Row, RowExpiry},
};

use super::{LayoutError, Operator, WriteOutcome, error::OperatorError};

/// The outcome of releasing a worker id, with its row as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerRelease {
    /// The row was held, and is free now.
    Released(Row),
    /// The row was free already, and was not written.
    AlreadyFree(Row),
}

impl Operator {
    /// Checks that the layout has this worker id.
    ///
    /// # Errors
    ///
    /// [`OperatorError::WorkerOutOfRange`] if it does not.
    pub fn check_worker(&self, worker: u64) -> Result<(), OperatorError> {
        let largest = self.settings.layout.largest_worker();
        if worker > largest {
            return Err(OperatorError::WorkerOutOfRange { worker, largest });
        }
        Ok(())
    }

    /// Releases the row of a worker id, even if a process holds it. Raises the mark of the lane in
    /// use beyond everything that the holder can have leased. The other lanes can be used at once.
    ///
    /// Safe at any time: the range of a holder that still runs ends below that mark, and the holder
    /// stops when it finds that it has lost the row.
    ///
    /// # Errors
    ///
    /// When there is no such row, while the namespace is being moved to another layout, when
    /// another process writes the row at the same moment, or when the store fails. The row may be
    /// free then, and the operation can be repeated.
    pub async fn release(&mut self, worker: u64) -> Result<WorkerRelease, OperatorError> {
        self.check_worker(worker)?;
        let layout = self.settings.layout.clone();
        let (record, _) = self.follow_history().await?;
        // A mark that a wrong clock puts too far ahead cannot be lowered.
        let now_ms = self.survey().await?.now_ms;
        let scope = self.scope(&layout, &layout.reserved_key());
        let row = self.preview_release(worker).await?;
        if row.free {
            return Ok(WorkerRelease::AlreadyFree(row));
        }
        let marks = self.marks_of_released(&row, &record.history, now_ms).await?;
        match self.write(&scope, &row, row.lane, (&marks, RowExpiry::Released)).await? {
            WriteOutcome::Acknowledged => Ok(WorkerRelease::Released(row)),
            WriteOutcome::Changed(Some(now)) => {
                Err(OperatorError::RowChanged { now: Box::new(now) })
            }
            WriteOutcome::Changed(None) => Err(OperatorError::NoRow { worker }),
        }
    }

    /// Returns the marks of a row that the operator takes from its holder. The store may fail over
    /// and lose both this write and the next lease of the row. Then the holder may continue, so the
    /// next lease must start beyond everything that the holder can have leased.
    async fn marks_of_released(
        &self,
        row: &Row,
        history: &History,
        now_ms: i64,
    ) -> Result<HighWaterMarks, OperatorError> {
        let namespace = self.settings.namespace.clone();
        // Read after the row: if no move had begun by then, the row's marks are in units of this
        // layout.
        let Some(record) = self.store.read_record(&namespace).await? else {
            return Err(OperatorError::NoRecord { namespace });
        };
        let text = match Recorded::read(&record.canonical)? {
            Recorded::Settled(text) => text,
            // A row that the move has fenced must not become free before all leases have ended.
            Recorded::Moving(to) => return Err(LayoutError::Moving { namespace, to: to.to }.into()),
        };
        let layout = Layout::from_canonical(&text)?;
        if row.marks.lanes() != layout.lanes() {
            return Ok(row.marks.clone());
        }
        Ok(row.marks_when_released(&layout, history, now_ms))
    }
}
