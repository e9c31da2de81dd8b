//! Explores how the longest reach in the record falls. One node has a longer window than the other,
//! the store's clock is ahead for a while, and the store fails over. Barriers, marks, epochs and
//! the longest reach are those of the service. A tick is an hour and has one position. The model
//! omits one condition of the service: two hours of the node's own steady clock.
//!
//! Premise: a fail-over does not lose the first record of a longer window.

use raindrop_core::{
    layout::{Layout, LayoutSpec, TimeUnit},
    lease::{EpochClocks, HighWaterMarks, History, HistoryVerdict, LongestTime, NodeTimes, Token},
    planted::{Bug, plant},
};
use stateright::{Checker, HasDiscoveries, Model, Property};

const TICK_MS: i64 = 3_600_000;
/// How far the leases of each process reach, in ticks.
const REACHES: [u8; 2] = [4, 1];
/// A step of time, a tick less than the longest reach must be unused before it falls.
const LEAP: u8 = 27;
/// By how much the store's clock is ahead.
const AHEAD: u8 = 28;
const FRESH: [Token; 2] = [Token::from_bits(200), Token::from_bits(201)];

/// The fault in a world, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    Sound,
    /// A planted bug of the service.
    Planted(Bug),
    /// A node leases by its window before the record has it.
    NotRecorded,
    /// Premise: a fail-over loses the first record of a longer window.
    RecordLost,
}

/// Why a node finds that the longest reach is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum World {
    /// Time passes.
    Passes,
    /// The store's clock is ahead for a while.
    Ahead,
}

#[derive(Clone, Debug)]
struct LongWindow {
    world: World,
    /// How many single ticks pass beside the leap.
    ticks: u8,
    mutant: Mutant,
    layout: Layout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Clock {
    NotYetAhead,
    Ahead,
    RightAgain,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Store {
    history: History,
    row: Row,
    /// How often a longer reach was recorded.
    records: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Row {
    token: Token,
    epoch: Token,
    marks: HighWaterMarks,
    is_released: bool,
    /// The store's clock when the row was written.
    written: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holder {
    token: Token,
    epoch: Token,
    next: u64,
    limit: u64,
}

/// A write of the row that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sent {
    expected: Token,
    epoch: Token,
    marks: HighWaterMarks,
    next: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    time: u8,
    leapt: bool,
    clock: Clock,
    store: Store,
    backup: Option<Store>,
    failed_over: bool,
    holders: [Option<Holder>; 2],
    sent: [Option<Sent>; 2],
    issued: u64,
    issued_twice: bool,
}

impl State {
    const fn server(&self) -> &'static str {
        if self.failed_over { "b" } else { "a" }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Tick,
    Leap,
    NextClock,
    BackUp,
    FailOver,
    Issue(usize),
    Look(usize),
    Arrive(usize),
}

/// No position is issued twice.
const UNIQUE: &str = "unique";
/// Proof that the exploration was not idle.
const FELL: &str = "a lease begins at a barrier by the shorter reach";

impl LongWindow {
    fn new(world: World, ticks: u8, mutant: Mutant) -> Self {
        let spec = LayoutSpec {
            rollback_bits: 0,
            max_sequence: Some(0),
            ..LayoutSpec::for_unit(TimeUnit::Hour)
        };
        Self { world, ticks, mutant, layout: spec.build().expect("valid") }
    }

    fn plant(&self) {
        if let Mutant::Planted(bug) = self.mutant {
            plant(Some(bug));
        }
    }

    fn instant(&self, clock: u8) -> i64 {
        self.layout.epoch_ms() + i64::from(clock) * TICK_MS
    }

    fn times(process: usize) -> NodeTimes {
        NodeTimes { reach_ms: i64::from(REACHES[process]) * TICK_MS, renew_ms: 0 }
    }

    /// Follows the record. Returns whether it was written, so that nothing else is done.
    fn follow(&self, state: &mut State, process: usize, store_clock: u8) -> bool {
        let server = state.server();
        let (history, own) = (&state.store.history, Self::times(process));
        let (store_ms, node_ms) = (self.instant(store_clock), self.instant(state.time));
        let agree = state.clock != Clock::Ahead;
        let can_set = history.lacks_barrier() && agree;
        let followed = match history.judge(Some(server), None) {
            HistoryVerdict::Continued if !can_set && self.mutant == Mutant::NotRecorded => {
                history.clone()
            }
            HistoryVerdict::Continued if !can_set => {
                let until_ms = node_ms + own.reach_ms;
                let until_ms = (node_ms > store_ms).then_some(until_ms);
                let continued = history.continued(Some(server), own, until_ms);
                continued.used_by(own, store_ms).without_unused_times(store_ms)
            }
            _ => {
                let later_ms = agree.then_some(store_ms.max(node_ms));
                history.next(server, FRESH[0], EpochClocks { store_ms, later_ms }, own)
            }
        };
        let is_written = followed != *history;
        state.store.records += u8::from(followed.reach.ms > history.reach.ms);
        state.store.history = followed;
        is_written
    }

    fn store_clock(state: &State) -> u8 {
        state.time + if state.clock == Clock::Ahead { AHEAD } else { 0 }
    }

    /// Reads record and row, and sends a write of either.
    fn look(&self, state: &mut State, process: usize) -> Option<()> {
        let store_clock = Self::store_clock(state);
        if self.follow(state, process, store_clock) {
            return Some(());
        }
        let Store { history, row, .. } = &state.store;
        let marks = history.marks(&self.layout, row.epoch, &row.marks);
        let reached = u64::from(state.time) + u64::from(REACHES[process]);
        let next = match &state.holders[process] {
            Some(holder) if holder.token != row.token => {
                state.holders[process] = None;
                return Some(());
            }
            // It uses up what it has.
            Some(holder) if holder.epoch != history.epoch() || reached <= holder.limit => {
                return None;
            }
            Some(holder) => holder.next,
            None => {
                // A lease that is not renewed holds its row for one tick.
                let is_held = !row.is_released && row.written == store_clock;
                if is_held || history.lacks_barrier() || marks[0] > reached {
                    return None;
                }
                marks[0]
            }
        };
        let (expected, epoch, limit) = (row.token, history.epoch(), next.max(reached));
        state.sent[process] = Some(Sent { expected, epoch, marks: marks.with(0, limit), next });
        Some(())
    }

    /// Lets the write of a row arrive, and its answer.
    fn arrive(state: &mut State, process: usize) -> Option<()> {
        let written = Self::store_clock(state);
        let Sent { expected, epoch, marks, next } = state.sent[process].take()?;
        let server = state.server();
        let Store { history, row, .. } = &mut state.store;
        if row.token != expected || history.epoch() != epoch || history.identity != server {
            return Some(());
        }
        let (token, limit) = (FRESH[1], marks[0]);
        *row = Row { token, epoch, marks, is_released: false, written };
        // The process issues meanwhile by the lease that continues.
        let next = state.holders[process].as_ref().map_or(next, |holder| holder.next);
        state.holders[process] = Some(Holder { token, epoch, next, limit });
        Some(())
    }

    fn fail_over(&self, state: &mut State) -> Option<()> {
        let backup = state.backup.take().filter(|backup| *backup != state.store)?;
        if backup.records < state.store.records && self.mutant != Mutant::RecordLost {
            return None;
        }
        (state.store, state.failed_over) = (backup, true);
        Some(())
    }

    fn step(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Tick => state.time += 1,
            Action::Leap => (state.time, state.leapt) = (state.time + LEAP, true),
            Action::NextClock => {
                state.clock = match state.clock {
                    Clock::NotYetAhead => Clock::Ahead,
                    Clock::Ahead | Clock::RightAgain => Clock::RightAgain,
                }
            }
            Action::BackUp => state.backup = Some(state.store.clone()),
            Action::FailOver => self.fail_over(state)?,
            Action::Issue(process) => {
                let holder = state.holders[process].as_mut()?;
                let position = holder.next.max(u64::from(state.time));
                if position >= holder.limit {
                    return None;
                }
                holder.next = position + 1;
                state.issued_twice |= state.issued & 1 << position != 0;
                state.issued |= 1 << position;
            }
            Action::Look(process) => self.look(state, process)?,
            Action::Arrive(process) => Self::arrive(state, process)?,
        }
        rename(state);
        Some(())
    }
}

/// Numbers tokens in the order in which a state shows them, so that equal states are one.
fn rename(state: &mut State) {
    let mut names: Vec<Token> = Vec::new();
    let mut name = |token: &mut Token| {
        if *token == Token::UNUSED {
            return;
        }
        let known = names.iter().position(|name| name == token);
        let index = known.unwrap_or_else(|| {
            names.push(*token);
            names.len() - 1
        });
        *token = Token::from_bits(index as u128 + 1);
    };
    for store in [Some(&mut state.store), state.backup.as_mut()].into_iter().flatten() {
        name(&mut store.history.epoch);
        store.history.before.iter_mut().for_each(|epoch| name(&mut epoch.token));
        name(&mut store.row.token);
        name(&mut store.row.epoch);
    }
    for holder in state.holders.iter_mut().flatten() {
        name(&mut holder.token);
        name(&mut holder.epoch);
    }
    for sent in state.sent.iter_mut().flatten() {
        name(&mut sent.expected);
        name(&mut sent.epoch);
    }
}

impl Model for LongWindow {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let row = Row {
            token: FRESH[1],
            epoch: Token::UNUSED,
            marks: HighWaterMarks::all_at(0, 1),
            is_released: true,
            written: 0,
        };
        let history = History::first("a", FRESH[0], Self::times(1));
        let mut state = State {
            time: 0,
            leapt: false,
            clock: Clock::NotYetAhead,
            store: Store { history, row, records: 0 },
            backup: None,
            failed_over: false,
            holders: [None, None],
            sent: [None, None],
            issued: 0,
            issued_twice: false,
        };
        rename(&mut state);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.issued_twice {
            return;
        }
        let ticks = if state.leapt { state.time - LEAP } else { state.time };
        if ticks < self.ticks {
            actions.push(Action::Tick);
        }
        if !state.leapt && self.world == World::Passes {
            actions.push(Action::Leap);
        }
        if state.clock != Clock::RightAgain && self.world == World::Ahead {
            actions.push(Action::NextClock);
        }
        if state.backup.is_none() && !state.failed_over {
            actions.push(Action::BackUp);
        }
        if state.backup.is_some() && !state.failed_over {
            actions.push(Action::FailOver);
        }
        for process in 0..2 {
            actions.push(Action::Issue(process));
            actions.push(match state.sent[process] {
                Some(_) => Action::Arrive(process),
                None => Action::Look(process),
            });
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        self.plant();
        let mut next = last.clone();
        self.step(&mut next, action)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![Property::always(UNIQUE, |_, state: &State| !state.issued_twice)];
        if self.mutant == Mutant::Sound {
            properties.push(Property::sometimes(FELL, |model: &Self, state: &State| {
                let history = &state.store.history;
                let barrier = history.barrier(&model.layout);
                let mut holders = state.holders.iter().flatten();
                // Only a reach that falls leaves such an instant here.
                let fell = history.reached_ms > 0 && history.reach == LongestTime::of(TICK_MS);
                fell && barrier > 0 && holders.any(|it| it.next >= barrier)
            }));
        }
        properties
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
fn longest_window_that_falls_repeats_nothing() {
    for world in [World::Passes, World::Ahead] {
        let checker = LongWindow::new(world, 2, Mutant::Sound).checker().spawn_bfs().join();
        let (states, depth) = (checker.unique_state_count(), checker.max_depth());
        println!(
            "the longest window falls, {world:?}: {states} states, {depth} steps deep, all explored"
        );
        checker.assert_properties();
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the way to a bug is shown on demand")]
fn each_broken_rule_of_the_longest_window_is_found() {
    for (world, ticks, mutant) in [
        (World::Ahead, 2, Mutant::Planted(Bug::FallenReachForgotten)),
        (World::Passes, 3, Mutant::Planted(Bug::LongestNotConfirmed)),
        (World::Passes, 2, Mutant::NotRecorded),
        (World::Passes, 2, Mutant::RecordLost),
    ] {
        let found = HasDiscoveries::AnyOf([UNIQUE].into());
        let model = LongWindow::new(world, ticks, mutant);
        let checker = model.checker().finish_when(found).spawn_bfs().join();
        let states = checker.unique_state_count();
        let path = checker.discovery(UNIQUE);
        let path = path.unwrap_or_else(|| panic!("{mutant:?} was not found in {states} states"));
        println!("{mutant:?}: found in {} steps ({states} states)", path.into_actions().len());
    }
}
