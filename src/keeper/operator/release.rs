//! Frees a row before it expires.

use super::{Operator, OperatorError, WriteOutcome};
use crate::core::lease::Row;

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

    /// Frees the row of a worker id, whoever holds it. Its marks stay.
    ///
    /// Safe at any time: a holder that still runs uses up its range, which ends at the mark where
    /// the next lease begins, and then finds its row lost.
    ///
    /// # Errors
    ///
    /// When there is no such row, when another process writes it at the same moment, or when the
    /// store fails. Then the row may or may not be free, and the operation can be repeated.
    pub async fn release(&mut self, worker: u64) -> Result<WorkerRelease, OperatorError> {
        self.check_worker(worker)?;
        let layout = &self.settings.layout;
        let scope = self.scope(layout, &layout.reserved_key());
        let row = self.store.row(&scope, worker).await?;
        let row = row.ok_or(OperatorError::NoRow { worker })?;
        if row.free {
            return Ok(WorkerRelease::AlreadyFree(row));
        }
        match self.write(&scope, &row, row.lane, &row.marks).await? {
            WriteOutcome::Acknowledged => Ok(WorkerRelease::Released(row)),
            WriteOutcome::Changed(Some(now)) => {
                Err(OperatorError::RowChanged { now: Box::new(now) })
            }
            WriteOutcome::Changed(None) => Err(OperatorError::NoRow { worker }),
        }
    }
}
