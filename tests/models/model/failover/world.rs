//! Models the processes, the store and the network between them.

use std::{
    cmp::Ordering,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use raindrop_core::{
    lease::{
        EpochClocks, HeldRow, HighWaterMarks, History, Lease, NodeTimes, Row, RowExpiry, RowWrite,
        Token, state::State as LeaseState,
    },
    planted,
};
use stateright::{Model, Property};

use super::{
    configuration::{Breaks, SERVERS, World, ms},
    issued::Issued,
    process::{Context, FRESH, Intent, Judged, Operation, Phase, Process, RAISED, Search, Survey},
    rename::rename,
    store::{Message, Record, Store, Swap, Tables},
};

#[derive(Clone, Debug)]
pub(super) struct FailOvers {
    pub(super) world: World,
    /// Whether processes keep their numbers, because a trace names them.
    pub(super) replays: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    tick: i64,
    pub(super) store: Store,
    pub(super) under_way: Vec<Message>,
    pub(super) processes: Vec<Process>,
    releases: u8,
    raises: u8,
    issued: Issued,
}

/// One step of a process or of the world. A process that is paused or cut off takes no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Tick,
    /// The other server continues with this many states of the log.
    FailOver {
        kept: usize,
    },
    /// A process reads the record and decides; its clock is as far ahead as it may be if `ahead`.
    Survey {
        process: usize,
        ahead: bool,
        operation: Operation,
    },
    /// A process that prepares reads the record apart from the rest.
    Prepare {
        process: usize,
    },
    Read {
        process: usize,
    },
    /// The store receives a swap, perhaps long after its time-out, and the process that waits for
    /// it gets the answer.
    Arrive {
        message: usize,
        all: bool,
    },
    /// A swap that is not answered in time; it may still arrive.
    GiveUp {
        process: usize,
    },
    UseNextLease {
        process: usize,
    },
    Leave {
        process: usize,
        all: bool,
    },
    Crash {
        process: usize,
    },
    OperatorRelease,
    OperatorRaise,
}

impl State {
    pub(super) fn may_overlap(&self) -> bool {
        self.issued.any_twice(self.grants())
    }

    fn grants(&self) -> impl Iterator<Item = &Lease> {
        self.processes.iter().filter_map(|process| process.grant.as_ref())
    }
}

impl FailOvers {
    /// Breaks the planted rule on this thread, which may be any thread of the checker.
    fn plant(&self) {
        planted::plant(self.world.bug);
    }

    fn step(&self, state: &mut State, action: Action) -> Option<()> {
        let world = &self.world;
        let State { tick, store, under_way, processes, releases, raises, issued } = state;
        let sent = match action {
            Action::Tick => {
                let mut later = world.configuration.instants.iter().filter(|at| **at > *tick);
                *tick = *later.next()?;
                None
            }
            Action::FailOver { kept } => {
                store.fail_over(world, kept);
                None
            }
            Action::Survey { process: index, ahead, operation } => {
                let process = &mut processes[index];
                let store_ms = world.clock(store.server, *tick);
                let mut ahead_ms = if ahead { ms(world.configuration.skew) } else { 0 };
                let renews = process.held().is_some();
                if ahead && renews && world.breaks(Breaks::StoreClockBehind) {
                    ahead_ms += ms(4);
                }
                let judged = Judged { store_ms, now_ms: store_ms + ahead_ms };
                let record = &Arc::clone(&store.present().record);
                let survey = Survey { identity: store.identity(), record, judged };
                let row = store.row(world, *tick);
                process.survey(&mut Context { world, index, issued }, &survey, &row, operation)?
            }
            Action::Prepare { process: index } => {
                let process = &mut processes[index];
                let Some((server, store_ms)) = process.surveyed.take() else {
                    process.surveyed = Some((store.server, world.clock(store.server, *tick)));
                    return Some(());
                };
                let judged = Judged { store_ms, now_ms: store_ms };
                let record = &Arc::clone(&store.present().record);
                let survey = Survey { identity: SERVERS[server], record, judged };
                let row = store.row(world, *tick);
                let context = &mut Context { world, index, issued };
                let sent = process.survey(context, &survey, &row, Operation::Renew)?;
                // Nothing but the record is written.
                process.start();
                sent
            }
            Action::Read { process: index } => {
                let (row, store_ms) = (store.row(world, *tick), world.clock(store.server, *tick));
                processes[index].read(&mut Context { world, index, issued }, &row, store_ms)?
            }
            Action::Arrive { message, all } => {
                let arrived = under_way.remove(message);
                return self.arrive(state, &arrived, all);
            }
            Action::GiveUp { process } => {
                let awaited = |message: &&mut Message| message.awaited_by == Some(process);
                under_way.iter_mut().find(awaited)?.awaited_by = None;
                processes[process].give_up();
                None
            }
            Action::UseNextLease { process: index } => {
                processes[index].use_next_lease(&mut Context { world, index, issued })?;
                None
            }
            Action::Leave { process: index, all } => {
                processes[index].leave(&mut Context { world, index, issued }, all)?
            }
            Action::Crash { process: index } => {
                for message in under_way.iter_mut() {
                    message.awaited_by.take_if(|awaiting| *awaiting == index);
                }
                retire(&mut processes[index], &mut Context { world, index, issued });
                None
            }
            Action::OperatorRelease => {
                *releases += 1;
                Some(release(world, store, *tick)?)
            }
            Action::OperatorRaise => {
                *raises += 1;
                Some(raise(world, store, *tick))
            }
        };
        match sent {
            Some(message) if world.configuration.prompt => self.arrive(state, &message, true)?,
            sent => under_way.extend(sent),
        }
        Some(())
    }

    /// The store sees a swap, and its process the answer; `None` if that changes nothing.
    fn arrive(&self, state: &mut State, arrived: &Message, all: bool) -> Option<()> {
        let (world, State { tick, store, processes, issued, .. }) = (&self.world, state);
        let swapped = store.apply(world, *tick, arrived);
        if let Some(index) = arrived.awaited_by {
            processes[index].answer(&mut Context { world, index, issued }, swapped, all);
            return Some(());
        }
        swapped.then_some(())
    }

    /// Drops everything that can no longer change anything.
    fn tidy(&self, state: &mut State) {
        let world = &self.world;
        let State { tick, store, under_way, processes, issued, .. } = state;
        under_way.retain(|message| message.awaited_by.is_some() || store.may_match(message));
        store.forget_states(world);
        let earliest = world.earliest(*tick);
        for row in store.tables_mut().map(|tables| &mut tables.row) {
            if row.expires_ms != 0 && row.expires_ms <= earliest {
                Arc::make_mut(row).expires_ms = 0;
            }
        }
        for (index, process) in processes.iter_mut().enumerate() {
            let waits = matches!(process.phase, Phase::Writing { .. } | Phase::Following { .. });
            if process.left == 0 && !waits {
                let sole = &mut Context { world, index, issued };
                retire(process, sole);
                continue;
            }
            if process.phase == Phase::Idle
                && let Some(known) = &process.known
            {
                let epoch = known.epoch();
                let knows =
                    |tables: &Tables| tables.record.history.epochs().any(|known| known == epoch);
                if process.is_free() && store.tables().all(knows) {
                    (process.known, process.went_back) = (None, false);
                } else if !known.before.is_empty() || !known.identity.is_empty() {
                    // The next survey brings the rest; a release needs the barrier.
                    let kept = History::of_saved_epoch(known.present_epoch());
                    let barrier_ms = known.barrier_ms;
                    process.known = Some(Arc::new(History { barrier_ms, ..kept }));
                }
            }
            if let Some(held) = process.held_mut() {
                held.own_tokens_mut().retain(|own| {
                    store.tables().any(|tables| tables.row.token == *own)
                        || under_way.iter().any(|message| message.sets(*own))
                });
            }
        }
        state.under_way.sort_by_cached_key(order);
        rename(state);
        self.reorder(state);
    }
}

/// Returns an order of messages that ignores their tokens.
fn order(message: &Message) -> impl Ord + use<> {
    let content = match &message.swap {
        Swap::Row(write) => (write.lane, write.marks.iter().collect()),
        Swap::Record(record) => (usize::MAX, vec![record.history.since_ms.unsigned_abs()]),
    };
    (message.awaited_by, content)
}

impl FailOvers {
    /// Sorts the processes: two with equal settings do not differ in anything else.
    fn reorder(&self, state: &mut State) {
        let windows = self.world.configuration.windows;
        if self.replays {
            return;
        }
        if state.processes.len() != 2 || windows[0] != windows[1] {
            return;
        }
        let kind = |process: &Process| {
            let grant = process.grant.map(|Lease { lane, start, limit }| (lane, start, limit));
            // This order ignores tokens.
            let kind = match &process.state {
                _ if process.releasing.is_some() => 3,
                LeaseState::Searching(Search(None)) => 0,
                LeaseState::Searching(Search(Some(_))) => 1,
                _ => 2,
            };
            (process.left, kind, grant)
        };
        let order_of_two = kind(&state.processes[0]).cmp(&kind(&state.processes[1]));
        if order_of_two == Ordering::Less {
            return;
        }
        let mut other = state.clone();
        other.processes.swap(0, 1);
        for message in &mut other.under_way {
            message.awaited_by = message.awaited_by.map(|index| 1 - index);
        }
        other.under_way.sort_by_cached_key(order);
        rename(&mut other);
        if order_of_two == Ordering::Greater || hash(&other) < hash(state) {
            *state = other;
        }
    }
}

fn hash(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

impl Message {
    /// Returns whether the message writes a row under this token.
    fn sets(&self, token: Token) -> bool {
        matches!(&self.swap, Swap::Row(write) if write.token == token)
    }
}

/// Ends a process that sends nothing any more, or crashes: it issues all that it has.
fn retire(process: &mut Process, context: &mut Context<'_>) {
    process.use_next_lease(context);
    if let Some(grant) = process.grant {
        context.issued.add(&grant, grant.limit);
    }
    *process = Process::new(process.left);
}

/// Frees the row: an operator frees it whatever process holds it, a process that has waited only
/// after it expired.
fn release(world: &World, store: &Store, tick: i64) -> Option<Message> {
    let history = &store.present().record.history;
    let row = store.row(world, tick);
    if history.identity != store.identity() {
        return None;
    }
    let store_ms = world.clock(store.server, tick);
    let marks = row.marks_when_released(&world.layout, history, store_ms);
    let write = RowWrite {
        token: FRESH[0],
        epoch: history.epoch(),
        holder: String::new(),
        lane: row.lane,
        marks,
        expiry: RowExpiry::Released,
    };
    Some(Message { awaited_by: None, expected: row.token, swap: Swap::Row(write) })
}

/// An operator begins an epoch in which no lease continues.
fn raise(world: &World, store: &Store, tick: i64) -> Message {
    let Tables { record, .. } = store.present();
    let clocks = EpochClocks::of_store(world.clock(store.server, tick));
    let history = record.history.raised(store.identity(), RAISED, clocks, world.times(0));
    let raised = Record { token: FRESH[1], history };
    Message { awaited_by: None, expected: record.token, swap: Swap::Record(Arc::new(raised)) }
}

impl Model for FailOvers {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        self.plant();
        let configuration = &self.world.configuration;
        let row = Row {
            worker: 0,
            token: Token::from_bits(1),
            holder: String::new(),
            lane: 0,
            marks: HighWaterMarks::all_at(0, configuration.lanes),
            free: true,
            epoch: Token::UNUSED,
            heartbeat_ms: 0,
            expires_ms: 0,
        };
        let (identity, token) = (SERVERS[0], Token::from_bits(2));
        // The planted bug makes the epoch of the identity.
        let epoch = Token::from_bits(3);
        let made = History::first("", epoch, NodeTimes::default())
            .next(identity, epoch, EpochClocks::of_store(0), NodeTimes::default())
            .epoch();
        let own = self.world.times(0);
        let record = Record { token, history: History::first(identity, made, own) };
        let tables = Tables { record: Arc::new(record), row: Arc::new(row) };
        let processes = configuration.writes.iter().map(|left| Process::new(*left));
        vec![State {
            tick: 0,
            store: Store::new(tables),
            under_way: Vec::new(),
            processes: processes.collect(),
            releases: 0,
            raises: 0,
            issued: Issued::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.plant();
        let configuration = &self.world.configuration;
        actions.push(Action::Tick);
        if state.store.may_fail_over(&self.world) {
            let all = state.store.log.len();
            actions.extend((1..=all).map(|kept| Action::FailOver { kept }));
        }
        if state.releases < configuration.releases {
            actions.push(Action::OperatorRelease);
        }
        if state.raises < configuration.raises {
            actions.push(Action::OperatorRaise);
        }
        for (index, process) in state.processes.iter().enumerate() {
            if process.left == 0 {
                continue;
            }
            if state.store.may_be_checked(process.known.as_deref()) {
                actions_of(self, index, process, actions);
            } else if process.phase == Phase::Idle && process.held().is_some() {
                actions.push(Action::UseNextLease { process: index });
            }
            if process.grant.is_some() || !process.is_free() {
                actions.push(Action::Crash { process: index });
            }
        }
        for (index, message) in state.under_way.iter().enumerate() {
            let arrive = |all| Action::Arrive { message: index, all };
            actions.push(arrive(true));
            if let Some(process) = message.awaited_by {
                if state.processes[process].held().is_some() && configuration.lanes > 1 {
                    actions.push(arrive(false));
                }
                actions.push(Action::GiveUp { process });
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        self.plant();
        let mut next = last.clone();
        self.step(&mut next, action)?;
        self.tidy(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(UNIQUE, |_, state: &State| !state.may_overlap()),
            Property::sometimes(LOST, |_, state| has_lost_lease(state)),
            Property::sometimes(LATE, |_, state| is_refused_late(state)),
            Property::sometimes(UNBROKEN, |model: &Self, state| model.is_unbroken(state)),
            Property::sometimes(OVER_SEVERAL, |_, state| goes_on_over_several(state)),
            Property::sometimes(ANEW, |model, state| model.began_anew(state)),
        ];
        let shows = self.world.configuration.shows;
        properties.retain(|property| property.name == UNIQUE || shows.contains(&property.name));
        properties
    }
}

impl FailOvers {
    /// Returns whether a holder extended its lease in a new epoch.
    fn is_unbroken(&self, state: &State) -> bool {
        let Tables { record, row } = state.store.present();
        let barrier = record.history.barrier(&self.world.layout);
        let extends = |process: &Process| match (process.held(), &process.grant) {
            (Some(held), Some(grant)) => {
                held.known_row.token() == row.token
                    && held.at_barrier().is_none()
                    && grant.start < barrier
                    && grant.limit == row.marks[grant.lane]
            }
            _ => false,
        };
        row.epoch == record.history.epoch() && state.processes.iter().any(extends)
    }

    /// Returns whether a lease that begins at a barrier can be used.
    fn began_anew(&self, state: &State) -> bool {
        let barrier = state.store.present().record.history.barrier(&self.world.layout);
        let begins = |lease: &Lease| lease.start >= barrier && lease.limit > lease.start;
        barrier > 0 && state.grants().any(begins)
    }
}

fn actions_of(model: &FailOvers, index: usize, process: &Process, actions: &mut Vec<Action>) {
    let configuration = &model.world.configuration;
    match process.phase {
        Phase::Idle | Phase::Entered => {
            for ahead in [false, true] {
                let is_possible = !ahead
                    || configuration.skew > 0
                    || model.world.breaks(Breaks::StoreClockBehind);
                if is_possible {
                    let operation = Operation::Renew;
                    actions.push(Action::Survey { process: index, ahead, operation });
                }
            }
            if configuration.lanes > 1 {
                let operation = Operation::Rotate;
                actions.push(Action::Survey { process: index, ahead: false, operation });
            }
            match &process.state {
                _ if process.releasing.is_some() => {}
                LeaseState::Searching(Search(None))
                    if model.world.breaks(Breaks::RecordReadApart) =>
                {
                    actions.push(Action::Prepare { process: index });
                }
                LeaseState::Searching(Search(Some(_))) => {
                    actions.push(Action::Leave { process: index, all: true });
                }
                LeaseState::Held(_) => {
                    for all in [false, true] {
                        actions.push(Action::Leave { process: index, all });
                    }
                    actions.push(Action::UseNextLease { process: index });
                }
                _ => {}
            }
        }
        Phase::Enter | Phase::Settle(_) => actions.push(Action::Read { process: index }),
        Phase::Following { .. } | Phase::Writing { .. } => {}
    }
}

/// No position of a lane is issued twice.
pub(super) const UNIQUE: &str = "unique";
/// Proof that the exploration was not idle.
pub(super) const LOST: &str = "a lease that the store lost can still be used in the next epoch";
/// The same.
pub(super) const LATE: &str = "a late write is refused for its epoch alone";
/// The same.
pub(super) const UNBROKEN: &str = "a lease goes on unbroken in the next epoch";
/// The same.
pub(super) const OVER_SEVERAL: &str = "a lease goes on unbroken over several epochs";
/// The same.
pub(super) const ANEW: &str = "a lease begins at a barrier";

fn has_lost_lease(state: &State) -> bool {
    let Tables { record, row } = state.store.present();
    let is_lost = |lease: &Lease| lease.limit > row.marks[lease.lane];
    record.history.has_failed_over()
        && row.epoch != record.history.epoch()
        && state.grants().any(is_lost)
}

/// Whether a holder is about to extend a lease that it wrote more than one epoch ago.
fn goes_on_over_several(state: &State) -> bool {
    let history = &state.store.present().record.history;
    let goes_on = |held: &HeldRow<Intent>| {
        let is_present = held.known_row.epoch() == history.epoch();
        let last = held.last_write.filter(|_| is_present && held.at_barrier().is_none());
        last.is_some_and(|last| history.epochs().position(|epoch| epoch == last.epoch) > Some(1))
    };
    state.processes.iter().filter_map(Process::held).any(goes_on)
}

fn is_refused_late(state: &State) -> bool {
    let Tables { record, row } = state.store.present();
    let is_late = |message: &Message| match &message.swap {
        Swap::Row(write) => row.token == message.expected && write.epoch != record.history.epoch(),
        Swap::Record(_) => false,
    };
    record.history.identity == state.store.identity() && state.under_way.iter().any(is_late)
}
