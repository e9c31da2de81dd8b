//! Explores a world and reports the result.

use std::{collections::BTreeSet, fmt::Write};

use stateright::{Checker, HasDiscoveries, Model, Path};

use super::{
    configuration::{Configuration, PRESENT, TICK_MS, instant},
    process::Process,
    store::Tables,
    world::{Action, LAWFUL, PAST_UNIQUE, RECOVERS, Restores, State, UNIQUE},
};

/// Explores every state.
#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
pub(super) fn explore(configuration: &Configuration) {
    let checker = Restores::new(configuration.clone()).checker().spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{}: {states} states, {depth} steps deep, all explored", configuration.name);
    for broken in [UNIQUE, PAST_UNIQUE, LAWFUL, RECOVERS] {
        if let Some(path) = checker.discovery(broken) {
            println!("{}", trace(path));
        }
    }
    checker.assert_properties();
}

/// Explores until a property is broken, and prints the shortest way there.
#[expect(clippy::print_stdout, reason = "the way to a bug is shown on demand")]
pub(super) fn find(property: &'static str, configuration: &Configuration) {
    let configuration = Configuration { shows: &[], ..configuration.clone() };
    let found = HasDiscoveries::AnyOf(BTreeSet::from([property]));
    let checker =
        Restores::new(configuration.clone()).checker().finish_when(found).spawn_bfs().join();
    let name = format!("{:?} in {}", configuration.breaks, configuration.name);
    let states = checker.unique_state_count();
    let path = checker.discovery(property);
    let path = path.unwrap_or_else(|| panic!("{name} was not found in {states} states"));
    let steps = path.clone().into_actions().len();
    println!("{name}: found in {steps} steps ({states} states)\n{}", trace(path));
}

/// Prints one step a line. Each step renumbers the processes, so the state follows; ticks count
/// from the present one.
fn trace(path: Path<State, Action>) -> String {
    let mut text = String::new();
    for (state, action) in path.into_vec() {
        let _ = writeln!(text, "  {}", brief(&state));
        if let Some(action) = action {
            let _ = writeln!(text, "{action:?}");
        }
    }
    text
}

fn brief(state: &State) -> String {
    let mut text = tables(&state.tables);
    if let Some(backup) = &state.backup {
        let _ = write!(text, " | backup {}", tables(&backup.tables));
    }
    state.processes.iter().for_each(|it| text.push_str(&process(it)));
    text
}

fn ticks(at_ms: i64) -> i64 {
    (at_ms - instant(0)) / TICK_MS
}

fn places(position: u64) -> i64 {
    position.cast_signed() - PRESENT.cast_signed()
}

fn tables(tables: &Tables) -> String {
    let mut text = match &tables.record {
        None => "no record".to_owned(),
        Some(record) => {
            let history = &record.history;
            let barrier_ms = Some(history.barrier_ms).filter(|ms| *ms != 0).map(ticks);
            let epoch = history.epoch().bits();
            format!("epoch {epoch} barrier {barrier_ms:?} pending {}", history.lacks_barrier())
        }
    };
    let _ = write!(text, " past {}", tables.past);
    for row in &tables.rows {
        let _ = match row {
            None => write!(text, "; no row"),
            Some(row) => write!(
                text,
                "; row {} epoch {} mark {} at {} until {}",
                row.token.bits(),
                row.epoch.bits(),
                places(row.marks[0]),
                ticks(row.heartbeat_ms.max(1)),
                ticks(row.expires_ms.max(1)),
            ),
        };
    }
    text
}

fn process(process: &Process) -> String {
    let phase = format!("{:?}", process.phase);
    let phase = phase.split([' ', '(']).next().unwrap_or_default();
    let known = process.known.as_ref().map(|known| known.epoch().bits());
    let mut text = format!(" [{phase} knows {known:?}");
    if let Some(stale) = process.stale {
        let _ = write!(text, " stale {} left {}", ticks(stale.renewed_ms), stale.left);
    }
    if let Some(past) = process.past {
        let _ = write!(text, " past {past:?}");
    }
    if let Some(held) = process.held() {
        let (start, limit) = (places(held.grant.start), places(held.grant.limit));
        let (worker, token) = (held.worker(), held.row.known_row.token().bits());
        let waiting = held.row.at_barrier().map(|lease| places(lease.start));
        let _ = write!(
            text,
            " holds {worker}: {start}..{limit} token {token} waiting {waiting:?} since {}",
            held.since,
        );
    }
    text + "]"
}
