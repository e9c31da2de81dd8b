//! Two threads claim while the clock moves.

use loom::thread;

use super::world::{World, assert_distinct, explore};

#[test]
fn two_threads_never_claim_one_position() {
    explore("claims on one code", || {
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

#[test]
fn a_clock_that_only_rises_is_never_held() {
    explore("claims under a rising clock", || {
        let world = World::new(8);
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                world.set_clock(1);
                world.claim("a", 1).expect("room");
            })
        };
        let claim = world.generator.claim("b", 1).expect("room");
        assert!(!claim.hold_began, "a reading from before was taken for a clock that went back");
        other.join().expect("no panic");
    });
}
