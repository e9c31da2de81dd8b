//! Equal states under other tokens, or with their processes in another order, are one state.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use raindrop_core::lease::Token;

use crate::{
    cluster::{State, UnderWay},
    process::Process,
};

/// Numbers the tokens in the order in which a state shows them.
#[derive(Clone, Default)]
struct Names(Vec<Token>);

impl Names {
    fn position(&self, token: Token) -> Option<usize> {
        self.0.iter().position(|name| *name == token)
    }

    fn set(&mut self, token: &mut Token) {
        if *token == Token::UNUSED {
            return;
        }
        let index = self.position(*token).unwrap_or_else(|| {
            self.0.push(*token);
            self.0.len() - 1
        });
        *token = Token::from_bits(index as u128 + 1);
    }
}

/// Gives equal states the same tokens and order.
pub(crate) fn rename(state: &mut State) {
    let mut names = Names::default();
    let before = state.unacknowledged.iter_mut().map(|(_, row)| row);
    state.rows.iter_mut().chain(before).for_each(|row| names.set(&mut row.token));
    reorder(state, &names);
    state.processes.iter_mut().for_each(|process| process.rename(&mut |token| names.set(token)));
    state.under_way.iter_mut().for_each(|write| names.set(&mut write.expected));
    // Writes that differ only in a token which nothing else has are alike.
    state.under_way.sort_by_cached_key(|write| {
        let UnderWay { awaited_by, row, expected, token, marks } = write;
        let marks: Vec<u64> = marks.iter().collect();
        (*awaited_by, *row, expected.bits(), marks, names.position(*token))
    });
    state.under_way.iter_mut().for_each(|write| names.set(&mut write.token));
}

/// Sorts the processes: they differ in nothing but their state.
fn reorder(state: &mut State, names: &Names) {
    let hash = |process: &Process| {
        let (mut names, mut process) = (names.clone(), process.clone());
        process.rename(&mut |token| names.set(token));
        FixedState::default().hash_one(process)
    };
    let mut order: Vec<(u64, usize)> = state.processes.iter().map(hash).zip(0..).collect();
    order.sort_unstable();
    if order.is_sorted_by_key(|(_, before)| *before) {
        return;
    }
    let sorted = order.iter().map(|(_, before)| state.processes[*before].clone());
    state.processes = sorted.collect();
    for awaited_by in state.under_way.iter_mut().filter_map(|write| write.awaited_by.as_mut()) {
        let now = order.iter().position(|(_, before)| before == awaited_by);
        *awaited_by = now.expect("one of the processes");
    }
}
