//! Claims against a change of lane: the new grant is put in place, then the old one is sealed.

use loom::thread;

use super::world::{POSITIONS_PER_TICK, World, assert_distinct, explore};

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
