//! Why an operation failed.

use std::time::Duration;

use raindrop_core::{
    id::Id,
    instant::format_unix_ms,
    layout::InvalidCanonical,
    lease::{BarrierStays, InvalidRelayout, Row},
};
use raindrop_store::StoreError;

use crate::support::error::LayoutError;

/// Why an operation was not carried out, or not completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// No such worker id exists in the layout.
    #[error("worker {worker}: must be 0 to {largest}")]
    WorkerOutOfRange {
        /// The worker id.
        worker: u64,
        /// The largest one of the layout.
        largest: u64,
    },
    /// The store has no row of this worker id.
    #[error("worker {worker} has no row in the store: nothing was ever leased under its id")]
    NoRow {
        /// The worker id.
        worker: u64,
    },
    /// Another process wrote the row after it was read.
    #[error(
        "worker {} was written by another process meanwhile and is now {}; it was left as it is: \
         run the command again if you still mean to release it",
        now.worker,
        if now.free { "free".to_owned() } else { format!("held by {}", now.holder) }
    )]
    RowChanged {
        /// The row as it is now.
        now: Box<Row>,
    },
    /// Other processes kept writing the rows or the record.
    #[error(
        "other processes keep writing the rows or the layout record: stop the nodes, and run the \
         command again"
    )]
    Contended,
    /// A row has other lanes than the layout.
    #[error(
        "worker {worker} under reserved key {reserved_key} has {found} lanes, the layout has \
         {expected}: correct the row first"
    )]
    OtherLanes {
        /// The worker id.
        worker: u64,
        /// The row's reserved key.
        reserved_key: String,
        /// Number of marks in the row.
        found: usize,
        /// Number of lanes of the layout.
        expected: usize,
    },
    /// The namespace has no layout record.
    #[error(
        "namespace {namespace} has no layout record, which says what the marks of its rows mean: \
         restore the record, or start a node if nothing was ever issued"
    )]
    NoRecord {
        /// The namespace.
        namespace: String,
    },
    /// The namespace's layout record does not allow the configured layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Another process changed the record, or it is not there.
    #[error(
        "another process changed the layout record of namespace {namespace}: it {}",
        found.as_ref().map_or_else(|| "is gone".to_owned(), |text| format!("is now `{text}`"))
    )]
    RecordChanged {
        /// The namespace.
        namespace: String,
        /// The text of the record now.
        found: Option<String>,
    },
    /// The new layout's IDs would not be above everything that the old marks allow.
    #[error(
        "the largest ID that the old marks allow is {largest_old}, the smallest of the new layout \
         from now on is {smallest_new}; it must be larger. {}",
        match from_ms {
            Some(from_ms) => format!(
                "It will be from {} on, if no mark rises until then: stop the nodes, which lower \
                 their marks in a clean stop. More bits below the timestamp, or an earlier epoch, \
                 make a layout's IDs larger",
                format_unix_ms(*from_ms)
            ),
            None => "It never will be".to_owned(),
        }
    )]
    IdsTooSmall {
        /// The largest ID that the old marks allow.
        largest_old: Id,
        /// The smallest ID that the new layout can issue now.
        smallest_new: Id,
        /// The instant, in Unix ms, from which the new layout's IDs are larger; `None` if they
        /// never are.
        from_ms: Option<i64>,
    },
    /// The store's clock is before the new layout's epoch or past its end.
    #[error("the store's clock says {}, which is before the layout's epoch or past its end", format_unix_ms(*.now_ms))]
    OutOfRange {
        /// The store's clock, in Unix ms.
        now_ms: i64,
    },
    /// This machine's clock and the store's differ too much.
    #[error(
        "this machine's clock is {} ms {} the store's, more than lease.max_clock_skew ({most:?}): \
         correct the wrong clock first: the new marks follow the store's clock and cannot be \
         lowered",
        ahead_ms.unsigned_abs(),
        if *ahead_ms > 0 { "ahead of" } else { "behind" }
    )]
    ClocksDisagree {
        /// By how much this machine's clock is ahead, in ms; negative if it is behind.
        ahead_ms: i64,
        /// The largest allowed difference.
        most: Duration,
    },
    /// Correct clocks may have set the barrier, or another epoch is due.
    #[error("the barrier of namespace {namespace} stays: {why}")]
    BarrierStays {
        /// The namespace.
        namespace: String,
        /// Why it is not lowered.
        why: BarrierStays,
    },
    /// The recorded layout cannot be read.
    #[error(transparent)]
    UnreadableLayout(#[from] InvalidCanonical),
    /// The record of a move cannot be read.
    #[error(transparent)]
    UnreadableMove(#[from] InvalidRelayout),
    /// The store failed. Earlier writes stand, and the operation can be repeated.
    #[error(transparent)]
    Store(#[from] StoreError),
}
