//! Explores to the end what follows if the clock of the store and of all processes is ahead for a
//! while: an epoch begins meanwhile, and an operator lowers its barrier. Barriers, marks and epochs
//! are those of the service. Leases are as short as possible, and a tick has one position.
//!
//! Premise, with or without an operator: an epoch that begins once the clock is right loses no
//! write that was made while the clock was ahead.

use raindrop_core::{
    layout::{Layout, LayoutSpec, TimeUnit},
    lease::{EpochClocks, HighWaterMarks, History, HistoryVerdict, NodeTimes, Token},
};
use stateright::{Checker, HasDiscoveries, Model, Property};

const TICK_MS: i64 = 1_000;
/// Time ends here.
const LAST: u8 = 2;
/// By how much the clock is ahead.
const AHEAD: u8 = 3;
const OWN: NodeTimes = NodeTimes { reach_ms: TICK_MS, renew_ms: 0 };
/// How long a lease holds its row without a renewal.
const TTL: u8 = 1;
const PROCESSES: usize = 2;
const FRESH: [Token; 3] = [Token::from_bits(200), Token::from_bits(201), Token::from_bits(202)];

/// The rule or premise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    Sound,
    /// The operator lowers the barrier though the store lost writes since the clock was first
    /// ahead.
    UntrueStatement,
    /// The operator checks the present epoch alone for lost writes.
    StatementOfTheLastEpoch,
    /// The operator lowers the marks with the barrier.
    MarksLowered,
    /// The store loses writes of the time ahead once the clock is right.
    LostLater,
}

#[derive(Clone, Debug)]
struct ClockAhead {
    mutant: Mutant,
    layout: Layout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Before,
    Ahead,
    After,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Store {
    history: History,
    row: Row,
    /// How many writes there were while the clock was ahead.
    written_ahead: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Row {
    token: Token,
    epoch: Token,
    marks: HighWaterMarks,
    written: u8,
    is_released: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holder {
    token: Token,
    epoch: Token,
    next: u64,
    limit: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    time: u8,
    phase: Phase,
    store: Store,
    backup: Option<Store>,
    backups: u8,
    /// The server, which each fail-over and restart changes.
    server: u8,
    failed_over: bool,
    restarted: bool,
    lowered: bool,
    /// The fail-over lost writes of the time ahead, and no epoch began since.
    loses: bool,
    /// Whether such writes were lost, at any time or by the last epoch.
    lost: bool,
    lost_last: bool,
    holders: [Option<Holder>; PROCESSES],
    issued: u16,
    issued_twice: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Tick,
    NextPhase,
    BackUp,
    Restart,
    FailOver,
    Lower,
    Issue(usize),
    Look(usize),
}

/// No position is issued twice.
const UNIQUE: &str = "unique";
/// Proof that the exploration was not idle.
const LOWERED: &str = "a lease begins at a barrier that was lowered";

impl ClockAhead {
    fn new(mutant: Mutant) -> Self {
        let spec = LayoutSpec {
            rollback_bits: 0,
            max_sequence: Some(0),
            ..LayoutSpec::for_unit(TimeUnit::Second)
        };
        Self { mutant, layout: spec.build().expect("valid") }
    }

    fn instant(&self, clock: u8) -> i64 {
        self.layout.epoch_ms() + i64::from(clock) * TICK_MS
    }

    fn barrier(&self, history: &History) -> u64 {
        history.barrier(&self.layout)
    }

    /// Reads the record, and begins an epoch if another server has it; `None` where the premise
    /// forbids that.
    fn begins_epoch(&self, state: &mut State, clock: u8) -> Option<bool> {
        let (server, history) = (state.server.to_string(), &state.store.history);
        if history.judge(Some(&server), None) == HistoryVerdict::Continued {
            return Some(false);
        }
        if state.loses && state.phase != Phase::Ahead && self.mutant != Mutant::LostLater {
            return None;
        }
        (state.lost, state.lost_last) = (state.lost || state.loses, state.loses);
        state.loses = false;
        let clocks = EpochClocks::of_store(self.instant(clock));
        state.store.history = history.next(&server, FRESH[0], clocks, OWN);
        wrote(state);
        Some(true)
    }

    fn look(&self, state: &mut State, process: usize, clock: u8) -> Option<()> {
        if self.begins_epoch(state, clock)? {
            return Some(());
        }
        let epoch = state.store.history.epoch();
        let row = &mut state.store.row;
        let marks = state.store.history.marks(&self.layout, row.epoch, &row.marks);
        let reached = u64::from(clock) + 1;
        match &mut state.holders[process] {
            Some(holder) if holder.token != row.token => state.holders[process] = None,
            Some(holder) if holder.epoch != epoch => {
                (row.token, row.epoch, row.marks, row.is_released) = (FRESH[2], epoch, marks, true);
                state.holders[process] = None;
                wrote(state);
            }
            Some(holder) if reached > holder.limit => {
                (holder.token, holder.limit) = (FRESH[2], reached);
                (row.token, row.marks) = (FRESH[2], marks.with(0, reached));
                row.written = clock;
                wrote(state);
            }
            Some(_) => return None,
            None => {
                let is_held = !row.is_released && (row.written..row.written + TTL).contains(&clock);
                let start = marks[0];
                if is_held || start > reached {
                    return None;
                }
                let limit = start.max(reached);
                *row = Row {
                    token: FRESH[2],
                    epoch,
                    marks: marks.with(0, limit),
                    written: clock,
                    is_released: false,
                };
                let holder = Holder { token: FRESH[2], epoch, next: start, limit };
                state.holders[process] = Some(holder);
                wrote(state);
            }
        }
        Some(())
    }

    fn lower(&self, state: &mut State, clock: u8) -> Option<()> {
        let may = match self.mutant {
            Mutant::UntrueStatement => true,
            Mutant::StatementOfTheLastEpoch => !state.lost_last,
            _ => !state.lost,
        };
        if state.lowered || state.phase == Phase::Ahead || !may {
            return None;
        }
        let (server, now_ms) = (state.server.to_string(), self.instant(clock));
        let history = &state.store.history;
        let lowered = history.lowered(Some(&server), [FRESH[1], FRESH[0]], now_ms, OWN).ok()?;
        if self.mutant == Mutant::MarksLowered {
            let row = &mut state.store.row;
            let barrier = lowered.barrier(&self.layout);
            row.marks = HighWaterMarks::all_at(row.marks[0].min(barrier), 1);
        }
        (state.store.history, state.lowered) = (lowered, true);
        Some(())
    }

    fn fail_over(state: &mut State) -> Option<()> {
        let backup = state.backup.take().filter(|backup| *backup != state.store)?;
        state.loses |= state.store.written_ahead > backup.written_ahead;
        (state.store, state.backups) = (backup.clone(), 2);
        (state.backup, state.failed_over) = (Some(backup), true);
        state.server += 1;
        Some(())
    }

    fn step(&self, state: &mut State, action: Action) -> Option<()> {
        let clock = state.time + if state.phase == Phase::Ahead { AHEAD } else { 0 };
        match action {
            Action::Tick => state.time += 1,
            Action::NextPhase => {
                state.phase = match state.phase {
                    Phase::Before => Phase::Ahead,
                    Phase::Ahead | Phase::After => Phase::After,
                }
            }
            Action::BackUp => {
                (state.backup, state.backups) = (Some(state.store.clone()), state.backups + 1);
            }
            Action::Restart => (state.server, state.restarted) = (state.server + 1, true),
            Action::FailOver => Self::fail_over(state)?,
            Action::Lower => self.lower(state, clock)?,
            Action::Issue(process) => {
                let holder = state.holders[process].as_mut()?;
                let position = holder.next.max(u64::from(clock));
                if position >= holder.limit {
                    return None;
                }
                holder.next = position + 1;
                state.issued_twice |= state.issued & 1 << position != 0;
                state.issued |= 1 << position;
            }
            Action::Look(process) => self.look(state, process, clock)?,
        }
        rename(state);
        Some(())
    }
}

fn wrote(state: &mut State) {
    state.store.written_ahead += u8::from(state.phase == Phase::Ahead);
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
    // Which process holds a lease does not matter.
    state.holders.sort_by_key(|holder| holder.as_ref().map(|it| (it.next, it.limit)));
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
}

impl Model for ClockAhead {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let row = Row {
            token: FRESH[2],
            epoch: Token::UNUSED,
            marks: HighWaterMarks::all_at(0, 1),
            written: 0,
            is_released: true,
        };
        let history = History::first("0", FRESH[0], OWN);
        let mut state = State {
            time: 0,
            phase: Phase::Before,
            store: Store { history, row, written_ahead: 0 },
            backup: None,
            backups: 0,
            server: 0,
            failed_over: false,
            restarted: false,
            lowered: false,
            loses: false,
            lost: false,
            lost_last: false,
            holders: [None, None],
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
        if state.time < LAST {
            actions.push(Action::Tick);
        }
        if state.phase != Phase::After {
            actions.push(Action::NextPhase);
        }
        if state.backups < 2 {
            actions.push(Action::BackUp);
        }
        if !state.restarted {
            actions.push(Action::Restart);
        }
        if !state.failed_over && state.backup.is_some() {
            actions.push(Action::FailOver);
        }
        actions.push(Action::Lower);
        for process in 0..PROCESSES {
            actions.extend([Action::Issue(process), Action::Look(process)]);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        self.step(&mut next, action)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![Property::always(UNIQUE, |_, state: &State| !state.issued_twice)];
        if self.mutant == Mutant::Sound {
            properties.push(Property::sometimes(LOWERED, |model: &Self, state: &State| {
                let barrier = model.barrier(&state.store.history);
                let mut holders = state.holders.iter().flatten();
                state.lowered && holders.any(|it| it.next == barrier + 1 && it.limit > barrier)
            }));
        }
        properties
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
fn barrier_that_is_lowered_repeats_nothing() {
    let checker = ClockAhead::new(Mutant::Sound).checker().spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!(
        "a clock ahead, and a barrier lowered: {states} states, {depth} steps deep, all explored"
    );
    checker.assert_properties();
}

#[test]
#[expect(clippy::print_stdout, reason = "the way to a bug is shown on demand")]
fn each_broken_statement_about_a_barrier_is_found() {
    for mutant in [
        Mutant::UntrueStatement,
        Mutant::StatementOfTheLastEpoch,
        Mutant::MarksLowered,
        Mutant::LostLater,
    ] {
        let found = HasDiscoveries::AnyOf([UNIQUE].into());
        let checker = ClockAhead::new(mutant).checker().finish_when(found).spawn_bfs().join();
        let states = checker.unique_state_count();
        let path = checker.discovery(UNIQUE);
        let path = path.unwrap_or_else(|| panic!("{mutant:?} was not found in {states} states"));
        println!("{mutant:?}: found in {} steps ({states} states)", path.into_actions().len());
    }
}
