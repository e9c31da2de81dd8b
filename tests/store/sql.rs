//! What only SQL databases can get wrong: tables, migrations and stored garbage.

use std::sync::Arc;

use raindrop::store::{Store, StoreError};
use sqlx::{
    Connection as _, MySqlConnection, PgConnection, SqlSafeStr as _, SqliteConnection,
    migrate::{Migration, MigrationType, Migrator},
};
use tokio::task::JoinSet;

use crate::site::{Site, open, scope, with_rows, workers, write};

macro_rules! on_every_engine {
    ($($case:ident)*) => {
        on_every_engine!(@ sqlite $($case)*);
        on_every_engine!(@ mariadb $($case)*);
        on_every_engine!(@ postgres $($case)*);
    };
    (@ $engine:ident $($case:ident)*) => {
        mod $engine {
            use crate::site::Site;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(&Site::$engine().await).await;
                }
            )*
        }
    };
}

on_every_engine! {
    a_foreign_table_is_left_alone
    a_foreign_bookkeeping_table_is_left_alone
    fifty_nodes_make_the_tables_at_once
    two_services_share_an_empty_database
    an_applications_own_migrations_are_not_disturbed
    a_migration_that_was_cut_short_is_repaired
    a_newer_versions_tables_are_used
    a_table_that_vanished_is_not_made_anew
    garbage_is_named
    a_worker_table_may_be_called_anything
}

const OURS: [&str; 3] =
    ["soc_raindrop_worker", "soc_raindrop_worker_layout", "soc_raindrop_worker_migrations"];

async fn refusal(store: &Arc<dyn Store>) -> StoreError {
    store.prepare().await.expect_err("these tables cannot be used")
}

async fn a_foreign_table_is_left_alone(site: &Site) {
    site.run(
        "CREATE TABLE soc_raindrop_worker (id BIGINT PRIMARY KEY, code VARCHAR(64), \
         time_unit INT, heartbeat_time DATE, create_time DATE, update_time DATE, \
         version BIGINT, del_flag INT)",
    )
    .await;
    site.run("INSERT INTO soc_raindrop_worker (id, code) VALUES (1, 'theirs')").await;
    let store = site.unprepared().await;
    for _ in 0..2 {
        let error = refusal(&store).await;
        assert!(error.is_permanent());
        assert_eq!(
            error.to_string(),
            "table soc_raindrop_worker is not Raindrop's: it lacks namespace, reserved_key, \
             worker_id, holder, token, lane, marks, heartbeat_at, expires_at, created_at, \
             updated_at and it has code, create_time, del_flag, heartbeat_time, id, time_unit, \
             update_time, version; choose another store.worker_table, the table was not changed"
        );
        assert_eq!(site.tables().await, ["soc_raindrop_worker"]);
        assert_eq!(site.texts("SELECT code FROM soc_raindrop_worker").await, ["theirs"]);
    }
}

async fn a_foreign_bookkeeping_table_is_left_alone(site: &Site) {
    site.run("CREATE TABLE soc_raindrop_worker_migrations (version BIGINT, who TEXT)").await;
    let error = refusal(&site.unprepared().await).await;
    assert!(matches!(error, StoreError::ForeignTable { .. }), "{error}");
    assert_eq!(site.tables().await, ["soc_raindrop_worker_migrations"]);
}

async fn fifty_nodes_make_the_tables_at_once(site: &Site) {
    let mut nodes = JoinSet::new();
    for _ in 0..50 {
        let store = site.unprepared().await;
        nodes.spawn(async move {
            assert_eq!(store.prepare().await.expect("tables"), [""; 0]);
            store.close().await;
        });
    }
    nodes.join_all().await;
    assert_eq!(site.tables().await, OURS);
}

async fn two_services_share_an_empty_database(site: &Site) {
    let mut services = JoinSet::new();
    let mut stores = Vec::new();
    for worker_table in ["one", "two"] {
        let mut settings = site.settings();
        settings.worker_table = worker_table.to_owned();
        let store = open(&settings).await;
        stores.push(store.clone());
        services.spawn(async move { store.prepare().await.expect("tables") });
    }
    services.join_all().await;
    let expected = ["one", "one_layout", "one_migrations", "two", "two_layout", "two_migrations"];
    assert_eq!(site.tables().await, expected);
    stores[0].layout_record("default", "one's").await.expect("a record");
    let record = stores[1].layout_record("default", "two's").await.expect("a record");
    assert_eq!(record.words, "two's");
}

async fn an_applications_own_migrations_are_not_disturbed(site: &Site) {
    let theirs = Migrator::with_migrations(vec![Migration::new(
        1,
        "theirs".into(),
        MigrationType::Simple,
        "CREATE TABLE theirs (id BIGINT)".into_sql_str(),
        false,
    )]);
    for _ in 0..2 {
        migrate(site, &theirs).await;
        site.store().await;
    }
    let mut expected = vec!["_sqlx_migrations"];
    expected.extend(OURS);
    expected.push("theirs");
    assert_eq!(site.tables().await, expected);
}

async fn migrate(site: &Site, migrator: &Migrator) {
    if let Site::Sqlite(_) = site {
        let url = format!("{}?mode=rwc", site.url());
        let mut connection = SqliteConnection::connect(&url).await.expect("the file");
        migrator.run(&mut connection).await.expect("migrations");
    } else if let Site::Postgres(url) = site {
        let mut connection = PgConnection::connect(url).await.expect("the server");
        migrator.run(&mut connection).await.expect("migrations");
    } else {
        let mut connection = MySqlConnection::connect(&site.url()).await.expect("the server");
        migrator.run(&mut connection).await.expect("migrations");
    }
}

async fn a_migration_that_was_cut_short_is_repaired(site: &Site) {
    with_rows(site, &scope(1, 3)).await;
    site.run("UPDATE soc_raindrop_worker_migrations SET success = FALSE WHERE version = 1").await;
    site.run("UPDATE soc_raindrop_worker_migrations SET success = FALSE WHERE version = 2").await;
    site.run("DROP TABLE soc_raindrop_worker_layout").await;
    let store = site.store().await;
    assert_eq!(store.survey(&scope(1, 3)).await.expect("a survey").free, 3);
    let done = "SELECT description FROM soc_raindrop_worker_migrations WHERE success = TRUE \
                ORDER BY version";
    assert_eq!(site.texts(done).await, ["worker", "layout"]);
}

async fn a_newer_versions_tables_are_used(site: &Site) {
    site.store().await;
    site.run("ALTER TABLE soc_raindrop_worker ADD COLUMN of_tomorrow INT").await;
    site.run(
        "INSERT INTO soc_raindrop_worker_migrations \
         (version, description, success, checksum, execution_time) \
         VALUES (999, 'of tomorrow', TRUE, 'x', 0)",
    )
    .await;
    let store = with_rows(site, &scope(1, 3)).await;
    assert_eq!(store.survey(&scope(1, 3)).await.expect("a survey").free, 3);
}

async fn a_table_that_vanished_is_not_made_anew(site: &Site) {
    site.store().await;
    site.run("DROP TABLE soc_raindrop_worker").await;
    let error = refusal(&site.unprepared().await).await;
    assert!(matches!(error, StoreError::Unusable(_)), "{error}");
    assert!(error.to_string().contains("soc_raindrop_worker is gone"), "{error}");
}

async fn garbage_is_named(site: &Site) {
    let store = with_rows(site, &scope(4, 5)).await;
    let garbage = [
        ("token", "x", "a token is 32 lower-case hexadecimal digits"),
        ("marks", "1,2,3", "marks are 1, 2, 4 or 8 decimal numbers below 2^63, joined by commas"),
        ("lane", "2", "there are 2 lanes"),
    ];
    for (column, value, reason) in garbage {
        let good = format!("SELECT {} FROM soc_raindrop_worker LIMIT 1", site.as_text(column));
        let good = site.texts(&good).await.remove(0);
        let set = |value: &str| {
            format!("UPDATE soc_raindrop_worker SET {column} = '{value}' WHERE worker_id = 5")
        };
        site.run(&set(value)).await;
        let expected = format!(
            "table soc_raindrop_worker, row default 0/0 5, column {column}: {value:?} cannot be \
             read: {reason}"
        );
        let scope = scope(4, 5);
        let error = store.row(&scope, 5).await.expect_err("garbage");
        assert_eq!(error.to_string(), expected);
        // One row that cannot be read does not keep nodes from the others.
        assert_eq!(workers(&store.free_rows(&scope, 9).await.expect("the others")), [4]);
        assert_eq!(store.list().await.expect_err("garbage").to_string(), expected);
        assert!(store.row(&scope, 4).await.expect("another row").is_some());
        site.run(&set(&good)).await;
    }
}

async fn a_worker_table_may_be_called_anything(site: &Site) {
    for name in ["select", "_", &"T".repeat(48)] {
        let mut settings = site.settings();
        settings.worker_table = name.to_owned();
        let store = open(&settings).await;
        store.prepare().await.expect("tables");
        let scope = scope(1, 1);
        store.create_rows(&scope, &write(1).marks).await.expect("rows");
        let unused = raindrop::core::lease::Token::UNUSED;
        assert!(store.swap(&scope, 1, unused, &write(1)).await.expect("an answer"));
    }
}
