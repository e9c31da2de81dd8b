//! Claims against the limit, while the keeper raises it.

use loom::thread;

use super::world::{World, assert_distinct, explore, must_fail};
use crate::issue::ClaimError;
use crate::planted::Bug;

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
