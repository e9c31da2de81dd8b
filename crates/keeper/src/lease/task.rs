//! Runs the keeper of one namespace's lease: one step after the other, until the keeper is stopped.
//!
//! A step prepares, searches, renews or moves, as the present state asks, and reports its outcome
//! as an [`Event`]. [`next`] decides what follows; [`Task::enter`] carries out the effects. A step
//! may be cancelled at any await: a write is recorded before it is sent, and an acknowledged write
//! is applied without another await in between.
//!
//! The task issues no IDs; it gives the generator a grant and replaces it. `held.rs` decides what a
//! row's token means. [`Task::run`] must be polled to its end; if it is dropped, the row expires
//! after its ttl. Tests: `leases.rs`, `outages.rs` and `panics.rs` in `src/tests`; `explorer.rs`
//! runs every schedule with a few faults.

use std::{
    convert::Infallible, future::pending, mem::discriminant, pin::pin, sync::Arc, time::Duration,
};

use raindrop_core::{
    instant::{format_unix_ms_or_year, millis},
    issue::RollbackPolicy,
    lease::{
        ReleasingRow, Row,
        state::{Effect, Event, Rows, State, next},
    },
};
use raindrop_store::{StoreError, with_sources};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};
use tracing::{Instrument as _, Span};

use super::{
    context::{LeaseContext, LeaseError, WriteIntent},
    held::HeldLease,
    planted,
    prepare::prepare,
    resume::resume,
    search::{Search, SearchOutcome},
    shared::KeeperState,
    stale_wait::StaleStore,
    state_file_writer::{StateFileFailed, StateFileWriter},
    stop::Released,
};
use crate::support::{
    error::KeeperError,
    observer::{KeeperTask, LeaseOperation, LeaseOutcome, RollbackAction, SPANS},
    random::{Attempts, LONGEST_PAUSE, SHORTEST_PAUSE},
    status::{StoreFailure, UnavailableReason},
    tasks::catch_panic,
};

/// The time from a new lease to its first renewal.
const FIRST_RENEWAL: Duration = Duration::from_secs(3);
/// The pause before a renewal that claims ask for, and before a step that decides again.
const BETWEEN_WOKEN: Duration = Duration::from_millis(20);
/// The pause before a renewal that claims ask for, if the one before it raised nothing.
const BETWEEN_USELESS: Duration = Duration::from_millis(200);
/// How many consecutive steps may end in a retry before the store counts as failing.
const MOST_RETRIES: u32 = 20;
/// The time between two readings of a clock that cannot be used.
const CLOCK_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Task {
    pub(crate) context: LeaseContext,
    pub(crate) state: State<HeldLease, Search>,
    /// The rows that are still to be released.
    pub(crate) releasing: Vec<ReleasingRow<WriteIntent>>,
    failures: Attempts,
    /// The number of consecutive retries.
    retries: u32,
    _ended: EndReport,
}

/// When the next step is due, and from when on a claim may start it earlier.
pub(crate) struct Pause {
    /// When the next step is due.
    until: Instant,
    /// From when on a claim may start it earlier.
    wakeable_from: Instant,
}

impl Pause {
    fn fixed(pause: Duration) -> Self {
        let until = Instant::now() + pause;
        Self { until, wakeable_from: until }
    }
}

/// Raises the local mark of the lease in the state file, whatever a step waits for.
async fn raise_local_mark(file_writer: Option<Arc<StateFileWriter>>) -> Infallible {
    match file_writer {
        Some(file_writer) => file_writer.run().await,
        None => pending().await,
    }
}

/// Reports that the task has ended, even if its runtime drops it before the first poll.
struct EndReport(Arc<KeeperState>);

impl Drop for EndReport {
    fn drop(&mut self) {
        self.0.set_reason(Some(UnavailableReason::KeeperEnded));
    }
}

impl Task {
    pub(crate) fn new(context: LeaseContext) -> Self {
        let ended = EndReport(Arc::clone(&context.shared));
        Self {
            context,
            state: State::Starting,
            releasing: Vec::new(),
            failures: Attempts::default(),
            retries: 0,
            _ended: ended,
        }
    }

    /// Enters the state that follows an event, and carries out its effects.
    ///
    /// # Panics
    ///
    /// When the event cannot happen in this state.
    pub(crate) fn enter(&mut self, event: Event<HeldLease>) {
        let state = std::mem::replace(&mut self.state, State::Ended);
        let entered = next(state, event).expect("the event can happen in this state");
        self.state = entered.state;
        for effect in entered.effects {
            match effect {
                Effect::Issue => self.issue(),
                Effect::Seal(held) => {
                    self.context.shared.generator.replace_grant(None);
                    held.grant.seal();
                }
                Effect::Release(held) if held.is_left_to_expire(&self.context) => {
                    held.grant.seal();
                }
                Effect::Release(held) => self.releasing.push(held.end()),
                Effect::UseUp(_) => {}
                Effect::Abandon(search) => {
                    self.releasing.extend(search.abandon(&self.context));
                }
                Effect::ReportRefused => {
                    self.context.shared.observer.clock_rolled_back(RollbackAction::Refused);
                }
            }
        }
    }

    /// Gives the generator the grant of the held lease, and then seals the grant that it replaced.
    fn issue(&self) {
        let held = self.state.held().expect("a lease is held");
        let generator = &self.context.shared.generator;
        if let Some(old) = generator.replace_grant(Some(Arc::clone(&held.lease.grant))) {
            old.seal();
        }
    }

    /// Runs until `stop` receives the deadline of the release, or its sender is dropped.
    pub(crate) async fn run(
        mut self,
        mut stop: oneshot::Receiver<Instant>,
        failed: oneshot::Sender<KeeperError>,
    ) -> Released {
        let deadline = self.run_until(&mut stop, failed).await;
        self.stop(deadline).await
    }

    /// Takes one step after the other until it is stopped. Returns the deadline of the release.
    ///
    /// The future that raises the local mark ends here, so that the release need not wait for its
    /// writes.
    async fn run_until(
        &mut self,
        stop: &mut oneshot::Receiver<Instant>,
        failed: oneshot::Sender<KeeperError>,
    ) -> Option<Instant> {
        let wake_up = Arc::clone(&self.context.wake_up);
        let mut raising = pin!(raise_local_mark(self.context.file_writer.clone()));
        loop {
            let step = tokio::select! {
                biased;
                deadline = &mut *stop => return deadline.ok(),
                never = &mut raising => match never {},
                step = catch_panic(self.step()) => step,
            };
            let pause = match step {
                Ok(Ok(pause)) => pause,
                Err(panic) => self.start_over(&panic),
                Ok(Err(error)) => {
                    // The receiver may be gone: not every caller waits for a failure.
                    let _ = failed.send(error);
                    return stop.await.ok();
                }
            };
            tokio::select! {
                biased;
                deadline = &mut *stop => return deadline.ok(),
                never = &mut raising => match never {},
                () = sleep_until(pause.until) => {}
                () = async {
                    sleep_until(pause.wakeable_from).await;
                    wake_up.notified().await;
                } => {}
            }
        }
    }

    /// Takes one step, and returns when the next one is due. In this order:
    ///
    /// 1. at the start, checks the settings and resumes the lease from the state file;
    /// 2. gives the lease up if the state file has failed;
    /// 3. creates tables, record and rows, unless this process has seen them;
    /// 4. tries to release the rows that the process gave up;
    /// 5. renews, moves or acquires the lease.
    ///
    /// # Errors
    ///
    /// When the settings are invalid, or when the store is permanently unusable and this process
    /// neither holds a lease nor has renewed one. Any other process keeps retrying.
    pub(crate) async fn step(&mut self) -> Result<Pause, KeeperError> {
        if matches!(self.state, State::Starting) {
            self.context.settings.check().map_err(KeeperError::Settings)?;
            self.resume().await;
        }
        if let Some(failure) = self.context.file_writer.as_ref().and_then(|it| it.take_failure()) {
            return Ok(self.after_step(Err(failure.into())).await);
        }
        let mut unusable = None;
        if self.state.rows() == Rows::Unchecked {
            let has_lived = self.state.held().is_some() || self.context.has_renewed;
            match prepare(&mut self.context).await {
                Ok(()) => self.enter(Event::Prepared),
                Err(KeeperError::Store(error @ StoreError::Vanished(_))) => {
                    unusable = Some(error.into());
                }
                Err(KeeperError::Store(error)) if !error.is_permanent() => {
                    return Ok(self.store_failed(&error));
                }
                // The state file may be of another store: the resumed lease is used up, and nothing
                // is written.
                Err(KeeperError::Store(error)) if has_lived && !self.context.has_renewed => {
                    return Ok(self.store_failed(&error));
                }
                // An operator may be repairing the store, or reverting a move to another layout.
                Err(KeeperError::Store(error)) if has_lived => unusable = Some(error.into()),
                Err(KeeperError::Layout(_)) if has_lived => {
                    unusable = Some(LeaseError::RecordForeign);
                }
                Err(permanent) => return Err(permanent),
            }
        }
        self.release_given_up_rows().await;
        let ended = match unusable {
            None => self.advance().await,
            Some(error) if self.state.held().is_none() => Err(error),
            // The holder may be the only process that knows to which layout these rows belong.
            Some(error) => match self.advance().await {
                Err(LeaseError::Vanished) => Err(error),
                ended => ended,
            },
        };
        if !matches!(ended, Err(LeaseError::Store(_) | LeaseError::Retry)) {
            self.failures.succeeded();
        }
        Ok(self.after_step(ended).await)
    }

    /// Handles the result of a step, and returns when the next one is due.
    async fn after_step(&mut self, ended: Result<Pause, LeaseError>) -> Pause {
        if !matches!(ended, Err(LeaseError::Retry)) {
            self.retries = 0;
        }
        let pause = match ended {
            Ok(pause) => pause,
            Err(LeaseError::Retry) => self.retry_soon(),
            Err(LeaseError::ClockAhead(ahead_ms)) => self.clock_ahead(ahead_ms),
            Err(LeaseError::Stale(stale)) => self.stale(&stale),
            Err(LeaseError::Lost(row)) => self.lost(&row).await,
            Err(LeaseError::Unreadable(error)) => self.unreadable(&error).await,
            Err(LeaseError::Vanished) => self.vanished(),
            Err(LeaseError::BarrierPending) => self.barrier_pending(),
            // An operator may revert the move.
            Err(LeaseError::RecordForeign) => self.store_lost(),
            Err(LeaseError::Store(StoreError::Vanished(what))) => {
                let namespace = &self.context.settings.namespace;
                tracing::error!(namespace, what, "store data vanished");
                self.store_lost()
            }
            Err(LeaseError::Store(error)) => self.store_failed(&error),
            Err(LeaseError::NotSaved(failure)) => self.not_saved(&failure),
        };
        self.check_grant();
        pause
    }

    /// Decides again after [`BETWEEN_WOKEN`]. After too many such steps, reports the store: its
    /// reads contradict its writes.
    fn retry_soon(&mut self) -> Pause {
        self.retries += 1;
        let (namespace, tries) = (&self.context.settings.namespace, self.retries);
        tracing::debug!(namespace, tries, "row or record changed meanwhile: the step is repeated");
        if self.retries <= MOST_RETRIES {
            return Pause::fixed(BETWEEN_WOKEN);
        }
        let reason = "reads contradict acknowledged writes: let no replica answer reads";
        self.store_failed(&StoreError::Refused(reason.into()))
    }

    fn store_failed(&mut self, error: &StoreError) -> Pause {
        self.context.store_failed(error);
        let pause = self.back_off();
        let namespace = &self.context.settings.namespace;
        let retry_in = pause.until.saturating_duration_since(Instant::now());
        tracing::debug!(namespace, error = with_sources(error), ?retry_in, "step failed");
        pause
    }

    /// Returns the pause after a failure, which is longer after each further one.
    fn back_off(&mut self) -> Pause {
        Pause::fixed(self.failures.failed(&mut self.context.random))
    }

    /// Asserts that the generator issues from the held lease. Otherwise the keeper would renew a
    /// lease that is not used.
    fn check_grant(&self) {
        let Some(held) = self.state.held() else { return };
        let used = self.context.shared.generator.grant();
        assert!(
            used.is_some_and(|grant| Arc::ptr_eq(&grant, &held.lease.grant)),
            "the generator's grant is not that of the held lease"
        );
    }

    /// Starts over after a panic. As after a crash, nothing is known about the rows: the task
    /// leases another one, and the former ones expire. The grant in use ends at its limit.
    fn start_over(&mut self, panic: &str) -> Pause {
        let namespace = &self.context.settings.namespace;
        tracing::error!(namespace, panic, "keeper panicked: it starts over");
        self.context.shared.observer.step_panicked(KeeperTask::Lease);
        self.enter(Event::Panicked);
        self.releasing.clear();
        // A first panic is likely to pass, so claims wait; a repeated one is reported as a failure.
        let is_repeated = self.failures.has_failed();
        self.report(if is_repeated {
            UnavailableReason::StoreUnavailable(StoreFailure::of_panic(panic))
        } else {
            UnavailableReason::Starting
        });
        self.back_off()
    }

    /// Renews or moves the lease. If there is none, searches for a row.
    async fn advance(&mut self) -> Result<Pause, LeaseError> {
        let Some(held) = self.state.held_mut() else {
            let span = self.span(LeaseOperation::Acquire);
            return self.acquire().instrument(span).await;
        };
        if held.lease.use_next_lease(&self.context).await? {
            let namespace = &self.context.settings.namespace;
            tracing::debug!(namespace, "lease of the new epoch begins: its barrier has come");
            self.context.shared.announce_range();
        }
        if let Some(behind_ms) = held.lease.rolled_back_ms(&self.context) {
            let span = self.span(LeaseOperation::Rotate);
            if let Some(pause) = self.move_away(behind_ms).instrument(span).await? {
                return Ok(pause);
            }
        } else {
            self.enter(Event::ClockCaughtUp);
        }
        let span = self.span(LeaseOperation::Renew);
        self.renew().instrument(span).await
    }

    /// Makes the span of an operation, in which its calls of the store are.
    fn span(&self, operation: LeaseOperation) -> Span {
        tracing::debug_span!(
            target: SPANS,
            "lease",
            otel.name = format_args!("lease {}", operation.name()),
            namespace = self.context.settings.namespace,
        )
    }

    /// Searches for a free row.
    async fn acquire(&mut self) -> Result<Pause, LeaseError> {
        let search = self.state.search_mut().expect("without a lease, one is sought");
        let outcome = search.run(&mut self.context, None).await?;
        if let Some(reason) = outcome.reason() {
            let namespace = &self.context.settings.namespace;
            tracing::debug!(namespace, %reason, "no lease found");
            let barrier = self.context.barrier_ahead();
            let is_behind = matches!(outcome, SearchOutcome::NoneFree(_));
            self.report(barrier.filter(|_| is_behind).unwrap_or(reason));
        }
        Ok(match outcome {
            SearchOutcome::Leased(lease) => {
                self.install(*lease).await?;
                self.until_renewal(Duration::ZERO)
            }
            SearchOutcome::NoneFree(due_ms) => {
                let wait_ms = due_ms.saturating_sub(self.context.shared.clock.now_ms()).max(0);
                let wait = Duration::from_millis(wait_ms.unsigned_abs());
                if !self.context.has_all_rows() {
                    self.enter(Event::RowsMissing);
                }
                self.jittered_pause(wait.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
            }
            SearchOutcome::Stale(stale) => self.stale(&stale),
            SearchOutcome::ClockAhead(_) | SearchOutcome::ClockOutOfRange => {
                Pause::fixed(CLOCK_PAUSE)
            }
            SearchOutcome::BarrierPending => self.barrier_pending(),
            SearchOutcome::RecordVanished => self.vanished(),
            // An operator may revert the move.
            SearchOutcome::RecordForeign => Pause::fixed(LONGEST_PAUSE),
            SearchOutcome::Contended => self.jittered_pause(SHORTEST_PAUSE),
        })
    }

    /// Pauses before the task reads a store again that may be a restored one.
    fn stale(&mut self, stale: &StaleStore) -> Pause {
        self.report(stale.reason());
        let left = stale.left(self.context.shared.clock.steady());
        let namespace = &self.context.settings.namespace;
        tracing::debug!(namespace, ?left, "nothing is leased yet: the store may be a restored one");
        let due_in = self.state.held().and_then(|held| held.lease.due_in(&self.context));
        // A clock that went back may catch up at any time.
        let is_back = matches!(self.state, State::Moving(..) | State::Refusing(..));
        let longest = if is_back { CLOCK_PAUSE } else { LONGEST_PAUSE };
        let pause = due_in.unwrap_or(left).min(left).clamp(SHORTEST_PAUSE, longest);
        self.jittered_pause(pause)
    }

    fn jittered_pause(&mut self, pause: Duration) -> Pause {
        Pause::fixed(self.context.random.jittered(pause))
    }

    /// Lets claims use a new lease, once the state file has it, and then seals the grant that it
    /// replaced.
    async fn install(&mut self, lease: HeldLease) -> Result<(), LeaseError> {
        let (worker, lane) = (lease.grant.worker(), lease.grant.lane());
        self.enter(Event::Leased(lease));
        let State::Arriving { lease, .. } = &mut self.state else {
            unreachable!("a lease was found")
        };
        // As in `renew`, the time that the state file takes counts as part of the interval.
        let first = self.context.settings.lease.renew.min(FIRST_RENEWAL);
        lease.next_renewal = Instant::now() + first;
        lease.save(&self.context).await?;
        self.enter(Event::Saved);
        let namespace = &self.context.shared.namespace;
        tracing::info!(namespace, worker, lane, "lease acquired");
        self.context.shared.report.send_if_modified(|report| {
            // The survey counted the rows before the swap.
            report.workers_held += 1;
            report.workers_free = report.workers_free.saturating_sub(1);
            false
        });
        self.context.shared.announce_range();
        Ok(())
    }

    /// Resumes the lease from the state file, whether or not the store answers.
    async fn resume(&mut self) {
        let Some(lease) = resume(&mut self.context).await else {
            return self.enter(Event::NothingSaved);
        };
        self.enter(Event::Resumed(lease));
        self.context.shared.announce_range();
    }

    /// Returns the held lease. Callers know that there is one.
    fn lease_mut(&mut self) -> &mut HeldLease {
        &mut self.state.held_mut().expect("a lease is held").lease
    }

    /// Returns the pause until the next renewal. Claims may end the pause after `wakeable_after`.
    fn until_renewal(&mut self, wakeable_after: Duration) -> Pause {
        let until = self.lease_mut().next_renewal;
        Pause { until, wakeable_from: Instant::now() + wakeable_after }
    }

    /// Renews the lease if that is due, or if it helps the claims that have woken the task.
    async fn renew(&mut self) -> Result<Pause, LeaseError> {
        let is_refusing = matches!(self.state, State::Refusing(..));
        let lease = &mut self.state.held_mut().expect("a lease is held").lease;
        let began = Instant::now();
        if self.context.shared.take_doubt() {
            // The renewal stays due until a read of the row succeeds.
            lease.next_renewal = began;
        }
        let woken = began < lease.next_renewal;
        if woken && !is_refusing && lease.waits_for_file() {
            return Ok(self.until_renewal(BETWEEN_WOKEN));
        }
        let renewed = lease.renew(&mut self.context, woken).await;
        if matches!(renewed, Ok(true)) && !woken {
            self.context.has_renewed = true;
            // From the beginning of this renewal, and never later: if a slow store or state file
            // delayed the next one, other processes would take the old heartbeat for that of a
            // crashed holder.
            let interval = self.context.settings.lease.renew;
            let interval = self.context.random.slightly_shortened(interval);
            lease.next_renewal = planted::counted_from(began) + interval;
        }
        if !matches!(renewed, Err(LeaseError::ClockAhead(_) | LeaseError::Store(_))) {
            self.enter(Event::ClockTrusted);
        }
        let renewed = renewed?;
        self.log_renewal(renewed, woken);
        if is_refusing {
            if renewed {
                self.report(UnavailableReason::ClockWentBack);
            }
            // Another lane may come due meanwhile.
            return Ok(Pause::fixed(CLOCK_PAUSE));
        }
        let lease = &self.state.held().expect("a lease is held").lease;
        if let Some(due_in) = lease.due_in(&self.context) {
            self.report_wait_for_barrier(due_in);
            let pause = self.until_renewal(BETWEEN_USELESS);
            return Ok(Pause { until: pause.until.min(Instant::now() + due_in), ..pause });
        }
        if renewed {
            self.context.shared.announce_range();
            return Ok(self.until_renewal(BETWEEN_WOKEN));
        }
        self.context.shared.set_reason(None);
        Ok(self.until_renewal(BETWEEN_USELESS))
    }

    /// Logs whether a renewal wrote the row, and why it was made.
    fn log_renewal(&self, has_written: bool, woken: bool) {
        let (namespace, lease) = (&self.context.settings.namespace, self.state.held());
        let worker = lease.map(|held| held.lease.grant.worker());
        let cause = if woken { "claims need more" } else { "it is due" };
        if has_written {
            let layout = &self.context.settings.layout;
            let limit = lease.map_or(0, |held| held.lease.grant.limit());
            let until_ms = layout.start_of_tick_ms(layout.tick_of(limit.saturating_sub(1)) + 1);
            let valid_until = format_unix_ms_or_year(until_ms);
            tracing::debug!(namespace, worker, valid_until, cause, "lease renewed");
        } else {
            tracing::debug!(namespace, worker, cause, "lease not renewed: it would not get longer");
        }
    }

    /// Reports why claims are refused once the lease in use has ended, until the next one begins in
    /// this time.
    fn report_wait_for_barrier(&self, due_in: Duration) {
        let reach_ms = self.context.settings.lease.of_node().reach_ms;
        match self.context.barrier_ahead() {
            Some(barrier) => self.report(barrier),
            // The row was leased in an epoch whose barrier an operator has lowered since.
            None if millis(due_in) > 2 * reach_ms => {
                let due_ms = self.context.shared.clock.now_ms().saturating_add(millis(due_in));
                self.report(UnavailableReason::FailedOver { due_ms });
            }
            None => self.context.shared.set_reason(None),
        }
    }

    /// Follows the rollback policy. Returns `None` if the lease stays where it is.
    async fn move_away(&mut self, behind_ms: i64) -> Result<Option<Pause>, LeaseError> {
        self.enter(Event::ClockBack);
        let (State::Moving(held, search) | State::Refusing(held, search)) = &mut self.state else {
            unreachable!("the clock went back")
        };
        let (lease, policy) = (&mut held.lease, self.context.settings.issue.rollback);
        if policy == RollbackPolicy::Rotate && lease.rotate(&mut self.context).await? {
            let (worker, lane) = (lease.grant.worker(), lease.grant.lane());
            let namespace = &self.context.settings.namespace;
            tracing::warn!(namespace, worker, lane, behind_ms, "lane rotated: the clock went back");
            self.enter(Event::Rotated);
            self.moved(RollbackAction::Rotated);
            return Ok(Some(self.until_renewal(Duration::ZERO)));
        }
        if policy != RollbackPolicy::Wait
            && let SearchOutcome::Leased(other) =
                search.run(&mut self.context, Some(&*lease)).await?
        {
            self.install(*other).await?;
            let namespace = &self.context.settings.namespace;
            tracing::warn!(namespace, behind_ms, "worker swapped: the clock went back");
            self.moved(RollbackAction::Swapped);
            return Ok(Some(Pause::fixed(Duration::ZERO)));
        }
        lease.grant.refuse_rollback();
        self.enter(Event::NothingElse);
        self.report(UnavailableReason::ClockWentBack);
        Ok(None)
    }

    /// Reports that the lease has moved, and makes the next renewal due soon.
    fn moved(&mut self, action: RollbackAction) {
        self.context.shared.observer.clock_rolled_back(action);
        self.context.shared.announce_range();
        // Soon, so that the store has the lowered mark of the lane that was left by the next
        // rollback.
        let soon = Instant::now() + CLOCK_PAUSE.min(self.context.settings.lease.renew);
        let lease = self.lease_mut();
        lease.next_renewal = lease.next_renewal.min(soon);
    }

    /// Waits for a clock that is ahead. Drops the lease after a whole window.
    fn clock_ahead(&mut self, ahead_ms: i64) -> Pause {
        self.report(UnavailableReason::ClockAhead(ahead_ms));
        let patience = self.context.settings.lease.window;
        self.enter(Event::ClockAhead { now: self.context.shared.clock.steady(), patience });
        if self.state.held().is_some() {
            return Pause::fixed(CLOCK_PAUSE);
        }
        tracing::warn!(
            namespace = self.context.settings.namespace,
            ahead_ms,
            "lease dropped: the clock stayed ahead for a whole window"
        );
        Pause::fixed(Duration::ZERO)
    }

    /// Ends a lease whose row has another token, so that the task searches for another row. A row
    /// that another process took lawfully and one that a restored store lost look alike.
    async fn lost(&mut self, row: &Row) -> Pause {
        self.enter(Event::Lost);
        let settings = &self.context.settings;
        let (namespace, worker) = (&settings.namespace, row.worker);
        let (reason, holder) = (loss(row, &settings.holder), &row.holder);
        tracing::warn!(namespace, worker, holder, "lease lost: {reason}");
        self.forget().await
    }

    /// Ends a lease whose row cannot be read, and has another token or is of an earlier epoch.
    async fn unreadable(&mut self, error: &StoreError) -> Pause {
        self.context.lost_unreadable = true;
        let worker = self.state.held().map(|held| held.lease.grant.worker());
        self.enter(Event::Lost);
        let namespace = &self.context.settings.namespace;
        tracing::error!(namespace, worker, %error, "lease lost: its row cannot be read");
        self.forget().await
    }

    /// Removes a lost lease from the state file, so that the next process does not resume it.
    async fn forget(&mut self) -> Pause {
        if let Some(file_writer) = self.context.usable_file_writer().map(Arc::clone)
            && let Err(failure) = file_writer.forget().await
        {
            return self.not_saved(&failure);
        }
        Pause::fixed(Duration::ZERO)
    }

    /// Drops a lease that the state file can no longer save. Its range ends at the local mark that
    /// the file has, and its row is not released: whatever the next process finds in the file, no
    /// other process issues there. The next lease is not saved.
    fn not_saved(&mut self, failure: &StateFileFailed) -> Pause {
        // The first failure says more than those that follow from it.
        let first =
            self.context.file_writer.as_ref().and_then(|file_writer| file_writer.take_failure());
        let reason = &first.as_ref().unwrap_or(failure).0;
        let namespace = &self.context.settings.namespace;
        tracing::error!(namespace, %reason, "state file failed: leases are not kept until a restart");
        self.context.observe(LeaseOperation::Keep, LeaseOutcome::Unknown);
        self.enter(Event::NotSaved);
        self.report(UnavailableReason::NotKept(Arc::clone(reason)));
        Pause::fixed(Duration::ZERO)
    }

    /// Waits until a node's clock and the store's agree, so that an epoch gets a barrier.
    fn barrier_pending(&mut self) -> Pause {
        let ahead_ms = self.context.shared.report.borrow().clock_ahead_ms;
        self.report(UnavailableReason::ClocksDiffer(ahead_ms));
        Pause::fixed(LONGEST_PAUSE)
    }

    /// Starts to create the missing row or record again, beyond everything that was leased.
    fn vanished(&mut self) -> Pause {
        self.enter(Event::RowsMissing);
        self.report(UnavailableReason::StoreLost);
        self.jittered_pause(SHORTEST_PAUSE)
    }

    /// Reports that the store has lost this namespace's record or rows, or has another layout's.
    fn store_lost(&self) -> Pause {
        self.report(UnavailableReason::StoreLost);
        Pause::fixed(LONGEST_PAUSE)
    }

    /// Reports why the lease is at risk. Logs it if the kind of reason is new.
    fn report(&self, reason: UnavailableReason) {
        let shared = &self.context.shared;
        // Numbers in a reason may change with every report, so only a new kind is logged.
        let is_new =
            shared.report.borrow().reason.as_ref().map(discriminant) != Some(discriminant(&reason));
        if is_new {
            tracing::warn!(namespace = shared.namespace, %reason, "lease at risk");
        }
        shared.set_reason(Some(reason));
    }
}

/// Returns how a lease was lost, as far as the row shows it: a process writes its own holder, and
/// an operator leaves the holder as it is.
pub(crate) fn loss(row: &Row, own_holder: &str) -> &'static str {
    if row.was_never_written() {
        "the store lost the row, which was created again"
    } else if row.holder != own_holder {
        "another process took the row"
    } else if row.free {
        "an operator or another process released the row"
    } else {
        "a process with the same holder took the row, or the store lost writes"
    }
}
