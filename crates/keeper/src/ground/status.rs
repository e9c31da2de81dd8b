//! The state of a namespace, for health checks and people.

use std::sync::Arc;

use raindrop_core::{
    instant::{format_unix_ms, format_unix_ms_or_year},
    issue::ClaimError,
};
use raindrop_store::{StoreError, with_sources};

/// Why no ID can be issued, or why issuing will soon stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnavailableReason {
    /// The first lease is being acquired, or the codes are being created.
    #[error("starting: nothing is leased or reserved yet")]
    Starting,
    /// Every row is held, or its marks are ahead.
    #[error(
        "no worker id is free; the first may come free at {}, or once raindrop workers release frees \
         the worker id of a process that is gone",
        format_unix_ms_or_year(*.due_ms)
    )]
    NoFreeWorker {
        /// When the first row or lane comes due, in Unix ms.
        due_ms: i64,
    },
    /// The store failed over: what it lost may have leased IDs up to this instant, in Unix ms.
    #[error(
        "the store failed over and may have lost writes: new leases begin at {}",
        format_unix_ms(*.due_ms)
    )]
    FailedOver {
        /// When the first new lease begins, in Unix ms.
        due_ms: i64,
    },
    /// An epoch began by a clock that was ahead, so new leases begin as late.
    #[error(
        "an epoch began by a clock that was ahead: new leases begin at {}, unless an operator lowers the \
         barrier (raindrop workers raise --barrier now)",
        format_unix_ms_or_year(*.due_ms)
    )]
    BarrierFarAhead {
        /// When the first new lease begins, in Unix ms.
        due_ms: i64,
    },
    /// No holder renewed for longer than live ones do: either none lives, or the store was restored and
    /// does not show those that live. They have until then to write their rows.
    #[error(
        "no lease was renewed since {}, when {} was: after a crash of every node, an outage or a \
         restore of the store, leases wait for lease.stale_wait, until {}",
        format_unix_ms(*.renewed_ms),
        row_name(*worker, reserved_key),
        format_unix_ms(*.due_ms)
    )]
    StaleStore {
        /// The worker id of that lease.
        worker: u64,
        /// Width and value of the reserved bits of its IDs, `1/0` for example.
        reserved_key: String,
        /// When the last lease was renewed that was not released, in Unix ms of the store's clock.
        renewed_ms: i64,
        /// When the first lease may begin or be extended, in Unix ms.
        due_ms: i64,
    },
    /// The store fails.
    #[error("the store is unavailable: {0}")]
    StoreUnavailable(StoreFailure),
    /// The row, the code or the namespace's record vanished from the store, the code's next number
    /// went back, or the record names another layout. The keeper looks again every 5 s.
    #[error(
        "rows or records of this process are missing from the store, went back or name another layout: repair the store"
    )]
    StoreLost,
    /// The node's clock is ahead by this many ms.
    #[error("the clock is {0} ms ahead: no lease is acquired or renewed until it is corrected")]
    ClockAhead(i64),
    /// The store failed over, and the node's clock differs from the store's by so many ms, which is too
    /// much to tell up to when a lost write may have leased; negative if it is behind.
    #[error(
        "the store failed over, and the clocks differ too much to begin new leases, so that those in hand \
         are used up: the node's is {0} ms ahead of the store's (below 0: behind); mend the one that is \
         wrong"
    )]
    ClocksDiffer(i64),
    /// The clock went back further than `rollback.hold`, and no other lane or worker is free.
    #[error("the clock went back, and no other lane or worker id is available")]
    ClockWentBack,
    /// The clock is before the layout's epoch or past the timestamp's end.
    #[error("the clock is before the layout's epoch or past its end")]
    ClockOutOfRange,
    /// The lease is used up to its limit, and its renewal is under way.
    #[error("the lease is used up; its renewal is under way")]
    LimitReached,
    /// A segment code has no numbers left. This is permanent.
    #[error("the code has no numbers left")]
    NumbersUsedUp,
    /// After a fail-over, a segment code has fewer numbers left than must be skipped. This is
    /// permanent.
    #[error(
        "the store failed over and may have lost reservations, and the code has no numbers beyond \
         those that segment.failover_gap skips"
    )]
    NumbersSkipped,
    /// A code was not created.
    #[error(transparent)]
    CodeRefused(ClaimError),
    /// The state file failed, for this reason.
    #[error("the state file failed: {0}; the next lease is not kept in it")]
    NotKept(Arc<str>),
    /// The keeper's task has ended: its handle was dropped, or the runtime that it was started on was
    /// shut down. What is leased or reserved is used up.
    #[error(
        "the keeper has ended, because it was dropped or its runtime was shut down: nothing more is \
         leased or reserved; keep the keeper and its runtime for as long as IDs are issued"
    )]
    KeeperEnded,
    /// The lease is being released.
    #[error("the service is shutting down")]
    ShuttingDown,
}

impl UnavailableReason {
    /// Returns the reason for those who may not know where the store is: how the store fails is one
    /// of a few texts.
    pub fn public_text(&self) -> String {
        match self {
            Self::StoreUnavailable(failure) => {
                format!("the store is unavailable: {}", failure.kind)
            }
            Self::NotKept(_) => "the state file failed".to_owned(),
            other => other.to_string(),
        }
    }
}

/// Names a row for people; without its reserved bits where there are none.
fn row_name(worker: u64, reserved_key: &str) -> String {
    match reserved_key.split_once('/') {
        Some((width, value)) if width != "0" => {
            format!(
                "worker id {worker} with layout.reserved_bits {width} and reserved_value {value}"
            )
        }
        _ => format!("worker id {worker}"),
    }
}

/// How the store fails; its text may name the server, the user and the database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct StoreFailure {
    kind: &'static str,
    detail: String,
}

impl StoreFailure {
    /// A panic of the process.
    pub(crate) fn of_panic(panic: &str) -> Self {
        let detail = format!("internal error: {panic}");
        Self { kind: "internal error, which was logged", detail }
    }

    /// A failure that nothing more is known about.
    pub(crate) fn of_kind(kind: &'static str) -> Self {
        Self { kind, detail: kind.to_owned() }
    }
}

impl From<&StoreError> for StoreFailure {
    fn from(error: &StoreError) -> Self {
        Self { kind: error.kind(), detail: with_sources(error) }
    }
}

/// The lease that IDs are issued from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The worker id.
    pub worker: u64,
    /// The lane.
    pub lane: u64,
    /// The instant up to which the lease reaches without the store, in Unix ms.
    pub valid_until_ms: i64,
    /// Whether a position is left between the present instant and the limit.
    pub has_range: bool,
}

/// A snapshot of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The lease that is held, or whose range is being used up.
    pub lease: Option<LeaseView>,
    /// Why the namespace is, or soon will be, unable to issue. While the lease has range left, IDs
    /// are still issued.
    pub reason: Option<UnavailableReason>,
    /// How far the node's clock is ahead of the store's, in ms; negative when behind.
    pub clock_ahead_ms: i64,
    /// Rows held by any node, as last seen.
    pub workers_held: u64,
    /// Rows that are free, as last seen, and worker ids whose rows are still to be created.
    pub workers_free: u64,
    /// How many codes have a cursor; 1 where all share one.
    pub codes: usize,
}

impl Status {
    /// Returns whether IDs can be issued now.
    pub fn is_issuing(&self) -> bool {
        self.lease.is_some_and(|lease| lease.has_range)
            && !matches!(
                self.reason,
                Some(
                    UnavailableReason::ShuttingDown
                        | UnavailableReason::ClockOutOfRange
                        | UnavailableReason::ClockWentBack
                )
            )
    }
}
