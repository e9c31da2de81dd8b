//! The promises of [`raindrop::store::Store`], on every engine.

use std::{sync::Arc, time::Duration};

use raindrop::{
    core::lease::{HighWaterMarks, Row, RowExpiry, RowWrite, Token},
    store::{LayoutRecord, NewRows, Scope, Store, StoreSettings, UnreleasedRow, store_id},
};
use tokio::task::JoinSet;

use crate::{
    backend::{
        Backend, EPOCH, birth, create_rows, new_rows, open, record, release, rows_record, scope,
        token, with_rows, workers, write,
    },
    support::poll,
};

/// Runs every case on every engine.
macro_rules! on_every_engine {
    ($($case:ident)*) => {
        on_every_engine!(@ memory [] $($case)*);
        on_every_engine!(@ sqlite [] $($case)*);
        on_every_engine!(@ mariadb [] $($case)*);
        on_every_engine!(@ postgres [] $($case)*);
        on_every_engine!(@ redis [] $($case)*);
        on_every_engine!(@ kubernetes [ignore = "make kubernetes-test"] $($case)*);
    };
    (@ $engine:ident $attributes:tt $($case:ident)*) => {
        mod $engine {
            use crate::backend::Backend;
            $(crate::conformance::on_every_engine!(@@ $engine $attributes $case);)*
        }
    };
    (@@ $engine:ident [$($attribute:meta)?] $case:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$attribute])?
        async fn $case() {
            super::$case(&Backend::$engine().await).await;
        }
    };
}

pub(crate) use on_every_engine;

on_every_engine! {
    rows_are_born_free_with_their_marks
    rows_keep_the_tokens_they_are_born_with
    rows_are_created_only_while_the_decision_holds
    a_swap_sets_everything_and_refuses_a_stale_token
    a_missing_row_is_not_made_by_a_swap
    of_concurrent_swaps_exactly_one_takes_place
    one_holder_name_makes_nobody_the_owner
    a_row_is_free_after_its_time_by_the_stores_clock
    no_time_is_too_long
    a_release_frees_at_once
    free_rows_come_longest_unused_first
    the_holders_latest_free_row_is_found
    a_survey_counts
    a_store_keeps_its_id_and_another_one_is_refused
    the_first_record_stands
    every_field_of_a_record_is_exact
    a_record_is_swapped_whole_and_only_for_its_token
    an_older_record_does_not_come_back
    of_concurrent_swaps_of_the_record_exactly_one_takes_place
    concurrent_writers_keep_each_others_keys
    unreleased_rows_of_a_namespace_are_read_newest_first
    existing_rows_are_kept
    fifty_nodes_create_the_same_rows
    fifty_nodes_start_on_an_empty_store
    many_rows_are_read_in_order
    large_marks_are_exact
    names_differ_by_case_and_trailing_blanks
    holders_are_any_text
    namespaces_and_reserved_keys_are_apart
    all_rows_are_listed_in_order
}

async fn read(store: &Arc<dyn Store>, scope: &Scope, worker: u64) -> Row {
    store.read_row(scope, worker).await.expect("an answer").expect("the row")
}

async fn swap(store: &Arc<dyn Store>, worker: u64, expected: Token, write: &RowWrite) -> bool {
    store.swap_row(&scope(1, 9), worker, expected, write).await.expect("an answer")
}

/// Waits until the store's clock shows another millisecond.
async fn a_tick(store: &Arc<dyn Store>) {
    let before = store.survey(&scope(1, 9)).await.expect("a survey").now_ms;
    poll::until(Duration::from_secs(300), "the next millisecond", async || {
        let now = store.survey(&scope(1, 9)).await.expect("a survey").now_ms;
        (now > before).then_some(())
    })
    .await;
}

async fn rows_are_born_free_with_their_marks(backend: &Backend) {
    let scope = scope(0, 1200);
    let store = backend.store().await;
    create_rows(&store, &scope, &HighWaterMarks::all_at(42, 8)).await.expect("rows");
    let rows = store.free_rows(&scope, None, 5000).await.expect("an answer");
    assert_eq!(workers(&rows), (0..=1200).collect::<Vec<_>>());
    let born = Row {
        worker: 1200,
        epoch: Token::UNUSED,
        token: birth(1200),
        holder: String::new(),
        lane: 0,
        marks: HighWaterMarks::all_at(42, 8),
        free: true,
        heartbeat_ms: 0,
        expires_ms: 0,
    };
    assert_eq!(read(&store, &scope, 1200).await, born);
    assert!(rows.iter().all(Row::was_never_written));
}

async fn rows_keep_the_tokens_they_are_born_with(backend: &Backend) {
    // Rows for several statements, around rows that exist.
    let (early, whole) = (scope(600, 602), scope(0, 1200));
    let store = with_rows(backend, &early).await;
    assert!(swap(&store, 601, birth(601), &write(1)).await);
    let later = |worker: u128| token((0xb2 << 120) + worker);
    let marks = HighWaterMarks::all_at(3, 2);
    let record = store.read_record(&whole.namespace).await.expect("an answer").expect("a record");
    let new = NewRows { seed: later(0), ..new_rows(&marks, record.token) };
    assert!(store.create_rows(&whole, &new).await.expect("rows"));
    // A process that comes later with other tokens changes nothing.
    create_rows(&store, &whole, &marks).await.expect("rows");
    let mut expected: Vec<Token> = (0..=1200).map(later).collect();
    expected[600..=602].copy_from_slice(&[birth(600), token(1), birth(602)]);
    let listed = store.list_rows().await.expect("rows");
    let tokens: Vec<Token> = listed.iter().map(|listed| listed.row.token).collect();
    assert_eq!(tokens, expected);

    // A row that was deleted and created again is no longer the one that a swap was meant for.
    assert!(!swap(&store, 7, birth(7), &write(2)).await);
    assert!(!swap(&store, 7, Token::UNUSED, &write(2)).await);
    assert!(swap(&store, 7, later(7), &write(2)).await);
    let row = read(&store, &whole, 7).await;
    assert!(!row.was_never_written(), "{row:?}");
}

async fn rows_are_created_only_while_the_decision_holds(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 2)).await;
    let now_ms = store.survey(&scope(1, 2)).await.expect("a survey").now_ms;
    let record = store.read_record("default").await.expect("an answer").expect("a record");
    let (present, whole) = (scope(1, 2), scope(1, 600));
    let create = async |scope: &Scope, new: NewRows| {
        store.create_rows(scope, &new).await.expect("an answer")
    };
    let marks = HighWaterMarks::all_at(0, 2);
    let holds = new_rows(&marks, record.token);
    for stale in [
        NewRows { record: token(0xbad), ..holds.clone() },
        NewRows { until_ms: now_ms - 1, ..holds.clone() },
    ] {
        assert!(!create(&whole, stale.clone()).await, "{stale:?}");
        assert_eq!(store.list_rows().await.expect("rows").len(), 2);
        // No row is missing, so the store checks no decision.
        assert!(create(&present, stale).await);
    }
    assert!(create(&whole, NewRows { until_ms: now_ms + 600_000, ..holds.clone() }).await);
    assert_eq!(store.list_rows().await.expect("rows").len(), 600);
    // Another namespace has no record.
    let other = Scope { namespace: "other".to_owned(), ..scope(1, 3) };
    assert!(!create(&other, new_rows(&marks, record.token)).await);
}

async fn a_swap_sets_everything_and_refuses_a_stale_token(backend: &Backend) {
    let scope = scope(1, 3);
    let store = with_rows(backend, &scope).await;
    let before = store.survey(&scope).await.expect("a survey").now_ms;
    assert!(swap(&store, 2, birth(2), &write(1)).await);
    let after = store.survey(&scope).await.expect("a survey").now_ms;

    let row = read(&store, &scope, 2).await;
    assert!((before..=after).contains(&row.heartbeat_ms), "{before} {row:?} {after}");
    assert_eq!(row.expires_ms, row.heartbeat_ms + 3_600_000);
    let expected = Row {
        worker: 2,
        epoch: EPOCH,
        token: token(1),
        holder: write(1).holder,
        lane: 1,
        marks: HighWaterMarks::all_at(7, 2),
        free: false,
        ..row.clone()
    };
    assert_eq!(row, expected);

    assert!(!swap(&store, 2, birth(2), &write(2)).await);
    assert!(!swap(&store, 2, token(3), &write(2)).await);
    assert_eq!(read(&store, &scope, 2).await, row);
    assert!(swap(&store, 2, token(1), &write(u128::MAX)).await);
    assert_eq!(read(&store, &scope, 2).await.token, token(u128::MAX));
    assert_eq!(read(&store, &scope, 1).await.token, birth(1));
}

async fn a_missing_row_is_not_made_by_a_swap(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 3)).await;
    assert!(!swap(&store, 4, birth(4), &write(1)).await);
    assert_eq!(store.read_row(&scope(1, 9), 4).await.expect("an answer"), None);
}

async fn of_concurrent_swaps_exactly_one_takes_place(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 1)).await;
    let mut swaps = JoinSet::new();
    for bits in 1..=50 {
        let store = if bits % 5 == 0 { backend.unprepared().await } else { store.clone() };
        swaps.spawn(async move { swap(&store, 1, birth(1), &write(bits)).await.then_some(bits) });
    }
    let winners: Vec<_> = swaps.join_all().await.into_iter().flatten().collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(read(&store, &scope(1, 1), 1).await.token, token(winners[0]));
}

async fn one_holder_name_makes_nobody_the_owner(backend: &Backend) {
    let (one, other) = (with_rows(backend, &scope(1, 1)).await, backend.store().await);
    let first = write(1);
    let second = RowWrite { token: token(2), ..first.clone() };
    assert!(swap(&one, 1, birth(1), &first).await);
    assert!(!swap(&other, 1, birth(1), &second).await);
    assert!(swap(&other, 1, token(1), &second).await);
    assert!(!swap(&one, 1, token(1), &RowWrite { token: token(3), ..first }).await);
}

async fn a_row_is_free_after_its_time_by_the_stores_clock(backend: &Backend) {
    let scope = scope(1, 1);
    let store = with_rows(backend, &scope).await;
    let ttl = Duration::from_millis(150);
    let short = RowWrite { expiry: RowExpiry::After(ttl), ..write(1) };
    assert!(swap(&store, 1, birth(1), &short).await);
    let held = read(&store, &scope, 1).await;
    assert_eq!(held.expires_ms, held.heartbeat_ms + 150);
    poll::until(Duration::from_secs(300), "the row is free", async || {
        let before = store.survey(&scope).await.expect("a survey").now_ms;
        let row = read(&store, &scope, 1).await;
        let after = store.survey(&scope).await.expect("a survey").now_ms;
        let last_ms = row.expires_ms + backend.resolution_ms();
        assert!(row.free || before <= last_ms, "held at {before}: {row:?}");
        assert!(!row.free || row.expires_ms <= after, "free at {after}: {row:?}");
        row.free.then_some(())
    })
    .await;
    assert_eq!(store.free_rows(&scope, None, 1).await.expect("an answer").len(), 1);
}

async fn no_time_is_too_long(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 1)).await;
    let forever = RowWrite { expiry: RowExpiry::After(Duration::MAX), ..write(1) };
    assert!(swap(&store, 1, birth(1), &forever).await);
    assert!(!read(&store, &scope(1, 1), 1).await.free);
}

async fn a_release_frees_at_once(backend: &Backend) {
    let scope = scope(1, 1);
    let store = with_rows(backend, &scope).await;
    assert!(swap(&store, 1, birth(1), &write(1)).await);
    assert!(!read(&store, &scope, 1).await.free);
    assert!(store.free_rows(&scope, None, 9).await.expect("an answer").is_empty());
    assert!(swap(&store, 1, token(1), &release(2)).await);
    assert!(read(&store, &scope, 1).await.free);
    assert_eq!(workers(&store.free_rows(&scope, None, 9).await.expect("an answer")), [1]);
}

async fn free_rows_come_longest_unused_first(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 6)).await;
    for (bits, worker) in [(1, 3), (2, 6), (3, 1)] {
        assert!(swap(&store, worker, birth(worker), &release(bits)).await);
        a_tick(&store).await;
    }
    assert!(swap(&store, 4, birth(4), &write(4)).await);
    let free =
        async |scope, limit| workers(&store.free_rows(&scope, None, limit).await.expect("rows"));
    assert_eq!(free(scope(1, 6), 9).await, [2, 5, 3, 6, 1]);
    assert_eq!(free(scope(1, 6), 3).await, [2, 5, 3]);
    assert_eq!(free(scope(3, 5), 9).await, [5, 3]);
    assert_eq!(free(scope(1, 6), 0).await, Vec::<u64>::new());
}

async fn the_holders_latest_free_row_is_found(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 6)).await;
    let by = |holder: &str, write: RowWrite| RowWrite { holder: holder.to_owned(), ..write };
    for (bits, worker, holder) in [(1, 5, "me"), (2, 2, "me"), (3, 3, "you")] {
        assert!(swap(&store, worker, birth(worker), &by(holder, release(bits))).await);
        a_tick(&store).await;
    }
    assert!(swap(&store, 1, birth(1), &by("me", write(4))).await);
    let found = async |scope, holder: &str| {
        workers(&store.free_rows(&scope, Some(holder), 9).await.expect("an answer"))
    };
    assert_eq!(found(scope(1, 6), "me").await, [2, 5]);
    assert_eq!(found(scope(3, 6), "me").await, [5]);
    assert_eq!(found(scope(1, 6), "Me").await, Vec::<u64>::new());
    assert_eq!(found(scope(4, 4), "me").await, Vec::<u64>::new());
    let latest = store.free_rows(&scope(1, 6), Some("me"), 1).await.expect("an answer");
    assert_eq!(workers(&latest), [2]);
}

async fn unreleased_rows_of_a_namespace_are_read_newest_first(backend: &Backend) {
    let whole = scope(1, 6);
    let store = with_rows(backend, &whole).await;
    let key = |reserved_key: &str| Scope { reserved_key: reserved_key.to_owned(), ..whole.clone() };
    let scopes = [whole.clone(), key("1/0"), key("1/1")];
    for scope in &scopes[1..] {
        create_rows(&store, scope, &HighWaterMarks::all_at(1, 2)).await.expect("rows");
    }
    let swap = async |scope: &Scope, worker, write: &RowWrite| {
        let row = read(&store, scope, worker).await;
        assert!(store.swap_row(scope, worker, row.token, write).await.expect("an answer"));
        a_tick(&store).await;
    };
    let unreleased = async |limit| {
        let rows = store.unreleased_rows(&whole.namespace, limit).await.expect("rows");
        for UnreleasedRow { reserved_key, worker, heartbeat_ms } in &rows {
            let worker = *worker.as_ref().expect("readable");
            assert_eq!(read(&store, &key(reserved_key), worker).await.heartbeat_ms, *heartbeat_ms);
        }
        let names = rows.into_iter().map(|row| (row.reserved_key, row.worker.expect("readable")));
        names.collect::<Vec<_>>()
    };
    let named = |names: &[(usize, u64)]| -> Vec<(String, u64)> {
        names.iter().map(|(scope, worker)| (scopes[*scope].reserved_key.clone(), *worker)).collect()
    };
    assert_eq!(unreleased(9).await, []);

    // One that expired counts, and one that was released does not.
    let expired = RowWrite { expiry: RowExpiry::After(Duration::ZERO), ..write(1) };
    let released = RowWrite { expiry: RowExpiry::Released, ..write(2) };
    swap(&scopes[0], 5, &expired).await;
    swap(&scopes[2], 3, &write(3)).await;
    swap(&scopes[1], 6, &released).await;
    swap(&scopes[1], 1, &write(4)).await;
    assert_eq!(unreleased(9).await, named(&[(1, 1), (2, 3), (0, 5)]));
    assert_eq!(unreleased(2).await, named(&[(1, 1), (2, 3)]));
    swap(&scopes[1], 1, &RowWrite { token: write(5).token, ..released }).await;
    swap(&scopes[0], 5, &write(6)).await;
    assert_eq!(unreleased(9).await, named(&[(0, 5), (2, 3)]));
    let other = store.unreleased_rows("other", 9).await.expect("an answer");
    assert_eq!(other, []);
}

async fn a_survey_counts(backend: &Backend) {
    let whole = scope(1, 6);
    let store = with_rows(backend, &whole).await;
    let survey = store.survey(&whole).await.expect("a survey");
    let recorded = Some(rows_record().canonical);
    assert_eq!(
        (survey.record.map(|record| record.canonical), survey.held, survey.free),
        (recorded, 0, 6)
    );
    assert_eq!(survey.next_expiry_ms, None);

    let soon = RowWrite { expiry: RowExpiry::After(Duration::from_mins(1)), ..write(1) };
    assert!(swap(&store, 3, birth(3), &soon).await);
    assert!(swap(&store, 5, birth(5), &write(2)).await);
    assert!(swap_record(&store, rows_record().token, &record(1, "words")).await);
    let survey = store.survey(&whole).await.expect("a survey");
    assert_eq!(
        (survey.record.map(|record| record.canonical), survey.held, survey.free),
        (Some("words".to_owned()), 2, 4)
    );
    assert_eq!(survey.next_expiry_ms, Some(read(&store, &whole, 3).await.expires_ms));
    let survey = store.survey(&scope(4, 5)).await.expect("a survey");
    assert_eq!((survey.held, survey.free), (1, 1));
    let survey = store.survey(&scope(100, 200)).await.expect("a survey");
    assert_eq!((survey.held, survey.free, survey.next_expiry_ms), (0, 0, None));
    let other = Scope { namespace: "other".to_owned(), ..whole };
    let survey = store.survey(&other).await.expect("a survey");
    assert_eq!(
        (survey.record.map(|record| record.canonical), survey.held, survey.free),
        (None, 0, 0)
    );
}

/// A record in which no field is as a first start leaves it.
fn filled(bits: u128, words: &str, complete: &[&str]) -> LayoutRecord {
    let complete = complete.iter().map(|key| (*key).to_owned()).collect();
    let (since_tick, first_tick) = (words.len() as u64, (1 << 53) + 1);
    LayoutRecord { complete, since_tick, first_tick, ..record(bits, words) }
}

async fn read_record(store: &Arc<dyn Store>) -> Option<LayoutRecord> {
    store.read_record("default").await.expect("an answer")
}

async fn swap_record(store: &Arc<dyn Store>, expected: Token, record: &LayoutRecord) -> bool {
    store.swap_record("default", expected, record).await.expect("an answer")
}

async fn a_store_keeps_its_id_and_another_one_is_refused(backend: &Backend) {
    let store = backend.unprepared().await;
    let id = store_id(&*store, token(5)).await.expect("an id");
    assert_eq!(id, token(5));
    let again = backend.store().await;
    assert_eq!(store_id(&*again, token(6)).await.expect("an id"), id);
    assert!(again.list_rows().await.expect("an answer").is_empty(), "an id is no row");
    if let Backend::Memory(_) = backend {
        return;
    }
    let told = |id| StoreSettings { id: Some(id), ..backend.settings() };
    let lived = open(&told(id)).await;
    lived.prepare().await.expect("this store");
    let wrong = open(&told(token(6))).await.prepare().await.expect_err("another id");
    let text = wrong.to_string();
    assert!(wrong.is_permanent() && text.contains(&id.to_string()), "{text}");

    // Another store: nothing is created there, and it gets no id.
    let (worker_table, segment_table) = ("second_worker".into(), "second_segment".into());
    let second = StoreSettings { worker_table, segment_table, ..told(id) };
    let wrong = open(&second).await.prepare().await.expect_err("another store");
    assert!(wrong.is_permanent() && wrong.to_string().contains("has no id"), "{wrong}");
    if !matches!(backend, Backend::Redis(_) | Backend::Kubernetes(_)) {
        assert!(!backend.tables().await.contains(&"second_worker".to_owned()));
    }
    let unchecked = open(&StoreSettings { id: None, ..second.clone() }).await;
    assert_eq!(store_id(&*unchecked, token(7)).await.expect("an id"), token(7));
    let wrong = open(&second).await.prepare().await.expect_err("another store");
    assert!(wrong.to_string().contains(&token(7).to_string()), "{wrong}");

    // A process that has compared the id goes on after somebody deleted the records.
    if let Backend::Sqlite(_) | Backend::Mariadb(_) | Backend::Postgres(_) = backend {
        let table = told(id).worker_table;
        backend.run(&format!("DELETE FROM {table}_layout")).await;
        lived.prepare().await.expect("the store of this process");
        let wrong = open(&told(id)).await.prepare().await.expect_err("nothing to compare");
        assert!(wrong.to_string().contains("has no id"), "{wrong}");
    }
}

async fn the_first_record_stands(backend: &Backend) {
    let mut writers = JoinSet::new();
    let stores = [backend.store().await, backend.store().await];
    for number in 0..20_u8 {
        let store = stores[usize::from(number % 2)].clone();
        writers.spawn(async move {
            let ours = filled(u128::from(number), &format!("layout {number}"), &[]);
            (store.create_record("default", &ours).await.expect("a record"), ours)
        });
    }
    let records = writers.join_all().await;
    let stored = &records[0].0;
    assert!(records.iter().all(|(record, _)| record == stored), "{records:?}");
    assert!(records.iter().any(|(_, ours)| ours == stored), "{records:?}");
    let again = stores[0].create_record("default", &filled(99, "another", &["0/0"])).await;
    assert_eq!(again.expect("a record"), *stored);
    assert_eq!(read_record(&stores[1]).await.as_ref(), Some(stored));
}

async fn every_field_of_a_record_is_exact(backend: &Backend) {
    let store = backend.store().await;
    let largest = i64::MAX as u64;
    // The longest entries of every value of the reserved bits.
    let parts: Vec<String> = (0..32).map(|it| format!("5/{it}:1024:8000000000000005")).collect();
    let mut before = filled(u128::MAX, "words", &["0/0", "1/0"]);
    before.complete.extend(parts);
    assert_eq!(store.create_record("default", &before).await.expect("a record"), before);
    assert_eq!(read_record(&store).await.as_ref(), Some(&before));
    // A 64-bit float would round these.
    let ticks = [(largest, largest - 1), (largest - 1, largest), (0, largest), (largest, 0)];
    for (bits, (since_tick, first_tick)) in ((1 << 127 | 1)..).zip(ticks) {
        let after = LayoutRecord { token: token(bits), since_tick, first_tick, ..before.clone() };
        assert!(swap_record(&store, before.token, &after).await);
        assert_eq!(read_record(&store).await.as_ref(), Some(&after));
        before = after;
    }
    let empty = LayoutRecord { complete: Vec::new(), token: token(1), ..before.clone() };
    assert!(swap_record(&store, before.token, &empty).await);
    assert_eq!(read_record(&store).await, Some(empty));
}

async fn a_record_is_swapped_whole_and_only_for_its_token(backend: &Backend) {
    let store = backend.store().await;
    assert_eq!(read_record(&store).await, None);
    for missing in [Token::UNUSED, token(1)] {
        assert!(!swap_record(&store, missing, &record(2, "new")).await, "none is made");
        assert_eq!(read_record(&store).await, None);
    }
    let born = record(1, "words");
    store.create_record("default", &born).await.expect("a record");
    let another = filled(1, "words", &["2/2"]);
    store.create_record("another", &another).await.expect("a record");
    for stale in [Token::UNUSED, token(2), token(1 << 127 | 1), token(u128::MAX)] {
        assert!(!swap_record(&store, stale, &born).await, "{stale}");
        assert!(!swap_record(&store, stale, &filled(2, "words", &["0/0"])).await, "{stale}");
    }
    assert_eq!(read_record(&store).await, Some(born));
    // As long as a move to another layout makes it.
    let long = filled(2, &format!("relayout {}", "x".repeat(900)), &["1/0", "1/1"]);
    assert!(swap_record(&store, token(1), &long).await);
    assert_eq!(read_record(&store).await, Some(long));
    assert!(!swap_record(&store, token(1), &record(3, "late")).await);
    assert!(swap_record(&store, token(2), &record(3, "words")).await);
    assert_eq!(read_record(&store).await, Some(record(3, "words")));
    assert_eq!(store.read_record("another").await.expect("an answer"), Some(another));
}

async fn an_older_record_does_not_come_back(backend: &Backend) {
    let store = backend.store().await;
    store.create_record("default", &record(1, "words")).await.expect("a record");
    let with = |bits, since_tick, complete: &[&str]| LayoutRecord {
        since_tick,
        ..filled(bits, "words", complete)
    };
    // Two writers that read the same record; both have the same words.
    let (newer, older) = (with(2, 900, &["0/0", "1/1"]), with(3, 7, &["0/0"]));
    assert!(swap_record(&store, token(1), &newer).await);
    for _ in 0..2 {
        assert!(!swap_record(&store, token(1), &older).await);
        assert_eq!(read_record(&store).await.as_ref(), Some(&newer));
    }
}

async fn of_concurrent_swaps_of_the_record_exactly_one_takes_place(backend: &Backend) {
    let store = backend.store().await;
    store.create_record("default", &record(1, "words")).await.expect("a record");
    let mut swaps = JoinSet::new();
    for number in 2..=21_u8 {
        let store = if number % 5 == 0 { backend.unprepared().await } else { store.clone() };
        swaps.spawn(async move {
            // Half of them leave the words unchanged.
            let words = if number % 2 == 0 { "words" } else { "other words" };
            let ours = filled(u128::from(number), words, &["0/0"]);
            swap_record(&store, token(1), &ours).await.then_some(ours)
        });
    }
    let mut winners: Vec<_> = swaps.join_all().await.into_iter().flatten().collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(read_record(&store).await, winners.pop());
}

/// Adds a reserved key as a node with complete rows does.
async fn complete(store: &Arc<dyn Store>, key: &str, mut fresh: impl FnMut() -> Token) {
    loop {
        let mut record = read_record(store).await.expect("a record");
        if record.complete.iter().any(|complete| complete == key) {
            return;
        }
        record.complete.push(key.to_owned());
        let expected = std::mem::replace(&mut record.token, fresh());
        if swap_record(store, expected, &record).await {
            return;
        }
    }
}

/// Returns tokens for one writer, which no writer with another number has.
fn tokens_of(writer: u64) -> impl FnMut() -> Token {
    let mut bits = u128::from(writer + 1) << 64;
    move || {
        bits += 1;
        token(bits)
    }
}

async fn concurrent_writers_keep_each_others_keys(backend: &Backend) {
    let store = backend.store().await;
    store.create_record("default", &record(1, "words")).await.expect("a record");
    let mut writers = JoinSet::new();
    for writer in 0..24 {
        let store = store.clone();
        let key = format!("5/{}", writer % 12);
        writers.spawn(async move { complete(&store, &key, tokens_of(writer)).await });
    }
    writers.join_all().await;
    let mut complete = read_record(&store).await.expect("a record").complete;
    complete.sort();
    let mut expected: Vec<_> = (0..12).map(|number| format!("5/{number}")).collect();
    expected.sort();
    assert_eq!(complete, expected);
}

async fn existing_rows_are_kept(backend: &Backend) {
    let store = with_rows(backend, &scope(3, 4)).await;
    assert!(swap(&store, 3, birth(3), &write(1)).await);
    let before = read(&store, &scope(1, 6), 3).await;
    create_rows(&store, &scope(1, 6), &HighWaterMarks::all_at(99, 2)).await.expect("rows");
    assert_eq!(read(&store, &scope(1, 6), 3).await, before);
    let free = read(&store, &scope(1, 6), 4).await;
    assert_eq!((free.token, free.marks), (birth(4), HighWaterMarks::all_at(0, 2)));
    for born in [1, 2, 5, 6] {
        assert_eq!(read(&store, &scope(1, 6), born).await.marks, HighWaterMarks::all_at(99, 2));
    }
    assert_eq!(store.survey(&scope(0, 100)).await.expect("a survey").free, 5);
}

async fn fifty_nodes_create_the_same_rows(backend: &Backend) {
    let mut nodes = JoinSet::new();
    backend.store().await;
    for _ in 0..50 {
        let store = backend.unprepared().await;
        nodes.spawn(async move {
            create_rows(&store, &scope(1, 511), &HighWaterMarks::all_at(5, 2)).await.expect("rows");
            assert_eq!(store.survey(&scope(0, 1000)).await.expect("a survey").free, 511);
            store.close().await;
        });
    }
    nodes.join_all().await;
}

async fn fifty_nodes_start_on_an_empty_store(backend: &Backend) {
    let mut nodes = JoinSet::new();
    for number in 0..50 {
        let store = backend.unprepared().await;
        nodes.spawn(async move {
            assert_eq!(store.prepare().await.expect("a store"), [""; 0]);
            let ours = record(u128::from(number), &format!("layout {number}"));
            let record = store.create_record("default", &ours).await.expect("a record");
            create_rows(&store, &scope(1, 20), &HighWaterMarks::all_at(0, 2)).await.expect("rows");
            complete(&store, "0/0", tokens_of(number)).await;
            // Takes one of twenty rows, as a node does.
            for row in store.free_rows(&scope(1, 20), None, 20).await.expect("rows") {
                let write = write(1000 + u128::from(number));
                if swap(&store, row.worker, row.token, &write).await {
                    return (record.canonical, Some(row.worker));
                }
            }
            (record.canonical, None)
        });
    }
    let started = nodes.join_all().await;
    assert!(started.iter().all(|(words, _)| *words == started[0].0), "one layout");
    let mut taken: Vec<_> = started.into_iter().filter_map(|(_, worker)| worker).collect();
    taken.sort_unstable();
    assert_eq!(taken, (1..=20).collect::<Vec<_>>());
    let store = backend.unprepared().await;
    assert_eq!(read_record(&store).await.expect("a record").complete, ["0/0"]);
}

async fn many_rows_are_read_in_order(backend: &Backend) {
    let scope = scope(0, 32_767);
    let store = with_rows(backend, &scope).await;
    for (bits, worker) in [(1, 0), (2, 1), (3, 9), (4, 32_767)] {
        assert!(
            store.swap_row(&scope, worker, birth(worker), &write(bits)).await.expect("an answer")
        );
    }
    let free = store.free_rows(&scope, None, 32).await.expect("rows");
    assert_eq!(workers(&free), (2..9).chain(10..35).collect::<Vec<_>>());
    let survey = store.survey(&scope).await.expect("a survey");
    assert_eq!((survey.held, survey.free), (4, 32_764));
    assert!(store.free_rows(&scope, Some("nobody"), 1).await.expect("an answer").is_empty());
    let last = Scope { min_worker: 32_766, ..scope };
    assert_eq!(workers(&store.free_rows(&last, None, 32).await.expect("rows")), [32_766]);
}

async fn large_marks_are_exact(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 1)).await;
    let position = 1_u64 << 62;
    let marks = HighWaterMarks::all_at(position - 1, 4).with(1, position).with(2, position + 1);
    let marks = marks.with(3, i64::MAX as u64);
    let large = RowWrite { marks: marks.clone(), ..write(1) };
    assert!(swap(&store, 1, birth(1), &large).await);
    assert_eq!(read(&store, &scope(1, 1), 1).await.marks, marks);
    create_rows(&store, &scope(2, 2), &marks).await.expect("rows");
    assert_eq!(read(&store, &scope(1, 2), 2).await.marks, marks);
}

async fn names_differ_by_case_and_trailing_blanks(backend: &Backend) {
    let store = backend.store().await;
    for (number, name) in (1..).zip(["order", "Order", "order ", "order\u{301}", "\u{f6}rder"]) {
        let named = Scope { namespace: name.to_owned(), ..scope(1, 1) };
        let ours = filled(number.into(), &format!("layout of {name}"), &[]);
        store.create_record(name, &ours).await.expect("a record");
        create_rows(&store, &named, &HighWaterMarks::all_at(number, 1)).await.expect("rows");
        assert_eq!(
            read(&store, &named, 1).await.marks,
            HighWaterMarks::all_at(number, 1),
            "{name:?}"
        );
        let again = store.create_record(name, &record(99, "another")).await.expect("a record");
        assert_eq!(again, ours);
    }
}

async fn holders_are_any_text(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 6)).await;
    let long = "\u{1f4a7}".repeat(300);
    let holders = ["node", "node ", " node", "\u{96e8}\u{6ef4} '\"`\\%_", &long, "NODE"];
    for (worker, holder) in (1..).zip(holders) {
        let write = RowWrite { holder: holder.to_owned(), ..release(u128::from(worker)) };
        assert!(swap(&store, worker, birth(worker), &write).await);
        let stored = read(&store, &scope(1, 6), worker).await.holder;
        assert!(stored == holder || stored == holder.chars().take(255).collect::<String>());
    }
    for (worker, holder) in (1..).zip(holders) {
        let found = store.free_rows(&scope(1, 6), Some(holder), 9).await.expect("an answer");
        assert_eq!(workers(&found), [worker], "{holder:?}");
    }
}

async fn namespaces_and_reserved_keys_are_apart(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 1)).await;
    let scopes = [("default", "1/0"), ("default", "1/1"), ("other", "0/0")].map(|(name, key)| {
        Scope { namespace: name.to_owned(), reserved_key: key.to_owned(), ..scope(1, 1) }
    });
    for scope in &scopes {
        assert_eq!(store.read_row(scope, 1).await.expect("an answer"), None);
        assert_eq!(store.survey(scope).await.expect("a survey").free, 0);
        create_rows(&store, scope, &HighWaterMarks::all_at(1, 1)).await.expect("rows");
    }
    assert!(store.swap_row(&scopes[1], 1, birth(1), &write(1)).await.expect("an answer"));
    assert_eq!(read(&store, &scope(1, 1), 1).await.token, birth(1));
    for (scope, held) in scopes.iter().zip([0, 1, 0]) {
        assert_eq!(store.survey(scope).await.expect("a survey").held, held);
    }
}

async fn all_rows_are_listed_in_order(backend: &Backend) {
    let store = backend.store().await;
    for (namespace, reserved_key) in [("b", "0/0"), ("a", "1/1"), ("a", "1/0"), ("B", "0/0")] {
        let (namespace, reserved_key) = (namespace.to_owned(), reserved_key.to_owned());
        let scope = Scope { namespace, reserved_key, ..scope(9, 10) };
        create_rows(&store, &scope, &HighWaterMarks::all_at(0, 1)).await.expect("rows");
    }
    let listed = store.list_rows().await.expect("rows");
    let names: Vec<_> = listed
        .iter()
        .map(|listed| format!("{} {} {}", listed.namespace, listed.reserved_key, listed.row.worker))
        .collect();
    let expected = [
        "B 0/0 9", "B 0/0 10", "a 1/0 9", "a 1/0 10", "a 1/1 9", "a 1/1 10", "b 0/0 9", "b 0/0 10",
    ];
    assert_eq!(names, expected);
}
