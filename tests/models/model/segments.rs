//! Explores segment mode to the end: reservations and returns that are late, lost or unanswered,
//! over a store that fails over. The code of the service decides what a process does with its
//! blocks, and how many numbers it skips after a fail-over.

use raindrop_core::{
    lease::{EpochClocks, History, NodeTimes, Token},
    segment::{Block, Chain, CodeRow, GapRule, Progression, SegmentSpec},
};
use stateright::{Checker, Model, Property};

/// How many numbers a reservation takes.
const BY: u64 = 2;
/// As many numbers as all processes can reserve in the worlds that fail over.
const GAP: u64 = 8;
/// As many as two reservations take, where each process makes one.
const SMALLER_GAP: u64 = 4;

/// The rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mutant {
    Sound,
    /// The store lowers the next number whatever token the row has.
    TokenNotCompared,
    /// A process can still claim numbers that it returns.
    GivenBackUnsealed,
    /// A process returns a whole block, though it issued some of it.
    GivenBackWhole,
    /// The first reservation after a fail-over skips nothing.
    GapNotSkipped,
    /// A row that missed two epochs skips one gap.
    OneGap,
    /// The store does not compare the epoch that a write names with that of the record.
    EpochNotCompared,
    /// The store does not compare the epoch that a reservation takes the row for.
    RowEpochNotCompared,
}

/// The gap of the code, as each process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gaps {
    /// All know the gap of all codes.
    Same,
    /// The code's own gap is 0, because the store loses nothing.
    None,
    /// The first process does not know yet that the code's own gap is smaller now.
    Smaller,
}

/// Processes, the number of writes that each may send in all its lives, and how often the store
/// fails over.
#[derive(Clone, Debug)]
struct Segments {
    mutant: Mutant,
    gaps: Gaps,
    writes: &'static [u8],
    fail_overs: u8,
}

/// The code's row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stored {
    next: u64,
    token: Token,
    epoch: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    row: Stored,
    /// The row as the replica has it.
    replica: Stored,
    /// The epoch of the record: how often the store failed over. A process checks each server, and
    /// the replica has the record that this process wrote.
    epoch: u8,
    tokens: u8,
    flying: Vec<Write>,
    processes: Vec<Process>,
    /// A bit for each number.
    issued: u64,
    issued_twice: bool,
    /// Whether the store refused a return because another process reserved since.
    refused: bool,
    /// Whether the store refused a reservation because it named another epoch.
    late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Write {
    Reserve { token: u8, epoch: u8, row_epoch: u8, skip: u64 },
    GiveBack { token: u8, epoch: u8, reserved: u8, from: u64 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Process {
    chain: Chain,
    next: u64,
    sealed: bool,
    /// The epoch of the last block in the chain.
    epoch: u8,
    writes_left: u8,
    /// The write whose answer it waits for.
    waits_for: Option<Write>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The process reserves as if the row were of the present epoch, as it does first.
    Reserve(usize),
    /// The process reserves after it has read the row.
    ReserveFrom(usize),
    Claim(usize),
    Stop(usize),
    /// The process ends, in order or not, and a new one begins.
    Restart(usize),
    /// The process stops waiting for the answer.
    GiveUp(usize),
    /// The store applies a write, and the process that waits gets the answer.
    Apply(usize),
    /// The store applies a write, and the answer is lost.
    ApplyUnheard(usize),
    /// The write never arrives.
    Drop(usize),
    /// The replica gets the state of the store.
    Replicate,
    FailOver,
}

fn token(bits: u8) -> Token {
    Token::from_bits(u128::from(bits))
}

/// Returns the token of an epoch.
fn epoch_token(epoch: u8) -> Token {
    Token::from_bits(u128::from(epoch) + 1_000)
}

/// Returns the history of a store that failed over this often.
fn history(fail_overs: u8) -> History {
    let first = History::first("server", epoch_token(0), NodeTimes::default());
    (1..=fail_overs).fold(first, |history, epoch| {
        history.next("server", epoch_token(epoch), EpochClocks::of_store(1), NodeTimes::default())
    })
}

impl State {
    fn send(&mut self, process: usize, write: Write) {
        self.flying.push(write);
        self.flying.sort_unstable();
        self.processes[process].waits_for = Some(write);
    }

    fn fresh(&mut self) -> u8 {
        self.tokens += 1;
        self.tokens
    }

    /// Returns how many numbers a process skips that has read the row.
    fn skipped(&self, process: usize, gaps: Gaps, mutant: Mutant) -> u64 {
        let Stored { next, epoch, .. } = self.row;
        let row = CodeRow { next, step: BY, epoch: epoch_token(epoch) };
        let rule = GapRule { configured: Some(GAP), largest_claim: 0 };
        let failover_gap = match gaps {
            Gaps::Same => None,
            Gaps::None => Some(0),
            Gaps::Smaller => Some(if process == 0 { GAP } else { SMALLER_GAP }),
        };
        let spec = SegmentSpec { failover_gap, ..SegmentSpec::default() };
        let skipped = rule.skipped(&spec, &row, &history(self.epoch));
        match mutant {
            Mutant::GapNotSkipped => 0,
            Mutant::OneGap => skipped.min(GAP),
            _ => skipped,
        }
    }

    /// Applies a write, and returns the first number of a reservation.
    fn apply(&mut self, write: Write, mutant: Mutant) -> Option<u64> {
        let (Write::Reserve { epoch, .. } | Write::GiveBack { epoch, .. }) = write;
        if epoch != self.epoch && mutant != Mutant::EpochNotCompared {
            self.late = true;
            return None;
        }
        match write {
            Write::Reserve { row_epoch, .. }
                if row_epoch != self.row.epoch && mutant != Mutant::RowEpochNotCompared =>
            {
                None
            }
            Write::Reserve { token: fresh, epoch, skip, .. } => {
                let first = self.row.next + skip;
                self.row = Stored { next: first + BY, token: token(fresh), epoch };
                Some(first)
            }
            Write::GiveBack { token: fresh, reserved, from, .. } => {
                if self.row.token == token(reserved) || mutant == Mutant::TokenNotCompared {
                    (self.row.next, self.row.token) = (from, token(fresh));
                } else {
                    self.refused = true;
                }
                None
            }
        }
    }

    fn issue(&mut self, number: u64) {
        self.issued_twice |= self.issued & (1 << number) != 0;
        self.issued |= 1 << number;
    }
}

impl Model for Segments {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let process = |writes: &u8| Process { writes_left: *writes, ..Process::default() };
        let row = Stored { next: 1, token: Token::UNUSED, epoch: 0 };
        vec![State {
            replica: row.clone(),
            row,
            epoch: 0,
            tokens: 0,
            flying: Vec::new(),
            processes: self.writes.iter().map(process).collect(),
            issued: 0,
            issued_twice: false,
            refused: false,
            late: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.epoch < self.fail_overs {
            actions.push(Action::FailOver);
            if state.replica != state.row {
                actions.push(Action::Replicate);
            }
        }
        for (index, process) in state.processes.iter().enumerate() {
            if process.waits_for.is_some() {
                actions.push(Action::GiveUp(index));
            } else if !process.sealed {
                if process.writes_left > 0 {
                    actions.push(Action::Reserve(index));
                    if state.row.epoch != state.epoch {
                        actions.push(Action::ReserveFrom(index));
                    }
                }
                if process.writes_left > 0 && process.chain.unused_end(process.next).is_some() {
                    actions.push(Action::Stop(index));
                }
            }
            let is_closed = process.sealed && self.mutant != Mutant::GivenBackUnsealed;
            if !is_closed && process.chain.take(process.next, 1).is_ok() {
                actions.push(Action::Claim(index));
            }
            if process.writes_left > 0 && (process.sealed || process.chain != Chain::default()) {
                actions.push(Action::Restart(index));
            }
        }
        for index in 0..state.flying.len() {
            let waited_for = |process: &Process| process.waits_for == Some(state.flying[index]);
            actions.extend([Action::Apply(index), Action::ApplyUnheard(index)]);
            if !state.processes.iter().any(waited_for) {
                actions.push(Action::Drop(index));
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Reserve(index) => {
                state.processes[index].writes_left -= 1;
                let (token, epoch) = (state.fresh(), state.epoch);
                state.send(index, Write::Reserve { token, epoch, row_epoch: epoch, skip: 0 });
            }
            Action::ReserveFrom(index) => {
                state.processes[index].writes_left -= 1;
                let (token, epoch, row_epoch) = (state.fresh(), state.epoch, state.row.epoch);
                let skip = state.skipped(index, self.gaps, self.mutant);
                state.send(index, Write::Reserve { token, epoch, row_epoch, skip });
            }
            Action::Claim(index) => {
                let process = &mut state.processes[index];
                let taken = process.chain.take(process.next, 1).ok()?;
                process.next = taken.end();
                state.issue(taken.first.start);
            }
            Action::Stop(index) => {
                let process = &mut state.processes[index];
                process.writes_left -= 1;
                process.sealed = true;
                let whole = self.mutant == Mutant::GivenBackWhole;
                let unused = process.chain.unused_end(if whole { 0 } else { process.next })?;
                let reserved = (0..=state.tokens).find(|bits| token(*bits) == unused.token)?;
                let (epoch, from) = (process.epoch, unused.from);
                let token = state.fresh();
                state.send(index, Write::GiveBack { token, epoch, reserved, from });
            }
            Action::Restart(index) => {
                let writes_left = state.processes[index].writes_left;
                state.processes[index] = Process { writes_left, ..Process::default() };
            }
            Action::GiveUp(index) => state.processes[index].waits_for = None,
            Action::Apply(index) => {
                let write = state.flying.remove(index);
                let first = state.apply(write, self.mutant);
                let waits = |process: &&mut Process| process.waits_for == Some(write);
                if let Some(process) = state.processes.iter_mut().find(waits) {
                    process.waits_for = None;
                    if let (Some(first), Write::Reserve { token: bits, epoch, .. }) = (first, write)
                    {
                        let block = Block { first, end: first + BY, token: token(bits) };
                        // The process adds nothing: it refuses a store that was rolled back.
                        let added = process.chain.with(&block, Progression::ALL, process.next);
                        if let Ok(chain) = added {
                            (process.chain, process.epoch) = (chain, epoch);
                        }
                    }
                }
            }
            Action::ApplyUnheard(index) => {
                let write = state.flying.remove(index);
                state.apply(write, self.mutant);
                let waits = |process: &&mut Process| process.waits_for == Some(write);
                if let Some(process) = state.processes.iter_mut().find(waits) {
                    process.waits_for = None;
                }
            }
            Action::Drop(index) => {
                state.flying.remove(index);
            }
            Action::Replicate => state.replica = state.row.clone(),
            Action::FailOver => {
                if self.gaps != Gaps::None {
                    state.row = state.replica.clone();
                }
                state.epoch += 1;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no number is issued twice", |_, state: &State| !state.issued_twice),
            Property::sometimes("a give-back is refused", |_, state: &State| state.refused),
            Property::sometimes("a late write is refused", |model: &Self, state: &State| {
                state.late || model.fail_overs == 0
            }),
        ]
    }
}

/// Explores every state.
fn explore(
    mutant: Mutant,
    gaps: Gaps,
    writes: &'static [u8],
    fail_overs: u8,
) -> impl Checker<Segments> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let model = Segments { mutant, gaps, writes, fail_overs };
    model.checker().threads(threads).spawn_bfs().join()
}

#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
fn is_sound(writes: &'static [u8], fail_overs: u8) {
    let checker = explore(Mutant::Sound, Gaps::Same, writes, fail_overs);
    println!(
        "segments, writes {writes:?}, {fail_overs} fail-overs: {} states, all there are",
        checker.unique_state_count()
    );
    checker.assert_properties();
}

#[expect(clippy::print_stdout, reason = "the way to a bug is shown on demand")]
fn finds(mutant: Mutant, fail_overs: u8) {
    let checker = explore(mutant, Gaps::Same, &[2, 2], fail_overs);
    let found = checker.discovery("no number is issued twice");
    let steps = found.unwrap_or_else(|| panic!("{mutant:?} is not found")).into_actions();
    println!("{mutant:?}: found in {} steps: {steps:?}", steps.len());
}

#[test]
fn two_processes_never_issue_a_number_twice() {
    is_sound(&[3, 2], 0);
}

#[test]
fn three_processes_never_issue_a_number_twice() {
    is_sound(if crate::sound::is_large() { &[2, 2, 1] } else { &[2, 1, 1] }, 0);
}

#[test]
fn nothing_is_issued_twice_after_a_fail_over() {
    is_sound(if crate::sound::is_large() { &[2, 2] } else { &[2, 1] }, 1);
}

#[test]
fn nothing_is_issued_twice_after_two_fail_overs() {
    is_sound(if crate::sound::is_large() { &[2, 2] } else { &[2, 1] }, 2);
}

#[test]
fn nothing_is_issued_twice_without_a_gap_over_a_store_that_loses_nothing() {
    let writes: &[u8] = if crate::sound::is_large() { &[2, 2] } else { &[2, 1] };
    explore(Mutant::Sound, Gaps::None, writes, 2).assert_properties();
}

/// `docs/segments.md`, "The gap of a code".
#[test]
fn smaller_gap_that_one_process_does_not_know_yet_is_safe_for_one_fail_over_and_not_for_two() {
    let issued_twice = "no number is issued twice";
    let explore = |fail_overs| explore(Mutant::Sound, Gaps::Smaller, &[1, 1], fail_overs);
    explore(1).assert_no_discovery(issued_twice);
    assert!(explore(2).discovery(issued_twice).is_some());
}

#[test]
fn a_store_that_does_not_compare_the_token_of_a_give_back_is_found() {
    finds(Mutant::TokenNotCompared, 0);
}

#[test]
fn a_tail_that_is_given_back_unsealed_is_found() {
    finds(Mutant::GivenBackUnsealed, 0);
}

#[test]
fn a_block_that_is_given_back_whole_is_found() {
    finds(Mutant::GivenBackWhole, 0);
}

#[test]
fn a_gap_that_is_not_skipped_is_found() {
    finds(Mutant::GapNotSkipped, 1);
}

#[test]
fn one_gap_for_two_epochs_is_found() {
    finds(Mutant::OneGap, 2);
}

#[test]
fn a_store_that_does_not_compare_the_epoch_is_found() {
    finds(Mutant::EpochNotCompared, 1);
}

#[test]
fn a_store_that_does_not_compare_the_epoch_of_the_row_is_found() {
    finds(Mutant::RowEpochNotCompared, 1);
}
