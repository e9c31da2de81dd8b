//! The task's loop: one step after the other, until it is told to stop.
//!
//! Every step may be dropped at any await: what was sent to the store is noted before it is sent,
//! and what the store confirmed is applied without another await in between.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    KeeperError, KeeperTask, Released, RollbackAction, Trouble,
    acquire::{Acquired, Search, trouble_of},
    context::Context,
    hold::{Held, Renewal, Rotation},
    leaving::Leaving,
    panics::catch_panic,
    prepare::prepare,
    random::{LONGEST_PAUSE, SHORTEST_PAUSE, pause_after},
};
#[cfg(raindrop_planted)]
use crate::core::planted::{Bug, planted};
use crate::{
    core::issue::RollbackPolicy,
    store::{StoreError, with_sources},
};

/// How long a freshly leased row is used before its first renewal.
const FIRST_RENEWAL: Duration = Duration::from_secs(3);
/// Between renewals that claims ask for.
const BETWEEN_WOKEN: Duration = Duration::from_millis(20);
/// Before the next renewal that claims ask for, when the last one had nothing to gain.
const BETWEEN_USELESS: Duration = Duration::from_millis(200);
/// Before the next look at a clock that may not be used.
const CLOCK_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Task {
    pub(super) context: Context,
    prepared: bool,
    search: Search,
    pub(super) held: Option<Held>,
    /// Rows that are still to be given back.
    leaving: Vec<Leaving>,
    /// Whether this process ever held a lease. What it found in the store before that need not
    /// have been durable, so it may have to be created again, as after a restart; once an
    /// acquire was acknowledged, everything is durable, and what is missing has vanished.
    has_held: bool,
    /// Whether it saw rows that others hold: a record that is missing then has vanished.
    in_use: bool,
    /// Whether this process ever renewed a lease.
    has_renewed: bool,
    next_renewal: Instant,
    /// Since when, on the steady clock, renewals are refused because the wall clock is ahead.
    clock_ahead_since: Option<Duration>,
    /// Whether the present rollback was reported as refused.
    rollback_refused: bool,
    failures: u32,
}

/// When the next step is due, and from when on a claim may ask for it earlier.
pub(super) struct Pause {
    until: Instant,
    wakeable_from: Instant,
}

impl Pause {
    fn fixed(pause: Duration) -> Self {
        let until = Instant::now() + pause;
        Self { until, wakeable_from: until }
    }
}

impl Task {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            prepared: false,
            search: Search::default(),
            held: None,
            leaving: Vec::new(),
            has_held: false,
            in_use: false,
            has_renewed: false,
            next_renewal: Instant::now(),
            clock_ahead_since: None,
            rollback_refused: false,
            failures: 0,
        }
    }

    /// Runs until `stop` brings the deadline of the release, or its sender is gone.
    pub(super) async fn run(
        mut self,
        mut stop: oneshot::Receiver<Instant>,
        mut failed: Option<oneshot::Sender<KeeperError>>,
    ) -> Released {
        let bell = Arc::clone(&self.context.bell);
        loop {
            let step = tokio::select! {
                biased;
                deadline = &mut stop => return self.stop(deadline.ok()).await,
                step = catch_panic(self.step()) => step,
            };
            let pause = match step {
                Ok(Ok(pause)) => pause,
                Err(panic) => self.begin_anew(&panic),
                Ok(Err(error)) => {
                    if let Some(failed) = failed.take() {
                        // Nobody may be listening.
                        let _ = failed.send(error);
                    }
                    return self.stop((&mut stop).await.ok()).await;
                }
            };
            tokio::select! {
                biased;
                deadline = &mut stop => return self.stop(deadline.ok()).await,
                () = sleep_until(pause.until) => {}
                () = async {
                    sleep_until(pause.wakeable_from).await;
                    bell.notified().await;
                } => {}
            }
        }
    }

    pub(super) async fn step(&mut self) -> Result<Pause, KeeperError> {
        if !self.prepared {
            self.context.settings.check().map_err(KeeperError::Settings)?;
            match prepare(&mut self.context).await {
                Ok(()) => self.prepared = true,
                Err(KeeperError::Store(error)) if !error.is_permanent() => {
                    return Ok(self.failed(&error));
                }
                Err(fatal) => return Err(fatal),
            }
        }
        self.give_back().await;
        let step = if self.held.is_some() { self.hold().await } else { self.seek().await };
        self.check_grant();
        Ok(match step {
            Ok(pause) => {
                self.failures = 0;
                pause
            }
            Err(StoreError::Vanished(what)) => {
                tracing::error!(what, "the store lost what was there");
                self.vanished()
            }
            Err(error) => self.failed(&error),
        })
    }

    fn failed(&mut self, error: &StoreError) -> Pause {
        self.context.store_failed(error);
        self.back_off()
    }

    fn back_off(&mut self) -> Pause {
        let pause = pause_after(self.failures, &mut self.context.random);
        self.failures += 1;
        Pause::fixed(pause)
    }

    /// The generator issues from the lease that is held, or the keeper renews one that nobody
    /// uses.
    fn check_grant(&self) {
        let Some(held) = &self.held else { return };
        let used = self.context.shared.generator.grant();
        assert!(
            used.is_some_and(|grant| Arc::ptr_eq(&grant, &held.grant)),
            "the generator's grant is not that of the held lease"
        );
    }

    /// After a panic nothing is known of the rows, like after a crash: another one is leased, and
    /// the former come free by their ttl. The grant in use ends at its limit.
    fn begin_anew(&mut self, panic: &str) -> Pause {
        let namespace = &self.context.settings.namespace;
        tracing::error!(namespace, panic, "the keeper panicked and begins anew");
        self.context.shared.observer.step_panicked(KeeperTask::Lease);
        (self.held, self.search) = (None, Search::default());
        self.leaving.clear();
        self.report(Trouble::Starting);
        self.back_off()
    }

    /// Looks for a free row.
    async fn seek(&mut self) -> Result<Pause, StoreError> {
        let acquired = self.search.run(&mut self.context, self.has_renewed).await?;
        if let Some(trouble) = trouble_of(&acquired) {
            self.report(trouble);
        }
        Ok(match acquired {
            Acquired::Held(held) => {
                self.install(*held);
                self.until_renewal(Duration::ZERO)
            }
            Acquired::NoneFree(wait) => {
                self.in_use |= self.context.shared.report.borrow().workers_held > 0;
                self.prepared = self.has_held || self.context.has_all_rows();
                let wait = wait.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
                Pause::fixed(self.context.jittered(wait))
            }
            Acquired::ClockAhead(_) | Acquired::ClockOutOfRange => Pause::fixed(CLOCK_PAUSE),
            Acquired::RecordVanished => {
                self.prepared = self.has_held || self.in_use;
                Pause::fixed(LONGEST_PAUSE)
            }
            // It may be a move that is taken back.
            Acquired::RecordForeign => Pause::fixed(LONGEST_PAUSE),
            Acquired::Contended => Pause::fixed(self.context.jittered(SHORTEST_PAUSE)),
        })
    }

    /// Lets claims use a new lease, and closes the one before.
    fn install(&mut self, held: Held) {
        let shared = &self.context.shared;
        let old = shared.generator.replace_grant(Some(Arc::clone(&held.grant)));
        if let Some(old) = old {
            old.seal();
        }
        let (worker, lane) = (held.grant.worker(), held.grant.lane());
        let namespace = &self.context.settings.namespace;
        tracing::info!(namespace, worker, lane, "worker leased");
        let renew = self.context.settings.lease.renew;
        self.next_renewal = Instant::now() + renew.min(FIRST_RENEWAL);
        self.leaving.extend(self.held.replace(held).map(Leaving::of));
        self.has_held = true;
        self.clock_ahead_since = None;
        self.rollback_refused = false;
        shared.report.send_if_modified(|report| {
            // What the survey before the swap saw, and this row.
            report.workers_held += 1;
            report.workers_free = report.workers_free.saturating_sub(1);
            false
        });
        shared.announce_range();
    }

    fn until_renewal(&self, wakeable_after: Duration) -> Pause {
        Pause { until: self.next_renewal, wakeable_from: Instant::now() + wakeable_after }
    }

    /// Renews the lease, or moves it when the clock went back.
    async fn hold(&mut self) -> Result<Pause, StoreError> {
        let Some(held) = &mut self.held else { return self.seek().await };
        if let Some(behind_ms) = held.rolled_back_ms(&self.context) {
            if let Some(pause) = self.move_away(behind_ms).await? {
                return Ok(pause);
            }
        } else {
            self.rollback_refused = false;
            // A search that a rollback began and that is not needed any more.
            self.leaving.extend(self.search.abandon());
        }
        let Some(held) = &mut self.held else { return Ok(Pause::fixed(Duration::ZERO)) };
        let woken = Instant::now() < self.next_renewal;
        let renewal = held.renew(&mut self.context, self.has_renewed, woken).await?;
        if !matches!(renewal, Renewal::ClockAhead(_)) {
            self.clock_ahead_since = None;
        }
        Ok(match renewal {
            Renewal::Renewed => {
                if !woken {
                    self.has_renewed = true;
                    self.next_renewal = Instant::now() + self.context.settings.lease.renew;
                }
                if self.rollback_refused {
                    self.report(Trouble::ClockWentBack);
                    // Another lane may come due meanwhile.
                    return Ok(Pause::fixed(CLOCK_PAUSE));
                }
                self.context.shared.announce_range();
                self.until_renewal(BETWEEN_WOKEN)
            }
            Renewal::Overtaken => Pause::fixed(BETWEEN_WOKEN),
            Renewal::NothingToGain if self.rollback_refused => Pause::fixed(CLOCK_PAUSE),
            Renewal::NothingToGain => {
                self.context.shared.set_trouble(None);
                self.until_renewal(BETWEEN_USELESS)
            }
            Renewal::ClockAhead(ahead_ms) => self.clock_ahead(ahead_ms),
            Renewal::Lost => self.lost(),
            Renewal::Vanished => self.vanished(),
        })
    }

    /// Follows the rollback policy; `None` when the present lease is kept.
    async fn move_away(&mut self, behind_ms: i64) -> Result<Option<Pause>, StoreError> {
        let policy = self.context.settings.issue.rollback;
        let Some(held) = &mut self.held else { return Ok(None) };
        if policy == RollbackPolicy::Rotate {
            match held.rotate(&mut self.context, self.has_renewed).await? {
                Rotation::Rotated => {
                    let (worker, lane) = (held.grant.worker(), held.grant.lane());
                    tracing::warn!(
                        worker,
                        lane,
                        behind_ms,
                        "the clock went back: another lane was leased"
                    );
                    self.moved(RollbackAction::Rotated);
                    return Ok(Some(self.until_renewal(Duration::ZERO)));
                }
                Rotation::Overtaken => return Ok(Some(Pause::fixed(BETWEEN_WOKEN))),
                Rotation::NoLane => {}
                Rotation::Lost => return Ok(Some(self.lost())),
                Rotation::Vanished => return Ok(Some(self.vanished())),
            }
        }
        if policy != RollbackPolicy::Wait {
            let acquired = self.search.run(&mut self.context, self.has_renewed).await?;
            if let Acquired::Held(held) = acquired {
                self.install(*held);
                tracing::warn!(behind_ms, "the clock went back: another worker was leased");
                self.moved(RollbackAction::Swapped);
                return Ok(Some(Pause::fixed(Duration::ZERO)));
            }
        }
        if let Some(held) = &self.held {
            held.grant.refuse_rollback();
        }
        if !std::mem::replace(&mut self.rollback_refused, true) {
            self.context.shared.observer.clock_rolled_back(RollbackAction::Refused);
        }
        self.report(Trouble::ClockWentBack);
        Ok(None)
    }

    fn moved(&mut self, action: RollbackAction) {
        self.context.shared.observer.clock_rolled_back(action);
        self.rollback_refused = false;
        self.context.shared.announce_range();
        // The lane that was left has its true mark in the store soon, for the next rollback.
        let soon = Instant::now() + CLOCK_PAUSE.min(self.context.settings.lease.renew);
        self.next_renewal = self.next_renewal.min(soon);
    }

    /// Waits for a clock that is ahead, and after a window of that gives the lease up.
    fn clock_ahead(&mut self, ahead_ms: i64) -> Pause {
        let steady = self.context.shared.clock.steady();
        let since = *self.clock_ahead_since.get_or_insert(steady);
        self.report(Trouble::ClockAhead(ahead_ms));
        if steady.saturating_sub(since) >= self.context.settings.lease.window {
            tracing::warn!(ahead_ms, "the clock stayed ahead for a whole window: leasing anew");
            self.clock_ahead_since = None;
            self.leaving.extend(self.held.take().map(Leaving::of));
            return Pause::fixed(Duration::ZERO);
        }
        Pause::fixed(CLOCK_PAUSE)
    }

    /// Somebody else took the row: its range is used up while another row is sought.
    fn lost(&mut self) -> Pause {
        if let Some(held) = self.held.take() {
            let worker = held.tenure.worker();
            tracing::warn!(worker, "the row was taken by another process: leasing another one");
        }
        Pause::fixed(Duration::ZERO)
    }

    /// What we had in the store is gone. It is looked for again and again, and never created: once
    /// it is back under our token the lease goes on, and under another token the row is lost.
    fn vanished(&mut self) -> Pause {
        self.report(Trouble::StoreLost);
        Pause::fixed(LONGEST_PAUSE)
    }

    fn report(&self, trouble: Trouble) {
        let shared = &self.context.shared;
        if shared.report.borrow().trouble.as_ref() != Some(&trouble) {
            tracing::warn!(namespace = shared.namespace, "{trouble}");
        }
        shared.set_trouble(Some(trouble));
    }

    /// Tries once to give back the rows that were left; those that cannot be come free by ttl.
    async fn give_back(&mut self) {
        while let Some(leaving) = self.leaving.last_mut() {
            let mut released = leaving.release(&mut self.context).await;
            if let Ok(false) = released {
                // An earlier write of ours was faster; the next one follows from it.
                released = leaving.release(&mut self.context).await;
            }
            match released {
                Ok(_) => {}
                Err(error) => {
                    let worker = leaving.worker();
                    let error = with_sources(&error);
                    tracing::warn!(
                        worker,
                        error,
                        "a row was not given back: it comes free by its ttl"
                    );
                    #[cfg(raindrop_planted)]
                    self.go_on_after_all();
                }
            }
            self.leaving.pop();
        }
    }

    /// Gives everything back until the deadline; without one, leaves it to the ttl.
    pub(super) async fn stop(mut self, deadline: Option<Instant>) -> Released {
        let Some(deadline) = deadline else { return Released::GaveUp };
        let shared = Arc::clone(&self.context.shared);
        shared.report.send_modify(|report| report.trouble = Some(Trouble::ShuttingDown));
        if let Some(grant) = shared.generator.grant() {
            grant.seal();
        }
        let nothing_held = self.held.is_none() && self.leaving.is_empty() && self.search.is_idle();
        if nothing_held {
            return Released::NothingHeld;
        }
        match timeout_at(deadline, self.release_all()).await {
            Ok(()) => Released::Done,
            Err(_) => {
                tracing::warn!("the row was not given back in time: it comes free by its ttl");
                Released::GaveUp
            }
        }
    }

    async fn release_all(&mut self) {
        self.leaving.extend(self.held.take().map(Leaving::of));
        self.leaving.extend(self.search.abandon());
        let mut failures = 0;
        loop {
            match self.release_last().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    let error = with_sources(&error);
                    tracing::warn!(error, "the store fails while a row is given back");
                    let pause = SHORTEST_PAUSE * 2_u32.pow(failures.min(3));
                    failures += 1;
                    tokio::time::sleep(self.context.jittered(pause)).await;
                }
            }
        }
    }

    /// Gives back the last row that is left; whether none is left.
    async fn release_last(&mut self) -> Result<bool, StoreError> {
        let Some(leaving) = self.leaving.last_mut() else { return Ok(true) };
        if leaving.release(&mut self.context).await? {
            self.leaving.pop();
        }
        Ok(self.leaving.is_empty())
    }
}

/// What only planted bugs do.
#[cfg(raindrop_planted)]
impl Task {
    /// Uses a lease again whose lowering write has no answer.
    fn go_on_after_all(&mut self) {
        let forgets = planted(Bug::LostReplyIsFailure);
        if !forgets && !planted(Bug::GoesOnAfterLowering) {
            return;
        }
        let Some(leaving) = self.leaving.last_mut() else { return };
        let held = leaving.revive(&self.context, forgets);
        self.context.shared.generator.replace_grant(Some(Arc::clone(&held.grant)));
        self.held = Some(held);
    }
}
