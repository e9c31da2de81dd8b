//! Segment mode: reservations and give-backs that are late, lost or unanswered, explored to the
//! end. What a process makes of its blocks is decided by the code that the service runs.

use raindrop::core::{
    lease::Token,
    segment::{Block, Chain, Progression},
};
use stateright::{Checker, Model, Property};

/// How many numbers a reservation takes.
const BY: u64 = 2;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mutant {
    Sound,
    /// The store lowers the next number whatever token stands there.
    TokenNotCompared,
    /// What is given back can still be claimed.
    GivenBackUnsealed,
    /// A whole block is given back, though some of it was handed out.
    GivenBackWhole,
}

/// So many processes; each may write so often in all its lives.
#[derive(Clone, Debug)]
struct Segments {
    mutant: Mutant,
    writes: &'static [u8],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// The code's row: its next number and its token.
    next: u64,
    token: Token,
    tokens: u8,
    flying: Vec<Write>,
    processes: Vec<Process>,
    /// A bit for each number.
    issued: u64,
    issued_twice: bool,
    /// A give-back was refused because somebody reserved since.
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Write {
    Reserve { token: u8 },
    GiveBack { token: u8, reserved: u8, from: u64 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Process {
    chain: Chain,
    next: u64,
    sealed: bool,
    writes_left: u8,
    /// The write whose answer it waits for.
    waits_for: Option<Write>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Reserve(usize),
    Claim(usize),
    Stop(usize),
    /// It is over, in order or not, and a new process begins.
    Restart(usize),
    /// The answer is not waited for any longer.
    GiveUp(usize),
    /// The store applies a write, and whoever waits for it learns that.
    Apply(usize),
    /// The store applies a write, and the answer is lost.
    ApplyUnheard(usize),
    /// The write never arrives.
    Drop(usize),
}

fn token(bits: u8) -> Token {
    Token::from_bits(u128::from(bits))
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

    /// Applies a write; the first number of what it reserved.
    fn apply(&mut self, write: Write, mutant: Mutant) -> Option<u64> {
        match write {
            Write::Reserve { token: fresh } => {
                let first = self.next;
                (self.next, self.token) = (first + BY, token(fresh));
                Some(first)
            }
            Write::GiveBack { token: fresh, reserved, from } => {
                if self.token == token(reserved) || mutant == Mutant::TokenNotCompared {
                    (self.next, self.token) = (from, token(fresh));
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
        vec![State {
            next: 1,
            token: Token::UNUSED,
            tokens: 0,
            flying: Vec::new(),
            processes: self.writes.iter().map(process).collect(),
            issued: 0,
            issued_twice: false,
            refused: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, process) in state.processes.iter().enumerate() {
            if process.waits_for.is_some() {
                actions.push(Action::GiveUp(index));
            } else if !process.sealed {
                if process.writes_left > 0 {
                    actions.push(Action::Reserve(index));
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
                let token = state.fresh();
                state.send(index, Write::Reserve { token });
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
                let token = state.fresh();
                state.send(index, Write::GiveBack { token, reserved, from: unused.from });
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
                    if let (Some(first), Write::Reserve { token: bits }) = (first, write) {
                        let block = Block { first, end: first + BY, token: token(bits) };
                        // A store that went back is refused: nothing is added.
                        let added = process.chain.with(&block, Progression::ALL, process.next);
                        if let Ok(chain) = added {
                            process.chain = chain;
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
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no number is issued twice", |_, state: &State| !state.issued_twice),
            Property::sometimes("a give-back is refused", |_, state: &State| state.refused),
        ]
    }
}

/// Explores every state.
fn explore(mutant: Mutant, writes: &'static [u8]) -> impl Checker<Segments> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Segments { mutant, writes }.checker().threads(threads).spawn_bfs().join()
}

#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
fn is_sound(writes: &'static [u8]) {
    let checker = explore(Mutant::Sound, writes);
    println!("segments, writes {writes:?}: {} states, all there are", checker.unique_state_count());
    checker.assert_properties();
}

#[expect(clippy::print_stdout, reason = "the way to a bug is shown on demand")]
fn finds(mutant: Mutant) {
    let checker = explore(mutant, &[2, 2]);
    let found = checker.discovery("no number is issued twice");
    let steps = found.unwrap_or_else(|| panic!("{mutant:?} is not found")).into_actions();
    println!("{mutant:?}: found in {} steps: {steps:?}", steps.len());
}

#[test]
fn two_processes_never_issue_a_number_twice() {
    is_sound(&[3, 2]);
}

#[test]
fn three_processes_never_issue_a_number_twice() {
    is_sound(if crate::sound::is_large() { &[2, 2, 1] } else { &[2, 1, 1] });
}

#[test]
fn a_store_that_does_not_compare_the_token_of_a_give_back_is_found() {
    finds(Mutant::TokenNotCompared);
}

#[test]
fn a_tail_that_is_given_back_unsealed_is_found() {
    finds(Mutant::GivenBackUnsealed);
}

#[test]
fn a_block_that_is_given_back_whole_is_found() {
    finds(Mutant::GivenBackWhole);
}
