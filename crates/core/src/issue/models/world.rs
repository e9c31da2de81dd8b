//! What every model has: a generator with one lease, a clock that moves, a waker, and the check
//! that no ID came twice.

use std::{
    collections::HashSet,
    ops::Deref,
    sync::Arc,
    task::{Wake, Waker},
    time::Duration,
};

use loom::sync::atomic::{AtomicBool, AtomicI64, Ordering};

pub(super) use crate::explore::{explore, must_fail};
use crate::{
    clock::{Clock, Recent},
    id::Id,
    issue::{
        Claim, ClaimError, CodeHandle, Generator, IssueSettings,
        grant::{Denied, Grant},
        run::Run,
    },
    layout::{Layout, LayoutSpec, TimeUnit},
};

pub(super) const NOW_MS: i64 = 1_763_650_000_000;
pub(super) const TICK_MS: i64 = 1_000;
/// Few, so that ticks and limits are reached.
pub(super) const POSITIONS_PER_TICK: u64 = 4;

/// A wall clock that any thread may move, and whose old readings may be seen late; its recent
/// reading moves after it.
#[derive(Debug)]
struct MovingClock {
    now_ms: AtomicI64,
    recent: Option<Recent>,
}

impl Clock for MovingClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn steady(&self) -> Duration {
        Duration::ZERO
    }

    fn recent(&self) -> Option<Recent> {
        self.recent.clone()
    }
}

/// The flag that wakes the keeper.
#[derive(Debug)]
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A swap, as in the keeper's `Notify`. After a plain store, a keeper that one claim woke
        // might not see what another claim wrote just before.
        self.0.swap(true, Ordering::AcqRel);
    }
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) generator: Generator,
    clock: Arc<MovingClock>,
    woken: Arc<WakeFlag>,
}

/// The world's generator, for handles that move to other threads.
#[derive(Clone, Debug)]
pub(super) struct Held(Arc<World>);

impl Deref for Held {
    type Target = Generator;

    fn deref(&self) -> &Generator {
        &self.0.generator
    }
}

pub(super) type WorldHandle = CodeHandle<Held>;

impl World {
    /// A lease on lane 0 from the present tick on, without an end in sight.
    pub(super) fn new(codes_max: usize) -> Arc<Self> {
        let world = Self::without_lease(codes_max);
        world.lease(0, world.present(), world.present() + 100 * POSITIONS_PER_TICK);
        world
    }

    pub(super) fn without_lease(codes_max: usize) -> Arc<Self> {
        Self::with_clock(codes_max, Some(Recent::new(NOW_MS)))
    }

    /// A lease, under a clock without a recent reading: each claim looks its code up.
    pub(super) fn looking_up(codes_max: usize, positions: u64) -> Arc<Self> {
        let world = Self::with_clock(codes_max, None);
        world.lease(0, world.present(), world.present() + positions);
        world
    }

    fn with_clock(codes_max: usize, recent: Option<Recent>) -> Arc<Self> {
        let spec = LayoutSpec {
            max_sequence: Some(POSITIONS_PER_TICK - 1),
            ..LayoutSpec::for_unit(TimeUnit::Second)
        };
        let settings = IssueSettings {
            codes_shared: false,
            codes_max,
            max_wait: Duration::ZERO,
            sequence_spread_bits: 0,
            ..IssueSettings::default()
        };
        let clock = Arc::new(MovingClock { now_ms: AtomicI64::new(NOW_MS), recent });
        let layout = spec.build().expect("valid");
        Arc::new(Self {
            generator: Generator::without_lease(layout, settings, clock.clone()),
            clock,
            woken: Arc::new(WakeFlag(AtomicBool::new(false))),
        })
    }

    pub(super) fn lease(&self, lane: u64, start: u64, limit: u64) -> Arc<Grant> {
        let layout = self.generator.layout();
        let codes_max = self.generator.settings().codes_max;
        let waker = Waker::from(Arc::clone(&self.woken));
        let grant = Grant::new(layout, 7, lane, start, codes_max, waker);
        let grant = Arc::new(grant.expect("fits"));
        grant.raise_limit(limit, self.present());
        self.generator.replace_grant(Some(Arc::clone(&grant)));
        grant
    }

    pub(super) fn layout(&self) -> &Layout {
        self.generator.layout()
    }

    /// The first position of the tick in which the model begins.
    pub(super) fn present(&self) -> u64 {
        self.layout().first_position(self.layout().tick_clamped(NOW_MS))
    }

    /// Moves the clock to `ticks` ticks after the beginning of the model.
    pub(super) fn set_clock(&self, ticks: i64) {
        let now_ms = NOW_MS + ticks * TICK_MS;
        self.clock.now_ms.store(now_ms, Ordering::Relaxed);
        if let Some(recent) = &self.clock.recent {
            recent.set(now_ms);
        }
    }

    pub(super) fn claim(&self, code: &str, count: u32) -> Result<Vec<Id>, ClaimError> {
        self.generator.claim(code, count).map(|Claim { ids, .. }| ids.collect())
    }

    pub(super) fn handle(self: &Arc<Self>, code: &str) -> WorldHandle {
        CodeHandle::new(Held(Arc::clone(self)), code).expect("a valid code")
    }

    /// Claims, and starts over at most twice if another thread evicts the cursor meanwhile. The
    /// generator starts over any number of times; here, two threads that evict each other's code
    /// for ever would be one more execution.
    pub(super) fn claim_or_give_up(&self, code: &str, count: u64) -> Vec<Id> {
        let grant = self.generator.grant().expect("leased");
        let read_ms = self.generator.recent_ms();
        let size = u32::try_from(count).expect("small");
        if let Some(claim) = read_ms.and_then(|ms| self.generator.claim_recent(code, size, ms)) {
            return claim.ids.collect();
        }
        for _ in 0..3 {
            match self.generator.claim_from(&grant, code, None, size.into()) {
                Err(Denied::Closed) => {}
                Err(_) => break,
                Ok(granted) => {
                    let plan = granted.plan;
                    return Run::new(grant.composer(), plan.first, plan.end).collect();
                }
            }
        }
        Vec::new()
    }

    /// Whether the keeper was woken since the last call.
    pub(super) fn take_wake_up(&self) -> bool {
        self.woken.0.swap(false, Ordering::AcqRel)
    }

    /// The position and lane of an ID.
    pub(super) fn position(&self, id: Id) -> (u64, u64) {
        let fields = self.layout().decompose(id);
        (fields.tick * POSITIONS_PER_TICK + fields.sequence, fields.lane)
    }

    /// One past the highest position, 0 if there is none.
    pub(super) fn end(&self, ids: &[Id]) -> u64 {
        ids.iter().map(|id| self.position(*id).0 + 1).max().unwrap_or(0)
    }
}

/// Panics when an ID comes twice.
pub(super) fn assert_distinct<'a>(ids: impl IntoIterator<Item = &'a Id>) {
    let mut seen = HashSet::new();
    for id in ids {
        assert!(seen.insert(*id), "{id} was issued twice");
    }
}
