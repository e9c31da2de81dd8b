//! The state of a namespace, for health checks and people, and the log of a store that fails.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Every row is held, or has marks ahead of the clock.
    #[error(
        "no worker id is free; the first may come free at {}, or once raindrop workers release \
         frees the worker id of a process that is gone",
        format_unix_ms_or_year(*.due_ms)
    )]
    NoFreeWorker {
        /// When the first row or lane comes due, in Unix ms.
        due_ms: i64,
    },
    /// The store failed over. Lost writes may have leased IDs up to `due_ms`.
    #[error(
        "the store failed over and may have lost writes: new leases begin at {}",
        format_unix_ms(*.due_ms)
    )]
    FailedOver {
        /// When the first new lease begins, in Unix ms.
        due_ms: i64,
    },
    /// An epoch began by a clock that was ahead, so new leases begin only at `due_ms`.
    #[error(
        "an epoch began by a clock that was ahead: new leases begin at {}, unless an operator \
         lowers the barrier (raindrop workers raise --barrier now)",
        format_unix_ms_or_year(*.due_ms)
    )]
    BarrierFarAhead {
        /// When the first new lease begins, in Unix ms.
        due_ms: i64,
    },
    /// No holder has renewed for longer than a living one takes. Either every node crashed, or the
    /// store was restored and does not show the living holders yet. Living holders have until
    /// `due_ms` to write their rows.
    #[error(
        "no lease was renewed since {}, when {} was: after a crash of every node, an outage or a \
         restore of the store, leases wait for lease.stale_wait, until {}",
        format_unix_ms(*.renewed_ms),
        row_name(worker, reserved_key),
        format_unix_ms(*.due_ms)
    )]
    StaleStore {
        /// The worker id of the last renewed lease, or why it cannot be read: where it is stored,
        /// its value, and the way out.
        worker: Result<u64, String>,
        /// Width and value of the layout's reserved bits, for example `1/0`.
        reserved_key: String,
        /// When that lease was last renewed, in Unix ms of the store's clock. Released leases do
        /// not count.
        renewed_ms: i64,
        /// When a lease may begin or be extended again, in Unix ms.
        due_ms: i64,
    },
    /// Calls of the store fail.
    #[error("the store is unavailable: {0}")]
    StoreUnavailable(StoreFailure),
    /// The row, the code or the namespace's record is not in the store any more, the code's next
    /// number is lower than before, or the record names another layout. The keeper creates a
    /// missing row or record again at once, and otherwise looks again every 5 s.
    #[error(
        "rows or records of this process are missing from the store, went back or name another \
         layout: repair the store"
    )]
    StoreLost,
    /// The node's clock is ahead by this many ms.
    #[error("the clock is {0} ms ahead: no lease is acquired or renewed until it is corrected")]
    ClockAhead(i64),
    /// The store failed over. The node's clock differs from the store's by this many ms (negative
    /// if it is behind), too much to know up to when a lost write may have leased.
    #[error(
        "the store failed over, and the clocks differ too much to begin new leases, so that those \
         in hand are used up: the node's is {0} ms ahead of the store's (below 0: behind); mend \
         the one that is wrong"
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
    /// A segment code has no numbers left. Permanent.
    #[error("the code has no numbers left")]
    NumbersUsedUp,
    /// After a fail-over, a segment code has fewer numbers left than must be skipped. Permanent.
    #[error(
        "the store failed over and may have lost reservations, and the code has no numbers beyond \
         those that failover_gap skips"
    )]
    NumbersSkipped,
    /// This node cannot read the code's settings in the store, and knew none before. A newer
    /// version may have written them.
    #[error(
        "the code's settings in the store are of a newer version; a node of that version issues \
         for it"
    )]
    UnreadableSettings,
    /// The code was not created, or an operator retired it.
    #[error(transparent)]
    CodeRefused(ClaimError),
    /// The state file failed, for this reason.
    #[error("the state file failed: {0}; the next lease is not kept in it")]
    NotKept(Arc<str>),
    /// The keeper's task has ended, because its handle was dropped or its runtime was shut down.
    /// Leased and reserved numbers can still be issued.
    #[error(
        "the keeper has ended, because it was dropped or its runtime was shut down: nothing more \
         is leased or reserved; keep the keeper and its runtime for as long as IDs are issued"
    )]
    KeeperEnded,
    /// The lease is being released.
    #[error("the service is shutting down")]
    ShuttingDown,
}

impl UnavailableReason {
    /// Returns the reason in a text for clients that may not know where the store is. A failure of
    /// the store is one of a few texts.
    pub fn public_text(&self) -> String {
        match self.clone() {
            Self::StaleStore { worker: Err(_), reserved_key, renewed_ms, due_ms } => {
                let worker = Err("the log says which".to_owned());
                Self::StaleStore { worker, reserved_key, renewed_ms, due_ms }.to_string()
            }
            Self::StoreUnavailable(failure) => {
                format!("the store is unavailable: {}", failure.kind)
            }
            Self::NotKept(_) => "the state file failed".to_owned(),
            other => other.to_string(),
        }
    }
}

/// Names a row for people, without its reserved bits if it has none.
fn row_name(worker: &Result<u64, String>, reserved_key: &str) -> String {
    let worker = match worker {
        Ok(worker) => worker,
        Err(reason) => return format!("a row that cannot be read ({reason})"),
    };
    match reserved_key.split_once('/') {
        Some((width, value)) if width != "0" => {
            format!(
                "worker id {worker} with layout.reserved_bits {width} and reserved_value {value}"
            )
        }
        _ => format!("worker id {worker}"),
    }
}

/// A failure of the store. Its text may name the server, the user and the database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct StoreFailure {
    kind: &'static str,
    detail: String,
}

impl StoreFailure {
    /// Returns the failure for a panic of this process.
    pub(crate) fn of_panic(panic: &str) -> Self {
        let detail = format!("internal error: {panic}");
        Self { kind: "internal error, which was logged", detail }
    }

    /// Returns a failure of this kind, of which nothing more is known.
    pub(crate) fn of_kind(kind: &'static str) -> Self {
        Self { kind, detail: kind.to_owned() }
    }
}

impl From<&StoreError> for StoreFailure {
    fn from(error: &StoreError) -> Self {
        Self { kind: error.kind(), detail: with_sources(error) }
    }
}

/// The lease from which IDs are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The worker id.
    pub worker: u64,
    /// The lane.
    pub lane: u64,
    /// The instant up to which IDs can be issued without the store, in Unix ms.
    pub valid_until_ms: i64,
    /// Whether a position is left between the present instant and the limit.
    pub has_range: bool,
}

/// A snapshot of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The lease that is held, or that the process still issues from until its limit.
    pub lease: Option<LeaseView>,
    /// Why the namespace is, or soon will be, unable to issue. While the lease has range left, IDs
    /// are still issued.
    pub reason: Option<UnavailableReason>,
    /// By how much the node's clock is ahead of the store's, in ms; negative if it is behind.
    pub clock_ahead_ms: i64,
    /// Number of rows that nodes hold, as last seen.
    pub workers_held: u64,
    /// Number of free rows as last seen, and of worker ids whose rows are not created yet.
    pub workers_free: u64,
    /// Number of codes that have a cursor; 1 if all codes share one.
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

/// Logs when calls of the store for one purpose begin to fail, fail in another way, or succeed
/// again; not every attempt in between. Failures whose texts differ only in numbers count as the
/// same: the text for an expired certificate says for how many seconds it has been expired.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Option<StoreFailure>>);

impl FailureLog {
    pub(crate) fn failed(&self, namespace: &str, error: &StoreFailure) {
        let mut last = self.last();
        if last.as_ref().is_none_or(|last| without_numbers(last) != without_numbers(error)) {
            tracing::warn!(namespace, %error, "store failed");
        }
        *last = Some(error.clone());
    }

    pub(crate) fn succeeded(&self, namespace: &str) {
        if self.last().take().is_some() {
            tracing::info!(namespace, "store answers again");
        }
    }

    /// Returns whether the last attempt failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.last().is_some()
    }

    fn last(&self) -> MutexGuard<'_, Option<StoreFailure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the text of a failure without its numbers.
fn without_numbers(failure: &StoreFailure) -> String {
    failure.to_string().replace(|letter: char| letter.is_ascii_digit(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_alone_make_no_other_failure() {
        let text = |text: &'static str| without_numbers(&StoreFailure::of_kind(text));
        assert_eq!(text("expired (9 seconds ago)"), text("expired (25 seconds ago)"));
        assert_ne!(text("expired (9 seconds ago)"), text("refused (9 seconds ago)"));
    }
}
