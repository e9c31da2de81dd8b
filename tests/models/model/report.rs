//! Explores a world and reports the result.

use std::collections::BTreeSet;

use raindrop_core::planted::Bug;
use stateright::{Checker, HasDiscoveries, Model};

use crate::{cluster::Cluster, configuration::Configuration};

/// Explores every state and asserts every property.
#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
pub(crate) fn explore(configuration: &Configuration) {
    let checker = Cluster::new(configuration.clone(), None, None).checker().spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let name = configuration.name;
    println!("{name}: {states} states, {depth} steps deep, all explored");
    checker.assert_properties();
}

/// Explores until a property is broken, and prints the shortest way there.
#[expect(clippy::print_stdout, reason = "the way to a bug is shown on demand")]
pub(crate) fn find(
    bug: Option<Bug>,
    name: &str,
    property: &'static str,
    configuration: &Configuration,
) {
    let found = HasDiscoveries::AnyOf(BTreeSet::from([property]));
    let cluster = Cluster::new(configuration.clone(), Some(property), bug);
    let checker = cluster.checker().finish_when(found).spawn_bfs().join();
    let path = checker.discovery(property).unwrap_or_else(|| panic!("{name} was not found"));
    let actions = path.into_actions();
    let (steps, states) = (actions.len(), checker.unique_state_count());
    println!("{name}: found in {steps} steps ({states} states)");
    for action in actions {
        println!("  {action:?}");
    }
}
