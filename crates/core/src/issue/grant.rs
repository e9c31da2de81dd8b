//! A grant: a lease in the memory of its process.
//!
//! The keeper makes a grant after the store acknowledged the lease, raises its limit after each
//! renewal, and seals it when the lease ends. Claims on the grant never pass the limit, so a
//! process whose lease was lost unnoticed issues nothing beyond what the store granted. The grant
//! does not know the store: a keeper that raises the limit before the acknowledgement breaks step 1
//! of `docs/safety/argument.md`.
//!
//! The grant wakes the keeper when the limit refused a claim, when half of the last extension is
//! used up, and when the clock is behind the highest reading at which positions were claimed.

use std::{ops::Range, task::Waker, time::Duration};

use super::{
    Count,
    cursor::{Closed, Cursor},
    planted,
    recent_codes::InstanceId,
    rules::{ClaimTime, ClaimTimeError, Plan, Refusal, Rules},
    table::{Share, Table, TableError},
};
use crate::{
    layout::{Composer, FieldOutOfRange, Layout},
    sync::{Arc, AtomicBool, AtomicI64, AtomicU64, Mutex, Ordering, PoisonError},
};

/// A lease in memory. Worker, lane and start never change, and the limit only rises. A renewal
/// raises the limit of the same grant; a new lease always makes a new grant.
#[derive(Debug)]
pub struct Grant {
    pub(super) instance: InstanceId,
    worker: u64,
    lane: u64,
    start: u64,
    limit: AtomicU64,
    /// The high-water mark that the store acknowledged. With a state file, the limit may be lower.
    acknowledged: AtomicU64,
    composer: Composer,
    table: Table,
    /// The highest reading of the clock at which positions were claimed, or that the keeper noted.
    highest_ms: AtomicI64,
    holding: AtomicBool,
    rolled_back: AtomicBool,
    refuse_rollback: AtomicBool,
    /// What [`Self::seal`] returned first: closed cursors no longer show where they stood.
    sealed_at: Mutex<Option<u64>>,
    /// A claim that ends above this position wakes the keeper, once.
    wake_at: AtomicU64,
    /// How many positions the largest claim needed, of those that the limit refused since the last
    /// call of [`Self::take_refused`].
    refused: AtomicU64,
    waker: Waker,
}

/// A claim that was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) plan: Plan,
    pub(crate) time: ClaimTime,
    /// Whether this claim was the first to see the clock behind.
    pub(crate) hold_began: bool,
}

/// Why a claim was denied.
#[derive(Debug)]
pub(crate) enum Denied {
    Time(ClaimTimeError),
    Limit,
    /// At this reading of the clock, the sequence numbers of every tick that a caller may wait for
    /// are used up.
    Exhausted {
        retry_after: Duration,
        read_ms: i64,
    },
    /// The clock went back, and the sequence of the held tick is used up.
    RolledBack {
        behind_ms: i64,
    },
    TableFull,
    ShareUsed,
    /// The cursor was closed or the grant sealed: the caller starts over.
    Closed,
}

impl Grant {
    /// Makes a grant that starts at `start` and has that as its limit, so it issues nothing until
    /// [`Self::raise_limit`]. `waker` wakes the keeper.
    ///
    /// # Errors
    ///
    /// When the worker id or the lane does not fit the layout.
    pub fn new(
        layout: &Layout,
        worker: u64,
        lane: u64,
        start: u64,
        codes_max: usize,
        waker: Waker,
    ) -> Result<Self, FieldOutOfRange> {
        Ok(Self {
            instance: InstanceId::new(),
            worker,
            lane,
            start,
            limit: AtomicU64::new(start),
            acknowledged: AtomicU64::new(start),
            composer: layout.composer(worker, lane)?,
            table: Table::new(start, codes_max),
            highest_ms: AtomicI64::new(i64::MIN),
            holding: AtomicBool::new(false),
            rolled_back: AtomicBool::new(false),
            refuse_rollback: AtomicBool::new(false),
            sealed_at: Mutex::new(None),
            wake_at: AtomicU64::new(u64::MAX),
            refused: AtomicU64::new(0),
            waker,
        })
    }

    /// Returns the worker id of the lease.
    pub const fn worker(&self) -> u64 {
        self.worker
    }

    /// Returns the lane of the lease.
    pub const fn lane(&self) -> u64 {
        self.lane
    }

    /// Returns the first position that may be issued.
    pub const fn start(&self) -> u64 {
        self.start
    }

    pub(crate) const fn composer(&self) -> Composer {
        self.composer
    }

    /// Returns the position below which the grant issues.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// Returns the mark that the store acknowledged: the limit may rise to it without the store.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Returns the number of codes that have a cursor.
    pub fn codes(&self) -> usize {
        self.table.len()
    }

    /// Returns one past the last claimed position of any code; the start if there is none.
    pub fn highest_next(&self) -> u64 {
        // Cursors may have passed the limit, without issuing anything beyond it.
        self.table.highest_next().min(self.limit())
    }

    /// Raises the limit. Call it only after the store acknowledged the swap that raised the row's
    /// mark to `limit`. `present` is the first position of the present tick: claims wake the keeper
    /// once they pass half of what the extension adds beyond it.
    pub fn raise_limit(&self, limit: u64, present: u64) {
        self.acknowledge(limit);
        self.raise_local_limit(limit, present);
    }

    /// Records the mark that the store acknowledged, and leaves the limit unchanged: that waits for
    /// the state file.
    pub fn acknowledge(&self, mark: u64) {
        self.acknowledged.fetch_max(mark, Ordering::AcqRel);
    }

    /// Raises the limit to the mark in the state file, but not above the mark that the store
    /// acknowledged. Call it only after the file was written durably.
    pub fn raise_local_limit(&self, local_mark: u64, present: u64) {
        let limit = local_mark.min(self.acknowledged());
        let old = self.limit.fetch_max(limit, Ordering::AcqRel);
        if limit > old {
            let from = old.max(present);
            let half = from + limit.saturating_sub(from) / 2;
            self.wake_at.store(half, Ordering::Release);
        }
    }

    /// Returns how many positions the largest claim needed, of those that the limit refused since
    /// the last call; 0 if it refused none.
    pub fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::AcqRel)
    }

    /// Returns whether the last claim found the clock behind by more than `hold`.
    pub fn is_rolled_back(&self) -> bool {
        self.rolled_back.load(Ordering::Acquire)
    }

    /// Returns the highest reading of the clock, in Unix milliseconds, that a claim used or that
    /// the keeper noted.
    pub fn highest_ms(&self) -> i64 {
        self.highest_ms.load(Ordering::Acquire)
    }

    /// Notes a reading of the clock, so that a clock that goes back from there is noticed even
    /// though nothing was claimed at that reading.
    pub fn note_reading(&self, now_ms: i64) {
        self.highest_ms.fetch_max(now_ms, Ordering::AcqRel);
    }

    /// Makes the grant refuse claims while the clock is behind by more than `hold`. The keeper
    /// calls this when no other lane or worker is available.
    pub fn refuse_rollback(&self) {
        self.refuse_rollback.store(true, Ordering::Release);
    }

    /// Seals the grant: no later claim succeeds. Returns where the next lease of this lane may
    /// start, which is one past the last claimed position of any code that ever had a cursor, and
    /// at least the start. Every call returns the same position.
    pub fn seal(&self) -> u64 {
        let mut sealed_at = self.sealed_at.lock().unwrap_or_else(PoisonError::into_inner);
        // Cursors may have passed the limit, without issuing anything beyond it.
        let sealed = *sealed_at.get_or_insert_with(|| planted::seal(&self.table).min(self.limit()));
        planted::mark(sealed)
    }

    /// Returns whether the grant is sealed.
    pub fn is_sealed(&self) -> bool {
        self.sealed_at.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns the cursor of a code. To make room for a new cursor, it may evict cursors that stand
    /// before the tick of `time`.
    pub(crate) fn cursor(
        &self,
        code: &str,
        share: Option<Share<'_>>,
        time: &ClaimTime,
    ) -> Result<Arc<Cursor>, Denied> {
        self.table.cursor(code, share, time.first).map_err(|error| match error {
            TableError::Full => Denied::TableFull,
            TableError::ShareUsed => Denied::ShareUsed,
            TableError::Sealed => Denied::Closed,
        })
    }

    /// Reads the clock, and returns which positions may be claimed at that reading. Wakes the
    /// keeper when the clock has gone back by more than `hold`.
    pub(crate) fn claim_time(
        &self,
        rules: &Rules,
        read_clock: impl FnOnce() -> i64,
    ) -> Result<ClaimTime, Denied> {
        // Load this before the clock. In the other order, a thread that sleeps in between takes a
        // later reading of another thread for a clock that went back.
        let highest_ms = self.highest_ms();
        let refuse = self.refuse_rollback.load(Ordering::Acquire);
        let time = rules.claim_time(read_clock(), highest_ms, refuse).map_err(Denied::Time);
        let rolled_back = match &time {
            Ok(time) => time.rolled_back_ms.is_some(),
            Err(denied) => matches!(denied, Denied::Time(ClaimTimeError::RolledBack { .. })),
        };
        if rolled_back != self.is_rolled_back() {
            self.rolled_back.store(rolled_back, Ordering::Release);
            if rolled_back {
                self.waker.wake_by_ref();
            } else {
                self.refuse_rollback.store(false, Ordering::Release);
            }
        }
        time
    }

    /// Claims positions from a cursor of this grant, and wakes the keeper if the limit refuses
    /// them.
    pub(crate) fn claim_from(
        &self,
        cursor: &Cursor,
        time: ClaimTime,
        count: Count,
        rules: &Rules,
    ) -> Result<Granted, Denied> {
        let claimed = cursor.claim(|next| {
            let limit = self.limit();
            let count = match count {
                Count::Exactly(count) => count.into(),
                Count::UpTo(most) => rules.spare(&time, next, limit).clamp(1, most.into()),
            };
            let plan = rules.plan(&time, next, count, limit)?;
            Ok((plan, plan.end))
        });
        match claimed {
            Err(Closed) => Err(Denied::Closed),
            Ok(Ok(plan)) => {
                self.record_claim(&time, plan.end);
                Ok(Granted { plan, time, hold_began: self.note_hold(&time) })
            }
            Ok(Err(Refusal::Limit { needed })) => {
                self.refused.fetch_max(needed, Ordering::AcqRel);
                self.waker.wake_by_ref();
                Err(Denied::Limit)
            }
            Ok(Err(Refusal::Exhausted { retry_after })) => Err(match time.rolled_back_ms {
                Some(behind_ms) => Denied::RolledBack { behind_ms },
                None => Denied::Exhausted { retry_after, read_ms: time.now_ms },
            }),
        }
    }

    /// Returns which positions of the tick of `time` can be claimed without another check, and the
    /// limit.
    ///
    /// They lie below the limit, which only rises, and below the position at which a claim wakes
    /// the keeper, so a claim of them has nothing to record. The caller has claimed at `time`
    /// before.
    pub(crate) fn unchecked_positions(&self, time: &ClaimTime) -> (Range<u64>, u64) {
        let present = time.present();
        let limit = planted::limit(self.limit());
        let wake_at = self.wake_at.load(Ordering::Acquire);
        (present.start..present.end.min(limit).min(wake_at), limit)
    }

    /// Returns whether positions that were claimed below the limit may be issued at `time`, which
    /// is so if its tick has all of them. If so, records them as [`Self::record_claim`] does.
    pub(crate) fn may_issue(&self, time: &ClaimTime, claimed: &Range<u64>) -> bool {
        let present = time.present();
        let may = present.start <= claimed.start && claimed.end <= present.end;
        if may {
            self.record_claim(time, claimed.end);
        }
        may
    }

    /// Records the reading at which positions were claimed, and wakes the keeper if they pass
    /// `wake_at`. A reading without a claim does not count: a clock that jumps ahead and back does
    /// no harm unless IDs were issued in between.
    fn record_claim(&self, time: &ClaimTime, end: u64) {
        if time.now_ms > self.highest_ms.load(Ordering::Relaxed) {
            self.highest_ms.fetch_max(time.now_ms, Ordering::AcqRel);
        }
        if end > self.wake_at.load(Ordering::Relaxed)
            && self.wake_at.swap(u64::MAX, Ordering::AcqRel) != u64::MAX
        {
            self.waker.wake_by_ref();
        }
    }

    /// Records whether the clock is behind, and returns `true` for the first claim that finds it
    /// so.
    fn note_hold(&self, time: &ClaimTime) -> bool {
        if time.held == self.holding.load(Ordering::Relaxed) {
            return false;
        }
        self.holding.swap(time.held, Ordering::AcqRel) != time.held && time.held
    }
}
