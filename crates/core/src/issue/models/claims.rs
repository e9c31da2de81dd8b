//! Two threads claim on one code while the clock moves.

use loom::thread;

use super::world::{World, assert_distinct, explore};

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
