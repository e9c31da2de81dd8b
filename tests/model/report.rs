//! Exploring a world and saying what was found.

use std::{collections::BTreeSet, time::Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::{
    cluster::{Cluster, UNIQUE},
    configuration::Configuration,
    planted::Rules,
};

/// Explores every state and asserts every property.
pub(crate) fn explore<P: Rules>(configuration: &Configuration) {
    let began = Instant::now();
    let checker = Cluster::<P>::new(configuration.clone()).checker().spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let name = configuration.name;
    println!("{name}: {states} states, {depth} steps deep, {:.1?}", began.elapsed());
    checker.assert_properties();
}

/// Explores until a position is issued twice, and prints the shortest way there.
pub(crate) fn find<P: Rules>(bug: &str, configuration: &Configuration) {
    let began = Instant::now();
    let found = HasDiscoveries::AnyOf(BTreeSet::from([UNIQUE]));
    let cluster = Cluster::<P>::new(configuration.clone());
    let checker = cluster.checker().finish_when(found).spawn_bfs().join();
    let path = checker.discovery(UNIQUE).unwrap_or_else(|| panic!("{bug} was not found"));
    let actions = path.into_actions();
    let (steps, states) = (actions.len(), checker.unique_state_count());
    println!("{bug}: found in {steps} steps ({states} states, {:.1?})", began.elapsed());
    for action in actions {
        println!("  {action:?}");
    }
}
