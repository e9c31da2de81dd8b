//! Claims against sealing: the mark that it returns is where the next lease begins.

use loom::thread;

use super::world::{World, explore, must_fail};
use crate::issue::ClaimError;
use crate::planted::Bug;

fn claims_and_seal() {
    let world = World::new(8);
    let grant = world.generator.grant().expect("leased");
    let known = world.claim("a", 1).expect("room");
    let spawn = |code: &'static str| {
        let world = world.clone();
        thread::spawn(move || world.claim(code, 1).unwrap_or_default())
    };
    let (old_code, new_code) = (spawn("a"), spawn("b"));
    let mark = grant.seal();
    for ids in [known, old_code.join().expect("no panic"), new_code.join().expect("no panic")] {
        assert!(world.end(&ids) <= mark, "the mark {mark} is below a claimed position");
    }
    assert_eq!(grant.seal(), mark);
    assert_eq!(world.claim("a", 1), Err(ClaimError::NoLease));
    assert_eq!(world.claim("b", 1), Err(ClaimError::NoLease));
}

/// While the table is sealed, a claim evicts the code that issued most.
fn eviction_and_seal() {
    let world = World::new(1);
    let grant = world.generator.grant().expect("leased");
    let evicted = world.claim("x", 3).expect("room");
    world.set_clock(1);
    let other = {
        let world = world.clone();
        thread::spawn(move || world.claim("y", 1).unwrap_or_default())
    };
    let mark = grant.seal();
    let claimed = other.join().expect("no panic");
    for ids in [evicted, claimed] {
        assert!(world.end(&ids) <= mark, "the mark {mark} is below a claimed position");
    }
}

#[test]
fn nothing_is_claimed_at_or_above_a_sealed_mark() {
    explore(None, "claims against sealing", claims_and_seal);
    explore(None, "eviction against sealing", eviction_and_seal);
}

#[test]
fn a_mark_that_is_taken_without_sealing_is_found() {
    must_fail(None, Bug::LoweredUnsealed, "below a claimed", claims_and_seal);
}

#[test]
fn a_mark_at_the_last_claimed_position_is_found() {
    must_fail(None, Bug::LoweredToLastClaimed, "below a claimed", claims_and_seal);
}
