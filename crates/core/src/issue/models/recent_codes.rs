//! Claims by name on codes that a thread used last, which check nothing but the clock's recent
//! reading and the cursor.

use loom::thread;

use super::world::{World, assert_distinct, explore, must_fail};
use crate::{id::Id, planted::Bug};

const PREEMPTIONS: usize = 4;

/// Two claims, of which the second one needs no look-up.
fn claim_twice(world: &World) -> Vec<Id> {
    let claim = || world.claim("a", 1).unwrap_or_default();
    [claim(), claim()].concat()
}

/// The lease has three positions, and the threads claim four.
fn claims_at_the_limit_and_seal() {
    let world = World::without_lease(8);
    let start = world.present();
    let grant = world.lease(0, start, start + 3);
    let other = {
        let world = world.clone();
        thread::spawn(move || claim_twice(&world))
    };
    let ids = claim_twice(&world);
    let mark = grant.seal();
    let others = other.join().expect("no panic");
    assert!(world.end(&ids).max(world.end(&others)) <= mark, "claimed above the mark {mark}");
    assert!(mark <= start + 3, "the mark {mark} is above the limit");
    assert!(ids.is_sorted() && others.is_sorted(), "IDs do not ascend");
    assert_distinct(ids.iter().chain(&others));
}

#[test]
fn recent_codes_stay_below_the_limit_and_a_sealed_mark() {
    explore(
        Some(PREEMPTIONS),
        "recent codes at the limit against sealing",
        claims_at_the_limit_and_seal,
    );
}

/// The position that is beyond the window here is that of a closed cursor.
#[test]
fn an_overrun_that_is_issued_is_found() {
    must_fail(Some(PREEMPTIONS), Bug::OverrunIssued, "do not ascend", claims_at_the_limit_and_seal);
}

#[test]
fn recent_codes_follow_a_change_of_lane() {
    explore(Some(PREEMPTIONS), "a recent code against a grant swap", || {
        let world = World::new(8);
        let old = world.generator.grant().expect("leased");
        let other = {
            let world = world.clone();
            thread::spawn(move || claim_twice(&world))
        };
        let start = world.present();
        world.lease(1, start, start + 3);
        let mark = old.seal();
        let ids = other.join().expect("no panic");
        assert_eq!(ids.len(), 2, "refused in between");
        for id in &ids {
            let (position, lane) = world.position(*id);
            assert!(lane == 1 || position < mark, "claimed at or above the old lane's mark");
        }
        assert_distinct(&ids);
    });
}
