//! One process: a keeper, its issuer, and the events that it reports.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use raindrop_keeper::{
    Backfill, Exhaustion, Issuer, Keeper, KeeperTask, LeaseOperation, LeaseOutcome, Observer,
    RollbackAction,
};

use crate::{activity::Activity, claim::SharedHandle, store::Writer, time::SkewedClock};

/// A process that runs, or that stops while its handlers continue.
pub(crate) struct Node {
    pub(crate) writer: Writer,
    /// `None` once the process began to stop.
    pub(crate) keeper: Option<Keeper>,
    pub(crate) issuer: Issuer,
    pub(crate) backfill: Arc<Backfill>,
    /// By code.
    pub(crate) handles: Vec<SharedHandle>,
    pub(crate) events: Arc<Events>,
    /// The lease that [`Self::codes`] is about.
    pub(crate) lease: u64,
    /// The codes that had a cursor under this lease.
    pub(crate) codes: BTreeSet<usize>,
}

/// Counts what the keeper and the issuer report.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Nodes may share one.
    clock: OnceLock<Arc<SkewedClock>>,
    /// How often the clock had been read at the last operation.
    readings: AtomicU64,
    /// The highest reading of the clock by which a lease was judged.
    leased_under_ms: AtomicI64,
    held: AtomicU64,
    rotated: AtomicU64,
    swapped: AtomicU64,
    refused: AtomicU64,
    waited: AtomicU64,
    borrowed: AtomicU64,
    exhausted: AtomicU64,
    clock_ahead: AtomicU64,
    resumed: AtomicU64,
    refused_to_resume: AtomicU64,
    not_kept: AtomicU64,
    epochs: AtomicU64,
    panicked: AtomicU64,
}

impl Events {
    pub(crate) fn of(clock: &Arc<SkewedClock>) -> Self {
        Self { clock: Arc::clone(clock).into(), ..Self::default() }
    }

    /// Returns the reading by which the lease was judged: a process may issue as if the clock still
    /// showed it.
    pub(crate) fn leased_under_ms(&self) -> i64 {
        self.leased_under_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn add_to(&self, activity: &mut Activity) {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        activity.held += take(&self.held);
        activity.rotated += take(&self.rotated);
        activity.swapped += take(&self.swapped);
        activity.refused_rollback += take(&self.refused);
        activity.waited += take(&self.waited);
        activity.borrowed += take(&self.borrowed);
        activity.exhausted += take(&self.exhausted);
        activity.clock_ahead += take(&self.clock_ahead);
        activity.resumed_leases += take(&self.resumed);
        activity.refused_leases += take(&self.refused_to_resume);
        activity.failed_files += take(&self.not_kept);
        activity.begun_epochs += take(&self.epochs);
    }
}

impl Observer for Events {
    fn epoch_changed(&self) {
        self.epochs.fetch_add(1, Ordering::Relaxed);
    }

    fn exhausted(&self, outcome: Exhaustion) {
        let count = match outcome {
            Exhaustion::Borrowed => &self.borrowed,
            Exhaustion::Waited => &self.waited,
            Exhaustion::Refused => &self.exhausted,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn clock_rolled_back(&self, action: RollbackAction) {
        let count = match action {
            RollbackAction::Held => &self.held,
            RollbackAction::Rotated => &self.rotated,
            RollbackAction::Swapped => &self.swapped,
            RollbackAction::Refused => &self.refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn step_panicked(&self, _: KeeperTask) {
        self.panicked.fetch_add(1, Ordering::Relaxed);
    }

    fn lease_operation(&self, operation: LeaseOperation, outcome: LeaseOutcome) {
        let judged_ms = self.clock.get().map_or(i64::MIN, |clock| {
            clock.highest_since_ms(self.readings.swap(clock.readings(), Ordering::Relaxed))
        });
        // A write without an answer may have taken effect, and is resolved later.
        if matches!(outcome, LeaseOutcome::Done | LeaseOutcome::Unknown) {
            self.leased_under_ms.fetch_max(judged_ms, Ordering::Relaxed);
        }
        let count = match (operation, outcome) {
            (_, LeaseOutcome::ClockAhead) => &self.clock_ahead,
            (LeaseOperation::Resume, LeaseOutcome::Done) => &self.resumed,
            (LeaseOperation::Resume, LeaseOutcome::Refused) => &self.refused_to_resume,
            (LeaseOperation::Keep, _) => &self.not_kept,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
