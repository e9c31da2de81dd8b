//! Tests the promises of [`raindrop::store::SegmentStore`], on every engine.

use std::sync::Arc;

use raindrop::{
    core::{lease::Token, segment::CodeRow},
    store::{
        ManagedCode, NewSegment, Reservation, Reserved, Store, StoreError, Undo, UnusedNumbers,
    },
};
use tokio::task::JoinSet;

use crate::{
    backend::{Backend, EPOCH, record, token},
    conformance::on_every_engine,
};

/// One past the largest number that a store keeps.
const LARGEST: u64 = i64::MAX as u64;

on_every_engine! {
    codes_are_made_once_and_kept
    a_reservation_raises_the_next_number
    a_reservation_never_passes_its_end
    numbers_are_exact_up_to_the_end
    of_concurrent_reservations_none_overlap
    a_code_is_made_by_its_first_reservation
    of_concurrent_first_reservations_none_overlap
    a_give_back_names_its_reservation
    a_late_give_back_is_refused
    only_the_last_reservation_is_undone
    undone_numbers_are_exact
    segment_names_differ_by_case_and_trailing_blanks
    fifty_nodes_make_the_same_codes
    all_codes_are_listed_in_order
    codes_are_listed_by_ranges_of_names
    codes_are_counted_by_namespace
}

/// The namespaces of these tests.
const NAMESPACES: [&str; 6] = ["numbers", "Numbers", "number", "other", "a", "b"];

async fn prepared(backend: &Backend) -> Arc<dyn Store> {
    let store = backend.store().await;
    store.prepare_segments().await.expect("the table is made");
    for namespace in NAMESPACES {
        store.create_record(namespace, &record(1, "numbers")).await.expect("a record");
    }
    store
}

/// Opens a store with one code that begins at 1.
async fn with_order(backend: &Backend) -> Arc<dyn Store> {
    let store = prepared(backend).await;
    store.create_segments("numbers", &[new("order", 1)]).await.expect("made");
    store
}

fn new(code: &str, first: u64) -> NewSegment {
    NewSegment { code: code.to_owned(), first }
}

fn reservation(by: u64, end: u64, number: u128, or_begin_at: Option<u64>) -> Reservation {
    let (step, token) = (by, token(number));
    Reservation { by, step, end, token, or_begin_at, epoch: EPOCH, row_epoch: EPOCH }
}

/// Returns the refusal of a reservation: the code is at this number, and unchanged.
const fn refused(next: u64, step: u64) -> Reserved {
    let epoch = if step == 0 { Token::UNUSED } else { EPOCH };
    Reserved::Refused(CodeRow { next, step, epoch })
}

/// Reserves from a row of any epoch, unless it is too close to the end. A refusal returns the row
/// as it is afterwards.
async fn reserve_as_found(
    store: &Arc<dyn Store>,
    (namespace, code): (&str, &str),
    mut reservation: Reservation,
) -> Reserved {
    let most = reservation.end.saturating_sub(reservation.by);
    loop {
        match store.reserve(namespace, code, &reservation).await.expect("an answer") {
            Reserved::Refused(row) if row.next <= most => reservation.row_epoch = row.epoch,
            reserved => return reserved,
        }
    }
}

async fn reserve(store: &Arc<dyn Store>, by: u64, end: u64, number: u128) -> Reserved {
    reserve_as_found(store, ("numbers", "order"), reservation(by, end, number, None)).await
}

async fn give_back(store: &Arc<dyn Store>, reserved: u128, from: u64, fresh: u128) -> bool {
    let (reserved, token) = (token(reserved), token(fresh));
    let unused = UnusedNumbers { from, reserved, epoch: EPOCH, token };
    store.give_back("numbers", "order", &unused).await.expect("an answer")
}

async fn codes_are_made_once_and_kept(backend: &Backend) {
    let store = with_order(backend).await;
    assert_eq!(reserve(&store, 10, LARGEST, 1).await, Reserved::From(1));
    let again: Vec<_> = (0..1_200).map(|number| new(&format!("code-{number}"), number)).collect();
    let all: Vec<_> = [vec![new("order", 1)], again].concat();
    store.create_segments("numbers", &all).await.expect("made");
    store.create_segments("numbers", &[]).await.expect("nothing to do");
    assert_eq!(reserve(&store, 10, LARGEST, 2).await, Reserved::From(11));
    assert_eq!(store.list_segments().await.expect("a list").len(), 1_201);
    store.prepare_segments().await.expect("safe to repeat");
}

async fn a_reservation_raises_the_next_number(backend: &Backend) {
    let store = with_order(backend).await;
    assert_eq!(reserve(&store, 1_000, LARGEST, 1).await, Reserved::From(1));
    assert_eq!(reserve(&store, 7, LARGEST, 2).await, Reserved::From(1_001));
    assert_eq!(reserve(&store, 1, LARGEST, 3).await, Reserved::From(1_008));
    // A reservation of no numbers returns where the next one begins, and refuses numbers that were
    // reserved before.
    assert_eq!(reserve(&store, 0, 1_009, 5).await, Reserved::From(1_009));
    assert_eq!(reserve(&store, 0, LARGEST, 6).await, Reserved::From(1_009));
    assert!(!give_back(&store, 3, 1_008, 7).await);
    let reservation = reservation(1, LARGEST, 4, None);
    for (namespace, code) in [("numbers", "other"), ("other", "order")] {
        let missing = store.reserve(namespace, code, &reservation).await;
        assert_eq!(missing.expect("an answer"), Reserved::NoSuchCode);
    }
}

async fn a_reservation_never_passes_its_end(backend: &Backend) {
    let store = with_order(backend).await;
    assert_eq!(reserve(&store, 10, 10, 1).await, refused(1, 0));
    assert_eq!(reserve(&store, 9, 10, 2).await, Reserved::From(1));
    assert_eq!(reserve(&store, 1, 10, 3).await, refused(10, 9));
    assert_eq!(reserve(&store, 20, 10, 4).await, refused(10, 9));
    // A refusal writes nothing: the row keeps the reservation's token.
    assert!(give_back(&store, 2, 5, 5).await);
    assert_eq!(reserve(&store, 5, 10, 6).await, Reserved::From(5));
}

async fn numbers_are_exact_up_to_the_end(backend: &Backend) {
    let store = prepared(backend).await;
    for first in [(1 << 53) - 1, (1 << 53) + 1, (1 << 62) + 1, LARGEST - 8] {
        let code = first.to_string();
        store.create_segments("numbers", &[new(&code, first)]).await.expect("made");
        let reserve = async |by, number| {
            let reservation = reservation(by, LARGEST, number, None);
            reserve_as_found(&store, ("numbers", &code), reservation).await
        };
        assert_eq!(reserve(3, 1).await, Reserved::From(first));
        assert_eq!(reserve(5, 2).await, Reserved::From(first + 3));
        let near_the_end = first == LARGEST - 8;
        let third = reserve(1 << 32, 3).await;
        assert_eq!(third == refused(LARGEST, 5), near_the_end, "{third:?}");
        assert_eq!(third == Reserved::From(first + 8), !near_the_end, "{third:?}");
    }
}

async fn of_concurrent_reservations_none_overlap(backend: &Backend) {
    with_order(backend).await;
    reserve_at_once(backend, None).await;
}

/// Eight nodes reserve all numbers from 1 on, each number once.
async fn reserve_at_once(backend: &Backend, or_begin_at: Option<u64>) {
    let mut tasks = JoinSet::new();
    for node in 0..8_u128 {
        let store = backend.store().await;
        tasks.spawn(async move {
            let mut reserved = Vec::new();
            for number in 0..20 {
                let reservation = reservation(5, LARGEST, 1_000 * node + number, or_begin_at);
                let reserved_now =
                    reserve_as_found(&store, ("numbers", "order"), reservation).await;
                let Reserved::From(first) = reserved_now else { panic!("there is enough") };
                reserved.push(first);
            }
            reserved
        });
    }
    let mut all: Vec<u64> = tasks.join_all().await.into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (0..160).map(|index| 1 + 5 * index).collect::<Vec<_>>());
}

async fn a_code_is_made_by_its_first_reservation(backend: &Backend) {
    let store = prepared(backend).await;
    let reserve = async |by, end, number| {
        let reservation = reservation(by, end, number, Some(1_001));
        store.reserve("numbers", "order", &reservation).await.expect("an answer")
    };
    let missing = CodeRow { next: 1_001, step: 0, epoch: EPOCH };
    assert_eq!(reserve(10, 1_005, 1).await, Reserved::Refused(missing));
    assert!(store.list_segments().await.expect("a list").is_empty(), "nothing was made");
    assert_eq!(reserve(10, LARGEST, 2).await, Reserved::From(1_001));
    assert_eq!(reserve(10, LARGEST, 3).await, Reserved::From(1_011));
    // A refusal changes nothing, and does not pass for a reservation.
    assert_eq!(reserve(10, 1_030, 4).await, refused(1_021, 10));
    assert!(!give_back(&store, 4, 1_015, 5).await);
    assert!(!give_back(&store, 2, 1_015, 5).await);
    assert!(give_back(&store, 3, 1_015, 5).await);
    assert_eq!(reserve(7, 1_022, 6).await, Reserved::From(1_015));
    let listed = store.list_segments().await.expect("a list");
    assert_eq!((listed.len(), listed[0].next, listed[0].step), (1, 1_022, 7));
    assert_eq!(listed[0].code, "order");
}

async fn of_concurrent_first_reservations_none_overlap(backend: &Backend) {
    prepared(backend).await;
    reserve_at_once(backend, Some(1)).await;
}

async fn a_give_back_names_its_reservation(backend: &Backend) {
    let store = with_order(backend).await;
    assert_eq!(reserve(&store, 10, LARGEST, 1).await, Reserved::From(1));
    assert!(!give_back(&store, 2, 5, 3).await);
    assert!(give_back(&store, 1, 5, 3).await);
    // Only once: the row then has the fresh token.
    assert!(!give_back(&store, 1, 3, 4).await);
    assert_eq!(reserve(&store, 10, LARGEST, 5).await, Reserved::From(5));
    assert!(!give_back(&store, 3, 5, 6).await, "somebody reserved since");
    let (from, reserved, token) = (1, Token::UNUSED, token(7));
    let unused = UnusedNumbers { from, reserved, epoch: EPOCH, token };
    let missing = store.give_back("numbers", "other", &unused).await;
    assert!(!missing.expect("an answer"));
}

/// One process returns numbers and gets no answer; another one reserves from there and returns at
/// the same number.
async fn a_late_give_back_is_refused(backend: &Backend) {
    let store = with_order(backend).await;
    assert_eq!(reserve(&store, 1_000, LARGEST, 1).await, Reserved::From(1));
    assert!(give_back(&store, 1, 501, 2).await);
    assert_eq!(reserve(&store, 1_000, LARGEST, 3).await, Reserved::From(501));
    assert!(give_back(&store, 3, 1_001, 4).await);
    assert!(!give_back(&store, 1, 501, 5).await, "it would give out 501 to 1000 again");
    assert_eq!(reserve(&store, 1, LARGEST, 6).await, Reserved::From(1_001));
}

async fn undo(store: &Arc<dyn Store>, code: &str, reserved: u128, by: u64, fresh: u128) -> bool {
    let (reserved, token) = (token(reserved), token(fresh));
    let undo = Undo { by, reserved, epoch: EPOCH, token };
    store.undo("numbers", code, &undo).await.expect("an answer")
}

async fn only_the_last_reservation_is_undone(backend: &Backend) {
    let store = with_order(backend).await;
    assert_eq!(reserve(&store, 10, LARGEST, 1).await, Reserved::From(1));
    assert!(!undo(&store, "other", 1, 10, 2).await);
    assert!(!undo(&store, "order", 3, 10, 2).await, "a reservation that never arrived");
    assert!(undo(&store, "order", 1, 4, 2).await);
    // Only once: the row then has the fresh token.
    assert!(!undo(&store, "order", 1, 4, 4).await);
    assert_eq!(reserve(&store, 5, LARGEST, 5).await, Reserved::From(7));
    assert_eq!(reserve(&store, 5, LARGEST, 6).await, Reserved::From(12));
    assert!(!undo(&store, "order", 5, 5, 7).await, "another process reserved since");
    let other = Undo { by: 5, reserved: token(6), epoch: token(9), token: token(8) };
    assert!(!store.undo("numbers", "order", &other).await.expect("an answer"), "another epoch");
    assert!(undo(&store, "order", 6, 5, 9).await);
    assert_eq!(reserve(&store, 1, LARGEST, 10).await, Reserved::From(12));
}

async fn undone_numbers_are_exact(backend: &Backend) {
    let store = prepared(backend).await;
    for first in [(1 << 53) - 1, (1 << 53) + 1, (1 << 62) + 1, LARGEST - 8] {
        let code = first.to_string();
        store.create_segments("numbers", &[new(&code, first)]).await.expect("made");
        let reserve = async |by, number| {
            let reservation = reservation(by, LARGEST, number, None);
            reserve_as_found(&store, ("numbers", &code), reservation).await
        };
        assert_eq!(reserve(8, 1).await, Reserved::From(first));
        assert!(undo(&store, &code, 1, 5, 2).await);
        assert_eq!(reserve(5, 3).await, Reserved::From(first + 3));
    }
}

async fn segment_names_differ_by_case_and_trailing_blanks(backend: &Backend) {
    let store = prepared(backend).await;
    let names = ["order", "Order", "order ", "örder", "order@-12"];
    for (number, name) in (0_u64..).zip(names) {
        let first = 100 * (number + 1);
        store.create_segments("numbers", &[new(name, first)]).await.expect("made");
        store.create_segments("Numbers", &[new(name, first + 50)]).await.expect("made");
    }
    for (number, name) in (0_u64..).zip(names) {
        let reservation = reservation(1, LARGEST, 9, None);
        for (namespace, first) in
            [("numbers", 100 * (number + 1)), ("Numbers", 100 * (number + 1) + 50)]
        {
            let reserved = reserve_as_found(&store, (namespace, name), reservation).await;
            assert_eq!(reserved, Reserved::From(first), "{namespace} {name:?}");
        }
    }
    let longest = "x".repeat(NewSegment::LONGEST);
    store.create_segments("numbers", &[new(&longest, 1)]).await.expect("it fits");
}

async fn fifty_nodes_make_the_same_codes(backend: &Backend) {
    let mut tasks = JoinSet::new();
    for node in 0..50 {
        let store = backend.unprepared().await;
        tasks.spawn(async move {
            store.prepare().await.expect("the tables are made");
            store.prepare_segments().await.expect("the table is made");
            store.create_record("numbers", &record(1, "numbers")).await.expect("a record");
            let codes: Vec<_> = (0..20).map(|code| new(&format!("code-{code}"), 1)).collect();
            store.create_segments("numbers", &codes).await.expect("made");
            let reservation = reservation(1, LARGEST, node, None);
            reserve_as_found(&store, ("numbers", "code-7"), reservation).await
        });
    }
    let mut firsts: Vec<u64> = tasks
        .join_all()
        .await
        .into_iter()
        .map(|reserved| match reserved {
            Reserved::From(first) => first,
            other => panic!("{other:?}"),
        })
        .collect();
    firsts.sort_unstable();
    assert_eq!(firsts, (1..=50).collect::<Vec<_>>());
}

async fn all_codes_are_listed_in_order(backend: &Backend) {
    let store = prepared(backend).await;
    store.create_segments("b", &[new("z", 5), new("a", 6)]).await.expect("made");
    store.create_segments("a", &[new("z", 7)]).await.expect("made");
    let reservation = reservation(30, LARGEST, 1, None);
    assert_eq!(reserve_as_found(&store, ("b", "a"), reservation).await, Reserved::From(6));
    let listed = store.list_segments().await.expect("a list");
    let seen: Vec<_> = listed
        .iter()
        .map(|segment| (&*segment.namespace, &*segment.code, segment.next, segment.step))
        .collect();
    assert_eq!(seen, [("a", "z", 7, 0), ("b", "a", 36, 30), ("b", "z", 5, 0)]);
    let is_recent = |ms: i64| ms > 1_700_000_000_000;
    assert!(listed.iter().all(|it| is_recent(it.updated_ms) && is_recent(it.created_ms)));
}

async fn codes_are_listed_by_ranges_of_names(backend: &Backend) {
    let store = prepared(backend).await;
    let codes: Vec<_> = (1000..1600).map(|number| new(&format!("code-{number}"), number)).collect();
    store.create_segments("numbers", &codes).await.expect("made");
    store.create_segments("Numbers", &[new("code-1000", 1), new("z", 1)]).await.expect("made");
    store.create_segments("number", &[new("z", 1)]).await.expect("made");
    let settings = "start=5 min_step=1".to_owned();
    let managed = ManagedCode { code: "code-1598".into(), settings, token: token(1) };
    assert!(store.write_managed_code("numbers", None, &managed).await.expect("an answer"));
    let names = async |from: &str, to: &str, limit| {
        let listed = store.segments_in("numbers", from..=to, limit).await.expect("a list");
        assert!(listed.iter().all(|it| it.namespace == "numbers" && it.next >= 1000), "{listed:?}");
        listed.into_iter().map(|it| (it.code, it.settings)).collect::<Vec<_>>()
    };
    let with_settings = ("code-1598".to_owned(), Some(managed.settings.clone()));
    let last = ("code-1599".to_owned(), None);
    assert_eq!(names("code-1598", "~", 9).await, [with_settings.clone(), last.clone()]);
    assert_eq!(names("code-1598", "~", 1).await, std::slice::from_ref(&with_settings));
    assert_eq!(names("code-1598", "code-1598", 9).await, [with_settings]);
    assert_eq!(names("code-1598.", "code-1598.", 9).await, [], "there is no such code");
    assert_eq!(names("code-1598.", "~", 1).await, [last]);
    assert_eq!(names("code-1600", "~", 9).await, []);
    assert_eq!(names("code-1000", "code-1001", 9).await.len(), 2);
    assert_eq!(names("", "~", 501).await.len(), 501);
    let all = names("", "~", 10_000).await;
    assert_eq!((all.len(), &*all[0].0), (600, "code-1000"));
    let whole = store.list_segments().await.expect("a list");
    let managed_there = whole.iter().filter(|it| it.settings.is_some());
    assert_eq!((whole.len(), managed_there.count()), (603, 1));
}

async fn codes_are_counted_by_namespace(backend: &Backend) {
    let store = prepared(backend).await;
    let codes: Vec<_> = (0..700).map(|number| new(&format!("code-{number}"), 1)).collect();
    store.create_segments("numbers", &codes).await.expect("made");
    store.create_segments("number", &[new("s a", 1)]).await.expect("made");
    let reservation = reservation(1, LARGEST, 1, Some(1));
    for code in ["code-1", "new"] {
        let reserved = reserve_as_found(&store, ("numbers", code), reservation).await;
        assert_eq!(reserved, Reserved::From(1));
    }
    for (namespace, expected) in [("numbers", 701), ("number", 1), ("Numbers", 0), ("n*", 0)] {
        let counted = store.count_segments(namespace).await.expect("an answer");
        assert_eq!(counted, expected, "{namespace}");
    }
}

#[tokio::test]
async fn a_foreign_table_of_segments_is_left_alone() {
    let backend = Backend::sqlite().await;
    backend.run("CREATE TABLE soc_raindrop_segment (id INTEGER, biz_tag TEXT)").await;
    let error = backend.store().await.prepare_segments().await.expect_err("foreign");
    assert!(matches!(error, StoreError::ForeignTable { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("soc_raindrop_segment") && text.contains("biz_tag"), "{text}");
}

#[tokio::test]
async fn a_corrupt_number_names_table_row_and_column() {
    let backend = Backend::sqlite().await;
    let store = with_order(&backend).await;
    backend.run("UPDATE soc_raindrop_segment SET next_number = -5").await;
    let reservation = reservation(1, LARGEST, 1, None);
    let error = store.reserve("numbers", "order", &reservation).await.expect_err("corrupt");
    let text = error.to_string();
    for part in ["soc_raindrop_segment", "numbers order", "next_number", "-5"] {
        assert!(text.contains(part), "{text}");
    }
}
