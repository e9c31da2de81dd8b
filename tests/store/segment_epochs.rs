//! Tests that segment codes name the epoch and the server of their last write, on every engine.

use std::sync::Arc;

use raindrop::{
    core::{
        lease::{EpochClocks, History, NodeTimes, Token},
        segment::CodeRow,
    },
    store::{
        CodeState, LayoutRecord, NewSegment, Reservation, Reserved, Scope, Store, UnusedNumbers,
    },
};

use crate::{
    backend::{Backend, record, scope, token},
    conformance::on_every_engine,
};

const FIRST: Token = Token::from_bits(0xe1);
const SECOND: Token = Token::from_bits(0xe2);
/// An identity that no server has.
const OTHER: &str = "another server";
const LARGEST: u64 = i64::MAX as u64;

on_every_engine! {
    a_reservation_names_the_epoch_of_the_record
    a_reservation_names_the_epoch_of_its_row
    a_first_reservation_names_the_epoch_of_the_record
    numbers_that_are_skipped_are_no_step
    a_give_back_names_the_epoch_of_the_record
    no_segment_of_another_server_is_written
    many_codes_are_read_at_once
}

/// Opens a store whose record is in the first epoch, with a code that begins at 1.
async fn prepared(backend: &Backend) -> Arc<dyn Store> {
    let store = backend.store().await;
    store.prepare_segments().await.expect("the table is made");
    store.create_record("numbers", &record(1, "numbers")).await.expect("a record");
    let first = History::first(&server(&store).await, FIRST, NodeTimes::default());
    swap_record(&store, 1, 2, first).await;
    store.create_segments("numbers", &[new("order")]).await.expect("made");
    store
}

fn new(code: &str) -> NewSegment {
    NewSegment { code: code.to_owned(), first: 1 }
}

/// Returns the identity of the server.
async fn server(store: &Arc<dyn Store>) -> String {
    let scope = Scope { namespace: "numbers".to_owned(), ..scope(0, 0) };
    let survey = store.survey(&scope).await.expect("a survey");
    survey.identity.expect("identities are compared")
}

/// Replaces the record under a token by one under another.
async fn swap_record(store: &Arc<dyn Store>, before: u128, after: u128, history: History) {
    let record = LayoutRecord { history, ..record(after, "numbers") };
    let swapped = store.swap_record("numbers", token(before), &record).await;
    assert!(swapped.expect("an answer"), "the record is swapped");
}

/// Begins the second epoch on the same server.
async fn begin_second(store: &Arc<dyn Store>) {
    let server = server(store).await;
    let second = History::first(&server, FIRST, NodeTimes::default()).next(
        &server,
        SECOND,
        EpochClocks::of_store(1),
        NodeTimes::default(),
    );
    swap_record(store, 2, 3, second).await;
}

/// Takes ten numbers in an epoch, from a row of another.
const fn ten(number: u128, epoch: Token, row_epoch: Token) -> Reservation {
    let token = Token::from_bits(number);
    Reservation { by: 10, step: 10, end: LARGEST, token, or_begin_at: None, epoch, row_epoch }
}

async fn reserve(store: &Arc<dyn Store>, code: &str, reservation: Reservation) -> Reserved {
    store.reserve("numbers", code, &reservation).await.expect("an answer")
}

async fn read(store: &Arc<dyn Store>, code: &str, epoch: Token) -> CodeState {
    store.read_segment("numbers", code, epoch).await.expect("an answer")
}

/// Returns the rows of all codes by name, with nothing else in the store.
async fn rows(store: &Arc<dyn Store>) -> Vec<(String, CodeRow)> {
    let listed = store.list_segments().await.expect("a list");
    listed.into_iter().map(|segment| (segment.code.clone(), segment.row())).collect()
}

fn order(next: u64, step: u64, epoch: Token) -> Vec<(String, CodeRow)> {
    vec![("order".to_owned(), CodeRow { next, step, epoch })]
}

async fn a_reservation_names_the_epoch_of_the_record(backend: &Backend) {
    let store = prepared(backend).await;
    for other in [Token::UNUSED, SECOND] {
        for code in ["order", "missing"] {
            let reservation = ten(1, other, Token::UNUSED);
            assert_eq!(reserve(&store, code, reservation).await, Reserved::OtherEpoch);
            assert_eq!(read(&store, code, other).await, CodeState::OtherEpoch);
        }
    }
    assert_eq!(rows(&store).await, order(1, 0, Token::UNUSED));
    let first = ten(2, FIRST, Token::UNUSED);
    assert_eq!(reserve(&store, "order", first).await, Reserved::From(1));
    assert_eq!(rows(&store).await, order(11, 10, FIRST));
    begin_second(&store).await;
    // A late write, from before the fail-over.
    assert_eq!(reserve(&store, "order", ten(3, FIRST, FIRST)).await, Reserved::OtherEpoch);
    let nowhere = Reservation { or_begin_at: None, ..ten(4, SECOND, FIRST) };
    let unknown = store.reserve("no record", "order", &nowhere).await.expect("an answer");
    assert_eq!(unknown, Reserved::OtherEpoch);
    assert_eq!(rows(&store).await, order(11, 10, FIRST));
}

async fn many_codes_are_read_at_once(backend: &Backend) {
    let store = prepared(backend).await;
    // As many codes as a statement takes; where that has no bound, more than a page of a list.
    let count = store.codes_at_once().min(600) - 4;
    let codes: Vec<String> = (0..count).map(|number| format!("code-{number}")).collect();
    let created: Vec<_> = codes.iter().chain([&"Order".to_owned()]).map(|code| new(code)).collect();
    store.create_segments("numbers", &created).await.expect("made");
    store.create_record("Numbers", &record(1, "numbers")).await.expect("a record");
    store.create_segments("Numbers", &[new("missing")]).await.expect("of another namespace");
    assert_eq!(reserve(&store, "order", ten(1, FIRST, Token::UNUSED)).await, Reserved::From(1));
    let read = async |names: &[&str], epoch| {
        let states = store.read_segments("numbers", names, epoch).await.expect("an answer");
        states.into_iter().map(|state| state.expect("readable")).collect::<Vec<_>>()
    };
    let mut names: Vec<&str> = codes.iter().rev().map(String::as_str).collect();
    names.extend(["missing", "order", "ORDER", "Order"]);
    let states = read(&names, FIRST).await;
    let unused = CodeState::Row(CodeRow { next: 1, step: 0, epoch: Token::UNUSED });
    let used = CodeState::Row(CodeRow { next: 11, step: 10, epoch: FIRST });
    assert_eq!(states[..count], vec![unused; count]);
    assert_eq!(states[count..], [CodeState::Missing, used, CodeState::Missing, unused]);
    assert!(read(&[], FIRST).await.is_empty());
    assert_eq!(read(&["order", "missing"], SECOND).await, [CodeState::OtherEpoch; 2]);
    let nowhere = store.read_segments("no record", &["order"], FIRST).await.expect("an answer");
    assert!(matches!(nowhere[..], [Ok(CodeState::OtherEpoch)]), "{nowhere:?}");
}

async fn a_reservation_names_the_epoch_of_its_row(backend: &Backend) {
    let store = prepared(backend).await;
    let refused = |next, step, epoch| Reserved::Refused(CodeRow { next, step, epoch });
    let wrong = reserve(&store, "order", ten(1, FIRST, FIRST)).await;
    assert_eq!(wrong, refused(1, 0, Token::UNUSED));
    assert_eq!(reserve(&store, "order", ten(2, FIRST, Token::UNUSED)).await, Reserved::From(1));
    begin_second(&store).await;
    for row_epoch in [SECOND, Token::UNUSED] {
        let wrong = reserve(&store, "order", ten(3, SECOND, row_epoch)).await;
        assert_eq!(wrong, refused(11, 10, FIRST));
    }
    assert_eq!(reserve(&store, "order", ten(4, SECOND, FIRST)).await, Reserved::From(11));
    // Two processes read the same row: the second one must not skip again.
    assert_eq!(reserve(&store, "order", ten(5, SECOND, FIRST)).await, refused(21, 10, SECOND));
    assert_eq!(rows(&store).await, order(21, 10, SECOND));
    let row = CodeRow { next: 21, step: 10, epoch: SECOND };
    assert_eq!(read(&store, "order", SECOND).await, CodeState::Row(row));
    assert_eq!(read(&store, "missing", SECOND).await, CodeState::Missing);
}

async fn a_first_reservation_names_the_epoch_of_the_record(backend: &Backend) {
    let store = prepared(backend).await;
    let creating = |number, epoch, row_epoch| Reservation {
        or_begin_at: Some(1),
        ..ten(number, epoch, row_epoch)
    };
    for code in ["order", "user"] {
        let other = reserve(&store, code, creating(1, SECOND, Token::UNUSED)).await;
        assert_eq!(other, Reserved::OtherEpoch);
    }
    assert_eq!(rows(&store).await, order(1, 0, Token::UNUSED), "nothing was made");
    // A row that exists is not taken for a missing one.
    let present = reserve(&store, "order", creating(2, FIRST, FIRST)).await;
    assert_eq!(present, Reserved::Refused(CodeRow { next: 1, step: 0, epoch: Token::UNUSED }));
    assert_eq!(rows(&store).await, order(1, 0, Token::UNUSED));
    let present = reserve(&store, "order", creating(3, FIRST, Token::UNUSED)).await;
    assert_eq!(present, Reserved::From(1));
    assert_eq!(rows(&store).await, order(11, 10, FIRST));
    let missing = reserve(&store, "user", creating(4, FIRST, FIRST)).await;
    assert_eq!(missing, Reserved::From(1));
    assert_eq!(reserve(&store, "user", ten(5, FIRST, FIRST)).await, Reserved::From(11));
    let again = reserve(&store, "user", creating(6, FIRST, Token::UNUSED)).await;
    assert_eq!(again, Reserved::Refused(CodeRow { next: 21, step: 10, epoch: FIRST }));
}

async fn numbers_that_are_skipped_are_no_step(backend: &Backend) {
    let store = prepared(backend).await;
    let skipping = Reservation { by: 1_010, ..ten(1, FIRST, Token::UNUSED) };
    assert_eq!(reserve(&store, "order", skipping).await, Reserved::From(1));
    assert_eq!(rows(&store).await, order(1_011, 10, FIRST));
    let creating = Reservation { or_begin_at: Some(1), ..skipping };
    let created = reserve(&store, "user", Reservation { token: token(2), ..creating }).await;
    assert_eq!(created, Reserved::From(1));
    assert_eq!(rows(&store).await[1].1, CodeRow { next: 1_011, step: 10, epoch: FIRST });
    // This reservation goes through the statement that could create the row.
    let more = Reservation { row_epoch: FIRST, token: token(3), ..creating };
    assert_eq!(reserve(&store, "order", more).await, Reserved::From(1_011));
    assert_eq!(rows(&store).await[0].1, CodeRow { next: 2_021, step: 10, epoch: FIRST });
}

async fn a_give_back_names_the_epoch_of_the_record(backend: &Backend) {
    let store = prepared(backend).await;
    assert_eq!(reserve(&store, "order", ten(1, FIRST, Token::UNUSED)).await, Reserved::From(1));
    let unused = UnusedNumbers { from: 5, reserved: token(1), epoch: FIRST, token: token(2) };
    let give_back = async |unused: UnusedNumbers| {
        store.give_back("numbers", "order", &unused).await.expect("an answer")
    };
    assert!(!give_back(UnusedNumbers { epoch: SECOND, ..unused }).await);
    assert!(give_back(unused).await);
    assert_eq!(rows(&store).await, order(5, 10, FIRST));
    assert_eq!(reserve(&store, "order", ten(3, FIRST, FIRST)).await, Reserved::From(5));
    begin_second(&store).await;
    // The store may have lost reservations that other processes made after this one.
    assert!(!give_back(UnusedNumbers { reserved: token(3), from: 7, ..unused }).await);
    assert_eq!(rows(&store).await, order(15, 10, FIRST));
}

async fn no_segment_of_another_server_is_written(backend: &Backend) {
    let store = prepared(backend).await;
    assert_eq!(reserve(&store, "order", ten(1, FIRST, Token::UNUSED)).await, Reserved::From(1));
    let unused = UnusedNumbers { from: 5, reserved: token(1), epoch: FIRST, token: token(2) };
    // Memory never fails over, so it has no store that compares no identities.
    let Some(lossless) = backend.lossless().await else { return };
    lossless.prepare_segments().await.expect("the table is made");
    swap_record(&lossless, 2, 3, History::first(OTHER, FIRST, NodeTimes::default())).await;
    let creating = Reservation { or_begin_at: Some(1), ..ten(3, FIRST, FIRST) };
    for (code, reservation) in [("order", ten(4, FIRST, FIRST)), ("user", creating)] {
        assert_eq!(reserve(&store, code, reservation).await, Reserved::OtherEpoch);
    }
    assert!(!store.give_back("numbers", "order", &unused).await.expect("an answer"));
    assert_eq!(rows(&store).await, order(11, 10, FIRST));
    assert!(lossless.give_back("numbers", "order", &unused).await.expect("an answer"));
    assert_eq!(reserve(&lossless, "order", ten(5, FIRST, FIRST)).await, Reserved::From(5));
    assert_eq!(reserve(&lossless, "user", creating).await, Reserved::From(1));
}
