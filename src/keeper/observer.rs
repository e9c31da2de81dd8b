//! Events that a keeper and its issuers report.

use std::{
    fmt::{self, Debug},
    time::Duration,
};

/// The outcome of a claim that did not fit the present tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhaustion {
    /// Answered at once, from later ticks.
    Borrowed,
    /// Claimed in a later tick, which the caller waited for.
    Waited,
    /// Refused.
    Refused,
}

/// The response to a clock that went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollbackAction {
    /// Issuing continued at the highest tick.
    Held,
    /// Another lane was leased.
    Rotated,
    /// Another worker was leased.
    Swapped,
    /// Issuing stopped until the clock catches up.
    Refused,
}

/// A write of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOperation {
    /// Takes a free row.
    Acquire,
    /// Raises the limit.
    Renew,
    /// Takes another lane of the row.
    Rotate,
    /// Frees the row.
    Release,
}

/// The outcome of a write of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// The store acknowledged it.
    Done,
    /// The row's token had changed.
    Refused,
    /// The store failed: the write may have taken effect, or still may.
    Unknown,
    /// Not tried: no row or lane is usable.
    NoneFree,
    /// Not tried: the node's clock is ahead.
    ClockAhead,
}

/// A kind of call of the store, whose duration is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOperation {
    /// Creates or checks tables and rows.
    Prepare,
    /// Reads rows or the clock.
    Read,
    /// Compares and swaps.
    Swap,
    /// Reserves numbers, or gives them back.
    Reserve,
}

/// The outcome of reserving a block of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefillOutcome {
    /// Another block is in hand.
    Done,
    /// No numbers are left, or the code is gone.
    Refused,
    /// The store failed; the reservation is retried.
    Failed,
}

/// A background task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeeperTask {
    /// Holds the lease of a namespace.
    Lease,
    /// Serves every segment namespace of a store.
    Segments,
    /// Reserves the next block of one code.
    Refill,
}

impl fmt::Display for KeeperTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lease => "lease",
            Self::Segments => "segment",
            Self::Refill => "refill",
        })
    }
}

/// Receives events; every method does nothing unless it is overridden.
///
/// [`Self::ids_issued`] and [`Self::exhausted`] are called while issuing and must be cheap.
pub trait Observer: Debug + Send + Sync {
    /// So many IDs were issued.
    fn ids_issued(&self, _count: u64) {}
    /// A claim did not fit the present tick.
    fn exhausted(&self, _outcome: Exhaustion) {}
    /// The clock went back: called once per event, not per request.
    fn clock_rolled_back(&self, _action: RollbackAction) {}
    /// A write of a row ended.
    fn lease_operation(&self, _operation: LeaseOperation, _outcome: LeaseOutcome) {}
    /// The reservation of a block ended.
    fn segment_refilled(&self, _outcome: RefillOutcome) {}
    /// A step of this task panicked; it is retried.
    fn step_panicked(&self, _task: KeeperTask) {}
    /// The store answered or failed after this time.
    fn store_operation(&self, _operation: StoreOperation, _took: Duration) {}
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
