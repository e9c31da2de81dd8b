//! Explores a world and reports the result.

use std::collections::BTreeSet;

use raindrop_core::planted::Bug;
use stateright::{Checker, HasDiscoveries, Model};

use super::{
    configuration::{Configuration, World},
    world::{Action, FailOvers, UNIQUE},
};

fn model(configuration: &Configuration, bug: Option<Bug>, replays: bool) -> FailOvers {
    FailOvers { world: World::new(configuration.clone(), bug), replays }
}

/// Explores every state.
#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
pub(super) fn explore(configuration: &Configuration) {
    let checker = model(configuration, None, false).checker().spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{}: {states} states, {depth} steps deep, all explored", configuration.name);
    checker.assert_properties();
}

/// Explores until a position may be issued twice, and prints the shortest way there. Two processes
/// with equal settings change their numbers on the way.
#[expect(clippy::print_stdout, reason = "the way to a bug is shown on demand")]
pub(super) fn find(bug: Option<Bug>, configuration: &Configuration) {
    let configuration = Configuration { shows: &[], ..configuration.clone() };
    let found = HasDiscoveries::AnyOf(BTreeSet::from([UNIQUE]));
    let checker = model(&configuration, bug, false).checker().finish_when(found);
    let checker = checker.spawn_bfs().join();
    let name = format!("{bug:?} {:?}", configuration.breaks);
    let path = checker.discovery(UNIQUE).unwrap_or_else(|| panic!("{name} was not found"));
    let (actions, states) = (path.into_actions(), checker.unique_state_count());
    println!("{name}: found in {} steps ({states} states)", actions.len());
    for action in actions {
        println!("  {action:?}");
    }
}

/// Takes these steps, until one has no effect, and returns whether a position may be issued twice
/// after them.
pub(super) fn is_duplicate_after(configuration: &Configuration, trace: &[Action]) -> bool {
    let model = model(configuration, None, true);
    let mut state = model.init_states().remove(0);
    for action in trace {
        let mut possible = Vec::new();
        model.actions(&state, &mut possible);
        assert!(possible.contains(action), "{action:?} is none of {possible:?} at {state:#?}");
        match model.next_state(&state, *action) {
            Some(next) => state = next,
            None => return false,
        }
    }
    state.may_overlap()
}
