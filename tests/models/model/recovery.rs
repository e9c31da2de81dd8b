//! Checks recovery once faults end: one process issues at once, in the first tick that no lease can
//! have reached.

use std::{collections::HashSet, hash::BuildHasher};

use foldhash::fast::FixedState;

use crate::{
    cluster::{Action, Cluster, State},
    process::Operation,
};

/// More steps than any way back takes.
const STEPS: usize = 30;

/// Returns whether each process, left alone, can issue: with the late writes lost, and with all of
/// them applied first. `known` has what earlier calls found.
pub(crate) fn is_possible(cluster: &Cluster, state: &State, known: &mut HashSet<u64>) -> bool {
    let mut alone = |state: &State| {
        (0..state.processes.len()).all(|process| {
            let hash = hash_of_view(state, process);
            let can_issue = known.contains(&hash) || issues(cluster, state.clone(), process);
            if can_issue {
                known.insert(hash);
            }
            can_issue
        })
    };
    if state.under_way.is_empty() {
        return alone(state);
    }
    let mut all_arrived = state.clone();
    while !all_arrived.under_way.is_empty() {
        cluster.step(&mut all_arrived, Action::Apply { under_way: 0, durable: true });
    }
    alone(state) && alone(&all_arrived)
}

/// Returns a hash of all that decides what a process does alone: the rows, its own state, and the
/// write that it waits for.
fn hash_of_view(state: &State, process: usize) -> u64 {
    let awaited = state.under_way.iter().find(|write| write.awaited_by == Some(process));
    let written = awaited.map(|it| (it.row, it.expected, it.token, &it.marks));
    let view = (&state.rows, &state.processes[process], written);
    FixedState::default().hash_one(view)
}

fn issues(cluster: &Cluster, mut state: State, process: usize) -> bool {
    let present = cluster.world.configuration.end();
    let tick = present / cluster.world.configuration.positions_per_tick;
    for _ in 0..STEPS {
        if state.processes[process].clone().issue(0, present).is_some() {
            return true;
        }
        let action = next(&state, process, tick);
        if cluster.step(&mut state, action).is_none() {
            return false;
        }
    }
    false
}

fn next(state: &State, process: usize, tick: u64) -> Action {
    let this = &state.processes[process];
    if this.must_read() {
        return Action::Resolve { process };
    }
    match this.waiting {
        Some(Some(_)) => return Action::Receive { process },
        Some(None) => {
            let awaited = state.under_way.iter().position(|it| it.awaited_by == Some(process));
            // A visible write that was never acknowledged has no answer.
            return match awaited {
                Some(under_way) => Action::Apply { under_way, durable: true },
                None => Action::TimeOut { process },
            };
        }
        None => {}
    }
    if this.is_short_of_file() {
        return Action::RaiseLocalMark { process, whole: true };
    }
    let operations = this.operations(tick..tick + 1);
    let preferred = |operation: &&Operation| !matches!(operation, Operation::Rotate(_));
    match operations.iter().find(preferred) {
        Some(operation) => Action::Send { process, operation: *operation },
        None => Action::Choose { process, tick, random: 0 },
    }
}
