use std::collections::HashSet;

use super::*;

fn claim(cursor: &Cursor, to: u64) {
    cursor.claim(|next| Ok::<_, ()>((next, to))).expect("open").expect("planned");
}

#[test]
fn a_code_has_one_cursor() {
    let table = Table::new(100, 10);
    let first = table.cursor("a", None, 0).expect("room");
    assert!(Arc::ptr_eq(&first, &table.cursor("a", None, 0).expect("there")));
    assert_eq!((first.next(), table.len()), (Some(100), 1));
}

#[test]
fn codes_are_spread_over_all_shards() {
    let table = Table::new(0, 1);
    let shard = |code: u32| table.shard_of(table.hasher.hash_one(code));
    let shards: HashSet<usize> = (0..10_000).map(shard).collect();
    assert_eq!(shards, (0..SHARDS).collect());
}

#[test]
fn among_cursors_at_one_position_every_table_evicts_the_same() {
    let left = || {
        let table = Table::new(100, 32);
        let codes: Vec<String> = (0..32).map(|index| format!("code-{index}")).collect();
        let cursors: Vec<_> =
            codes.iter().map(|code| table.cursor(code, None, 0).expect("room")).collect();
        table.cursor("new", None, 101).expect("two were evicted");
        cursors.iter().map(|cursor| cursor.next().is_some()).collect::<Vec<_>>()
    };
    assert_eq!(left(), left());
    assert_eq!(left().iter().filter(|is_left| !**is_left).count(), 2);
}

#[test]
fn eviction_takes_the_oldest_and_raises_the_floor_for_new_cursors() {
    let table = Table::new(100, 32);
    for index in 0..32 {
        claim(&table.cursor(&format!("code-{index}"), None, 0).expect("room"), 1_000 + index);
    }
    let oldest = table.cursor("code-0", None, 0).expect("there");
    assert_eq!(table.cursor("new", None, 0).expect_err("nothing is old"), TableError::Full);
    let new = table.cursor("new", None, 1_010).expect("two were evicted");
    assert_eq!((new.next(), table.len()), (Some(1_001), 31));
    assert_eq!(oldest.next(), None);
    // The evicted code continues above its last ID.
    let again = table.cursor("code-0", None, 1_010).expect("room");
    assert!(again.next() >= Some(1_000));
    assert_eq!(table.len(), 32);
    assert!(table.cursor("code-31", None, 0).expect("kept").next() == Some(1_031));
}

#[test]
fn table_that_has_room_again_evicts_nothing() {
    let table = Table::new(100, 2);
    let only = table.cursor("a", None, 0).expect("room");
    // Like a thread that waited while another one evicted.
    table.evict(200);
    assert_eq!((only.next(), table.len()), (Some(100), 1));
}

#[test]
fn cursors_that_moved_up_are_not_evicted() {
    let table = Table::new(0, 1);
    let only = table.cursor("a", None, 0).expect("room");
    claim(&only, 50);
    assert_eq!(table.cursor("b", None, 50).expect_err("a is in use"), TableError::Full);
    assert_eq!(only.next(), Some(50));
    assert_eq!(table.cursor("b", None, 51).expect("a is old").next(), Some(50));
}

#[test]
fn sealed_table_refuses_codes_and_returns_its_highest_position() {
    let table = Table::new(100, 1);
    assert_eq!(table.highest_next(), 100);
    claim(&table.cursor("evicted", None, 0).expect("room"), 170);
    claim(&table.cursor("kept", None, 200).expect("evicts"), 190);
    claim(&table.cursor("third", None, 200).expect("evicts"), 191);
    assert_eq!(table.highest_next(), 191);
    let third = table.cursor("third", None, 0).expect("there");
    assert_eq!(table.seal(), 191);
    assert_eq!(third.next(), None);
    assert_eq!(table.cursor("fourth", None, 200).expect_err("sealed"), TableError::Sealed);
    assert_eq!(Table::new(100, 1).seal(), 100);
}

#[test]
fn sealing_counts_what_was_evicted() {
    let table = Table::new(100, 1);
    claim(&table.cursor("evicted", None, 0).expect("room"), 170);
    table.cursor("idle", None, 200).expect("evicts");
    assert_eq!(table.seal(), 170);
}

#[test]
fn each_client_has_its_share_in_each_tick() {
    let mut codes = NewCodes::default();
    let counted = [(1, 5), (1, 5), (1, 5), (2, 5), (1, 4), (1, 6), (1, 5), (1, 6), (2, 6)]
        .map(|(client, tick)| codes.count(client, 2, tick));
    // A thread that read the clock in an earlier tick counts in the present one.
    assert_eq!(counted, [true, true, false, true, false, true, true, false, true]);
}
