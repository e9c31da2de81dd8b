//! Tests mistakes that only SQL databases allow: tables, migrations and stored values that cannot
//! be read.

use std::{sync::Arc, time::Duration};

use raindrop::store::{Store, StoreError};
use sqlx::{
    Connection as _, MySqlConnection, PgConnection, SqlSafeStr as _, SqliteConnection,
    migrate::{Migration, MigrationType, Migrator},
};
use tokio::task::JoinSet;

use crate::backend::{
    Backend, EPOCH, birth, create_rows, open, record, rows_record, scope, token, with_rows,
    workers, write,
};

macro_rules! on_every_engine {
    ($($case:ident)*) => {
        on_every_engine!(@ sqlite $($case)*);
        on_every_engine!(@ mariadb $($case)*);
        on_every_engine!(@ postgres $($case)*);
    };
    (@ $engine:ident $($case:ident)*) => {
        mod $engine {
            use crate::backend::Backend;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(&Backend::$engine().await).await;
                }
            )*
        }
    };
}

pub(crate) use on_every_engine;

on_every_engine! {
    a_foreign_table_is_left_alone
    a_foreign_bookkeeping_table_is_left_alone
    fifty_nodes_make_the_tables_at_once
    two_services_share_an_empty_database
    an_applications_own_migrations_are_not_disturbed
    a_migration_that_was_cut_short_is_repaired
    a_newer_versions_tables_are_used
    a_table_that_vanished_is_not_made_anew
    corrupt_values_are_named
    row_with_a_negative_worker_id_counts_as_unreleased_and_is_named
    a_worker_table_may_be_called_anything
}

const OURS: [&str; 3] =
    ["soc_raindrop_worker", "soc_raindrop_worker_layout", "soc_raindrop_worker_migrations"];

/// The finished migrations.
const DONE: &str = "SELECT description FROM soc_raindrop_worker_migrations \
                    WHERE success = TRUE ORDER BY version";

async fn refusal(store: &Arc<dyn Store>) -> StoreError {
    store.prepare().await.expect_err("these tables cannot be used")
}

async fn a_foreign_table_is_left_alone(backend: &Backend) {
    backend
        .run(
            "CREATE TABLE soc_raindrop_worker (id BIGINT PRIMARY KEY, code VARCHAR(64), \
         time_unit INT, heartbeat_time DATE, create_time DATE, update_time DATE, \
         version BIGINT, del_flag INT)",
        )
        .await;
    backend.run("INSERT INTO soc_raindrop_worker (id, code) VALUES (1, 'theirs')").await;
    let store = backend.unprepared().await;
    for _ in 0..2 {
        let error = refusal(&store).await;
        assert!(error.is_permanent());
        assert_eq!(
            error.to_string(),
            "table soc_raindrop_worker is not Raindrop's: it lacks namespace, reserved_key, \
             worker_id, holder, token, epoch, lane, marks, heartbeat_at, expires_at, created_at, \
             updated_at and it has code, create_time, del_flag, heartbeat_time, id, time_unit, \
             update_time, version; it was not changed; choose another name in store.worker_table or \
             store.segment_table"
        );
        assert_eq!(backend.tables().await, ["soc_raindrop_worker"]);
        assert_eq!(backend.texts("SELECT code FROM soc_raindrop_worker").await, ["theirs"]);
    }
}

async fn a_foreign_bookkeeping_table_is_left_alone(backend: &Backend) {
    backend.run("CREATE TABLE soc_raindrop_worker_migrations (version BIGINT, who TEXT)").await;
    let error = refusal(&backend.unprepared().await).await;
    assert!(matches!(error, StoreError::ForeignTable { .. }), "{error}");
    assert_eq!(backend.tables().await, ["soc_raindrop_worker_migrations"]);
}

async fn fifty_nodes_make_the_tables_at_once(backend: &Backend) {
    let mut nodes = JoinSet::new();
    for _ in 0..50 {
        let store = backend.unprepared().await;
        nodes.spawn(async move {
            assert_eq!(store.prepare().await.expect("tables"), [""; 0]);
            store.close().await;
        });
    }
    nodes.join_all().await;
    assert_eq!(backend.tables().await, OURS);
}

async fn two_services_share_an_empty_database(backend: &Backend) {
    let mut services = JoinSet::new();
    let mut stores = Vec::new();
    for worker_table in ["one", "two"] {
        let mut settings = backend.settings();
        settings.worker_table = worker_table.to_owned();
        let store = open(&settings).await;
        stores.push(store.clone());
        services.spawn(async move { store.prepare().await.expect("tables") });
    }
    services.join_all().await;
    let expected = ["one", "one_layout", "one_migrations", "two", "two_layout", "two_migrations"];
    assert_eq!(backend.tables().await, expected);
    stores[0].create_record("default", &record(1, "one's")).await.expect("a record");
    let created = stores[1].create_record("default", &record(2, "two's")).await.expect("a record");
    assert_eq!(created, record(2, "two's"));
}

async fn an_applications_own_migrations_are_not_disturbed(backend: &Backend) {
    let theirs = Migrator::with_migrations(vec![Migration::new(
        1,
        "theirs".into(),
        MigrationType::Simple,
        "CREATE TABLE theirs (id BIGINT)".into_sql_str(),
        false,
    )]);
    for _ in 0..2 {
        migrate(backend, &theirs).await;
        backend.store().await;
    }
    let mut expected = vec!["_sqlx_migrations"];
    expected.extend(OURS);
    expected.push("theirs");
    assert_eq!(backend.tables().await, expected);
}

async fn migrate(backend: &Backend, migrator: &Migrator) {
    if let Backend::Sqlite(_) = backend {
        let url = format!("{}?mode=rwc", backend.url());
        let mut connection = SqliteConnection::connect(&url).await.expect("the file");
        migrator.run(&mut connection).await.expect("migrations");
    } else if let Backend::Postgres(url) = backend {
        let mut connection = PgConnection::connect(url).await.expect("the server");
        migrator.run(&mut connection).await.expect("migrations");
    } else {
        let mut connection = MySqlConnection::connect(&backend.url()).await.expect("the server");
        migrator.run(&mut connection).await.expect("migrations");
    }
}

async fn a_migration_that_was_cut_short_is_repaired(backend: &Backend) {
    let cut_short = "UPDATE soc_raindrop_worker_migrations SET success = FALSE";
    let store = with_rows(backend, &scope(1, 3)).await;
    assert!(store.swap_row(&scope(1, 3), 2, birth(2), &write(1)).await.expect("an answer"));
    backend.run(cut_short).await;
    let store = backend.store().await;
    // The migration was interrupted after the tables existed: the repair keeps later writes.
    assert_eq!(store.read_record("default").await.expect("an answer"), Some(rows_record()));
    let row = store.read_row(&scope(1, 3), 2).await.expect("an answer").expect("the row");
    assert_eq!((row.token, row.epoch), (token(1), EPOCH));
    backend.run(cut_short).await;
    backend.run("DROP TABLE soc_raindrop_worker_layout").await;
    let store = backend.store().await;
    let survey = store.survey(&scope(1, 3)).await.expect("a survey");
    assert_eq!((survey.held, survey.free, survey.record), (1, 2, None));
    assert_eq!(backend.texts(DONE).await, ["worker", "layout"]);
}

async fn a_newer_versions_tables_are_used(backend: &Backend) {
    backend.store().await;
    backend.run("ALTER TABLE soc_raindrop_worker ADD COLUMN of_tomorrow INT").await;
    backend
        .run(
            "INSERT INTO soc_raindrop_worker_migrations \
         (version, description, success, checksum, execution_time) \
         VALUES (999, 'of tomorrow', TRUE, 'x', 0)",
        )
        .await;
    let store = with_rows(backend, &scope(1, 3)).await;
    assert_eq!(store.survey(&scope(1, 3)).await.expect("a survey").free, 3);
}

async fn a_table_that_vanished_is_not_made_anew(backend: &Backend) {
    backend.store().await;
    backend.run("DROP TABLE soc_raindrop_worker").await;
    let error = refusal(&backend.unprepared().await).await;
    assert!(matches!(error, StoreError::Unusable(_)), "{error}");
    assert!(error.to_string().contains("soc_raindrop_worker is gone"), "{error}");
}

async fn corrupt_values_are_named(backend: &Backend) {
    let store = with_rows(backend, &scope(4, 5)).await;
    let corrupt = [
        ("token", "x", "a token is 32 lower-case hexadecimal digits"),
        ("marks", "1,2,3", "marks are 1, 2, 4 or 8 decimal numbers below 2^63, joined by commas"),
        ("lane", "2", "there are 2 lanes"),
    ];
    for (column, value, reason) in corrupt {
        let good = format!("SELECT {} FROM soc_raindrop_worker LIMIT 1", backend.as_text(column));
        let good = backend.texts(&good).await.remove(0);
        let set = |value: &str| {
            format!("UPDATE soc_raindrop_worker SET {column} = '{value}' WHERE worker_id = 5")
        };
        backend.run(&set(value)).await;
        let expected = format!(
            "table soc_raindrop_worker, row default 0/0 5, column {column}: {value:?} cannot be \
             read: {reason}"
        );
        let scope = scope(4, 5);
        let error = store.read_row(&scope, 5).await.expect_err("corrupt");
        assert_eq!(error.to_string(), expected);
        // One row that cannot be read does not keep nodes from the others.
        assert_eq!(workers(&store.free_rows(&scope, None, 9).await.expect("the others")), [4]);
        assert_eq!(store.list_rows().await.expect_err("corrupt").to_string(), expected);
        assert!(store.read_row(&scope, 4).await.expect("another row").is_some());
        backend.run(&set(&good)).await;
    }
}

async fn row_with_a_negative_worker_id_counts_as_unreleased_and_is_named(backend: &Backend) {
    let store = with_rows(backend, &scope(4, 5)).await;
    assert!(store.swap_row(&scope(4, 5), 4, birth(4), &write(1)).await.expect("an answer"));
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(store.swap_row(&scope(4, 5), 5, birth(5), &write(2)).await.expect("an answer"));
    backend.run("UPDATE soc_raindrop_worker SET worker_id = -5 WHERE worker_id = 5").await;
    let expected = "table soc_raindrop_worker, row default 0/0, column worker_id: \"-5\" cannot be read: \
                    negative: no node can lease or release such a row, so delete it";
    for (limit, expected) in [(1, vec![Err(expected)]), (9, vec![Err(expected), Ok(4)])] {
        let rows = store.unreleased_rows("default", limit).await.expect("rows");
        let workers: Vec<_> =
            rows.iter().map(|row| row.worker.as_ref().map_err(String::as_str).copied()).collect();
        assert_eq!(workers, expected);
    }
}

async fn a_worker_table_may_be_called_anything(backend: &Backend) {
    for name in ["select", "_", &"T".repeat(48)] {
        let mut settings = backend.settings();
        settings.worker_table = name.to_owned();
        let store = open(&settings).await;
        store.prepare().await.expect("tables");
        let scope = scope(1, 1);
        create_rows(&store, &scope, &write(1).marks).await.expect("rows");
        assert!(store.swap_row(&scope, 1, birth(1), &write(1)).await.expect("an answer"));
    }
}
