//! Freeing a row before its time.

use super::{Operator, OperatorError, Written};
use crate::core::lease::Row;

/// What became of a row that was to be freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freed {
    /// It was held, as it is here, and is free now.
    Released(Row),
    /// It was free already and was left as it is.
    WasFree(Row),
}

impl Operator {
    /// Whether the layout has this worker id.
    ///
    /// # Errors
    ///
    /// [`OperatorError::WorkerOutOfRange`] when it has not.
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
    /// When there is no such row, when somebody writes it at the same moment, or when the store
    /// fails; then the row may or may not be free, and the operation can be repeated.
    pub async fn release(&mut self, worker: u64) -> Result<Freed, OperatorError> {
        self.check_worker(worker)?;
        let layout = &self.settings.layout;
        let scope = self.scope(layout, &layout.reserved_key());
        let row = self.store.row(&scope, worker).await?;
        let row = row.ok_or(OperatorError::NoRow { worker })?;
        if row.free {
            return Ok(Freed::WasFree(row));
        }
        match self.write(&scope, &row, row.lane, &row.marks).await? {
            Written::Done => Ok(Freed::Released(row)),
            Written::Changed(Some(now)) => Err(OperatorError::RowChanged { now: Box::new(now) }),
            Written::Changed(None) => Err(OperatorError::NoRow { worker }),
        }
    }
}
