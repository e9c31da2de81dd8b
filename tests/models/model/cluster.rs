//! Models the processes, the store and the network between them.

use std::{
    collections::HashSet,
    ops::Range,
    sync::{Arc, Mutex},
};

use raindrop_core::{
    lease::{HighWaterMarks, Row, Token},
    planted::{self, Bug, planted},
};
use stateright::{Model, Property};

use crate::{
    configuration::{Configuration, World},
    grant::Grant,
    issued::Issued,
    process::{HOLDER, Operation, Process, Sent},
    recovery,
    rename::rename,
};

/// The first of the tokens that no state has.
const FRESH: u128 = 200;

#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) world: World,
    /// The property to check; all of them if there is none.
    only: Option<&'static str>,
    bug: Option<Bug>,
    /// What `recovery` found about states before.
    recoverable: Arc<Mutex<HashSet<u64>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The rows as a process reads them.
    pub(crate) rows: Vec<Row>,
    /// The rows before each write that is visible and may not be durable, in the order of the
    /// writes.
    pub(crate) unacknowledged: Vec<(usize, Row)>,
    crashes: u8,
    panics: u8,
    /// Writes that the store has not received yet, and may never receive.
    pub(crate) under_way: Vec<UnderWay>,
    pub(crate) processes: Vec<Process>,
    pub(crate) issued: Issued,
    /// How many tokens were made since the state got its names.
    tokens: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnderWay {
    /// The process that still waits for the answer.
    pub(crate) awaited_by: Option<usize>,
    pub(crate) row: usize,
    pub(crate) expected: Token,
    pub(crate) token: Token,
    pub(crate) marks: HighWaterMarks,
}

/// One step of a process or of the world. A process that is paused or cut off takes no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Choose {
        process: usize,
        tick: u64,
        random: u64,
    },
    Send {
        process: usize,
        operation: Operation,
    },
    /// The store receives a write, perhaps long after its time-out. It acknowledges only a durable
    /// write, and with it everything that is visible.
    Apply {
        under_way: usize,
        durable: bool,
    },
    /// The store crashes, and loses this many of the writes that it did not acknowledge.
    CrashStore {
        lose: usize,
    },
    Receive {
        process: usize,
    },
    TimeOut {
        process: usize,
    },
    Resolve {
        process: usize,
    },
    Issue {
        process: usize,
        code: usize,
        tick: u64,
    },
    /// The process crashes, and starts again under the same name.
    Crash {
        process: usize,
    },
    /// A step of the process's task panics: the task starts over, and the grant is used up.
    Panic {
        process: usize,
    },
    /// The process raises the local mark in the state file by one, or as far as it may.
    RaiseLocalMark {
        process: usize,
        whole: bool,
    },
    /// The process stops in order while the store is away, and starts again.
    StopAway {
        process: usize,
    },
    /// The process resumes the lease in a state file: in its own one, unless a bug is planted.
    Resume {
        process: usize,
        file: usize,
        tick: u64,
    },
}

impl Cluster {
    pub(crate) fn new(
        configuration: Configuration,
        only: Option<&'static str>,
        bug: Option<Bug>,
    ) -> Self {
        Self { world: World::new(configuration), only, bug, recoverable: Arc::default() }
    }

    /// Breaks the planted rule on this thread, which may be any thread of the checker.
    fn plant(&self) {
        planted::plant(self.bug);
    }

    pub(crate) fn step(&self, state: &mut State, action: Action) -> Option<()> {
        self.plant();
        let configuration = &self.world.configuration;
        let State { rows, unacknowledged, crashes, panics, under_way, processes, issued, tokens } =
            state;
        match action {
            Action::Choose { process, tick, random } => {
                processes[process].choose(&self.world, rows, tick, random)
            }
            Action::Send { process, operation } => {
                let fresh = Token::from_bits(FRESH + u128::from(*tokens));
                let Sent { row, expected, token, marks } =
                    processes[process].send(&self.world, operation, fresh)?;
                *tokens += 1;
                under_way.push(UnderWay { awaited_by: Some(process), row, expected, token, marks });
                Some(())
            }
            Action::Apply { under_way: index, durable } => {
                let arrived = under_way.remove(index);
                let before = rows[arrived.row].clone();
                let swapped = apply(&mut rows[arrived.row], &arrived, configuration);
                match (swapped, durable) {
                    (true, true) => unacknowledged.clear(),
                    (true, false) => unacknowledged.push((arrived.row, before)),
                    // Nothing was written, so nothing became durable.
                    (false, true) => {}
                    (false, false) => return None,
                }
                if let Some(process) = arrived.awaited_by.filter(|_| durable) {
                    processes[process].waiting = Some(Some(swapped));
                }
                Some(())
            }
            Action::CrashStore { lose } => {
                *crashes += 1;
                for _ in 0..lose {
                    let (row, before) = unacknowledged.pop()?;
                    rows[row] = before;
                }
                // The store recovered the writes that are left from its log.
                unacknowledged.clear();
                Some(())
            }
            Action::Receive { process } => processes[process].receive(),
            Action::TimeOut { process } => {
                give_up(under_way, process);
                processes[process].time_out()
            }
            Action::Resolve { process } => processes[process].resolve(rows),
            Action::Issue { process, code, tick } => {
                let present = tick * configuration.positions_per_tick;
                let (row, lane, position) = processes[process].issue(code, present)?;
                (position < configuration.end()).then(|| issued.add(row, lane, code, position))
            }
            Action::Crash { process } => {
                give_up(under_way, process);
                processes[process].crash();
                Some(())
            }
            Action::Panic { process } => {
                *panics += 1;
                give_up(under_way, process);
                processes[process].panic();
                Some(())
            }
            Action::RaiseLocalMark { process, whole } => processes[process].raise_local_mark(whole),
            Action::StopAway { process } => {
                give_up(under_way, process);
                processes[process].stop_away()
            }
            Action::Resume { process, file, tick } => {
                let kept = processes[file].kept.clone()?;
                processes[process].resume(&self.world, kept, rows, tick)
            }
        }
    }

    /// Drops writes that can no longer change anything, and what tells equal states apart.
    fn tidy(&self, state: &mut State) {
        // Under these bugs a replaced token can come back, so an old write may still match.
        let tokens_return = planted(Bug::TokenDerived) || planted(Bug::RenewalKeepsToken);
        if self.world.configuration.compares_tokens && !tokens_return {
            let State { rows, unacknowledged, under_way, .. } = state;
            under_way.retain(|write| {
                write.awaited_by.is_some()
                    || may_match(rows, unacknowledged, write.row, write.expected)
            });
        }
        state.tokens = 0;
        // Derived tokens differ in more than their names.
        if !planted(Bug::TokenDerived) {
            rename(state);
        }
    }

    fn ticks(&self) -> Range<u64> {
        0..self.world.configuration.ticks
    }
}

/// Applies the store's one statement: it compares the token and sets everything.
fn apply(row: &mut Row, arrived: &UnderWay, configuration: &Configuration) -> bool {
    let swapped = row.token == arrived.expected || !configuration.compares_tokens;
    if swapped {
        (row.token, row.marks) = (arrived.token, arrived.marks.clone());
    }
    swapped
}

/// Returns whether a row has this token, or may have it again after a crash.
fn may_match(rows: &[Row], before: &[(usize, Row)], row: usize, token: Token) -> bool {
    let mut lost = before.iter().filter(|(index, _)| *index == row);
    rows[row].token == token || lost.any(|(_, before)| before.token == token)
}

fn give_up(under_way: &mut [UnderWay], process: usize) {
    for write in under_way {
        write.awaited_by.take_if(|awaiting| *awaiting == process);
    }
}

impl State {
    /// Returns whether a write whose time-out has passed may still change its row.
    fn has_late_write(&self) -> bool {
        self.under_way
            .iter()
            .any(|late| late.awaited_by.is_none() && self.rows[late.row].token == late.expected)
    }
}

impl Model for Cluster {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let row = |worker| Row {
            worker: worker as u64,
            token: Token::UNUSED,
            epoch: Token::UNUSED,
            holder: HOLDER,
            lane: 0,
            marks: HighWaterMarks::all_at(0, self.world.configuration.lanes),
            free: true,
            heartbeat_ms: 0,
            expires_ms: 0,
        };
        let Configuration { writes, keeps_leases, .. } = self.world.configuration;
        vec![State {
            rows: (0..self.world.configuration.rows).map(row).collect(),
            unacknowledged: Vec::new(),
            crashes: 0,
            panics: 0,
            under_way: Vec::new(),
            processes: writes.iter().map(|left| Process::new(*left, keeps_leases)).collect(),
            issued: Issued::default(),
            tokens: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.plant();
        let Configuration { rows, codes, crashes, panics, .. } = self.world.configuration;
        for (index, process) in state.processes.iter().enumerate() {
            if process.left > 0 {
                if process.is_idle() {
                    actions.extend(self.ticks().flat_map(|tick| {
                        (0..rows as u64).map(move |random| Action::Choose {
                            process: index,
                            tick,
                            random,
                        })
                    }));
                }
                let operations = process.operations(self.ticks());
                actions.extend(
                    operations
                        .into_iter()
                        .map(|operation| Action::Send { process: index, operation }),
                );
            }
            if process.must_read() {
                actions.push(Action::Resolve { process: index });
            }
            match process.waiting {
                Some(Some(_)) => {
                    actions.push(Action::Receive { process: index });
                    actions.push(Action::TimeOut { process: index });
                }
                Some(None) => actions.push(Action::TimeOut { process: index }),
                None => {}
            }
            if process.is_short_of_file() {
                let raise = |whole| Action::RaiseLocalMark { process: index, whole };
                actions.extend([false, true].map(raise));
            }
            if process.kept.is_some() && process.grant.is_some() {
                actions.push(Action::StopAway { process: index });
            }
            if process.is_idle() && process.grant.is_none() {
                let own = index..index + 1;
                let all = 0..state.processes.len();
                let files = if planted(Bug::StateFileUnlocked) { all } else { own };
                for file in files.filter(|file| state.processes[*file].kept.is_some()) {
                    let resume = |tick| Action::Resume { process: index, file, tick };
                    actions.extend(self.ticks().map(resume));
                }
            }
            if process.grant.is_some() {
                actions.extend((0..codes).flat_map(|code| {
                    self.ticks().map(move |tick| Action::Issue { process: index, code, tick })
                }));
            }
            if !process.is_idle() || process.grant.is_some() {
                actions.push(Action::Crash { process: index });
            }
            if !process.is_idle() && state.panics < panics {
                actions.push(Action::Panic { process: index });
            }
        }
        let may_crash = state.crashes < crashes;
        for under_way in 0..state.under_way.len() {
            actions.push(Action::Apply { under_way, durable: true });
            if may_crash {
                actions.push(Action::Apply { under_way, durable: false });
            }
        }
        if may_crash {
            let most = state.unacknowledged.len();
            actions.extend((1..=most).map(|lose| Action::CrashStore { lose }));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        self.step(&mut next, action)?;
        self.tidy(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(UNIQUE, |_, state: &State| !state.issued.any_twice()),
            Property::always(COVERED, |_, state| is_covered(state)),
            Property::always(RECOVERS, |cluster: &Self, state| {
                cluster.plant();
                let mut known = cluster.recoverable.lock().expect("no checker panicked");
                recovery::is_possible(cluster, state, &mut known)
            }),
            Property::sometimes(LATE, |_, state: &State| state.has_late_write()),
            Property::sometimes(DISPOSSESSED, |_, state| is_dispossessed(state)),
        ];
        properties.retain(|property| self.only.is_none_or(|only| property.name == only));
        properties
    }
}

/// No position of a code is issued twice.
pub(crate) const UNIQUE: &str = "unique";
/// Every mark covers the positions that were issued and those that a grant may still issue.
pub(crate) const COVERED: &str = "covered by the marks";
/// Once faults end, every process can issue.
pub(crate) const RECOVERS: &str = "recovers";
/// Proof that the exploration was not idle.
pub(crate) const LATE: &str = "a late write may still be applied";
/// The same.
pub(crate) const DISPOSSESSED: &str = "a dispossessed process can still issue";

/// Returns whether the marks cover everything, whatever a crash of the store may lose.
fn is_covered(state: &State) -> bool {
    let mut rows = state.rows.clone();
    for (row, before) in state.unacknowledged.iter().rev() {
        rows[*row] = before.clone();
    }
    let marks = |row: usize, lane: usize| rows[row].marks[lane];
    let lanes = |row: &Row| 0..row.marks.lanes();
    let issued = rows.iter().enumerate().all(|(index, row)| {
        lanes(row).all(|lane| state.issued.end(index, lane) <= marks(index, lane))
    });
    let mut grants = state.processes.iter().filter_map(|process| process.grant.as_ref());
    let is_below_mark = |grant: &Grant| grant.acknowledged <= marks(grant.row, grant.lane);
    issued
        && grants.all(|grant| {
            grant.sealed || (grant.limit <= grant.acknowledged && is_below_mark(grant))
        })
}

fn is_dispossessed(state: &State) -> bool {
    let live = |process: &Process| {
        process.grant.filter(|grant| !grant.sealed && !grant.is_used_up()).map(|grant| grant.row)
    };
    let rows: Vec<usize> = state.processes.iter().filter_map(live).collect();
    (1..rows.len()).any(|index| rows[..index].contains(&rows[index]))
}
