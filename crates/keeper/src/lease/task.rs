//! The keeper's loop: one step after the other, until it is stopped.
//!
//! A step may be dropped at any await: a write is noted before it is sent, and what the store
//! acknowledged is applied without another await in between.

use std::{convert::Infallible, future::pending, pin::pin, sync::Arc, time::Duration};

use raindrop_core::{issue::RollbackPolicy, lease::Row};
use raindrop_store::StoreError;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};

use super::{
    context::{LeaseContext, LeaseError},
    held::HeldLease,
    keeping::{Keeping, KeepingFailed},
    prepare::prepare,
    release::{Released, ReleasingRow},
    search::{Search, SearchOutcome},
};
use crate::ground::{
    error::KeeperError,
    observer::{KeeperTask, LeaseOperation, LeaseOutcome, RollbackAction},
    panics::catch_panic,
    random::{LONGEST_PAUSE, SHORTEST_PAUSE},
    status::UnavailableReason,
};

/// From a new lease to its first renewal.
const FIRST_RENEWAL: Duration = Duration::from_secs(3);
/// Between renewals that claims ask for.
const BETWEEN_WOKEN: Duration = Duration::from_millis(20);
/// From a renewal that had nothing to gain to the next one that claims may ask for.
const BETWEEN_USELESS: Duration = Duration::from_millis(200);
/// How often in a row a write of ours may be overtaken before the store counts as failing.
const MOST_OVERTAKEN: u32 = 20;
/// Between looks at a clock that cannot be used.
const CLOCK_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Task {
    pub(crate) context: LeaseContext,
    prepared: bool,
    pub(crate) search: Search,
    pub(crate) held: Option<HeldLease>,
    /// A lease that was acquired and is not in the state file yet.
    pub(crate) arriving: Option<HeldLease>,
    /// Whether the state file was asked for a lease.
    has_looked_for_kept: bool,
    /// Rows that are still to be released.
    pub(crate) releasing: Vec<ReleasingRow>,
    next_renewal: Instant,
    /// Since when renewals are refused because the wall clock is ahead, on the steady clock.
    clock_ahead_since: Option<Duration>,
    /// Whether the present rollback was reported as refused.
    rollback_refused: bool,
    failures: u32,
    /// How often in a row an earlier write of ours took effect instead of the present one.
    overtaken: u32,
}

/// When the next step is due, and from when on a claim may ask for it earlier.
pub(crate) struct Pause {
    until: Instant,
    wakeable_from: Instant,
}

impl Pause {
    fn fixed(pause: Duration) -> Self {
        let until = Instant::now() + pause;
        Self { until, wakeable_from: until }
    }
}

/// Raises the local mark of the lease in the state file, whatever a step waits for.
async fn keep_local_mark(keeping: Option<Arc<Keeping>>) -> Infallible {
    match keeping {
        Some(keeping) => keeping.run().await,
        None => pending().await,
    }
}

impl Task {
    pub(crate) fn new(context: LeaseContext) -> Self {
        Self {
            context,
            prepared: false,
            search: Search::default(),
            held: None,
            arriving: None,
            has_looked_for_kept: false,
            releasing: Vec::new(),
            next_renewal: Instant::now(),
            clock_ahead_since: None,
            rollback_refused: false,
            failures: 0,
            overtaken: 0,
        }
    }

    /// Runs until `stop` brings the deadline of the release, or its sender is gone.
    pub(crate) async fn run(
        mut self,
        mut stop: oneshot::Receiver<Instant>,
        failed: oneshot::Sender<KeeperError>,
    ) -> Released {
        let deadline = self.run_until(&mut stop, failed).await;
        self.stop(deadline).await
    }

    /// Takes one step after the other until it is to stop. Returns the deadline of the release.
    ///
    /// What raises the local mark ends here, so that the release need not wait for a write of it.
    async fn run_until(
        &mut self,
        stop: &mut oneshot::Receiver<Instant>,
        failed: oneshot::Sender<KeeperError>,
    ) -> Option<Instant> {
        let wake_up = Arc::clone(&self.context.wake_up);
        let mut keeping = pin!(keep_local_mark(self.context.keeping.clone()));
        loop {
            let step = tokio::select! {
                biased;
                deadline = &mut *stop => return deadline.ok(),
                never = &mut keeping => match never {},
                step = catch_panic(self.step()) => step,
            };
            let pause = match step {
                Ok(Ok(pause)) => pause,
                Err(panic) => self.start_over(&panic),
                Ok(Err(error)) => {
                    // The receiver may be gone.
                    let _ = failed.send(error);
                    return stop.await.ok();
                }
            };
            tokio::select! {
                biased;
                deadline = &mut *stop => return deadline.ok(),
                never = &mut keeping => match never {},
                () = sleep_until(pause.until) => {}
                () = async {
                    sleep_until(pause.wakeable_from).await;
                    wake_up.notified().await;
                } => {}
            }
        }
    }

    pub(crate) async fn step(&mut self) -> Result<Pause, KeeperError> {
        if !self.has_looked_for_kept {
            self.context.settings.check().map_err(KeeperError::Settings)?;
            self.has_looked_for_kept = true;
            self.resume().await;
        }
        if let Some(failure) = self.context.keeping.as_ref().and_then(|it| it.take_failure()) {
            return Ok(self.ended(Err(LeaseError::NotKept(failure))));
        }
        let mut vanished = None;
        let has_lived = self.held.is_some() || self.context.has_renewed;
        if !self.prepared {
            match prepare(&mut self.context).await {
                Ok(()) => self.prepared = true,
                Err(KeeperError::Store(error @ StoreError::Vanished(_))) => vanished = Some(error),
                Err(KeeperError::Store(error)) if !error.is_permanent() => {
                    return Ok(self.store_failed(&error));
                }
                // Somebody may be repairing the store.
                Err(KeeperError::Store(error)) if has_lived => vanished = Some(error),
                Err(KeeperError::Layout(_)) if has_lived => {}
                Err(permanent) => return Err(permanent),
            }
        }
        self.release_left_rows().await;
        let ended = match vanished {
            None => self.advance().await,
            Some(error) if self.held.is_none() => Err(LeaseError::Store(error)),
            // Its holder may be the only one that knows whose rows these are.
            Some(error) => match self.advance().await {
                Err(LeaseError::Vanished) => Err(LeaseError::Store(error)),
                ended => ended,
            },
        };
        if let Err(LeaseError::Lost(row)) = &ended {
            self.lost(row).await;
        }
        if !matches!(ended, Err(LeaseError::Store(_) | LeaseError::Overtaken)) {
            self.failures = 0;
        }
        Ok(self.ended(ended))
    }

    fn ended(&mut self, ended: Result<Pause, LeaseError>) -> Pause {
        if !matches!(ended, Err(LeaseError::Overtaken)) {
            self.overtaken = 0;
        }
        let pause = match ended {
            Ok(pause) => pause,
            Err(LeaseError::Overtaken) => self.overtaken(),
            Err(LeaseError::ClockAhead(ahead_ms)) => self.clock_ahead(ahead_ms),
            Err(LeaseError::Lost(_)) => Pause::fixed(Duration::ZERO),
            Err(LeaseError::Vanished) => self.vanished(),
            Err(LeaseError::BarrierPending) => self.barrier_pending(),
            // It may be a move that is taken back.
            Err(LeaseError::RecordForeign) => self.store_lost(),
            Err(LeaseError::Store(StoreError::Vanished(what))) => {
                let namespace = &self.context.settings.namespace;
                tracing::error!(namespace, what, "store data vanished");
                self.store_lost()
            }
            Err(LeaseError::Store(error)) => self.store_failed(&error),
            Err(LeaseError::NotKept(failure)) => self.not_kept(&failure),
        };
        self.check_grant();
        pause
    }

    /// Tries again at once, unless the store answers what cannot be.
    fn overtaken(&mut self) -> Pause {
        self.overtaken += 1;
        if self.overtaken <= MOST_OVERTAKEN {
            return Pause::fixed(BETWEEN_WOKEN);
        }
        let reason = "reads contradict acknowledged writes: let no replica answer reads";
        self.store_failed(&StoreError::Refused(reason.into()))
    }

    fn store_failed(&mut self, error: &StoreError) -> Pause {
        self.context.store_failed(error);
        self.back_off()
    }

    fn back_off(&mut self) -> Pause {
        Pause::fixed(self.context.random.back_off(&mut self.failures))
    }

    /// Asserts that the generator issues from the lease that is held: otherwise the keeper would
    /// renew one that nobody uses.
    fn check_grant(&self) {
        let Some(held) = &self.held else { return };
        let used = self.context.state.generator.grant();
        assert!(
            used.is_some_and(|grant| Arc::ptr_eq(&grant, &held.grant)),
            "the generator's grant is not that of the held lease"
        );
    }

    /// Starts over after a panic. As after a crash, nothing is known of the rows: another one is
    /// leased, and the former ones expire. The grant in use ends at its limit.
    fn start_over(&mut self, panic: &str) -> Pause {
        let namespace = &self.context.settings.namespace;
        tracing::error!(namespace, panic, "keeper panicked: it starts over");
        self.context.state.observer.step_panicked(KeeperTask::Lease);
        (self.held, self.arriving, self.search) = (None, None, Search::default());
        self.releasing.clear();
        self.report(UnavailableReason::Starting);
        self.back_off()
    }

    /// Renews or moves the lease; without one, searches for a row.
    async fn advance(&mut self) -> Result<Pause, LeaseError> {
        let Some(held) = &mut self.held else { return self.acquire().await };
        if held.use_next_lease(&self.context).await? {
            self.context.state.announce_range();
        }
        if let Some(behind_ms) = held.rolled_back_ms(&self.context) {
            if let Some(pause) = self.move_away(behind_ms).await? {
                return Ok(pause);
            }
        } else {
            self.rollback_refused = false;
            // A search that a rollback began is no longer needed.
            self.releasing.extend(self.search.abandon());
        }
        self.renew().await
    }

    /// Searches for a free row.
    async fn acquire(&mut self) -> Result<Pause, LeaseError> {
        let outcome = self.search.run(&mut self.context, None).await?;
        if let Some(reason) = outcome.reason() {
            let barrier = self.context.barrier_ahead();
            let is_behind = matches!(outcome, SearchOutcome::NoneFree(_));
            self.report(barrier.filter(|_| is_behind).unwrap_or(reason));
        }
        Ok(match outcome {
            SearchOutcome::Leased(held) => {
                self.install(*held).await?;
                self.until_renewal(Duration::ZERO)
            }
            SearchOutcome::NoneFree(wait) => {
                self.prepared = self.context.has_all_rows();
                self.jittered_pause(wait.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
            }
            SearchOutcome::Stale(stale) => {
                let left = stale.left(self.context.state.clock.steady());
                self.jittered_pause(left.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
            }
            SearchOutcome::ClockAhead(_) | SearchOutcome::ClockOutOfRange => {
                Pause::fixed(CLOCK_PAUSE)
            }
            SearchOutcome::BarrierPending => self.barrier_pending(),
            SearchOutcome::RecordVanished => self.vanished(),
            // It may be a move that is taken back.
            SearchOutcome::RecordForeign => Pause::fixed(LONGEST_PAUSE),
            SearchOutcome::Contended => self.jittered_pause(SHORTEST_PAUSE),
        })
    }

    fn jittered_pause(&mut self, pause: Duration) -> Pause {
        Pause::fixed(self.context.random.jittered(pause))
    }

    /// Lets claims use a new lease, and closes the one before.
    async fn install(&mut self, held: HeldLease) -> Result<(), LeaseError> {
        self.arriving.insert(held).keep(&self.context).await?;
        let Some(held) = self.arriving.take() else { return Ok(()) };
        let (worker, lane) = (held.grant.worker(), held.grant.lane());
        let namespace = &self.context.state.namespace;
        tracing::info!(namespace, worker, lane, "lease acquired");
        self.use_lease(held);
        self.context.state.report.send_if_modified(|report| {
            // The survey saw the rows as they were before the swap.
            report.workers_held += 1;
            report.workers_free = report.workers_free.saturating_sub(1);
            false
        });
        self.context.state.announce_range();
        Ok(())
    }

    fn use_lease(&mut self, held: HeldLease) {
        let state = &self.context.state;
        let old = state.generator.replace_grant(Some(Arc::clone(&held.grant)));
        if let Some(old) = old {
            old.seal();
        }
        let renew = self.context.settings.lease.renew;
        self.next_renewal = Instant::now() + renew.min(FIRST_RENEWAL);
        self.releasing.extend(self.held.replace(held).map(ReleasingRow::of_lease));
        self.clock_ahead_since = None;
        self.rollback_refused = false;
    }

    /// Resumes the lease that the state file keeps, whether the store answers or not.
    async fn resume(&mut self) {
        let Some(held) = HeldLease::resume(&self.context).await else { return };
        self.context.history.resume(held.tenure.epoch());
        self.use_lease(held);
        // The row may be about to expire.
        self.next_renewal = Instant::now();
        self.context.state.announce_range();
    }

    fn until_renewal(&self, wakeable_after: Duration) -> Pause {
        Pause { until: self.next_renewal, wakeable_from: Instant::now() + wakeable_after }
    }

    /// Renews the lease.
    async fn renew(&mut self) -> Result<Pause, LeaseError> {
        let held = self.held.as_mut().expect("a lease is held");
        let woken = Instant::now() < self.next_renewal;
        if woken && !self.rollback_refused && held.waits_for_file() {
            return Ok(self.until_renewal(BETWEEN_WOKEN));
        }
        let renewed = held.renew(&mut self.context, woken).await;
        if !matches!(renewed, Err(LeaseError::ClockAhead(_) | LeaseError::Store(_))) {
            self.clock_ahead_since = None;
        }
        let renewed = renewed?;
        if renewed && !woken {
            self.context.has_renewed = true;
            self.next_renewal = Instant::now() + self.context.settings.lease.renew;
        }
        if self.rollback_refused {
            if renewed {
                self.report(UnavailableReason::ClockWentBack);
            }
            // Another lane may come due meanwhile.
            return Ok(Pause::fixed(CLOCK_PAUSE));
        }
        let due_in = self.held.as_ref().and_then(|held| held.due_in(&self.context));
        if let Some(due_in) = due_in {
            // The lease in use ends before the next one begins.
            match self.context.barrier_ahead() {
                Some(barrier) => self.report(barrier),
                None => self.context.state.set_reason(None),
            }
            let pause = self.until_renewal(BETWEEN_USELESS);
            return Ok(Pause { until: pause.until.min(Instant::now() + due_in), ..pause });
        }
        if renewed {
            self.context.state.announce_range();
            return Ok(self.until_renewal(BETWEEN_WOKEN));
        }
        self.context.state.set_reason(None);
        Ok(self.until_renewal(BETWEEN_USELESS))
    }

    /// Follows the rollback policy; `None` when the present lease is kept.
    async fn move_away(&mut self, behind_ms: i64) -> Result<Option<Pause>, LeaseError> {
        let policy = self.context.settings.issue.rollback;
        let held = self.held.as_mut().expect("a lease is held");
        if policy == RollbackPolicy::Rotate && held.rotate(&mut self.context).await? {
            let (worker, lane) = (held.grant.worker(), held.grant.lane());
            let namespace = &self.context.settings.namespace;
            tracing::warn!(namespace, worker, lane, behind_ms, "lane rotated: the clock went back");
            self.moved(RollbackAction::Rotated);
            return Ok(Some(self.until_renewal(Duration::ZERO)));
        }
        if policy != RollbackPolicy::Wait
            && let held = Some(held.tenure.worker())
            && let SearchOutcome::Leased(held) = self.search.run(&mut self.context, held).await?
        {
            self.install(*held).await?;
            let namespace = &self.context.settings.namespace;
            tracing::warn!(namespace, behind_ms, "worker swapped: the clock went back");
            self.moved(RollbackAction::Swapped);
            return Ok(Some(Pause::fixed(Duration::ZERO)));
        }
        if let Some(held) = &self.held {
            held.grant.refuse_rollback();
        }
        if !std::mem::replace(&mut self.rollback_refused, true) {
            self.context.state.observer.clock_rolled_back(RollbackAction::Refused);
        }
        self.report(UnavailableReason::ClockWentBack);
        Ok(None)
    }

    fn moved(&mut self, action: RollbackAction) {
        self.context.state.observer.clock_rolled_back(action);
        self.rollback_refused = false;
        self.context.state.announce_range();
        // So that the lane that was left soon has its true mark in the store, for the next
        // rollback.
        let soon = Instant::now() + CLOCK_PAUSE.min(self.context.settings.lease.renew);
        self.next_renewal = self.next_renewal.min(soon);
    }

    /// Waits for a clock that is ahead, and drops the lease after a whole window of that.
    fn clock_ahead(&mut self, ahead_ms: i64) -> Pause {
        let steady = self.context.state.clock.steady();
        let since = *self.clock_ahead_since.get_or_insert(steady);
        self.report(UnavailableReason::ClockAhead(ahead_ms));
        if steady.saturating_sub(since) >= self.context.settings.lease.window {
            tracing::warn!(
                namespace = self.context.settings.namespace,
                ahead_ms,
                "lease dropped: the clock stayed ahead for a whole window"
            );
            self.clock_ahead_since = None;
            self.releasing.extend(self.held.take().map(ReleasingRow::of_lease));
            return Pause::fixed(Duration::ZERO);
        }
        Pause::fixed(CLOCK_PAUSE)
    }

    /// Ends a lease whose row has another token, so that another row is sought: what was lost lawfully
    /// and what a restored store overtook look alike.
    async fn lost(&mut self, row: &Row) {
        let Some(held) = self.held.take() else { return };
        self.context.state.generator.replace_grant(None);
        held.grant.seal();
        let settings = &self.context.settings;
        let (namespace, worker) = (&settings.namespace, held.tenure.worker());
        let (reason, holder) = (loss(row, &settings.holder), &row.holder);
        tracing::warn!(namespace, worker, holder, "lease lost: {reason}");
        if let Some(keeping) = self.context.usable_keeping().map(Arc::clone)
            && let Err(failure) = keeping.forget().await
        {
            self.not_kept(&failure);
        }
    }

    /// Drops a lease that the state file can no longer keep. Its range ends at the local mark that the
    /// file has, and its row is not released: whatever the next process finds in the file, nobody
    /// else issues there. The next lease is not kept.
    fn not_kept(&mut self, failure: &KeepingFailed) -> Pause {
        // The first failure says more than those that follow from it.
        let first = self.context.keeping.as_ref().and_then(|keeping| keeping.take_failure());
        let reason = &first.as_ref().unwrap_or(failure).0;
        let namespace = &self.context.settings.namespace;
        tracing::error!(namespace, %reason, "state file failed: leases are not kept until a restart");
        self.context.observe(LeaseOperation::Keep, LeaseOutcome::Unknown);
        (self.held, self.arriving) = (None, None);
        self.report(UnavailableReason::NotKept(Arc::clone(reason)));
        Pause::fixed(Duration::ZERO)
    }

    /// Waits until somebody's clock and the store's agree.
    fn barrier_pending(&mut self) -> Pause {
        let ahead_ms = self.context.state.report.borrow().clock_ahead_ms;
        self.report(UnavailableReason::ClocksDiffer(ahead_ms));
        Pause::fixed(LONGEST_PAUSE)
    }

    /// Creates our row or record again, which is gone: beyond everything that was leased.
    fn vanished(&mut self) -> Pause {
        self.prepared = false;
        self.store_lost();
        self.jittered_pause(SHORTEST_PAUSE)
    }

    fn store_lost(&self) -> Pause {
        self.report(UnavailableReason::StoreLost);
        Pause::fixed(LONGEST_PAUSE)
    }

    fn report(&self, reason: UnavailableReason) {
        let state = &self.context.state;
        if state.report.borrow().reason.as_ref() != Some(&reason) {
            tracing::warn!(namespace = state.namespace, %reason, "lease at risk");
        }
        state.set_reason(Some(reason));
    }
}

/// Says how a lease was lost, as far as the row tells: a process writes its own holder, and an operator
/// leaves the holder as it is.
pub(crate) fn loss(row: &Row, own_holder: &str) -> &'static str {
    if row.was_never_written() {
        "the store lost the row, which was created again"
    } else if row.holder != own_holder {
        "another process took the row"
    } else if row.free {
        "an operator, or a process with the same holder, released the row"
    } else {
        "a process with the same holder took the row, or the store lost writes"
    }
}
