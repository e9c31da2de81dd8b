//! The lease in hand as a process keeps it outside the store, so that the next process can resume
//! it while the store is away.
//!
//! A process issues below the *local mark* only, and raises it in its state file before it issues
//! beyond. So whoever resumes a lease of a process that has ended starts at that mark, and ends
//! where the store's mark of the lane ends the lease.

use std::time::Duration;

use super::{Epoch, HighWaterMarks, LimitRequest, Row, Tenure, Token};
use crate::{
    instant::millis,
    layout::Layout,
    planted::{Bug, planted},
};

/// How far a local mark reaches ahead of what is issued, on a fast disk: as long a write may stall,
/// and as long a process that resumes after a crash may have to wait.
const REACH: Duration = Duration::from_secs(3);
/// How far it reaches ahead on the slowest disk that is used.
const LONGEST_REACH: Duration = Duration::from_secs(13);
/// The local mark is raised when it reaches less far ahead than this.
const RAISED_BELOW: Duration = Duration::from_secs(2);

/// The lease in hand, as a state file keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeptLease {
    /// The worker id.
    pub worker: u64,
    /// The lane.
    pub lane: usize,
    /// The token of the last write of the row that the store acknowledged.
    pub token: Token,
    /// The epoch that this write named.
    pub epoch: Epoch,
    /// The marks that this write set; the one of the lane is the limit of the lease.
    pub marks: HighWaterMarks,
    /// Everything that was issued under the lease is below this position.
    pub local_mark: u64,
}

/// Why a kept lease is not resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeRefusal {
    /// It was made under another layout.
    #[error("its layout is `{kept}`, the configured one is `{configured}`")]
    OtherLayout {
        /// The layout that it was made under.
        kept: String,
        /// The configured layout.
        configured: String,
    },
    /// The configuration does not allow its worker id.
    #[error("its worker id is {worker}, allowed are {min} to {max}")]
    OtherWorker {
        /// Its worker id.
        worker: u64,
        /// The smallest worker id that is allowed.
        min: u64,
        /// The largest one.
        max: u64,
    },
    /// Its values contradict each other.
    #[error("its marks contradict each other or the layout")]
    Inconsistent,
    /// Nothing is left of it at the present time.
    #[error("its range has ended")]
    UsedUp,
    /// The clock shows an earlier time than IDs were issued under.
    #[error("the clock is {behind_ms} ms behind its local mark")]
    ClockBehind {
        /// By how much, in ms.
        behind_ms: i64,
    },
}

/// What decides whether a kept lease is resumed.
#[derive(Clone, Copy, Debug)]
pub struct ResumeRequest<'a> {
    /// The configured layout.
    pub layout: &'a Layout,
    /// The canonical text of the layout that the lease was made under.
    pub kept_layout: &'a str,
    /// The smallest worker id that is allowed.
    pub min_worker: u64,
    /// The largest worker id that is allowed.
    pub max_worker: u64,
    /// The wall clock, in Unix ms.
    pub now_ms: i64,
    /// How far ahead of the clock IDs may be issued or claimed, in ms.
    pub issued_ahead_ms: i64,
}

impl KeptLease {
    /// Where the lease ends: the mark of its lane in the store.
    pub fn limit(&self) -> u64 {
        self.marks[self.lane]
    }

    /// Checks whether the lease can be resumed.
    ///
    /// # Errors
    ///
    /// The first reason why it cannot; the caller then acquires a lease from the store.
    pub fn check(&self, request: &ResumeRequest<'_>) -> Result<(), ResumeRefusal> {
        let ResumeRequest { layout, kept_layout, min_worker, max_worker, now_ms, .. } = *request;
        let configured = layout.canonical();
        if kept_layout != configured {
            return Err(ResumeRefusal::OtherLayout { kept: kept_layout.to_owned(), configured });
        }
        let (worker, min, max) = (self.worker, min_worker, max_worker);
        if !(min..=max).contains(&worker) {
            return Err(ResumeRefusal::OtherWorker { worker, min, max });
        }
        let has_lanes = self.marks.lanes() == layout.lanes() && self.lane < layout.lanes();
        if !has_lanes || self.local_mark > self.limit() || self.limit() > layout.end_position() {
            return Err(ResumeRefusal::Inconsistent);
        }
        let now = layout.first_position(layout.tick_clamped(now_ms));
        if self.local_mark == self.limit() || self.limit() <= now {
            return Err(ResumeRefusal::UsedUp);
        }
        // A lease of another lane or worker, which the store may have, can issue at once.
        let due_ms = layout.start_of_tick_ms(layout.tick_of(self.local_mark));
        let reach_ms = request.issued_ahead_ms.saturating_add(millis(LONGEST_REACH));
        let behind_ms = due_ms.saturating_sub(now_ms);
        if behind_ms > reach_ms {
            return Err(ResumeRefusal::ClockBehind { behind_ms });
        }
        Ok(())
    }

    /// Returns what its process knew about the row: the resumed process renews by the same token.
    pub fn tenure<T>(&self) -> Tenure<T> {
        Tenure::of(&Row {
            worker: self.worker,
            token: self.token,
            holder: String::new(),
            lane: self.lane,
            marks: self.marks.clone(),
            free: false,
            epoch: self.epoch.token,
            heartbeat_ms: 0,
            expires_ms: 0,
        })
    }

    /// Returns where a process that resumes the lease starts.
    pub fn start(&self, layout: &Layout, now_ms: i64) -> u64 {
        if planted(Bug::ResumedAtClock) {
            return layout.first_position(layout.tick_clamped(now_ms));
        }
        self.local_mark
    }

    /// Whether a write of a row with these marks would let another process begin below the limit of
    /// this lease: then no file may keep it any more when that write is sent.
    pub fn is_ended_by(&self, worker: u64, marks: &HighWaterMarks) -> bool {
        worker == self.worker
            && (self.lane >= marks.lanes() || marks[self.lane] < self.limit())
            && !planted(Bug::KeptWhileLowered)
    }
}

/// Returns the next local mark of a lease that ends at `limit`; `None` when the present one, which
/// is the request's old limit, reaches far enough. The request's reach is what a slow disk adds; at
/// most 10 s count.
pub fn next_local_mark(layout: &Layout, request: &LimitRequest, limit: u64) -> Option<u64> {
    let reaching = |reach: Duration| {
        // What is issued may be ahead of the clock: borrowed, held, or waited for. Before anything is
        // issued the clock alone counts, so that a crash loop does not use the lease up.
        let has_issued = request.highest_next > request.start;
        let issued_ms = layout.start_of_tick_ms(layout.tick_of(request.highest_next));
        let now_ms = if has_issued { request.now_ms.max(issued_ms) } else { request.now_ms };
        let added_ms = request.reach_ms.clamp(0, millis(LONGEST_REACH - REACH));
        let tick = layout.tick_clamped(now_ms.saturating_add(millis(reach) + added_ms));
        let end = (layout.first_position(tick) + layout.positions_per_tick()).min(limit);
        let present = layout.first_position(layout.tick_clamped(now_ms));
        let wanted = request.highest_next.max(request.start).max(present);
        let base = layout.first_position(tick).max(wanted.saturating_add(request.refused));
        // A part of what is left, so that crashes within a long tick leave something of the lease.
        base.saturating_add(end.saturating_sub(base).div_ceil(16)).min(end)
    };
    let next = reaching(REACH).max(request.old_limit);
    (reaching(RAISED_BELOW) > request.old_limit).then_some(next)
}

#[cfg(test)]
mod tests;
