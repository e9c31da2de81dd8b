//! Releases rows that the process gave up, and everything else when the task is stopped.
//!
//! [`Task::stop`] first seals the grant, so that no ID is issued during the release. If there is a
//! state file and the store does not answer, the lease stays in the file for the next process.
//! Otherwise the task releases the rows, which lowers their marks. A row that it has not released
//! by the deadline expires after its ttl. Tests: `releases.rs` and `state_files.rs` in `src/tests`.

use std::time::Duration;

use raindrop_core::lease::{
    Purpose, ReleasingRow, RowExpiry,
    state::{Event, State},
};
use raindrop_store::{StoreError, with_sources};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{
    context::{LeaseContext, WriteIntent},
    planted,
    state_file_writer::StateFileFailed,
    task::Task,
};
use crate::support::{
    observer::LeaseOperation,
    random::{Attempts, SHORTEST_PAUSE},
    status::UnavailableReason,
    store_call::ClockReading,
};

/// The longest pause between attempts to release a row, since the deadline is near.
const LONGEST_RETRY: Duration = Duration::from_millis(800);
/// How many times the store must fail to answer before it counts as unavailable.
const STORE_TRIES: u32 = 3;

impl Task {
    /// Tries to release the rows that the process gave up, each a second time if the store refused
    /// the first write. A row that stays leased expires.
    pub(crate) async fn release_given_up_rows(&mut self) {
        while let Some(row) = self.releasing.last_mut() {
            let mut released = release(row, &mut self.context).await;
            if let Ok(false) = released {
                // An earlier write of this process took effect first. The next one starts from it.
                released = release(row, &mut self.context).await;
            }
            if let Err(error) = released {
                let (worker, error) = (row.known_row.worker(), with_sources(&error));
                let namespace = &self.context.settings.namespace;
                tracing::warn!(
                    namespace,
                    worker,
                    error,
                    "release failed: the row expires after its ttl"
                );
                planted::after_failed_release(self);
            }
            self.releasing.pop();
        }
    }

    /// Releases everything until the deadline. Without a deadline, lets the rows expire.
    pub(crate) async fn stop(mut self, deadline: Option<Instant>) -> Released {
        let Some(deadline) = deadline else { return Released::GaveUp };
        let state = &self.context.shared;
        state.report.send_modify(|report| report.reason = Some(UnavailableReason::ShuttingDown));
        if let Some(grant) = state.generator.grant() {
            grant.seal();
        }
        match timeout_at(deadline, self.save_for_next(deadline)).await {
            Ok(true) => return Released::Kept,
            Ok(false) => {}
            // The disk does not answer.
            Err(_) => return Released::GaveUp,
        }
        let had_lease = self.state.has_lease();
        self.enter(Event::Stopped);
        if self.releasing.is_empty() {
            if !had_lease {
                return Released::NothingHeld;
            }
            let left = timeout_at(deadline, self.leave_to_expire()).await;
            return left.unwrap_or(Released::GaveUp);
        }
        if timeout_at(deadline, self.release_all()).await.is_ok() {
            return Released::Done;
        }
        let namespace = &self.context.settings.namespace;
        tracing::warn!(namespace, "release timed out: the row expires after its ttl");
        Released::GaveUp
    }

    /// Saves the lease in the state file, up to where IDs were issued, if the store does not
    /// answer: then the row cannot be released, and the next process can resume the lease. Returns
    /// whether it did.
    async fn save_for_next(&mut self, deadline: Instant) -> bool {
        let Some(file_writer) = self.context.usable_file_writer().cloned() else { return false };
        if matches!(self.state, State::Starting) {
            // The task has not read the file's lease yet: it stays for the next process.
            return false;
        }
        if !self.state.has_lease() {
            // The file may still have a lease that was lost.
            let _ = file_writer.forget().await;
            return false;
        }
        let patience = deadline.saturating_duration_since(Instant::now()) / 2;
        let answers = async {
            for _ in 0..STORE_TRIES {
                if self.context.survey(None).await.is_ok() {
                    return true;
                }
                sleep(SHORTEST_PAUSE).await;
            }
            false
        };
        if timeout(patience, answers).await == Ok(true) {
            return false;
        }
        self.save_sealed().await
    }

    /// Lets a row expire that another process may have taken.
    async fn leave_to_expire(&self) -> Released {
        let namespace = &self.context.settings.namespace;
        tracing::warn!(namespace, "row not released: another process may have taken it");
        if self.save_sealed().await { Released::Kept } else { Released::GaveUp }
    }

    /// Saves the lease in the state file, up to where IDs were issued. Returns whether it did.
    async fn save_sealed(&self) -> bool {
        let Some(file_writer) = self.context.usable_file_writer() else { return false };
        file_writer.save_sealed().await.unwrap_or(false)
    }

    /// Releases every row, however often the store fails. The caller sets a deadline.
    async fn release_all(&mut self) {
        let mut failures = Attempts::pausing(LONGEST_RETRY);
        while let Some(row) = self.releasing.last_mut() {
            match release(row, &mut self.context).await {
                Ok(true) => drop(self.releasing.pop()),
                Ok(false) => {}
                Err(error) => {
                    let (worker, error) = (row.known_row.worker(), with_sources(&error));
                    let retry_in = failures.failed(&mut self.context.random);
                    let namespace = &self.context.settings.namespace;
                    tracing::warn!(namespace, worker, error, ?retry_in, "release failed");
                    sleep(retry_in).await;
                }
            }
        }
        if let Some(file_writer) = self.context.usable_file_writer() {
            // The next process has no use for the lease: it would find that its row was released.
            let _ = file_writer.forget().await;
        }
    }
}

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
async fn release(
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
