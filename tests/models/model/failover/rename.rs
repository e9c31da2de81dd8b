//! Equal states under other tokens are one state.

use std::sync::Arc;

use raindrop_core::lease::{History, Token};

use super::{
    process::{Process, Search},
    store::{Message, Record, Swap},
    world::State,
};

/// Numbers the tokens in the order in which a state shows them.
#[derive(Default)]
struct Names(Vec<Token>);

impl Names {
    fn of(&mut self, token: Token) -> Token {
        // Tokens above these come from a planted bug, which makes them of an identity.
        if token == Token::UNUSED || token.bits() >= 256 {
            return token;
        }
        let known = self.0.iter().position(|name| *name == token);
        let index = known.unwrap_or_else(|| {
            self.0.push(token);
            self.0.len() - 1
        });
        Token::from_bits(index as u128 + 1)
    }

    fn set(&mut self, token: &mut Token) {
        *token = self.of(*token);
    }

    fn set_epochs(&mut self, history: &mut History) {
        self.set(&mut history.epoch);
        history.before.iter_mut().for_each(|epoch| self.set(&mut epoch.token));
    }

    fn history(&mut self, history: &mut Arc<History>) {
        if !history.epochs().all(|epoch| self.of(epoch) == epoch) {
            self.set_epochs(Arc::make_mut(history));
        }
    }

    fn record(&mut self, record: &mut Arc<Record>) {
        let mut is_same = |token| self.of(token) == token;
        if !(is_same(record.token) && record.history.epochs().all(is_same)) {
            let record = Arc::make_mut(record);
            self.set(&mut record.token);
            self.set_epochs(&mut record.history);
        }
    }

    fn process(&mut self, process: &mut Process) {
        process.known.iter_mut().for_each(|known| self.history(known));
        let mut set = |token: &mut Token| self.set(token);
        if let Some(Search(Some(known_row))) = process.state.search_mut() {
            known_row.rename(&mut set);
        }
        if let Some(releasing) = &mut process.releasing {
            releasing.known_row.rename(&mut set);
        }
        let Some(held) = process.held_mut() else { return };
        held.known_row.rename(&mut set);
        if let Some(last) = &mut held.last_write {
            set(&mut last.token);
            set(&mut last.epoch);
        }
        let own_tokens = held.own_tokens_mut();
        own_tokens.iter_mut().for_each(set);
        own_tokens.sort_by_key(|token| token.bits());
        own_tokens.dedup();
    }

    fn message(&mut self, message: &mut Message) {
        self.set(&mut message.expected);
        match &mut message.swap {
            Swap::Row(write) => {
                self.set(&mut write.token);
                self.set(&mut write.epoch);
            }
            Swap::Record(record) => self.record(record),
        }
    }
}

pub(super) fn rename(state: &mut State) {
    let mut names = Names::default();
    for tables in state.store.tables_mut().rev() {
        names.record(&mut tables.record);
        let row = &mut tables.row;
        let (token, epoch) = (names.of(row.token), names.of(row.epoch));
        if (token, epoch) != (row.token, row.epoch) {
            let row = Arc::make_mut(row);
            (row.token, row.epoch) = (token, epoch);
        }
    }
    state.processes.iter_mut().for_each(|process| names.process(process));
    state.under_way.iter_mut().for_each(|message| names.message(message));
}
