//! Claims against the clock, the limit, sealing and a change of lane.

use loom::thread;

use super::world::{POSITIONS_PER_TICK, World, assert_distinct, explore, must_fail};
use crate::{issue::ClaimError, planted::Bug};

/// The clock moves meanwhile.
#[test]
fn two_threads_never_claim_one_position() {
    explore(None, "claims on one code", || {
        let world = World::new(8);
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                let mut ids = world.claim("a", 2).unwrap_or_default();
                ids.extend(world.claim("a", 1).unwrap_or_default());
                ids
            })
        };
        world.set_clock(1);
        let ids = world.claim("a", 2).unwrap_or_default();
        let others = other.join().expect("no panic");
        assert!(others.is_sorted() && ids.is_sorted());
        assert_distinct(ids.iter().chain(&others));
    });
}

/// The lease has two positions, and the threads claim four. The keeper raises the limit by one
/// position when it is woken, and looks at the wake-up once more at the end, as it does when it
/// goes to sleep.
fn claims_and_renewal() {
    let world = World::looking_up(8, 2);
    let start = world.present();
    let grant = world.generator.grant().expect("leased");
    let spawn = || {
        let world = world.clone();
        thread::spawn(move || world.claim("a", 2))
    };
    let threads = [spawn(), spawn()];
    let mut limit = start + 2;
    let mut seen = 0;
    if world.take_wake_up() {
        seen = grant.take_refused();
        limit = start + 3;
        grant.raise_limit(limit, start);
    }
    let answers = threads.map(|thread| thread.join().expect("no panic"));
    let refused = answers.contains(&Err(ClaimError::LimitReached));
    let ids: Vec<_> = answers.into_iter().flatten().flatten().collect();
    assert!(world.end(&ids) <= limit, "claimed above the limit");
    assert_distinct(&ids);
    if refused {
        let woken = world.take_wake_up();
        let left = grant.take_refused();
        assert!(seen >= 2 || (woken && left >= 2), "a refused claim left no wake-up");
    }
}

#[test]
fn claims_stay_below_the_limit_and_refused_ones_wake_the_keeper() {
    explore(None, "claims against the limit", claims_and_renewal);
}

#[test]
fn an_ignored_limit_is_found() {
    must_fail(None, Bug::LimitIgnored, "above the limit", claims_and_renewal);
}

/// The mark that sealing returns is where the next lease begins.
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

/// The new grant is put in place, then the old one is sealed.
#[test]
fn every_claim_comes_from_one_of_the_two_grants() {
    explore(None, "claims against a grant swap", || {
        let world = World::looking_up(8, 100 * POSITIONS_PER_TICK);
        let old = world.generator.grant().expect("leased");
        let known = world.claim("a", 1).expect("room");
        let spawn = |code: &'static str| {
            let world = world.clone();
            thread::spawn(move || world.claim(code, 1).expect("refused in between"))
        };
        let (known_code, new_code) = (spawn("a"), spawn("b"));
        let start = world.present();
        let new = world.lease(1, start, start + POSITIONS_PER_TICK);
        let mark = old.seal();
        let a = known_code.join().expect("no panic");
        let b = new_code.join().expect("no panic");
        for id in a.iter().chain(&b) {
            let (position, lane) = world.position(*id);
            assert!(lane == 1 || position < mark, "claimed at or above the old lane's mark");
        }
        let after = world.claim("a", 1).expect("the new grant has room");
        assert_eq!(world.position(after[0]).1, 1);
        assert_distinct(known.iter().chain(&a).chain(&after));
        let in_new = a.iter().chain(&after).filter(|id| world.position(**id).1 == 1).count();
        assert_eq!(new.highest_next().max(start + 1), start + in_new as u64);
    });
}
