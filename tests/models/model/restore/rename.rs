//! Equal states under other tokens, or with their processes in another order, are one state.

use std::sync::Arc;

use raindrop_core::lease::{Epoch, History, KnownRow, Purpose, Row, Token};

use super::{
    configuration::{Configuration, PRESENT},
    process::{Held, Phase, Process},
    store::{Tables, unwritten},
    world::State,
};

/// Numbers the tokens in the order in which a state shows them.
#[derive(Default)]
struct Names(Vec<Token>);

impl Names {
    fn of(&mut self, token: Token) -> Token {
        if token == Token::UNUSED {
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

    fn tables(&mut self, tables: &mut Tables) {
        let mut is_same = |token| self.of(token) == token;
        if let Some(record) = &mut tables.record
            && !(is_same(record.token) && record.history.epochs().all(is_same))
        {
            let record = Arc::make_mut(record);
            self.set(&mut record.token);
            self.set_epochs(&mut record.history);
        }
        for row in tables.rows.iter_mut().flatten() {
            let (token, epoch) = (self.of(row.token), self.of(row.epoch));
            if (token, epoch) != (row.token, row.epoch) {
                let row = Arc::make_mut(row);
                (row.token, row.epoch) = (token, epoch);
            }
        }
    }

    fn process(&mut self, process: &mut Process) {
        process.known.iter_mut().for_each(|known| self.history(known));
        let mut set = |token: &mut Token| self.set(token);
        if let Phase::Chosen(known_row) | Phase::Ready(known_row, _) = &mut process.phase {
            known_row.rename(&mut set);
        }
        let Some(held) = process.held_mut() else { return };
        held.row.known_row.rename(&mut set);
        if let Some(last) = &mut held.row.last_write {
            set(&mut last.token);
            set(&mut last.epoch);
        }
        let own_tokens = held.row.own_tokens_mut();
        own_tokens.iter_mut().for_each(&mut set);
        own_tokens.sort_by_key(|token| token.bits());
        own_tokens.dedup();
    }
}

/// Gives equal states the same tokens and order. Most steps change a part of a state, so what keeps its
/// tokens stays shared with the state before. Rows that only some processes may lease stay
/// distinct.
pub(super) fn rename(state: &mut State, configuration: &Configuration) {
    forget(state, configuration.remembers);
    number_epochs(state);
    if !configuration.is_last_outside {
        reorder_rows(state);
    }
    state.processes.sort_by_key(order);
    let mut names = Names::default();
    names.tables(&mut state.tables);
    if let Some(backup) = &mut state.backup {
        names.tables(&mut backup.tables);
    }
    state.processes.iter_mut().for_each(|process| names.process(process));
}

/// Forgets tokens that the rest of the state does not have and that cannot return.
fn forget(state: &mut State, remembers: usize) {
    let State { tables, backup, processes, .. } = state;
    let stores = || [Some(&*tables), backup.as_ref().map(|it| &it.tables)].into_iter().flatten();
    let mut tokens = Vec::new();
    let mut epochs: Vec<Token> = Vec::new();
    for row in stores().flat_map(|tables| tables.rows.iter().flatten()) {
        tokens.push(row.token);
    }
    let of_process = |process: &Process| process.known.as_ref().map(|known| known.epoch());
    epochs.extend(processes.iter().filter_map(of_process));
    let of_held = |process: &Process| process.held().map(|held| held.row.known_row.epoch());
    epochs.extend(processes.iter().filter_map(of_held));
    let kept = |history: &History| {
        let before = &history.before[..history.before.len().min(remembers - 1)];
        let is_needed = |epoch: &Epoch| epochs.contains(&epoch.token);
        before.iter().rposition(is_needed).map_or(0, |last| last + 1).max(1)
    };
    let is_trimmed = |history: &History| {
        // Beyond the epochs that are needed there is at most the oldest one, without a token.
        let rest = history.before.get(kept(history)..).unwrap_or_default();
        let is_short = history.before.len() < remembers && rest.len() <= 1;
        is_short && rest.iter().all(|oldest| oldest.token == Token::UNUSED)
    };
    let trim = |history: &mut History| {
        let kept = kept(history);
        history.before.truncate(remembers - 1);
        // The oldest epoch tells which ones the record forgot.
        let oldest = history.before.last().filter(|_| history.before.len() > kept).copied();
        history.before.truncate(kept);
        history.before.extend(oldest.map(|oldest| Epoch { token: Token::UNUSED, ..oldest }));
    };
    for process in processes.iter_mut() {
        if let Some(known) = process.known.as_mut().filter(|known| !is_trimmed(known)) {
            trim(Arc::make_mut(known));
        }
        if let Phase::Chosen(known_row) | Phase::Ready(known_row, _) = &mut process.phase
            && !tokens.contains(&known_row.token())
        {
            // The store refuses the swap, whatever it would write.
            *known_row = KnownRow::of(&Row { token: Token::UNUSED, ..unwritten(0, PRESENT) });
        }
        if let Some(held) = process.held_mut() {
            held.row.own_tokens_mut().retain(|own| tokens.contains(own));
            held.grant.start = held.grant.start.max(PRESENT);
            held.grant.limit = held.grant.limit.max(PRESENT);
        }
    }
    let backup = backup.as_mut().map(|it| &mut it.tables);
    for tables in [Some(tables), backup].into_iter().flatten() {
        if let Some(record) = tables.record.as_mut().filter(|it| !is_trimmed(&it.history)) {
            trim(&mut Arc::make_mut(record).history);
        }
    }
}

/// Ordinals count from the smallest one on.
fn number_epochs(state: &mut State) {
    let ordinals = histories(state).flat_map(History::remembered).map(|epoch| epoch.ordinal);
    let Some(smallest) = ordinals.min().filter(|smallest| *smallest != 1) else { return };
    each_history(state, |history| {
        let ordinals = history.before.iter_mut().map(|epoch| &mut epoch.ordinal);
        ordinals
            .chain([&mut history.ordinal])
            .for_each(|ordinal| *ordinal = *ordinal + 1 - smallest);
    });
}

fn histories(state: &State) -> impl Iterator<Item = &History> {
    let backup = state.backup.as_ref().map(|it| &it.tables);
    let tables = [Some(&state.tables), backup].into_iter().flatten();
    let recorded = tables.filter_map(|it| it.record.as_ref()).map(|record| &record.history);
    recorded.chain(state.processes.iter().filter_map(|process| process.known.as_deref()))
}

fn each_history(state: &mut State, mut change: impl FnMut(&mut History)) {
    let backup = state.backup.as_mut().map(|it| &mut it.tables);
    for tables in [Some(&mut state.tables), backup].into_iter().flatten() {
        if let Some(record) = &mut tables.record {
            change(&mut Arc::make_mut(record).history);
        }
    }
    for known in state.processes.iter_mut().filter_map(|process| process.known.as_mut()) {
        change(Arc::make_mut(known));
    }
}

/// Sorts the rows: they differ only in their content.
fn reorder_rows(state: &mut State) {
    let key = |state: &State, worker: usize| {
        let of = |tables: &Tables| {
            let row = tables.rows[worker].as_ref();
            row.map(|row| (row.expires_ms, row.heartbeat_ms, row.marks[0]))
        };
        let has_row = |process: &&Process| process.held().map(Held::worker) == Some(worker);
        let holders = state.processes.iter().filter(has_row).count();
        let backup = state.backup.as_ref().map(|backup| of(&backup.tables));
        (of(&state.tables), backup, holders, state.issued[worker])
    };
    if state.issued.len() != 2 || key(state, 0) <= key(state, 1) {
        return;
    }
    state.issued.reverse();
    let backup = state.backup.as_mut().map(|it| &mut it.tables);
    for tables in [Some(&mut state.tables), backup].into_iter().flatten() {
        tables.rows.reverse();
        for (worker, row) in (0..).zip(&mut tables.rows) {
            if let Some(row) = row {
                Arc::make_mut(row).worker = worker;
            }
        }
    }
    for process in &mut state.processes {
        if let Phase::Chosen(known_row) | Phase::Ready(known_row, _) = &mut process.phase {
            swap_worker(known_row);
        }
        if let Some(held) = process.held_mut() {
            swap_worker(&mut held.row.known_row);
        }
    }
}

fn swap_worker(known_row: &mut KnownRow<Purpose>) {
    let (token, epoch) = (known_row.token(), known_row.epoch());
    let row = unwritten(1 - known_row.worker(), known_row.marks()[0]);
    *known_row = KnownRow::of(&Row { token, epoch, ..row });
}

/// Returns an order of processes that ignores their tokens.
fn order(process: &Process) -> impl Ord + use<> {
    let phase = match &process.phase {
        Phase::Idle => (0, None),
        Phase::Recreate { rows_are_ours } => (1, Some(i64::from(*rows_are_ours))),
        Phase::Make => (2, None),
        Phase::Chosen(known_row) => (3, i64::try_from(known_row.worker()).ok()),
        Phase::Ready(known_row, judged) => (4 + known_row.worker(), Some(judged.now_ms)),
        Phase::Renew(judged) => (10, Some(judged.now_ms)),
        Phase::Refused(judged) => (11, Some(judged.now_ms)),
        Phase::Enter(judged) => (12, Some(judged.now_ms)),
        Phase::Entered => (13, None),
        Phase::Anew(judged) => (14, Some(judged.now_ms)),
    };
    let held = process.held().map(|held| {
        let leases =
            [Some(held.grant), held.row.at_barrier()].map(|it| it.map(|it| (it.start, it.limit)));
        let last_ms = held.row.last_write.map(|last| last.store_ms);
        (held.worker(), leases, held.since, last_ms)
    });
    let stale = process.stale.map(|stale| (stale.renewed_ms, stale.left));
    let known = process.known.as_ref().map(|known| (known.since_ms, known.barrier_ms));
    let flags = (process.has_looked, process.has_issued, process.went_back);
    (held, phase, stale, known, flags, process.past)
}
