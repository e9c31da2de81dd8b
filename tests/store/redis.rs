//! Tests mistakes that only Redis allows.

use std::time::Duration;

use raindrop::{
    core::lease::{HighWaterMarks, Token},
    store::{NewSegment, Reservation, StoreError, UnreleasedRow},
};

use crate::{
    backend::{
        Backend, EPOCH, birth, create_rows, new_rows, open, patient, record, release, scope, token,
        with_rows, workers, write,
    },
    outage::settings,
    support::{
        poll,
        redis::{Redis, run},
        server::Server,
    },
};

const ROW: &str = "soc_raindrop_worker:{default}:row:0/0:00000000000000000005";
/// The worker id of that row in the sets.
const MEMBER: &str = "00000000000000000005";
const RECORD: &str = "soc_raindrop_worker:{default}:layout";
const RECORD_FIELDS: [&str; 8] =
    ["token", "words", "complete", "since_tick", "first_tick", "identity", "epoch", "history"];
const CODE: &str = "soc_raindrop_segment:{default}:code:order";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_lose_writes_are_warned_about_or_refused() {
    let server = Server::start(&Redis).await;
    let url = server.database().await;
    let backend = Backend::Redis(url.clone());
    let set = async |setting: &str, value: &str| {
        run::<()>(&url, &["CONFIG", "SET", setting, value]).await;
        backend.unprepared().await.prepare().await
    };
    let warnings = set("appendfsync", "everysec").await.expect("a store");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("appendfsync is everysec, not always"), "{warnings:?}");
    let warnings = set("appendonly", "no").await.expect("a store");
    assert!(warnings[0].starts_with("appendonly is no, not yes"), "{warnings:?}");
    let error = set("maxmemory-policy", "allkeys-lru").await.expect_err("rows would vanish");
    assert!(error.is_permanent(), "{error}");
    assert!(error.to_string().starts_with("maxmemory-policy is allkeys-lru"), "{error}");
    set("maxmemory-policy", "noeviction").await.expect("a store");

    // A user who may not read the server's state.
    let user = ["ACL", "SETUSER", "plain", "on", ">p@ss", "~*", "+@all", "-config", "-info"];
    run::<()>(&url, &user).await;
    let plain = |password: &str| url.replace("redis://", &format!("redis://plain:{password}@"));
    let store = open(&patient(plain("p%40ss"))).await;
    assert!(!format!("{store:?}").contains("p@ss"), "{store:?}");
    let warnings = store.prepare().await.expect("a store");
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert!(warnings[1].contains("does not report its maxmemory-policy"), "{warnings:?}");
    let error = open(&patient(plain("wrong"))).await.prepare().await.expect_err("no entry");
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    assert_eq!(error.kind(), "it denied access");
    run::<()>(&url, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let store = backend.unprepared().await;
    let full = create_rows(&store, &scope(1, 2), &HighWaterMarks::all_at(0, 2)).await;
    assert_eq!(full.expect_err("no memory").kind(), "it has no space left");
    run::<()>(&url, &["CONFIG", "SET", "maxmemory", "0"]).await;

    // A snapshot cannot replace a folder.
    std::fs::create_dir(server.folder().join("dump.rdb")).expect("a folder");
    run::<()>(&url, &["CONFIG", "SET", "save", "3600 1"]).await;
    run::<redis::Value>(&url, &["BGSAVE"]).await;
    poll::until(Duration::from_secs(300), "a snapshot failed", async || {
        let refused = create_rows(&store, &scope(3, 3), &HighWaterMarks::all_at(0, 2)).await;
        refused.is_err_and(|error| error.kind() == "it cannot write to its disk").then_some(())
    })
    .await;
    std::fs::remove_dir(server.folder().join("dump.rdb")).expect("the folder");
    run::<()>(&url, &["SAVE"]).await;
    create_rows(&store, &scope(4, 4), &HighWaterMarks::all_at(0, 2)).await.expect("rows");

    let other = Server::start(&Redis).await;
    let port = other.port().to_string();
    run::<()>(&url, &["REPLICAOF", "127.0.0.1", &port]).await;
    let error = backend.unprepared().await.prepare().await.expect_err("a replica");
    assert!(matches!(error, StoreError::AcceptsNoWrites(_)), "{error:?}");
    assert!(format!("{error:?}").contains("it is a replica"), "{error:?}");
    let other = Backend::Redis(other.database().await);
    poll::until(Duration::from_secs(300), "the replica is seen", async || {
        let warnings = other.unprepared().await.prepare().await.expect("a primary");
        warnings.iter().any(|said| said.contains("has replicas")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn corrupt_values_are_named() {
    let backend = Backend::redis().await;
    let url = backend.url();
    let store = with_rows(&backend, &scope(4, 5)).await;
    let corrupt = [
        ("token", "x", "a token is 32 lower-case hexadecimal digits"),
        ("marks", "1,2,3", "marks are 1, 2, 4 or 8 decimal numbers below 2^63, joined by commas"),
        ("lane", "2", "there are 2 lanes"),
        ("lane", "one", "not a signed 64-bit integer"),
        ("heartbeat_at", "1e+15", "not a signed 64-bit integer"),
        ("expires_at", "soon", "not a signed 64-bit integer"),
    ];
    for (field, value, reason) in corrupt {
        let good: String = run(&url, &["HGET", ROW, field]).await;
        run::<()>(&url, &["HSET", ROW, field, value]).await;
        let expected = format!(
            "table soc_raindrop_worker, row default 0/0 5, column {field}: {value:?} cannot be \
             read: {reason}"
        );
        let scope = scope(4, 5);
        let error = store.read_row(&scope, 5).await.expect_err("corrupt");
        assert_eq!(error.to_string(), expected);
        // One row that cannot be read does not keep nodes from the others.
        assert_eq!(workers(&store.free_rows(&scope, None, 9).await.expect("the others")), [4]);
        assert_eq!(store.list_rows().await.expect_err("corrupt").to_string(), expected);
        assert!(store.read_row(&scope, 4).await.expect("another row").is_some());
        run::<()>(&url, &["HSET", ROW, field, &good]).await;
    }
    for field in ["token", "epoch", "holder", "lane", "marks", "heartbeat_at", "expires_at"] {
        let good: String = run(&url, &["HGET", ROW, field]).await;
        run::<()>(&url, &["HDEL", ROW, field]).await;
        let error = store.read_row(&scope(4, 5), 5).await.expect_err("corrupt");
        is_missing(&error, field);
        run::<()>(&url, &["HSET", ROW, field, &good]).await;
    }
    // A row that was deleted is no error.
    run::<()>(&url, &["DEL", ROW]).await;
    assert_eq!(store.read_row(&scope(4, 5), 5).await.expect("an answer"), None);
    assert_eq!(store.free_rows(&scope(4, 5), None, 9).await.expect("rows").len(), 1);
}

/// A member of the expiry set that is not the worker id of a row counts as a row that was not
/// released, and hides no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_that_is_no_worker_id_counts_as_unreleased_and_is_named() {
    let backend = Backend::redis().await;
    let url = backend.url();
    let store = with_rows(&backend, &scope(4, 5)).await;
    assert!(store.swap_row(&scope(4, 5), 5, birth(5), &write(1)).await.expect("an answer"));
    let expiry = "soc_raindrop_worker:{default}:expiry:0/0";
    let unused = "soc_raindrop_worker:{default}:unused:0/0";
    for (member, reason) in [
        ("five", "not a signed 64-bit integer"),
        ("-0000000000000000005", "negative"),
        ("99999999999999999999", "not a signed 64-bit integer"),
        ("6", "a worker id has 20 digits here"),
    ] {
        run::<()>(&url, &["ZADD", expiry, "9000000000000000", member]).await;
        let expected = format!(
            "table {expiry}, row default 0/0, column worker_id: {member:?} cannot be read: {reason}: no \
             node can lease or release such a row, so delete it"
        );
        let row = |heartbeat_ms| UnreleasedRow {
            reserved_key: "0/0".to_owned(),
            worker: Err(expected.clone()),
            heartbeat_ms,
        };
        // Without a heartbeat, and with ones that are no 64-bit integer.
        let heartbeats = [None, Some(("-inf", 0)), Some(("inf", 253_402_300_799_999))];
        for heartbeat in heartbeats {
            if let Some((heartbeat, _)) = heartbeat {
                run::<()>(&url, &["ZADD", unused, heartbeat, member]).await;
            }
            let heartbeat_ms = heartbeat.map_or(0, |(_, heartbeat_ms)| heartbeat_ms);
            let rows = store.unreleased_rows("default", 9).await.expect("rows");
            assert_eq!(rows.len(), 2);
            assert!(rows.contains(&row(heartbeat_ms)), "{rows:?}");
            assert!(rows.iter().any(|row| row.worker == Ok(5)), "{rows:?}");
            let newest = store.unreleased_rows("default", 1).await.expect("rows");
            let is_newest = heartbeat_ms > 0;
            assert_eq!(newest[0].worker, if is_newest { row(0).worker } else { Ok(5) });
        }
        run::<()>(&url, &["ZREM", expiry, member]).await;
        run::<()>(&url, &["ZREM", unused, member]).await;
    }
    let rows = store.unreleased_rows("default", 9).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.worker.clone()).collect::<Vec<_>>(), [Ok(5)]);
}

/// A release writes 1970 and no other time, so an earlier one does not release a row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expiry_before_1970_releases_no_row() {
    let backend = Backend::redis().await;
    let url = backend.url();
    let store = with_rows(&backend, &scope(4, 5)).await;
    assert!(store.swap_row(&scope(4, 5), 5, birth(5), &release(1)).await.expect("an answer"));
    for (expires, is_released) in
        [("0", true), ("-1", false), ("-inf", false), ("1", false), ("soon", false)]
    {
        run::<()>(&url, &["HSET", ROW, "expires_at", expires]).await;
        let rows = store.unreleased_rows("default", 9).await.expect("rows");
        let found: Vec<_> = rows.into_iter().map(|row| row.worker.expect("readable")).collect();
        assert_eq!(found, if is_released { vec![] } else { vec![5] }, "{expires}");
    }
}

/// A row says itself whether it is held. Otherwise a start could skip the wait for its holder, or
/// lease it. A set gets back what it lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_sets_hide_no_holder_and_hold_no_row() {
    let backend = Backend::redis().await;
    let url = backend.url();
    let scope = scope(4, 5);
    let store = with_rows(&backend, &scope).await;
    let mut complete = store.read_record("default").await.expect("up").expect("a record");
    complete.complete = vec!["1/1:8:f".to_owned(), scope.reserved_key.clone()];
    assert!(store.swap_record("default", complete.token, &complete).await.expect("an answer"));
    let scopes = "soc_raindrop_worker:scopes";
    let [expiry, workers_set, unused] = ["expiry", "workers", "unused"]
        .map(|set| format!("soc_raindrop_worker:{{default}}:{set}:0/0"));
    let damages: [&[&str]; 11] = [
        &["ZREM", &expiry, MEMBER],
        &["ZADD", &expiry, "0", MEMBER],
        &["ZADD", &expiry, "1", MEMBER],
        &["ZADD", &expiry, "9000000000000000", MEMBER],
        &["DEL", &expiry],
        &["ZREM", &workers_set, MEMBER],
        &["DEL", &workers_set],
        &["ZREM", &unused, MEMBER],
        &["DEL", &unused],
        &["SREM", scopes, "0/0 default"],
        &["DEL", scopes],
    ];
    let mut before = birth(5);
    for (number, damage) in (1..).zip(damages) {
        create_rows(&store, &scope, &HighWaterMarks::all_at(0, 2)).await.expect("rows");
        let survey = store.survey(&scope).await.expect("a survey");
        assert_eq!(survey.held + survey.free, 2, "{damage:?}");
        let held = write(number);
        assert!(store.swap_row(&scope, 5, before, &held).await.expect("an answer"));
        let known = store.unreleased_rows("default", 9).await.expect("rows");
        assert_eq!(known.len(), 1);
        run::<u64>(&url, damage).await;
        assert_eq!(store.unreleased_rows("default", 9).await.expect("rows"), known, "{damage:?}");
        let free = store.free_rows(&scope, None, 9).await.expect("rows");
        assert_eq!(workers(&free), [4], "{damage:?}");
        let own = store.free_rows(&scope, Some(&held.holder), 9).await.expect("rows");
        assert_eq!(own, [], "{damage:?}");

        assert!(store.swap_row(&scope, 5, token(number), &release(number + 20)).await.expect("up"));
        let listed = store.list_rows().await.expect("rows");
        assert!(listed.iter().any(|listed| listed.row.worker == 5), "{damage:?}");
        run::<u64>(&url, damage).await;
        assert_eq!(store.unreleased_rows("default", 9).await.expect("rows"), [], "{damage:?}");
        let free = store.free_rows(&scope, None, 9).await.expect("rows");
        assert_eq!(workers(&free), [4, 5], "{damage:?}");
        before = token(number + 20);
    }
}

/// A row whose key has another type, such as one of a half restored dump, ends no script: a start
/// counts it as a row that was not released, and leases another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_that_is_no_hash_counts_as_unreleased_and_hides_no_other() {
    let backend = Backend::redis().await;
    let url = backend.url();
    let scope = scope(4, 7);
    let store = with_rows(&backend, &scope).await;
    for worker in [4, 5] {
        let taken = store.swap_row(&scope, worker, birth(worker), &write(worker.into())).await;
        assert!(taken.expect("an answer"));
    }
    let held = store.unreleased_rows("default", 9).await.expect("rows");
    assert_eq!(held.len(), 2);
    run::<()>(&url, &["SET", ROW, "x"]).await;
    let rows = store.unreleased_rows("default", 9).await.expect("rows");
    let other = held.into_iter().find(|row| row.worker == Ok(4)).expect("the other row");
    let no_hash = UnreleasedRow { reserved_key: "0/0".to_owned(), worker: Ok(5), heartbeat_ms: 0 };
    assert_eq!(rows, [other.clone(), no_hash]);
    assert_eq!(store.unreleased_rows("default", 1).await.expect("rows"), [other]);

    // The row was last used before the others, and takes none of their places.
    run::<u64>(&url, &["ZADD", "soc_raindrop_worker:{default}:unused:0/0", "-1", MEMBER]).await;
    for (limit, found) in [(9, [6, 7].as_slice()), (2, &[6, 7]), (1, &[6])] {
        let free = store.free_rows(&scope, None, limit).await.expect("rows");
        assert_eq!(workers(&free), found, "{limit}");
    }
    assert_eq!(store.free_rows(&scope, Some(&write(5).holder), 9).await.expect("rows"), []);
    assert!(store.swap_row(&scope, 6, birth(6), &write(6)).await.expect("an answer"));
    assert!(store.read_row(&scope, 5).await.is_err_and(|error| error.is_permanent()));

    // Only another type is passed over.
    let user = ["ACL", "SETUSER", "plain", "on", ">p", "~*", "+@all", "-hmget"];
    run::<()>(&url, &user).await;
    let plain = open(&patient(url.replace("redis://", "redis://plain:p@"))).await;
    for error in [
        plain.unreleased_rows("default", 9).await.expect_err("not allowed"),
        plain.free_rows(&scope, None, 9).await.expect_err("not allowed"),
    ] {
        assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    }
}

/// Checks that an error says that this field is missing.
fn is_missing(error: &StoreError, field: &str) {
    let StoreError::Corrupt { column, value, .. } = error else { panic!("{error:?}") };
    assert_eq!((*column, value.as_str()), (field, "null"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn corrupt_record_is_named() {
    let backend = Backend::redis().await;
    let url = backend.url();
    let store = backend.store().await;
    store.create_record("default", &record(1, "words")).await.expect("a record");
    let corrupt = [
        ("token", "", "a token is 32 lower-case hexadecimal digits"),
        ("token", "x", "a token is 32 lower-case hexadecimal digits"),
        ("since_tick", "soon", "not a signed 64-bit integer"),
        ("first_tick", "-1", "negative"),
        ("epoch", "00000000000000000000000000000000", "only unwritten rows have it"),
    ];
    for (field, value, reason) in corrupt {
        let good: String = run(&url, &["HGET", RECORD, field]).await;
        run::<()>(&url, &["HSET", RECORD, field, value]).await;
        let expected = format!(
            "table {RECORD}, row default, column {field}: {value:?} cannot be read: {reason}"
        );
        let error = store.read_record("default").await.expect_err("corrupt");
        assert_eq!(error.to_string(), expected);
        run::<()>(&url, &["HSET", RECORD, field, &good]).await;
    }
    for field in RECORD_FIELDS {
        let good: String = run(&url, &["HGET", RECORD, field]).await;
        run::<()>(&url, &["HDEL", RECORD, field]).await;
        is_missing(&store.read_record("default").await.expect_err("corrupt"), field);
        let created = store.create_record("default", &record(2, "another")).await;
        is_missing(&created.expect_err("corrupt"), field);
        run::<()>(&url, &["HSET", RECORD, field, &good]).await;
    }
    let read = store.read_record("default").await.expect("an answer");
    assert_eq!(read, Some(record(1, "words")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_field_of_a_code_is_named() {
    let backend = Backend::redis().await;
    let url = backend.url();
    let store = backend.store().await;
    store.create_record("default", &record(1, "words")).await.expect("a record");
    let new = NewSegment { code: "order".to_owned(), first: 1 };
    store.create_segments("default", &[new]).await.expect("made");
    for field in ["next", "step", "epoch"] {
        let good: String = run(&url, &["HGET", CODE, field]).await;
        run::<()>(&url, &["HDEL", CODE, field]).await;
        for or_begin_at in [None, Some(1)] {
            let (token, epoch, row_epoch) = (token(1), EPOCH, Token::UNUSED);
            let reservation =
                Reservation { by: 1, step: 1, end: 9, token, or_begin_at, epoch, row_epoch };
            let reserved = store.reserve("default", "order", &reservation).await;
            is_missing(&reserved.expect_err("corrupt"), field);
        }
        is_missing(&store.list_segments().await.expect_err("corrupt"), field);
        run::<()>(&url, &["HSET", CODE, field, &good]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_key_is_left_alone() {
    for (key, kind) in [
        ("soc_raindrop_worker:scopes", "set"),
        ("soc_raindrop_worker:{default}:workers:0/0", "zset"),
        ("soc_raindrop_worker:{default}:unused:0/0", "zset"),
        ("soc_raindrop_worker:{default}:expiry:0/0", "zset"),
        (RECORD, "hash"),
        (ROW, "hash"),
    ] {
        let backend = Backend::redis().await;
        run::<()>(&backend.url(), &["SET", key, "theirs"]).await;
        let store = backend.unprepared().await;
        let error = match kind {
            "set" => store.prepare().await.map(drop),
            "zset" => {
                let new = new_rows(&HighWaterMarks::all_at(0, 2), token(1));
                store.create_rows(&scope(5, 5), &new).await.map(drop)
            }
            _ if key == ROW => store.read_row(&scope(5, 5), 5).await.map(drop),
            _ => store.create_record("default", &record(1, "words")).await.map(drop),
        };
        let error = error.expect_err("somebody else's");
        assert!(error.is_permanent(), "{error:?}");
        let expected = format!("table {key} is not Raindrop's: it is a string, not a {kind}");
        assert!(error.to_string().starts_with(&expected), "{error}");
        let keys: Vec<String> = run(&backend.url(), &["KEYS", "*"]).await;
        assert_eq!(keys, [key], "nothing else was written");
        assert_eq!(run::<String>(&backend.url(), &["GET", key]).await, "theirs");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tables_share_a_database() {
    let backend = Backend::redis().await;
    let mut stores = Vec::new();
    for worker_table in ["one", "two"] {
        let mut settings = backend.settings();
        settings.worker_table = worker_table.to_owned();
        let store = open(&settings).await;
        store.prepare().await.expect("a store");
        let record = store.create_record("default", &record(1, worker_table)).await;
        assert_eq!(record.expect("a record").canonical, worker_table);
        create_rows(&store, &scope(1, 3), &HighWaterMarks::all_at(0, 2)).await.expect("rows");
        stores.push(store);
    }
    assert!(stores[0].swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect("an answer"));
    assert!(stores[1].swap_row(&scope(1, 3), 1, birth(1), &write(2)).await.expect("an answer"));
    assert_eq!(stores[0].list_rows().await.expect("rows").len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_sent_again_when_the_server_forgot_them() {
    let backend = Backend::redis().await;
    let store = with_rows(&backend, &scope(1, 3)).await;
    for (before, bits) in [(birth(1), 1), (token(1), 2)] {
        run::<()>(&backend.url(), &["SCRIPT", "FLUSH"]).await;
        let swapped = store.swap_row(&scope(1, 3), 1, before, &release(bits)).await;
        assert!(swapped.expect("an answer"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_to_a_server_without_it_fails_in_time() {
    let url = Backend::redis().await.url().replace("redis://", "rediss://");
    // The server takes the bytes for the beginning of a line, and waits for its end.
    let error = open(&settings(url)).await.prepare().await.expect_err("no TLS");
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_connections_are_kept_and_not_for_long() {
    let server = Server::start(&Redis).await;
    let backend = Backend::Redis(server.database().await);
    with_rows(&backend, &scope(1, 3)).await;
    let url = backend.url();
    run::<()>(&url, &["ACL", "SETUSER", "counted", "on", ">p", "~*", "+@all"]).await;
    let store = open(&patient(url.replace("redis://", "redis://counted:p@"))).await;
    let connected = async || {
        let clients: String = run(&url, &["CLIENT", "LIST"]).await;
        clients.lines().filter(|client| client.contains("user=counted")).count()
    };
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let store = store.clone();
        calls.spawn(async move { store.survey(&scope(1, 3)).await.expect("a survey") });
    }
    while !calls.is_empty() {
        let connected = connected().await;
        assert!(connected <= 2, "{connected} connections");
        while calls.try_join_next().is_some() {}
    }
    assert!(connected().await > 0);
    poll::until(Duration::from_secs(300), "idle connections are closed", async || {
        (connected().await == 0).then_some(())
    })
    .await;
    store.survey(&scope(1, 3)).await.expect("a survey");
}
