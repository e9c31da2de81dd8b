//! Clock, look-up, insertion and claim against a thread that evicts the code in between.

use loom::thread;

use super::world::{POSITIONS_PER_TICK, World, assert_distinct, explore, must_fail};
use crate::planted::Bug;

/// The bound of preemptions. An eviction walks over the whole table, so without a bound the
/// exploration does not end; a duplicate by a stale reader takes one preemption.
const PREEMPTIONS: usize = 4;

/// The code `x`, which has issued, fills the table. One thread moves the clock and claims on `y`,
/// which evicts `x`. The other thread claims on `x` again, with a reading of the clock that may be
/// from before the move.
fn stale_reader() {
    let world = World::new(1);
    let mut ids = world.claim_or_give_up("x", 2);
    let evictor = {
        let world = world.clone();
        thread::spawn(move || {
            world.set_clock(1);
            world.claim_or_give_up("y", 1)
        })
    };
    ids.extend(world.claim_or_give_up("x", 1));
    evictor.join().expect("no panic");
    world.set_clock(2);
    ids.extend(world.claim_or_give_up("x", 1));
    assert_distinct(&ids);
}

/// The same with a third thread that claims on `x`.
fn two_readers() {
    let world = World::looking_up(1, 100 * POSITIONS_PER_TICK);
    let mut ids = world.claim_or_give_up("x", 1);
    let evictor = {
        let world = world.clone();
        thread::spawn(move || {
            world.set_clock(1);
            world.claim_or_give_up("y", 1)
        })
    };
    let reader = {
        let world = world.clone();
        thread::spawn(move || world.claim_or_give_up("x", 1))
    };
    ids.extend(world.claim_or_give_up("x", 1));
    evictor.join().expect("no panic");
    ids.extend(reader.join().expect("no panic"));
    assert_distinct(&ids);
}

/// A table of two codes, so that the evicted and the new code meet in one shard or in two.
fn two_codes() {
    let world = World::new(2);
    let mut x = world.claim_or_give_up("x", 2);
    let mut y = world.claim_or_give_up("y", 1);
    let evictor = {
        let world = world.clone();
        thread::spawn(move || {
            world.set_clock(1);
            world.claim_or_give_up("z", 1)
        })
    };
    x.extend(world.claim_or_give_up("x", 1));
    y.extend(world.claim_or_give_up("y", 1));
    evictor.join().expect("no panic");
    world.set_clock(2);
    x.extend(world.claim_or_give_up("x", 1));
    y.extend(world.claim_or_give_up("y", 1));
    assert_distinct(&x);
    assert_distinct(&y);
}

#[test]
fn an_evicted_code_never_repeats_a_position() {
    explore(Some(PREEMPTIONS), "a stale reader of an evicted code", stale_reader);
    explore(Some(PREEMPTIONS), "eviction in a table of two codes", two_codes);
}

#[test]
fn an_evicted_code_with_two_readers_never_repeats_a_position() {
    explore(Some(PREEMPTIONS - 1), "two readers of an evicted code", two_readers);
}

#[test]
fn a_new_cursor_at_the_clock_is_found() {
    must_fail(Some(PREEMPTIONS), Bug::CursorAtClock, "issued twice", stale_reader);
}

#[test]
fn eviction_without_the_floor_is_found() {
    must_fail(Some(PREEMPTIONS), Bug::EvictionWithoutFloor, "issued twice", stale_reader);
}
