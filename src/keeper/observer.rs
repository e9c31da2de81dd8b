//! Where a keeper and its issuer report what happens.

use std::{
    fmt::{self, Debug},
    time::Duration,
};

/// How a claim went that did not fit the present tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhaustion {
    /// Answered at once from ticks ahead.
    Borrowed,
    /// Claimed, and the caller waited for its tick.
    Waited,
    /// Refused.
    Refused,
}

/// What was done about a clock that went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollbackAction {
    /// Issuing went on at the highest tick.
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
    /// A free row was to be taken.
    Acquire,
    /// The limit was to be raised.
    Renew,
    /// Another lane of the row was to be taken.
    Rotate,
    /// The row was to be given back.
    Release,
}

/// How a write of a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// It took place.
    Done,
    /// Somebody else wrote the row before.
    Refused,
    /// The store failed, so whether it takes place is not known.
    Unknown,
    /// It was not tried: no row or lane is to be had.
    NoneFree,
    /// It was not tried: the node's clock is ahead.
    ClockAhead,
}

/// A question to the store, for its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOperation {
    /// Creating or checking tables and rows.
    Prepare,
    /// Reading rows or the clock.
    Read,
    /// A compare-and-swap.
    Swap,
    /// Reserving numbers, or giving them back.
    Reserve,
}

/// How reserving a block of numbers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefillOutcome {
    /// There is another block.
    Done,
    /// There are no numbers left, or the code is gone.
    Refused,
    /// The store failed; it is tried again.
    Failed,
}

/// A background task of a keeper.
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

/// Told what happens; every method does nothing unless it is overridden.
///
/// [`Self::ids_issued`] and [`Self::exhausted`] are called while issuing and must be cheap.
pub trait Observer: Debug + Send + Sync {
    /// IDs were answered.
    fn ids_issued(&self, _count: u64) {}
    /// A claim did not fit the present tick.
    fn exhausted(&self, _outcome: Exhaustion) {}
    /// The clock went back: once for each event, not for each request.
    fn clock_rolled_back(&self, _action: RollbackAction) {}
    /// A write of a row ended.
    fn lease_operation(&self, _operation: LeaseOperation, _outcome: LeaseOutcome) {}
    /// A block of numbers was to be reserved.
    fn segment_refilled(&self, _outcome: RefillOutcome) {}
    /// A step of this task panicked; it is tried again.
    fn step_panicked(&self, _task: KeeperTask) {}
    /// The store answered or failed.
    fn store_operation(&self, _operation: StoreOperation, _took: Duration) {}
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
