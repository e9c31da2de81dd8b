//! The acts of operators while nodes run, and those of a store that loses data.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use raindrop_core::{
    layout::Layout,
    lease::{Recorded, Relayout},
};
use raindrop_keeper::{Operator, OperatorError, RelayoutOutcome, WorkerRelease};
use raindrop_store::{LayoutRecord, Scope, Store};

use crate::{
    check::{Failure, FailureKind},
    model::{Fault, Order, Setup, Shape},
    node::Node,
    store::Moment,
    time::SkewedClock,
    world::World,
};

/// How often an operator starts again at the end, and how long each run may take.
const MOST_RUNS: u32 = 5;
const LONGEST_RUN_MS: u64 = 600_000;

/// Operators at work, and their changes under the nodes.
pub(crate) struct Operating {
    running: Vec<Running>,
    /// Every layout that was ever configured.
    layouts: Vec<Arc<Layout>>,
    /// The layout of the last move that was finished.
    moved_to: Option<Arc<Layout>>,
    lost_record: Option<LayoutRecord>,
    /// A backup of the store, with the layout in its record.
    backup: Option<Backup>,
    has_lost: bool,
    /// Whether nodes must restart before they can issue.
    is_disturbed: bool,
    /// The content of the replica, while replication is stopped.
    replica: Option<Moment>,
    /// The identities of the servers so far.
    servers: Vec<String>,
}

#[derive(Clone)]
struct Backup {
    moment: Moment,
    words: String,
    made_ms: i64,
    /// The server that was backed up.
    server: String,
}

struct Running {
    generation: u32,
    layout: Arc<Layout>,
    /// The layout of the configuration before.
    before: Arc<Layout>,
    work: Pin<Box<dyn Future<Output = Result<Done, OperatorError>>>>,
}

#[derive(Debug)]
enum Done {
    Released(WorkerRelease),
    Raised,
    Lowered,
    Moved(RelayoutOutcome),
}

impl Operating {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            running: Vec::new(),
            layouts: vec![Arc::new(layout)],
            moved_to: None,
            lost_record: None,
            backup: None,
            has_lost: false,
            is_disturbed: false,
            replica: None,
            servers: vec!["memory".to_owned()],
        }
    }

    pub(crate) const fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// Returns whether the namespace moved away from this layout.
    pub(crate) fn has_moved_from(&self, layout: &Layout) -> bool {
        self.moved_to.as_ref().is_some_and(|moved_to| **moved_to != *layout)
    }
}

impl World<'_> {
    /// Starts an operator. A move to another layout begins with its configuration, which nodes that
    /// start from now on have, too.
    pub(crate) fn operate(&mut self, order: Order, fault: Option<(usize, Fault)>, slow_ms: u64) {
        let before = Arc::clone(&self.layout);
        if let Order::Relayout { earlier_ms, positions, rollback_bits } = order {
            let epoch_ms = before.epoch_ms() - earlier_ms;
            let layout = self.setup.shaped(Shape { epoch_ms, positions, rollback_bits });
            self.layout = Arc::new(layout);
            self.operating.layouts.push(Arc::clone(&self.layout));
            self.operating.is_disturbed = true;
        }
        if order == Order::TakeBack {
            let mut known = self.operating.layouts.iter().rev();
            if let Some(layout) = known.find(|layout| ***layout != *before) {
                self.layout = Arc::clone(layout);
            }
            self.operating.is_disturbed = true;
        }
        if let Some((skip, fault)) = fault {
            let mut state = self.cluster.state();
            let faults = &mut state.links[self.setup.nodes()].faults;
            faults.extend((0..skip).map(|_| None));
            faults.push_back(Some((fault, false)));
        }
        self.begin(order, before, slow_ms);
    }

    fn begin(&mut self, order: Order, before: Arc<Layout>, slow_ms: u64) {
        let layout = Arc::clone(&self.layout);
        let writer = self.next_operator(slow_ms);
        let generation = writer.generation;
        let mut operator = Operator::with_random(
            self.setup.settings(&layout, "an operator"),
            Arc::new(self.connection(&writer)),
            writer.clock.clone(),
            self.random(generation),
        );
        let (workers, window) = (self.setup.workers, Duration::from_millis(self.setup.window_ms));
        let work = Box::pin(async move {
            match order {
                Order::Release { worker } => {
                    operator.release(worker % workers + 1).await.map(Done::Released)
                }
                Order::Raise => operator.raise(window).await.map(|_| Done::Raised),
                Order::LowerBarrier => operator.lower_barrier(window).await.map(|_| Done::Lowered),
                Order::Relayout { .. } | Order::TakeBack => {
                    operator.relayout().await.map(Done::Moved)
                }
            }
        });
        self.operating.running.push(Running { generation, layout, before, work });
    }

    pub(crate) fn kill_operators(&mut self) {
        let mut state = self.cluster.state();
        for running in self.operating.running.drain(..) {
            state.activity.operators_killed += 1;
            state.dead.insert(running.generation);
        }
    }

    pub(crate) fn poll_operators(&mut self, context: &mut Context<'_>) {
        for mut running in std::mem::take(&mut self.operating.running) {
            match running.work.as_mut().poll(context) {
                Poll::Ready(outcome) => self.operated(&running, outcome),
                Poll::Pending => self.operating.running.push(running),
            }
        }
    }

    fn operated(&mut self, running: &Running, outcome: Result<Done, OperatorError>) {
        let mut state = self.cluster.state();
        let elapsed_ms = self.time.elapsed_ms();
        state.journal.note((elapsed_ms, running.generation), || {
            format!("{elapsed_ms:>9} ms  operator {}: {outcome:?}", running.generation)
        });
        let activity = &mut state.activity;
        match outcome {
            Ok(Done::Released(WorkerRelease::Released(_))) => activity.operator_released += 1,
            Ok(Done::Raised) => activity.operator_raised += 1,
            Ok(Done::Lowered) => activity.operator_lowered += 1,
            Ok(Done::Moved(RelayoutOutcome::Moved(moved))) => {
                activity.relaid += 1;
                activity.resumed += u64::from(moved.resumed);
                self.operating.moved_to = Some(Arc::clone(&running.layout));
            }
            Ok(Done::Moved(RelayoutOutcome::Reverted { .. })) => activity.taken_back += 1,
            Err(OperatorError::IdsTooSmall { .. }) => {
                activity.relayout_refused += 1;
                if *self.layout == *running.layout {
                    self.layout = Arc::clone(&running.before);
                }
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Loses a row if the rule for rows that are added later covers the row: none of the row's
    /// marks is further ahead than those of a row that would be added now.
    pub(crate) async fn lose_row(&mut self, worker: u64) {
        let now_ms = self.time.now_ms();
        let scope = Scope::new("default", &self.layout, 0, self.layout.largest_worker());
        let record = self.cluster.memory.read_record("default").await.expect("memory");
        let row = self.cluster.memory.read_row(&scope, worker).await.expect("memory");
        let (Some(record), Some(row)) = (record, row) else { return };
        let layout =
            self.operating.layouts.iter().find(|known| known.canonical() == record.canonical);
        // During a move of the namespace, no process knows what marks mean.
        let Some(layout) = layout else { return };
        let added = record.history.beyond(layout, now_ms);
        let is_covered = row.marks.lanes() == layout.lanes()
            && row.marks.iter().all(|mark| mark <= added)
            && record.created_rows(&scope.reserved_key).is_some()
            && self.setup.own_clock
            && self.store_clock.peek_ms() == now_ms;
        if !is_covered {
            return;
        }
        self.cluster.make_durable();
        self.cluster.memory.lose_row(&scope, worker);
        (self.operating.has_lost, self.operating.is_disturbed) = (true, true);
        let mut state = self.cluster.state();
        let held = state.lose(worker).is_some();
        state.activity.lost_rows += 1;
        state.activity.lost_held += u64::from(held);
    }

    pub(crate) async fn lose_record(&mut self) {
        let record = self.cluster.memory.read_record("default").await.expect("memory");
        // A process that starts before a holder checks takes a store without rows and record for an
        // unused one.
        let rows = self.cluster.memory.list_rows().await.expect("memory");
        let is_used = |record: &LayoutRecord| !record.complete.is_empty() && !rows.is_empty();
        let record = record.filter(|_| self.operating.lost_record.is_none()).filter(is_used);
        let Some(record) = record else { return };
        self.cluster.make_durable();
        self.cluster.memory.lose_record("default");
        self.operating.lost_record = Some(record);
        self.operating.is_disturbed = true;
        self.cluster.state().activity.lost_records += 1;
    }

    pub(crate) async fn back_up(&mut self) {
        if let Some(Recorded::Settled(words)) = self.recorded().await {
            let (moment, made_ms) = (self.cluster.moment(), self.time.elapsed_ms());
            let server = self.operating.servers.last().cloned().unwrap_or_default();
            self.operating.backup = Some(Backup { moment, words, made_ms, server });
        }
    }

    /// Restores the backup and raises its marks, while no node reaches the store. Does nothing
    /// unless the raise covers every lease since the backup: the clocks are right, and no mark is
    /// beyond the raised ones.
    pub(crate) async fn restore_backup(&mut self) {
        let Some(Backup { moment, words, .. }) = self.operating.backup.clone() else { return };
        let is_same = self.recorded().await == Some(Recorded::Settled(words.clone()))
            && self.layout.canonical() == words;
        let now_ms = self.time.now_ms();
        let is_right = |clock: &SkewedClock| clock.peek_ms() == now_ms;
        let millis = |ms: u64| i64::try_from(ms).expect("small");
        let reach_ms = millis(self.setup.window_ms + 2 * self.setup.skew_ms);
        let raised = self.layout.tick_clamped(now_ms + reach_ms) + 1;
        let raised = self.layout.first_position(raised);
        let rows = self.cluster.memory.list_rows().await.expect("memory");
        let is_covered = rows.iter().flat_map(|row| row.row.marks.iter()).all(|m| m <= raised);
        let clocks_are_right = is_right(&self.store_clock) && is_right(&self.clocks[0]);
        if !(is_same && is_covered && clocks_are_right && self.setup.own_clock) {
            return;
        }
        self.cluster.restore(moment);
        let operators = self.setup.nodes();
        self.heal(operators);
        self.cluster.state().links[operators].faults.clear();
        let outage = std::mem::take(&mut self.cluster.state().outage);
        let hangs = std::mem::take(&mut self.cluster.state().log_hangs);
        self.cluster.state().restoring = true;
        let before = self.cluster.state().activity.operator_raised;
        for _ in 0..MOST_RUNS {
            self.begin(Order::Raise, Arc::clone(&self.layout), 0);
            self.let_operators_finish().await;
            if self.cluster.state().activity.operator_raised > before {
                break;
            }
        }
        let mut state = self.cluster.state();
        (state.restoring, state.outage, state.log_hangs) = (false, outage, hangs);
        state.activity.restored += 1;
        if state.activity.operator_raised == before {
            let detail = "no operator raises the marks".to_owned();
            state.failure.get_or_insert(Failure { kind: FailureKind::Standstill, detail });
        }
    }

    /// Restores the backup under running nodes; others start at once. Does nothing unless the
    /// premises of such a restore hold: the backup is older than holders take to check, some
    /// holders lived then and some live now. No start waits, no operator moved the namespace since,
    /// the store's clock is right, and no lease reaches beyond the barrier. All living holders
    /// reach the store until they have checked.
    pub(crate) async fn restore_in_place(&mut self) {
        let Some(backup) = self.operating.backup.take() else { return };
        let Setup { renew_ms, latency_ms, disk_ms, window_ms, skew_ms, own_clock, .. } =
            *self.setup;
        let now_ms = self.time.now_ms();
        let millis = |ms: u64| i64::try_from(ms).expect("small");
        let look_ms = millis(renew_ms * 3 / 2);
        let is_old = self.time.elapsed_ms() - backup.made_ms > look_ms;
        let present = self.cluster.memory.snapshot();
        self.cluster.memory.restore(backup.moment.held.clone());
        let newest = self.cluster.memory.unreleased_rows("default", 1).await.expect("memory");
        self.cluster.memory.restore(present);
        let is_stale = newest.first().is_some_and(|row| now_ms - row.heartbeat_ms > look_ms);
        let rows = self.cluster.memory.list_rows().await.expect("memory");
        let barrier_ms = now_ms + millis(window_ms + 2 * skew_ms);
        let barrier = self.layout.first_position(self.layout.tick_clamped(barrier_ms) + 1);
        let is_covered = rows.iter().flat_map(|row| row.row.marks.iter()).all(|m| m <= barrier);
        let has_settled = |node: &Node| {
            let status = node.issuer.status();
            node.keeper.is_none() || status.reason.is_none() && status.lease.is_some()
        };
        let may = own_clock
            && is_old
            && is_covered
            && is_stale
            && self.recorded().await == Some(Recorded::Settled(backup.words.clone()))
            && self.layout.canonical() == backup.words
            && self.operating.servers.last() == Some(&backup.server)
            && self.operating.lost_record.is_none()
            && !self.operating.has_lost
            && self.operating.running.is_empty()
            && self.store_clock.peek_ms() == now_ms
            && latency_ms * 40 < renew_ms
            // A renewal writes the state file several times.
            && disk_ms.is_none_or(|disk_ms| disk_ms * 20 < renew_ms)
            && self.releases.is_empty()
            && self.nodes.iter().flatten().all(has_settled)
            && self.nodes.iter().flatten().any(|node| node.keeper.is_some());
        if !may {
            return;
        }
        for node in 0..self.setup.nodes() {
            self.heal(node);
            self.cluster.state().links[node].faults.clear();
        }
        self.cluster.restore(backup.moment);
        {
            let mut state = self.cluster.state();
            (state.outage, state.log_hangs) = (false, false);
            state.activity.restored_in_place += 1;
        }
        for turn in 0..8 {
            for node in 0..self.setup.nodes() {
                self.start(node, true);
                self.issue(node, 0, 3);
                if self.layout.backfill_per_tick() > 0 {
                    self.backfill(node, turn % 2);
                }
            }
            self.advance(renew_ms / 4).await;
        }
    }

    pub(crate) fn stop_replication(&mut self) {
        self.operating.replica.get_or_insert(self.cluster.moment());
    }

    /// Lets the replica take the store's place if the premises of a fail-over hold. The clocks are
    /// right, and no lease reaches beyond the barrier. A process checked the store since the last
    /// fail-over, and the replica has the record that this process wrote.
    pub(crate) async fn fail_over(&mut self, back: bool) {
        let replica = self.operating.replica.take().unwrap_or_else(|| self.cluster.moment());
        let now_ms = self.time.now_ms();
        let is_right = |clock: &SkewedClock| clock.peek_ms() == now_ms;
        let memory = &self.cluster.memory;
        let present = memory.read_record("default").await.expect("memory");
        let rows = memory.list_rows().await.expect("memory");
        let Some(present) = present.filter(|_| self.setup.own_clock) else { return };
        let reach_ms = millis(self.setup.window_ms) + 2 * millis(self.setup.skew_ms);
        let barrier = self.layout.first_position(self.layout.tick_clamped(now_ms + reach_ms) + 1);
        let is_covered = rows.iter().flat_map(|row| row.row.marks.iter()).all(|m| m <= barrier);
        let before = self.cluster.moment();
        let server = self.operating.servers.last().cloned().unwrap_or_default();
        memory.restore(replica.held.clone());
        let held = memory.read_record("default").await.expect("memory");
        memory.restore(before.held);
        let is_same = held.is_some_and(|held| {
            held.canonical == present.canonical
                && held.canonical == self.layout.canonical()
                && held.history.identity == server
                && held.history.longest() == present.history.longest()
        });
        let is_lost = self.operating.lost_record.is_some() || self.operating.has_lost;
        let may = is_same && is_covered && !is_lost && is_right(&self.store_clock);
        if !may || !self.operating.running.is_empty() {
            return;
        }
        let former = self.operating.servers.iter().rev().nth(1).filter(|_| back).cloned();
        let next = former.unwrap_or_else(|| format!("server {}", self.operating.servers.len()));
        self.cluster.fail_over(&next, replica);
        self.operating.servers.push(next);
        let mut state = self.cluster.state();
        state.activity.failed_over += 1;
        state.activity.failed_back += u64::from(back);
    }

    /// Restores a lost record, finishes an interrupted move, and restarts the nodes with the
    /// recorded layout.
    pub(crate) async fn finish_operations(&mut self) {
        if !self.operating.is_disturbed {
            self.let_operators_finish().await;
            // Filling an empty store is a move, too, and may have been interrupted.
            if !matches!(self.recorded().await, Some(Recorded::Moving(_))) {
                return;
            }
        }
        if let Some(record) = self.operating.lost_record.take() {
            let memory = &self.cluster.memory;
            memory.create_record("default", &record).await.expect("memory");
        }
        for _ in 0..MOST_RUNS {
            self.let_operators_finish().await;
            match self.recorded().await {
                Some(Recorded::Moving(Relayout { to, .. })) => {
                    self.configure(&to);
                    self.begin(Order::TakeBack, Arc::clone(&self.layout), 0);
                }
                Some(Recorded::Settled(words)) => {
                    self.configure(&words);
                    return self.crash_all();
                }
                // No process reached the store yet.
                None => return self.crash_all(),
            }
        }
        let record = self.recorded().await;
        self.fail(FailureKind::Standstill, format!("no operator finishes: {record:?}"));
    }

    fn crash_all(&mut self) {
        (0..self.setup.nodes()).for_each(|node| self.crash(node));
    }

    async fn let_operators_finish(&mut self) {
        let mut left_ms = LONGEST_RUN_MS;
        while !self.operating.running.is_empty() && left_ms > 0 {
            self.advance(1_000).await;
            left_ms -= 1_000;
        }
    }

    async fn recorded(&self) -> Option<Recorded> {
        let record = self.cluster.memory.read_record("default").await.expect("memory")?;
        Some(Recorded::read(&record.canonical).expect("what operators write can be read"))
    }

    fn configure(&mut self, words: &str) {
        let layout = self.operating.layouts.iter().find(|layout| layout.canonical() == words);
        self.layout = Arc::clone(layout.expect("only configured layouts are recorded"));
    }
}

fn millis(ms: u64) -> i64 {
    i64::try_from(ms).expect("small")
}
