//! Events that a keeper and its issuers report, and the target of their spans.

use std::{fmt::Debug, time::Duration};

/// Defines an enum whose variants are the values of a metric's label.
#[doc(hidden)]
#[macro_export]
macro_rules! labels {
    ($(#[$doc:meta])* $visibility:vis $name:ident { $($(#[$of:meta])* $variant:ident = $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name {
            $($(#[$of])* $variant,)*
        }

        impl $name {
            /// Every value, in the order of declaration.
            $visibility const ALL: [Self; [$($label),*].len()] = [$(Self::$variant),*];

            /// Returns the value of the metric's label.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)*
                }
            }
        }
    };
}

labels! {
    /// The outcome of a claim that did not fit the present tick.
    pub Exhaustion {
        /// Answered at once, from later ticks.
        Borrowed = "borrowed",
        /// Claimed in a later tick, for which the caller waited.
        Waited = "waited",
        /// Refused.
        Refused = "refused",
    }
}

labels! {
    /// The response to a clock that went back.
    pub RollbackAction {
        /// Issuing continued at the highest tick.
        Held = "held",
        /// Another lane was leased.
        Rotated = "rotated",
        /// Another worker was leased.
        Swapped = "swapped",
        /// Issuing stopped until the clock catches up.
        Refused = "refused",
    }
}

labels! {
    /// What the keeper does with a lease: writes a row, or reads or writes the state file.
    pub LeaseOperation {
        /// Takes a free row.
        Acquire = "acquire",
        /// Raises the limit.
        Renew = "renew",
        /// Takes another lane of the row.
        Rotate = "rotate",
        /// Frees the row.
        Release = "release",
        /// Resumes the lease from the state file when the process starts.
        Resume = "resume",
        /// Writes the state file; reported only if that fails.
        Keep = "keep",
    }
}

labels! {
    /// The outcome of such an operation.
    pub LeaseOutcome {
        /// The store acknowledged it.
        Done = "done",
        /// The row's token had changed.
        Refused = "refused",
        /// The store failed. The write may have taken effect, or still may.
        Unknown = "unknown",
        /// Not tried: no row or lane is usable, the store may be a restored one, an epoch has no
        /// barrier yet, or the state file has no lease.
        NoneFree = "none_free",
        /// Not tried: the node's clock is ahead.
        ClockAhead = "clock_ahead",
    }
}

labels! {
    /// A kind of call of the store, whose duration is reported.
    pub StoreOperation {
        /// Creates or checks tables and rows.
        Prepare = "prepare",
        /// Reads rows or the clock.
        Read = "read",
        /// Compares and swaps.
        Swap = "swap",
        /// Reserves numbers, gives them back, or writes idempotency keys.
        Reserve = "reserve",
    }
}

labels! {
    /// The outcome of reserving a block of numbers.
    pub RefillOutcome {
        /// The code has another block.
        Done = "done",
        /// No numbers are left, or the store does not have the code.
        Refused = "refused",
        /// The store failed. The reservation is retried.
        Failed = "failed",
    }
}

labels! {
    /// A background task.
    pub KeeperTask {
        /// Holds the lease of a namespace.
        Lease = "lease",
        /// Serves every segment namespace of a store.
        Segments = "segment",
        /// Reserves the next block of one code.
        Refill = "refill",
    }
}

/// Receives events; every method does nothing unless it is overridden.
///
/// [`Self::ids_issued`] and [`Self::exhausted`] are called during claims and must be cheap.
pub trait Observer: Debug + Send + Sync {
    /// This many IDs were issued.
    fn ids_issued(&self, _count: u64) {}
    /// A claim did not fit the present tick.
    fn exhausted(&self, _outcome: Exhaustion) {}
    /// The clock went back. Called once for each event, not for each request.
    fn clock_rolled_back(&self, _action: RollbackAction) {}
    /// A write of a row ended.
    fn lease_operation(&self, _operation: LeaseOperation, _outcome: LeaseOutcome) {}
    /// The store failed over or was rolled back, and a new epoch began.
    fn epoch_changed(&self) {}
    /// The reservation of a block ended.
    fn segment_refilled(&self, _outcome: RefillOutcome) {}
    /// The store was prepared. Each warning names a setting by which it may lose acknowledged
    /// writes.
    fn store_prepared(&self, _warnings: &[String]) {}
    /// A step of this task panicked. The step is retried.
    fn step_panicked(&self, _task: KeeperTask) {}
    /// The store answered or failed after this time.
    fn store_operation(&self, _operation: StoreOperation, _took: Duration) {}
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// The target of every span. A span is made only where the subscriber of the program enables this
/// target at the level `DEBUG`.
pub const SPANS: &str = "raindrop_spans";
