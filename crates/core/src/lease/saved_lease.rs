//! The lease that a process saves in its state file, so that the next process can resume it while
//! the store is away.
//!
//! A process issues below the *local mark* only, and raises it in the file before it issues beyond.
//! So a process that resumes the lease starts at the local mark and ends at the store's mark of the
//! lane: it repeats nothing, and needs no answer from the store.
//!
//! [`SavedLease::check`] decides whether a lease may be resumed, and [`next_local_mark`] how far
//! the local mark is raised. Neither reads nor writes the file. The caller makes a new local mark
//! durable before it raises the limit, and removes a lease for which [`SavedLease::is_ended_by`] is
//! true before it sends that write. Tests: `saved_lease/tests.rs`.

use std::time::Duration;

use super::{Epoch, HighWaterMarks, KnownRow, LimitRequest, Row, Token, planted};
use crate::{instant::millis, layout::Layout};

/// How far a local mark is ahead of the issued IDs on a fast disk. A write of the file may stall
/// for as long, and a process that resumes after a crash may have to wait for as long.
const REACH: Duration = Duration::from_secs(3);
/// How far it is ahead on the slowest disk that can be used.
const LONGEST_REACH: Duration = Duration::from_secs(13);
/// The local mark is raised when it is less far ahead than this.
const RAISED_BELOW: Duration = Duration::from_secs(2);

/// The lease in use, as saved in a state file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SavedLease {
    /// The worker id.
    pub worker: u64,
    /// The lane.
    pub lane: usize,
    /// The token of the last write of the row that the store acknowledged.
    pub token: Token,
    /// The epoch that this write named.
    pub epoch: Epoch,
    /// The marks that this write set; the mark of `lane` is the limit of the lease.
    pub marks: HighWaterMarks,
    /// The local mark: every position that was issued under the lease is below it.
    pub local_mark: u64,
}

/// Why a saved lease is not resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeRefusal {
    /// The lease was saved under another layout.
    #[error("its layout is `{saved}`, the configured one is `{configured}`")]
    OtherLayout {
        /// The layout under which it was saved.
        saved: String,
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
    /// The lease's range is used up: the clock or the local mark has reached its end.
    #[error("its range has ended")]
    UsedUp,
    /// The clock is further behind the issued IDs than waiting can explain.
    #[error("the clock is {behind_ms} ms behind its local mark")]
    ClockBehind {
        /// By how much the clock is behind the local mark, in ms.
        behind_ms: i64,
    },
}

/// What decides whether a saved lease is resumed.
#[derive(Clone, Copy, Debug)]
pub struct ResumeRequest<'a> {
    /// The configured layout.
    pub layout: &'a Layout,
    /// The canonical text of the layout under which the lease was saved.
    pub saved_layout: &'a str,
    /// The smallest worker id that is allowed.
    pub min_worker: u64,
    /// The largest worker id that is allowed.
    pub max_worker: u64,
    /// The wall clock, in Unix ms.
    pub now_ms: i64,
    /// How far ahead of the clock IDs may be issued or claimed, in ms.
    pub issued_ahead_ms: i64,
}

impl SavedLease {
    /// Returns where the lease ends: the mark of its lane in the store.
    pub fn limit(&self) -> u64 {
        self.marks[self.lane]
    }

    /// Checks whether the lease can be resumed.
    ///
    /// # Errors
    ///
    /// Returns the first reason why it cannot. The caller then acquires a lease from the store.
    pub fn check(&self, request: &ResumeRequest<'_>) -> Result<(), ResumeRefusal> {
        let ResumeRequest { layout, saved_layout, min_worker, max_worker, now_ms, .. } = *request;
        let configured = layout.canonical();
        if saved_layout != configured {
            return Err(ResumeRefusal::OtherLayout { saved: saved_layout.to_owned(), configured });
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
        // Refused, since a lease of another lane or worker, which the store may grant, can issue at
        // once.
        let due_ms = layout.start_of_tick_ms(layout.tick_of(self.local_mark));
        let reach_ms = request.issued_ahead_ms.saturating_add(millis(LONGEST_REACH));
        let behind_ms = due_ms.saturating_sub(now_ms);
        if behind_ms > reach_ms {
            return Err(ResumeRefusal::ClockBehind { behind_ms });
        }
        Ok(())
    }

    /// Returns what the process knew about the row. The resumed process renews by the same token.
    pub fn known_row<T>(&self) -> KnownRow<T> {
        KnownRow::of(&Row {
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
        planted::resumed_start(self.local_mark, layout, now_ms)
    }

    /// Returns whether a write of a row with these marks would let another process start below the
    /// limit of this lease. Then the lease must leave the file before that write is sent.
    pub fn is_ended_by(&self, worker: u64, marks: &HighWaterMarks) -> bool {
        let is_lowered = self.lane >= marks.lanes() || marks[self.lane] < self.limit();
        planted::is_ended(worker == self.worker && is_lowered)
    }
}

/// Returns the next local mark of a lease that ends at `limit`; `None` if the present one, which is
/// `request.old_limit`, is far enough ahead. `request.reach_ms` is the time that a slow disk adds,
/// at most 10 s.
pub fn next_local_mark(layout: &Layout, request: &LimitRequest, limit: u64) -> Option<u64> {
    let reaching = |reach: Duration| {
        // Issued IDs may be ahead of the clock: borrowed, held or waited for. Before the process
        // has issued any, only the clock counts, so that a process in a crash loop does not use the
        // lease up.
        let has_issued = request.highest_next > request.start;
        let issued_ms = layout.start_of_tick_ms(layout.tick_of(request.highest_next));
        let now_ms = if has_issued { request.now_ms.max(issued_ms) } else { request.now_ms };
        let added_ms = request.reach_ms.clamp(0, millis(LONGEST_REACH - REACH));
        let tick = layout.tick_clamped(now_ms.saturating_add(millis(reach) + added_ms));
        let end = (layout.first_position(tick) + layout.positions_per_tick()).min(limit);
        let present = layout.first_position(layout.tick_clamped(now_ms));
        let wanted = request.highest_next.max(request.start).max(present);
        let base = layout.first_position(tick).max(wanted.saturating_add(request.refused));
        // Only a sixteenth of the rest, so that crashes within a long tick do not use up the lease.
        base.saturating_add(end.saturating_sub(base).div_ceil(16)).min(end)
    };
    let next = reaching(REACH).max(request.old_limit);
    (reaching(RAISED_BELOW) > request.old_limit).then_some(next)
}

#[cfg(test)]
mod tests;
