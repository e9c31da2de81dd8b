//! Models the processes, the store, its clock and its backup.

use std::{
    collections::HashSet,
    hash::BuildHasher,
    sync::{Arc, Mutex},
};

use foldhash::fast::FixedState;
use raindrop_core::{
    lease::{EpochClocks, History, Row},
    planted,
};
use stateright::{Model, Property};

use super::{
    configuration::{Breaks, Configuration, PRESENT, Restored, World, instant},
    process::{Context, Phase, Presence, Process},
    rename::rename,
    store::{FRESH_EPOCH, FRESH_NOBODYS, FRESH_ROW, Record, SERVER, Tables},
    time::Passing,
};

/// More ticks than any way back takes.
const CALM_TICKS: usize = 16;
const STEPS_OF_A_TICK: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct Restores {
    world: World,
    /// A process that has just started.
    started: Process,
    /// The hashes of states from which some process comes to hold a row.
    recoverable: Arc<Mutex<HashSet<u64>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) tables: Tables,
    pub(super) backup: Option<Backup>,
    restores: u8,
    epochs: u8,
    raises: u8,
    releases: u8,
    state_files: u8,
    cuts: u8,
    clock: StoreClock,
    pub(super) processes: Vec<Process>,
    /// The rows whose position of the present tick was issued.
    pub(super) issued: Vec<bool>,
    issued_twice: bool,
    /// The IDs of the past tick that were issued, one bit each.
    past_issued: u8,
    past_issued_twice: bool,
    /// An epoch began, though nothing was lost.
    began_falsely: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Backup {
    pub(super) tables: Tables,
    /// Its age in ticks, as far as that matters.
    age: u8,
}

/// Whether the store's clock is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum StoreClock {
    Right,
    Wrong,
}

/// One step of a process or of the world. A process that is paused or cut off takes no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Tick,
    /// One statement; if it chooses a row, at `random`.
    Step {
        process: usize,
        random: u64,
    },
    Stop {
        process: usize,
    },
    /// A holder reserves an ID of the past tick, checks whether the store lost nothing since, or
    /// issues the ID.
    Past {
        process: usize,
    },
    Crash {
        process: usize,
    },
    /// A process crashes and leaves its lease in a state file.
    CrashKept {
        process: usize,
    },
    /// A holder loses the store until its next step.
    CutOff {
        process: usize,
    },
    BackUp,
    Restore,
    Raise,
    Release {
        worker: usize,
    },
    MendClock,
}

impl Restores {
    pub(super) fn new(configuration: Configuration) -> Self {
        Self {
            world: World::new(configuration),
            started: Process::default(),
            recoverable: Arc::default(),
        }
    }

    fn store_ms(&self, state: &State) -> i64 {
        match state.clock {
            StoreClock::Wrong => instant(self.world.configuration.clock_error),
            StoreClock::Right => instant(0),
        }
    }

    fn step(&self, state: &mut State, action: Action) -> Option<()> {
        let world = &self.world;
        let configuration = &world.configuration;
        let store_ms = self.store_ms(state);
        let State { tables, backup, processes, .. } = state;
        let mut context = Context { world, tables, store_ms, began: false };
        match action {
            Action::Tick => {
                let passing = Passing::of(configuration);
                passing.tables(tables);
                if let Some(backup) = backup {
                    passing.tables(&mut backup.tables);
                    backup.age = configuration.age.min(backup.age + 1);
                }
                processes.iter_mut().for_each(|process| passing.process(process));
                state.issued.fill(false);
            }
            Action::Step { process, random } => {
                let process = &mut processes[process];
                match process.held_mut() {
                    Some(held) if held.presence == Presence::CutOff => {
                        (held.presence, held.since) = (Presence::Here, 1);
                    }
                    Some(held) if held.presence == Presence::Down => process.resume(&context),
                    Some(_) => process.hold(&mut context)?,
                    None => process.search(&mut context, random)?,
                }
                state.began_falsely |= context.began && state.restores == 0;
            }
            Action::Stop { process } => {
                processes[process].stop(&mut context);
                processes[process] = Process::default();
            }
            Action::Past { process } => {
                if let Some(number) = processes[process].backfill(&mut context)? {
                    state.past_issued_twice |= state.past_issued & 1 << number != 0;
                    state.past_issued |= 1 << number;
                }
            }
            Action::Crash { process } => processes[process].crash(false),
            Action::CrashKept { process } => {
                state.state_files += 1;
                processes[process].crash(true);
            }
            Action::CutOff { process } => {
                state.cuts += 1;
                if let Some(held) = processes[process].held_mut() {
                    held.presence = Presence::CutOff;
                }
            }
            Action::BackUp => *backup = Some(Backup { tables: tables.clone(), age: 0 }),
            Action::Restore => {
                state.restores += 1;
                if configuration.clock_error != 0 {
                    state.clock = StoreClock::Wrong;
                }
                restore(configuration, tables, backup.as_ref());
                if state.restores == configuration.restores {
                    *backup = None;
                }
                if world.tells_who_looked() {
                    state.issued.fill(false);
                    processes.iter_mut().for_each(|process| process.has_issued = false);
                }
                if world.tells_who_looked() || configuration.past > 0 {
                    processes.iter_mut().for_each(|process| process.has_looked = false);
                }
            }
            Action::Raise => {
                match state.restores {
                    0 => state.epochs += 1,
                    _ => state.raises += 1,
                }
                let record = tables.record.as_ref()?;
                let (own, clocks) = (world.times(), EpochClocks::of_store(store_ms));
                let fresh = [FRESH_NOBODYS, FRESH_EPOCH];
                let history = record.history.raised(SERVER, fresh, clocks, own);
                if !world.breaks(Breaks::NotRaised) {
                    tables.write_history(history);
                }
            }
            Action::Release { worker } => {
                state.releases += 1;
                let row = tables.row(worker, store_ms).filter(|row| !row.free)?;
                let history = &tables.record.as_ref()?.history;
                let beyond = history.beyond(&world.layout, store_ms);
                let marks = history.marks(&world.layout, row.epoch, &row.marks);
                let row = Row {
                    token: FRESH_ROW,
                    epoch: history.epoch(),
                    marks: marks.at_least(beyond),
                    heartbeat_ms: store_ms,
                    expires_ms: 0,
                    free: false,
                    ..row
                };
                tables.rows[worker] = Some(Arc::new(row));
            }
            Action::MendClock => state.clock = StoreClock::Right,
        }
        self.issue(state);
        rename(state, configuration);
        Some(())
    }

    /// Lets each process issue the position of the present tick as soon as its lease has it.
    fn issue(&self, state: &mut State) {
        let may_be_late = self.world.tells_who_looked();
        for process in &mut state.processes {
            let Some(held) = process.held().filter(|held| held.presence != Presence::Down) else {
                continue;
            };
            let has_present = (held.grant.start..held.grant.limit).contains(&PRESENT);
            let worker = held.worker();
            let counts = process.has_looked || !may_be_late;
            if has_present && counts && !process.has_issued {
                process.has_issued = true;
                state.issued_twice |= std::mem::replace(&mut state.issued[worker], true);
            }
        }
    }

    fn may_restore(&self, state: &State) -> bool {
        let configuration = &self.world.configuration;
        if state.restores == configuration.restores {
            return false;
        }
        let is_old =
            |backup: &Backup| backup.age == configuration.age && state.tables != backup.tables;
        let needs_backup = !matches!(
            configuration.restored,
            Restored::NoRows | Restored::NoRecord | Restored::Nothing
        );
        if needs_backup && !state.backup.as_ref().is_some_and(is_old) {
            return false;
        }
        // The next step is the swap after a check, which may have seen a stale store.
        let is_ready = |process: &Process| match process.phase {
            Phase::Ready(..) => true,
            Phase::Renew(judged) | Phase::Anew(judged) => {
                process.held().is_some_and(|held| held.has_lapsed(&self.world, judged))
            }
            _ => false,
        };
        let waits =
            |process: &Process, left: i64| process.stale.is_some_and(|stale| stale.left >= left);
        let is_in_time = |process: &Process| match configuration.breaks {
            Breaks::RestoredInWait => true,
            Breaks::RestoredAfterWait => !is_ready(process) && !waits(process, 1),
            // A swap that uses an earlier reading of the clock would write a wrong one.
            _ if configuration.stale_wait == 0 && configuration.clock_error == 0 => true,
            _ => !is_ready(process) && !waits(process, 0),
        };
        state.processes.iter().all(is_in_time) && self.is_remembered(state, None)
    }

    /// Returns whether the premise of backfill holds, also without this process: after a restore, a
    /// process that held a row before lives until it has checked and begun an epoch.
    fn is_remembered(&self, state: &State, without: Option<usize>) -> bool {
        if self.world.configuration.past == 0 || self.world.breaks(Breaks::NobodyRemembers) {
            return true;
        }
        let is_over = state.restores > 0 && !state.tables.is_past_open();
        let remembers = |(index, process): (usize, &Process)| {
            let held = process.held().filter(|held| held.presence == Presence::Here);
            let has_looked = state.restores > 0 && process.has_looked;
            Some(index) != without && held.is_some() && !has_looked
        };
        is_over || state.processes.iter().enumerate().any(remembers)
    }

    fn may_back_up(&self, state: &State) -> bool {
        let configuration = &self.world.configuration;
        let needs_backup = !matches!(
            configuration.restored,
            Restored::NoRows | Restored::NoRecord | Restored::Nothing
        );
        let is_in_use = state.tables.rows.iter().flatten().any(|row| row.expires_ms > 0);
        needs_backup
            && state.restores < configuration.restores
            && state.backup.is_none()
            && (is_in_use || self.world.breaks(Breaks::AtRest))
    }

    /// Returns whether the store is restored and no marks are raised yet: then no process leases.
    fn is_to_be_raised(&self, state: &State) -> bool {
        state.restores > state.raises && self.world.configuration.raises > state.raises
    }

    /// Returns whether a process has something to do.
    fn may_step(&self, state: &State, process: &Process) -> bool {
        match process.held() {
            Some(_) if self.is_to_be_raised(state) => false,
            Some(held) if held.presence != Presence::Here => true,
            Some(held) => held.since > 0 || !process.has_looked || process.phase != Phase::Idle,
            None => !self.is_to_be_raised(state),
        }
    }
}

fn restore(configuration: &Configuration, tables: &mut Tables, backup: Option<&Backup>) {
    let Tables { record, rows, past } = tables;
    let backup = backup.map(|backup| backup.tables.clone());
    match (configuration.restored, backup) {
        (Restored::Whole, Some(backup)) => *tables = backup,
        (Restored::Rows, Some(backup)) => *rows = backup.rows,
        (Restored::Record, Some(backup)) => *record = backup.record,
        (Restored::Counter, Some(backup)) => *past = backup.past,
        (Restored::NoRows, _) => rows.fill(None),
        (Restored::NoRecord, _) => *record = None,
        (Restored::Nothing, _) => {
            *record = None;
            rows.fill(None);
        }
        (Restored::Whole | Restored::Rows | Restored::Record | Restored::Counter, None) => {}
    }
}

impl Model for Restores {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let configuration = &self.world.configuration;
        let history = History::first(SERVER, FRESH_EPOCH, self.world.times());
        let record = Record { token: FRESH_NOBODYS, has_rows: true, history };
        let mut tables = Tables {
            record: Some(Arc::new(record)),
            rows: vec![None; configuration.rows],
            past: 0,
        };
        tables.create_rows(PRESENT);
        if let Some(row) = tables.rows.last_mut().filter(|_| configuration.is_last_outside) {
            let row = Arc::make_mut(row.as_mut().expect("it was created"));
            let crashed_ms = instant(-configuration.stale_wait - configuration.ttl - 1);
            (row.token, row.epoch) = (FRESH_ROW, FRESH_EPOCH);
            (row.heartbeat_ms, row.expires_ms) = (crashed_ms, instant(-configuration.stale_wait));
        }
        let mut state = State {
            tables,
            backup: None,
            restores: 0,
            epochs: 0,
            raises: 0,
            releases: 0,
            state_files: 0,
            cuts: 0,
            clock: StoreClock::Right,
            processes: vec![Process::default(); configuration.processes],
            issued: vec![false; configuration.rows],
            issued_twice: false,
            past_issued: 0,
            past_issued_twice: false,
            began_falsely: false,
        };
        rename(&mut state, configuration);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let configuration = &self.world.configuration;
        if state.issued_twice || state.past_issued_twice {
            return;
        }
        let has_time = |process: &Process| {
            let held = process.held().filter(|held| held.presence == Presence::Here);
            held.is_none_or(|held| held.since < configuration.renew)
        };
        if state.processes.iter().all(has_time) {
            actions.push(Action::Tick);
        }
        for (index, process) in state.processes.iter().enumerate() {
            if self.may_step(state, process) {
                let chooses = process.held().is_none() && process.phase == Phase::Idle;
                let choices = if chooses { configuration.rows as u64 } else { 1 };
                let step = |random| Action::Step { process: index, random };
                actions.extend((0..choices).map(step));
            }
            let is_idle = process.phase == Phase::Idle;
            let held = process.held();
            if held.is_some_and(|held| held.presence != Presence::Here) {
                continue;
            }
            if configuration.past > 0 && held.is_some() {
                actions.push(Action::Past { process: index });
            }
            let may_end = state.restores == 0 || self.is_remembered(state, Some(index));
            if held.is_some_and(|held| is_idle && !held.is_given_up) && may_end {
                actions.push(Action::Stop { process: index });
            }
            if *process != self.started && may_end {
                actions.push(Action::Crash { process: index });
            }
            let may_keep = state.state_files < configuration.state_files;
            if held.is_some_and(|held| may_keep && held.row.at_barrier().is_none()) {
                actions.push(Action::CrashKept { process: index });
            }
            if held.is_some() && is_idle && may_end && state.cuts < configuration.cuts {
                actions.push(Action::CutOff { process: index });
            }
        }
        if self.may_back_up(state) {
            actions.push(Action::BackUp);
        }
        if self.may_restore(state) {
            actions.push(Action::Restore);
        }
        let may_begin_epoch =
            state.backup.is_none() && state.restores == 0 && state.epochs < configuration.epochs;
        if self.is_to_be_raised(state) || may_begin_epoch {
            actions.push(Action::Raise);
        }
        if state.releases < configuration.releases {
            actions.extend((0..configuration.rows).map(|worker| Action::Release { worker }));
        }
        if state.clock == StoreClock::Wrong {
            actions.push(Action::MendClock);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        planted::plant(self.world.bug());
        let mut next = last.clone();
        self.step(&mut next, action)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(UNIQUE, |_, state: &State| !state.issued_twice),
            Property::always(PAST_UNIQUE, |_, state: &State| !state.past_issued_twice),
            Property::always(LAWFUL, |_, state: &State| !state.began_falsely),
        ];
        if self.world.configuration.recovers {
            let recovers = |model: &Self, state: &State| model.is_recoverable(state);
            properties.push(Property::always(RECOVERS, recovers));
        }
        let shows = self.world.configuration.shows;
        properties.extend([
            Property::sometimes(EPOCH, |model: &Self, state: &State| {
                state.restores > 0 && model.is_held_in_epoch(state)
            }),
            Property::sometimes(ANEW, |model, state| model.began_anew(state)),
            Property::sometimes(WAITED, |_, state| has_waited(state)),
            Property::sometimes(PAST, |_, state: &State| {
                state.restores > 0 && state.past_issued != 0
            }),
            Property::sometimes(FREED, |_, state: &State| {
                let last = state.tables.rows.iter().flatten().last();
                last.is_some_and(|row| row.heartbeat_ms > 0 && row.expires_ms == 0)
            }),
            Property::sometimes(PENDING, |_, state| goes_on_while_pending(state)),
        ]);
        properties.retain(|property| {
            [UNIQUE, PAST_UNIQUE, LAWFUL, RECOVERS].contains(&property.name)
                || shows.contains(&property.name)
        });
        properties
    }
}

/// No position of a row is issued twice.
pub(super) const UNIQUE: &str = "unique";
/// No ID of the past tick is issued twice.
pub(super) const PAST_UNIQUE: &str = "unique in the past";
/// No epoch begins where nothing was lost.
pub(super) const LAWFUL: &str = "lawful";
/// Some process can come to hold a row.
pub(super) const RECOVERS: &str = "recovers";
/// Proof that the exploration was not idle.
pub(super) const EPOCH: &str = "a lease goes on in place in the epoch after a restore";
/// The same.
pub(super) const ANEW: &str = "a lease begins at a barrier";
/// The same.
pub(super) const WAITED: &str = "a start that has waited swaps";
/// The same.
pub(super) const PAST: &str = "IDs for a past time and a restore";
/// The same.
pub(super) const FREED: &str = "a row that nobody may lease is freed";
/// The same.
pub(super) const PENDING: &str = "a lease goes on in an epoch without a barrier";

impl Restores {
    /// Returns whether some process comes to hold a row once no more faults happen and all
    /// processes run. Ends where it meets a state that an earlier call came through.
    fn is_recoverable(&self, state: &State) -> bool {
        if is_held(state) {
            return true;
        }
        let mut recoverable = self.recoverable.lock().expect("no checker panicked");
        let mut passed = Vec::new();
        let mut state = state.clone();
        if state.clock == StoreClock::Wrong {
            self.step(&mut state, Action::MendClock);
        }
        if self.is_to_be_raised(&state) {
            self.step(&mut state, Action::Raise);
        }
        for _ in 0..CALM_TICKS {
            for _ in 0..STEPS_OF_A_TICK {
                let hash = FixedState::default().hash_one(&state);
                if is_held(&state) || recoverable.contains(&hash) {
                    recoverable.extend(passed);
                    return true;
                }
                passed.push(hash);
                for process in 0..state.processes.len() {
                    if self.may_step(&state, &state.processes[process]) {
                        self.step(&mut state, Action::Step { process, random: 0 });
                    }
                }
            }
            self.step(&mut state, Action::Tick);
        }
        false
    }

    /// Returns whether a holder extended its lease in a new epoch.
    fn is_held_in_epoch(&self, state: &State) -> bool {
        let Some(record) = &state.tables.record else { return false };
        let barrier = record.history.barrier(&self.world.layout);
        state.processes.iter().filter_map(|process| process.held()).any(|held| {
            held.row.known_row.epoch() == record.history.epoch()
                && held.row.at_barrier().is_none()
                && held.grant.start < barrier
                && held.grant.limit > PRESENT
        })
    }

    fn began_anew(&self, state: &State) -> bool {
        let Some(record) = &state.tables.record else { return false };
        let barrier = record.history.barrier(&self.world.layout);
        let mut leases = state.processes.iter().filter_map(|process| process.held());
        barrier > 0 && leases.any(|held| held.grant.start == barrier)
    }
}

fn is_held(state: &State) -> bool {
    state.processes.iter().any(|process| issues(&state.tables, process))
}

/// Returns whether a process issues from a row that it holds according to the store.
fn issues(tables: &Tables, process: &Process) -> bool {
    process.held().filter(|held| held.presence == Presence::Here).is_some_and(|held| {
        let row = tables.rows[held.worker()].as_ref();
        row.is_some_and(|row| row.token == held.row.known_row.token())
            && (held.grant.start..held.grant.limit).contains(&PRESENT)
    })
}

fn has_waited(state: &State) -> bool {
    state.restores > 0
        && state
            .processes
            .iter()
            .any(|process| matches!(process.phase, Phase::Ready(..)) && process.stale.is_some())
}

fn goes_on_while_pending(state: &State) -> bool {
    let lacks_barrier = state.tables.record.as_ref().is_some_and(|it| it.history.lacks_barrier());
    let has_renewed = |process: &Process| {
        process.held().is_some_and(|held| held.grant.limit > PRESENT && held.since == 0)
    };
    lacks_barrier && state.processes.iter().any(has_renewed)
}
