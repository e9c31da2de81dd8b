//! Handles, whose quick way checks nothing but the clock's reading and the cursor.

use std::sync::Arc;

use loom::thread;

use super::world::{POSITIONS_PER_TICK, World, WorldHandle, assert_distinct, explore, must_fail};
use crate::{id::Id, issue::grant::Grant, planted::Bug};

const PREEMPTIONS: usize = 4;

fn take(handle: &mut WorldHandle, count: usize) -> Vec<Id> {
    (0..count).filter_map(|_| handle.try_next_id().ok()).collect()
}

/// A handle that has taken one ID and could take the rest of its tick quickly.
fn warm(world: &Arc<World>, code: &str) -> (WorldHandle, Vec<Id>) {
    let mut handle = world.handle(code);
    let ids = take(&mut handle, 1);
    (handle, ids)
}

/// A lease of two positions.
fn two_positions() -> (Arc<World>, Arc<Grant>) {
    let world = World::without_lease(8);
    let start = world.present();
    let grant = world.lease(0, start, start + 2);
    (world, grant)
}

/// Two handles of one code, while the clock and its recent reading move one after the other.
fn two_handles() {
    let world = World::new(8);
    let (mut one, mut ids) = warm(&world, "a");
    let mut two = one.clone();
    let other = thread::spawn(move || take(&mut two, 2));
    world.set_clock(1);
    ids.extend(take(&mut one, 2));
    let others = other.join().expect("no panic");
    assert!(ids.is_sorted() && others.is_sorted());
    assert_distinct(ids.iter().chain(&others));
}

/// Handles that take turns, so that they claim runs, until the tick has no position left.
fn handles_with_runs() {
    let world = World::new(8);
    let (mut one, mut ids) = warm(&world, "a");
    let mut two = one.clone();
    ids.extend(take(&mut two, 1));
    let other = thread::spawn(move || take(&mut two, 2));
    world.set_clock(1);
    ids.extend(take(&mut one, 3));
    let others = other.join().expect("no panic");
    assert!(ids[2..].is_sorted() && others.is_sorted());
    assert_distinct(ids.iter().chain(&others));
}

fn handle_and_seal() {
    let world = World::new(8);
    let grant = world.generator.grant().expect("leased");
    let (mut handle, known) = warm(&world, "a");
    let other = thread::spawn(move || take(&mut handle, 2));
    let mark = grant.seal();
    for ids in [known, other.join().expect("no panic")] {
        assert!(world.end(&ids) <= mark, "the mark {mark} is below a claimed position");
    }
    assert_eq!(take(&mut world.handle("a"), 1), []);
}

/// Handles may move the cursor beyond the limit, but neither their IDs nor the mark.
fn handles_at_the_limit_and_seal() {
    let (world, grant) = two_positions();
    let (mut one, mut ids) = warm(&world, "a");
    let mut two = one.clone();
    let other = thread::spawn(move || take(&mut two, 2));
    ids.extend(take(&mut one, 1));
    let mark = grant.seal();
    ids.extend(other.join().expect("no panic"));
    assert!(world.end(&ids) <= mark, "the mark {mark} is below a claimed position");
    assert!(mark <= world.present() + 2, "the mark is above the limit");
}

/// The code of a handle is evicted under its hands and comes back by its name.
fn handle_of_an_evicted_code() {
    let world = World::new(1);
    let (mut handle, mut ids) = warm(&world, "x");
    let evictor = {
        let world = world.clone();
        thread::spawn(move || {
            world.set_clock(1);
            world.claim_or_give_up("y", 1)
        })
    };
    ids.extend(handle.take_quickly());
    ids.extend(world.claim_or_give_up("x", 1));
    evictor.join().expect("no panic");
    world.set_clock(2);
    ids.extend(handle.take_quickly());
    ids.extend(world.claim_or_give_up("x", 1));
    assert_distinct(&ids);
}

/// Two positions are leased; the keeper raises the limit by one when it is woken.
fn handles_and_limit() {
    let (world, grant) = two_positions();
    let start = world.present();
    let (mut one, mut ids) = warm(&world, "a");
    let mut two = one.clone();
    let other = thread::spawn(move || take(&mut two, 2));
    let mut limit = start + 2;
    if world.take_wake_up() {
        limit = start + 3;
        grant.raise_limit(limit, start);
    }
    ids.extend(take(&mut one, 1));
    ids.extend(other.join().expect("no panic"));
    assert!(world.end(&ids) <= limit, "claimed above the limit");
    assert!(limit > start + 2 || world.end(&ids) <= start + 1 || world.take_wake_up(), "not woken");
    assert_distinct(&ids);
}

/// A new grant is put in place, then the old one is sealed.
fn handle_and_swap() {
    let world = World::new(8);
    let old = world.generator.grant().expect("leased");
    let (mut handle, known) = warm(&world, "a");
    let other = thread::spawn(move || {
        let ids = take(&mut handle, 2);
        (handle, ids)
    });
    let start = world.present();
    world.lease(1, start, start + POSITIONS_PER_TICK);
    let mark = old.seal();
    let (mut handle, ids) = other.join().expect("no panic");
    assert_eq!(ids.len(), 2, "refused in between");
    for id in known.iter().chain(&ids) {
        let (position, lane) = world.position(*id);
        assert!(lane == 1 || position < mark, "claimed at or above the old lane's mark");
    }
    let after = take(&mut handle, 1);
    assert_eq!(world.position(after[0]).1, 1);
    assert_distinct(known.iter().chain(&ids).chain(&after));
}

#[test]
fn handles_of_one_code_never_take_one_position() {
    explore(Some(PREEMPTIONS), "handles of one code", two_handles);
    explore(Some(PREEMPTIONS), "handles that take runs", handles_with_runs);
}

#[test]
fn handles_stay_below_a_sealed_mark() {
    explore(None, "a handle against sealing", handle_and_seal);
    explore(None, "handles at the limit against sealing", handles_at_the_limit_and_seal);
    must_fail(None, Bug::LoweredUnsealed, "below a claimed", handle_and_seal);
    must_fail(None, Bug::LoweredToLastClaimed, "below a claimed", handle_and_seal);
}

#[test]
fn a_handle_of_an_evicted_code_repeats_nothing() {
    explore(Some(PREEMPTIONS), "a handle of an evicted code", handle_of_an_evicted_code);
    must_fail(
        Some(PREEMPTIONS),
        Bug::EvictionWithoutFloor,
        "issued twice",
        handle_of_an_evicted_code,
    );
}

#[test]
fn handles_stay_below_the_limit_and_wake_the_keeper() {
    explore(None, "handles against the limit", handles_and_limit);
    must_fail(None, Bug::LimitIgnored, "above the limit", handles_and_limit);
    must_fail(None, Bug::OverrunIssued, "above the limit", handles_and_limit);
}

#[test]
fn a_handle_follows_a_change_of_lane() {
    explore(None, "a handle against a grant swap", handle_and_swap);
}
