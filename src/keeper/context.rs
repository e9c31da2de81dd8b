//! The keeper's tools: the store with deadlines and timings, the clock, randomness.

use std::{fmt, sync::Arc, time::Duration};

use rand::Rng;
use tokio::sync::Notify;

use super::{
    KeeperSettings, LeaseOperation, LeaseOutcome, StoreOperation, Trouble, ask,
    random::{self, Random, fresh_token},
    shared::{Shared, waker},
};
#[cfg(raindrop_planted)]
use crate::core::planted::{Bug, planted};
use crate::{
    core::{
        issue::Grant,
        lease::{
            ClockCheck, ClockVerdict, HeldLanes, Lease, Purpose, Resolution, Row, RowExpiry,
            RowWrite, StoreReading, Tenure, Token, judge_clock, next_token,
        },
    },
    store::{Scope, Store, StoreError, Survey, with_sources},
};

/// How far the first lease of a process reaches, so that a crash loop burns seconds, not the
/// whole window.
const FIRST_REACH: Duration = Duration::from_secs(10);

pub(super) struct Context {
    pub(super) settings: KeeperSettings,
    pub(super) scope: Scope,
    pub(super) store: Arc<dyn Store>,
    pub(super) shared: Arc<Shared>,
    pub(super) bell: Arc<Notify>,
    /// Our layout in words.
    pub(super) words: String,
    pub(super) random: Random,
}

/// What a write was for, and the clocks that were judged for it, kept until it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) purpose: Purpose,
    pub(super) operation: LeaseOperation,
    pub(super) judged: Stamp,
}

/// What became of the writes of a row whose outcome was unknown.
#[derive(Debug)]
pub(super) enum Settled {
    /// None took effect. One may still arrive, which the next write refuses.
    Unchanged,
    /// One took effect.
    Acknowledged(Sent),
    /// The row changed meanwhile; worth another look.
    Overtaken,
    /// Somebody else wrote the row, or the store lost what it had shown.
    Lost,
    /// The row is gone, or was created again.
    Vanished,
}

/// How a swap ended.
#[derive(Debug)]
pub(super) enum Swapped {
    Done(Sent),
    /// The token had changed.
    Refused,
    /// The store failed: it may have taken place, or may still.
    Unknown(StoreError),
}

/// The clocks when they were judged for a write. Had they been read when its outcome became
/// known, a jump in between would go unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    wall_ms: i64,
    steady: Duration,
}

/// What the store says about the scope and its clock, and whether the node's clock is trusted.
pub(super) struct Surveyed {
    pub(super) survey: Survey,
    pub(super) verdict: ClockVerdict,
    /// The instant that limits are computed from.
    pub(super) now_ms: i64,
    /// The clocks that were judged.
    pub(super) judged: Stamp,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Context {
    pub(super) fn new(
        settings: KeeperSettings,
        store: Arc<dyn Store>,
        shared: Arc<Shared>,
        random: Random,
    ) -> Self {
        let scope = Scope::new(
            &settings.namespace,
            &settings.layout,
            settings.min_worker,
            settings.max_worker,
        );
        let words = settings.layout.canonical();
        Self { words, settings, scope, store, shared, bell: Arc::default(), random }
    }

    pub(super) fn stamp(&self) -> Stamp {
        let clock = &self.shared.clock;
        Stamp { wall_ms: clock.now_ms(), steady: clock.steady() }
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    pub(super) fn random_number(&mut self) -> u64 {
        self.random.next_u64()
    }

    pub(super) fn jittered(&mut self, duration: Duration) -> Duration {
        random::jittered(&mut self.random, duration)
    }

    /// Asks the store, bounded and timed.
    pub(super) async fn ask<T>(
        &self,
        operation: StoreOperation,
        question: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        ask(&*self.shared.observer, operation, question).await
    }

    /// Reads the store's clock and judges the node's by it, and, while a lease is held, by the
    /// steady clock since its last write.
    pub(super) async fn survey(&self, renewed: Option<&Stamp>) -> Result<Surveyed, StoreError> {
        let sent = self.stamp();
        let survey = self.ask(StoreOperation::Read, self.store.survey(&self.scope)).await?;
        let now = self.stamp();
        let store_ms = survey.now_ms;
        // As the clock shows it now: one that stepped meanwhile must not pass for what it was.
        let sent_ms = now.wall_ms.saturating_sub(millis(now.steady.saturating_sub(sent.steady)));
        let reading = StoreReading { sent_ms, store_ms, received_ms: now.wall_ms };
        let local = self.store.clock_is_local();
        let max_skew = self.settings.lease.max_clock_skew;
        let verdict = judge_clock(&ClockCheck {
            store: (!local).then_some(reading),
            ahead_since_renewal_ms: renewed.map(|renewed| {
                let elapsed = millis(now.steady.saturating_sub(renewed.steady));
                now.wall_ms.saturating_sub(renewed.wall_ms).saturating_sub(elapsed)
            }),
            max_skew,
        });
        self.shared.report.send_if_modified(|report| {
            report.clock_ahead_ms = if local { 0 } else { reading.node_ahead_ms() };
            (report.workers_held, report.workers_free) = (survey.held, survey.free);
            false
        });
        // A store whose clock is known to be wrong has no say in how far a lease reaches.
        let bounded_by_store = !local && !matches!(verdict, ClockVerdict::StoreBehind(_));
        let bound = store_ms.saturating_add(millis(max_skew));
        let now_ms = if bounded_by_store { now.wall_ms.min(bound) } else { now.wall_ms };
        Ok(Surveyed { survey, verdict, now_ms, judged: now })
    }

    /// Whether the last survey saw every row of the scope.
    pub(super) fn has_all_rows(&self) -> bool {
        let report = self.shared.report.borrow();
        report.workers_held + report.workers_free >= self.scope.workers()
    }

    /// Whether the namespace's record is there and says what we issue by. Otherwise the rows that
    /// stand in the store now are not ours to take.
    pub(super) fn is_recorded(&self, surveyed: &Surveyed) -> bool {
        surveyed.survey.record.as_deref() == Some(self.words.as_str())
    }

    /// How far a lease reaches: little until this process renews one.
    pub(super) fn reach_ms(&self, whole_window: bool) -> i64 {
        let window = self.settings.lease.window;
        millis(if whole_window { window } else { window.min(FIRST_REACH) })
    }

    /// The write of a new lease on a lane, from the mark that the tenure knows.
    pub(super) fn lease_write(
        &mut self,
        tenure: &Tenure<Sent>,
        lanes: &HeldLanes,
        lane: usize,
        surveyed: &Surveyed,
        reach_ms: i64,
        operation: LeaseOperation,
    ) -> (RowWrite, Sent) {
        let (layout, marks) = (&self.settings.layout, tenure.marks());
        let now_ms = surveyed.now_ms;
        let lease = Lease::from_mark(layout, marks, lane, now_ms, reach_ms);
        let (purpose, judged) = (Purpose::Lease(lease), surveyed.judged);
        (self.held_write(tenure, lanes, lane, lease.limit), Sent { purpose, operation, judged })
    }

    /// A write that keeps the row ours, with the mark of `lane` at `limit`.
    pub(super) fn held_write(
        &mut self,
        tenure: &Tenure<Sent>,
        lanes: &HeldLanes,
        lane: usize,
        limit: u64,
    ) -> RowWrite {
        let expiry = RowExpiry::After(self.settings.lease.ttl);
        self.write(tenure, lanes, lane, limit, expiry)
    }

    /// A write that gives the row back, with the mark of the present lane at `mark`.
    pub(super) fn release_write(
        &mut self,
        tenure: &Tenure<Sent>,
        lanes: &HeldLanes,
        mark: u64,
    ) -> RowWrite {
        self.write(tenure, lanes, lanes.present(), mark, RowExpiry::Released)
    }

    fn write(
        &mut self,
        tenure: &Tenure<Sent>,
        lanes: &HeldLanes,
        lane: usize,
        mark: u64,
        expiry: RowExpiry,
    ) -> RowWrite {
        RowWrite {
            token: self.next_token(tenure.token()),
            holder: self.settings.holder.clone(),
            lane,
            marks: lanes.marks_with(tenure.marks(), lane, mark),
            expiry,
        }
    }

    /// The token of the next write of a row.
    fn next_token(&mut self, before: Token) -> Token {
        next_token(before, || self.fresh_token())
    }

    pub(super) fn fresh_token(&mut self) -> Token {
        fresh_token(&mut self.random)
    }

    /// What a release is sent as; no clock is judged for it.
    pub(super) fn releasing(&self) -> Sent {
        let operation = LeaseOperation::Release;
        Sent { purpose: Purpose::Release, operation, judged: self.stamp() }
    }

    /// Sends a write. It is noted before it is sent, so that this future may be dropped.
    pub(super) async fn swap(
        &self,
        tenure: &mut Tenure<Sent>,
        write: RowWrite,
        sent: Sent,
    ) -> Swapped {
        let (worker, expected) = (tenure.worker(), tenure.token());
        tenure.sent(write.clone(), sent);
        let question = self.store.swap(&self.scope, worker, expected, &write);
        let (swapped, outcome) = match self.ask(StoreOperation::Swap, question).await {
            Ok(true) => (Swapped::Done(tenure.acknowledged().purpose), LeaseOutcome::Done),
            Ok(false) => (Swapped::Refused, LeaseOutcome::Refused),
            Err(error) => (Swapped::Unknown(error), LeaseOutcome::Unknown),
        };
        self.observe(sent.operation, outcome);
        swapped
    }

    /// Reads the row to learn what became of writes whose outcome is unknown or refused.
    pub(super) async fn resolve(
        &self,
        tenure: &mut Tenure<Sent>,
    ) -> Result<Resolution, StoreError> {
        let question = self.store.row(&self.scope, tenure.worker());
        let row: Option<Row> = self.ask(StoreOperation::Read, question).await?;
        Ok(tenure.resolve(row.as_ref()))
    }

    /// Settles writes whose outcome is unknown. One that is visible need not be durable: it is
    /// repeated under a fresh token, and counts once that is acknowledged.
    pub(super) async fn settle(
        &mut self,
        tenure: &mut Tenure<Sent>,
    ) -> Result<Settled, StoreError> {
        if tenure.is_unresolved() {
            match self.resolve(tenure).await? {
                Resolution::Unchanged | Resolution::Visible => {}
                Resolution::Lost => return Ok(Settled::Lost),
                Resolution::Vanished => return Ok(Settled::Vanished),
            }
        }
        #[cfg(raindrop_planted)]
        if planted(Bug::VisibleIsDurable)
            && let Some(believed) = tenure.take_visible()
        {
            return Ok(Settled::Acknowledged(believed.purpose));
        }
        let Some(visible) = tenure.visible() else { return Ok(Settled::Unchanged) };
        let (write, sent) = (visible.write.clone(), visible.purpose);
        let write = RowWrite { token: self.next_token(tenure.token()), ..write };
        match self.swap(tenure, write, sent).await {
            Swapped::Done(sent) => Ok(Settled::Acknowledged(sent)),
            Swapped::Refused => Ok(Settled::Overtaken),
            Swapped::Unknown(error) => Err(error),
        }
    }

    /// A grant for a lease that the store acknowledged.
    pub(super) fn grant(&self, worker: u64, lease: Lease) -> Arc<Grant> {
        let Lease { lane, start, limit } = lease;
        let layout = self.shared.layout();
        let codes_max = self.settings.issue.codes_max;
        let grant = Grant::new(layout, worker, lane as u64, start, codes_max, waker(&self.bell))
            .expect("rows of the scope fit the layout");
        grant.raise_limit(limit, self.shared.present());
        Arc::new(grant)
    }

    pub(super) fn observe(&self, operation: LeaseOperation, outcome: LeaseOutcome) {
        self.shared.observer.lease_operation(operation, outcome);
    }

    /// Reports a failing store; the caller tries again later.
    pub(super) fn store_failed(&self, error: &StoreError) {
        let how = with_sources(error);
        tracing::warn!(namespace = self.settings.namespace, error = how, "the store fails");
        self.shared.set_trouble(Some(Trouble::StoreUnavailable(how)));
    }
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
