//! A lease in memory.

use std::{task::Waker, time::Duration};

use super::{
    cursor::{Closed, Cursor},
    rules::{Moment, MomentError, Plan, Refusal, Rules},
    table::{Table, TableError},
};
use crate::core::{
    layout::{Composer, FieldOutOfRange, Layout},
    planted::{Bug, planted},
    sync::{Arc, AtomicBool, AtomicI64, AtomicU64, Mutex, Ordering, PoisonError},
};

/// A lease in memory: worker, lane and start never change, and the limit only rises. Renewing a
/// lease raises the limit of its grant; a new lease always makes a new grant.
#[derive(Debug)]
pub(crate) struct Grant {
    worker: u64,
    lane: u64,
    start: u64,
    limit: AtomicU64,
    composer: Composer,
    table: Table,
    /// The highest reading of the clock that positions were claimed under.
    highest_ms: AtomicI64,
    holding: AtomicBool,
    rolled_back: AtomicBool,
    refuse_rollback: AtomicBool,
    /// What sealing found: asked again, the closed cursors could not tell any more.
    sealed_at: Mutex<Option<u64>>,
    /// The keeper is woken when claims pass this position.
    wake_at: AtomicU64,
    /// The positions that the largest claim needed which the limit refused since the keeper
    /// asked last.
    refused: AtomicU64,
    waker: Waker,
}

/// What a claim was given.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) plan: Plan,
    pub(crate) moment: Moment,
    /// Whether this claim was the first to see the clock behind.
    pub(crate) hold_began: bool,
}

/// Why a claim was given nothing.
#[derive(Debug)]
pub(crate) enum Denied {
    Moment(MomentError),
    Limit,
    /// The tick, and those that can be waited for, are used up, as the clock read.
    Exhausted {
        retry_after: Duration,
        read_ms: i64,
    },
    /// The clock went back, and what can be held is used up.
    RolledBack {
        behind_ms: i64,
    },
    TableFull,
    /// The cursor was closed or the grant sealed: start over.
    Closed,
}

impl Grant {
    /// A grant from `start` on, without range yet; `waker` wakes the keeper.
    pub(crate) fn new(
        layout: &Layout,
        worker: u64,
        lane: u64,
        start: u64,
        codes_max: usize,
        waker: Waker,
    ) -> Result<Self, FieldOutOfRange> {
        Ok(Self {
            worker,
            lane,
            start,
            limit: AtomicU64::new(start),
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

    pub(crate) const fn worker(&self) -> u64 {
        self.worker
    }

    pub(crate) const fn lane(&self) -> u64 {
        self.lane
    }

    pub(crate) const fn start(&self) -> u64 {
        self.start
    }

    pub(crate) const fn composer(&self) -> Composer {
        self.composer
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    pub(crate) fn codes(&self) -> usize {
        self.table.len()
    }

    /// One past the last claimed position of any code, or the start.
    pub(crate) fn highest_next(&self) -> u64 {
        self.table.highest_next()
    }

    /// Raises the limit; only after the swap that raised the row's mark to it was confirmed.
    /// `present` is the first position of the present tick: once claims have passed half of what
    /// the extension adds to it, the keeper is woken.
    pub(crate) fn raise_limit(&self, limit: u64, present: u64) {
        let old = self.limit.fetch_max(limit, Ordering::AcqRel);
        if limit > old {
            let from = old.max(present);
            let half = from + limit.saturating_sub(from) / 2;
            self.wake_at.store(half, Ordering::Release);
        }
    }

    /// How many positions the largest claim needed that the limit refused since the last call,
    /// 0 if none was refused.
    pub(crate) fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::AcqRel)
    }

    /// Whether the clock is further behind than is held, as far as claims have seen.
    pub(crate) fn is_rolled_back(&self) -> bool {
        self.rolled_back.load(Ordering::Acquire)
    }

    /// The highest reading of the clock that positions were claimed under.
    pub(crate) fn highest_ms(&self) -> i64 {
        self.highest_ms.load(Ordering::Acquire)
    }

    /// From now on claims are refused while the clock is further behind than is held.
    pub(crate) fn refuse_rollback(&self) {
        self.refuse_rollback.store(true, Ordering::Release);
    }

    /// Closes the grant for good. Returns where the next lease of this lane may begin: one past
    /// the last claimed position of any code that ever had a cursor, and at least the start; the
    /// same however often it is called.
    pub(crate) fn seal(&self) -> u64 {
        let mut sealed_at = self.sealed_at.lock().unwrap_or_else(PoisonError::into_inner);
        let sealed = *sealed_at.get_or_insert_with(|| self.table.seal());
        if planted(Bug::LoweredToLastClaimed) { sealed.saturating_sub(1) } else { sealed }
    }

    /// Whether no claim can ever succeed again.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed_at.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Claims `count` positions for a code.
    pub(crate) fn claim(
        &self,
        code: &str,
        count: u64,
        rules: &Rules,
        read_clock: impl FnOnce() -> i64,
    ) -> Result<Granted, Denied> {
        let moment = self.moment(rules, read_clock)?;
        let cursor = self.cursor(code, &moment)?;
        self.claim_from(&cursor, moment, count, rules)
    }

    /// The cursor of a code; other codes' may have to go for it that stand below the moment's
    /// tick.
    pub(crate) fn cursor(&self, code: &str, moment: &Moment) -> Result<Arc<Cursor>, Denied> {
        self.table.cursor(code, moment.first).map_err(|error| match error {
            TableError::Full => Denied::TableFull,
            TableError::Sealed => Denied::Closed,
        })
    }

    /// What the clock says, and whether anything can be claimed under it.
    pub(crate) fn moment(
        &self,
        rules: &Rules,
        read_clock: impl FnOnce() -> i64,
    ) -> Result<Moment, Denied> {
        // Before the clock: a thread that sleeps between the two must not take another thread's
        // later reading for a clock that went back.
        let highest_ms = self.highest_ms();
        let refuse = self.refuse_rollback.load(Ordering::Acquire);
        let moment = rules.moment(read_clock(), highest_ms, refuse).map_err(Denied::Moment);
        let rolled_back = match &moment {
            Ok(moment) => moment.rolled_back_ms.is_some(),
            Err(denied) => matches!(denied, Denied::Moment(MomentError::RolledBack { .. })),
        };
        if rolled_back != self.is_rolled_back() {
            self.rolled_back.store(rolled_back, Ordering::Release);
            if rolled_back {
                self.waker.wake_by_ref();
            } else {
                self.refuse_rollback.store(false, Ordering::Release);
            }
        }
        moment
    }

    /// Claims `count` positions from a cursor of this grant.
    pub(crate) fn claim_from(
        &self,
        cursor: &Cursor,
        moment: Moment,
        count: u64,
        rules: &Rules,
    ) -> Result<Granted, Denied> {
        let claimed = cursor.claim(|next| {
            let plan = rules.plan(&moment, next, count, self.limit())?;
            Ok((plan, plan.end))
        });
        match claimed {
            Err(Closed) => Err(Denied::Closed),
            Ok(Ok(plan)) => {
                self.note(&moment, &plan);
                Ok(Granted { plan, moment, hold_began: self.note_hold(&moment) })
            }
            Ok(Err(Refusal::Limit { needed })) => {
                self.refused.fetch_max(needed, Ordering::AcqRel);
                self.waker.wake_by_ref();
                Err(Denied::Limit)
            }
            Ok(Err(Refusal::Exhausted { retry_after })) => Err(match moment.rolled_back_ms {
                Some(behind_ms) => Denied::RolledBack { behind_ms },
                None => Denied::Exhausted { retry_after, read_ms: moment.now_ms },
            }),
        }
    }

    /// Which positions of the moment's tick can be claimed one by one with nothing to check and
    /// nothing to note: they stay below the limit, which only rises, and below the position at
    /// which the keeper is woken. Positions were claimed under the moment already.
    pub(crate) fn without_check(&self, moment: &Moment) -> (u64, u64) {
        let (first, tick_end) = moment.present();
        let limit = if planted(Bug::LimitIgnored) { u64::MAX } else { self.limit() };
        (first, tick_end.min(limit).min(self.wake_at.load(Ordering::Acquire)))
    }

    /// Only readings that positions were claimed under count: a clock that jumped ahead of the
    /// limit and back again has done no harm.
    fn note(&self, moment: &Moment, plan: &Plan) {
        if moment.now_ms > self.highest_ms.load(Ordering::Relaxed) {
            self.highest_ms.fetch_max(moment.now_ms, Ordering::AcqRel);
        }
        if plan.end > self.wake_at.load(Ordering::Relaxed)
            && self.wake_at.swap(u64::MAX, Ordering::AcqRel) != u64::MAX
        {
            self.waker.wake_by_ref();
        }
    }

    fn note_hold(&self, moment: &Moment) -> bool {
        if moment.held == self.holding.load(Ordering::Relaxed) {
            return false;
        }
        self.holding.swap(moment.held, Ordering::AcqRel) != moment.held && moment.held
    }
}
