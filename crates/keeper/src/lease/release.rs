//! Releases a row, with the mark at which its next lease may start.

use raindrop_core::lease::{Purpose, ReleasingRow, RowExpiry};
use raindrop_store::StoreError;

use super::{
    context::{LeaseContext, WriteIntent},
    planted,
    state_file_writer::StateFileFailed,
};
use crate::support::{observer::LeaseOperation, store_call::ClockReading};

/// How the release at the end of a keeper ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The row is free, and its mark shows where the next lease may start.
    Done,
    /// No row was held.
    NothingHeld,
    /// The store did not answer, or another process may have the row. The state file has the lease
    /// for the next process.
    Kept,
    /// The row is not released, and expires after its ttl: the deadline passed, the disk did not
    /// answer, or another process may have the row.
    GaveUp,
}

/// Releases the row, and sets its mark to the end of the issued positions. Returns whether nothing
/// is left to do: the row is free, another process may have it, or it must expire because its lease
/// cannot be removed from the state file. Returns `false` if the store refused the write.
pub(crate) async fn release(
    row: &mut ReleasingRow<WriteIntent>,
    context: &mut LeaseContext,
) -> Result<bool, StoreError> {
    if row.known_row.is_unresolved() {
        let found = context.read_row(row.known_row.worker()).await?;
        if row.resolve(found.as_ref()) {
            return Ok(true);
        }
        planted::after_releasing_read(row, context);
    }
    if row.is_released() {
        return Ok(true);
    }
    let (lane, expiry) = (row.lanes.in_use(), RowExpiry::Released);
    let write = context.build_write(&row.known_row, &row.lanes, lane, row.mark, expiry);
    if let Some(file_writer) = &context.file_writer {
        // A process that resumed the ended lease from the file would issue beside the next holder.
        let removed = file_writer.before_write(row.known_row.worker(), &write.marks).await;
        if let Err(StateFileFailed(reason)) = removed {
            tracing::warn!(
                namespace = context.settings.namespace,
                worker = row.known_row.worker(),
                %reason,
                "row not released: the state file keeps its lease"
            );
            return Ok(true);
        }
    }
    let intent = WriteIntent {
        purpose: Purpose::Release,
        operation: LeaseOperation::Release,
        clocks: ClockReading::now(&*context.shared.clock),
        store_ms: 0,
    };
    row.sent();
    let swapped = context.swap(&mut row.known_row, write, intent).await?.is_some();
    row.answered(swapped);
    Ok(swapped)
}
