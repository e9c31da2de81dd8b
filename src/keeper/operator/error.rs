//! Why an operation was refused.

use std::time::Duration;

use crate::{
    core::{
        id::Id,
        instant::format_unix_ms,
        layout::InvalidCanonical,
        lease::{InvalidRelayout, Row},
    },
    store::StoreError,
};

/// Why an operation was not carried out, or not to its end.
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
    /// Somebody wrote the row after it was read.
    #[error(
        "worker {} was written by somebody else meanwhile and is now {}; it was left as it is: run the command again if that is the one you mean",
        now.worker,
        if now.free { "free".to_owned() } else { format!("held by {}", now.holder) }
    )]
    RowChanged {
        /// The row as it is now.
        now: Box<Row>,
    },
    /// Rows were written by others again and again.
    #[error("rows are written by others all the time: stop the nodes, and run the command again")]
    Contended,
    /// A row's marks are not the layout's.
    #[error(
        "worker {worker} under reserved key {reserved_key} has {found} lanes, the layout has {expected}: put the row right first"
    )]
    OtherLanes {
        /// The worker id.
        worker: u64,
        /// The row's reserved key.
        reserved_key: String,
        /// How many marks it has.
        found: usize,
        /// How many the layout has.
        expected: usize,
    },
    /// The namespace has no layout record.
    #[error(
        "namespace {namespace} has no layout record, so nobody knows what the marks of its rows mean: restore the record, or start a node if nothing was ever issued"
    )]
    NoRecord {
        /// The namespace.
        namespace: String,
    },
    /// The record says another layout than the configuration.
    #[error(
        "namespace {namespace}: the configured layout is `{ours}`, the store's is `{recorded}`"
    )]
    LayoutConflict {
        /// The namespace.
        namespace: String,
        /// The configured layout in words.
        ours: String,
        /// The recorded layout in words.
        recorded: String,
    },
    /// A move to another layout was begun and not finished.
    #[error(
        "namespace {namespace} is being moved to the layout `{to}`: run `raindrop workers relayout` with that layout to finish it"
    )]
    Moving {
        /// The namespace.
        namespace: String,
        /// The layout that it is being moved to, in words.
        to: String,
    },
    /// Somebody else wrote the record, or it is gone.
    #[error(
        "the layout record of namespace {namespace} was changed by somebody else: it says {}",
        found.as_ref().map_or_else(|| "nothing any more".to_owned(), |words| format!("`{words}`"))
    )]
    RecordChanged {
        /// The namespace.
        namespace: String,
        /// What it says now.
        found: Option<String>,
    },
    /// The new layout's IDs would not be above everything that the old marks allow.
    #[error(
        "the largest ID that the old marks allow is {largest_old}, the smallest of the new layout from now on is {smallest_new}, which must be above it. {}",
        match from_ms {
            Some(from_ms) => format!(
                "It is from {} on, if no mark rises until then: stop the nodes, whose clean stop lowers theirs. A layout has larger IDs with more bits below its timestamp, or with an earlier epoch",
                format_unix_ms(*from_ms)
            ),
            None => "It never will be".to_owned(),
        }
    )]
    IdsTooSmall {
        /// The largest ID that the old marks allow.
        largest_old: Id,
        /// The smallest ID of the new layout from now on.
        smallest_new: Id,
        /// From when on the new layout's IDs are larger, in Unix ms; `None` for never.
        from_ms: Option<i64>,
    },
    /// The store's clock is before the new layout's epoch or past its end.
    #[error("the store's clock says {}, which is before the layout's epoch or past its end", format_unix_ms(*.now_ms))]
    OutOfRange {
        /// The store's clock, in Unix ms.
        now_ms: i64,
    },
    /// This machine's clock and the store's differ.
    #[error(
        "this machine's clock is {} ms {} the store's, more than lease.max_clock_skew ({most:?}): put the wrong one right first, because what is written now stands by the store's",
        ahead_ms.unsigned_abs(),
        if *ahead_ms > 0 { "ahead of" } else { "behind" }
    )]
    ClocksDisagree {
        /// By how much this machine's is ahead, in ms; negative: behind.
        ahead_ms: i64,
        /// What is tolerated.
        most: Duration,
    },
    /// The recorded layout cannot be read.
    #[error(transparent)]
    UnreadableLayout(#[from] InvalidCanonical),
    /// The record of a move cannot be read.
    #[error(transparent)]
    UnreadableMove(#[from] InvalidRelayout),
    /// The store failed. What was written before stands; the operation can be repeated.
    #[error(transparent)]
    Store(#[from] StoreError),
}
