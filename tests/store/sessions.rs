//! Tests settings of servers, databases and users that change what statements do.

use std::{path::PathBuf, sync::Arc};

use raindrop::{
    core::{
        clock::{Clock as _, SystemClock},
        lease::HighWaterMarks,
    },
    store::{NewSegment, Store, StoreError},
};
use sqlx::{Connection as _, Executor as _, MySqlConnection};

use crate::{
    backend::{
        Backend, birth, create_rows, open, patient, record, rows_record, scope, token, with_rows,
        write,
    },
    foreign::leaf_alloc,
    outage::PATIENCE,
    support::{
        free_port,
        mariadb::Mariadb,
        mysql::Mysql,
        poll,
        postgres::Postgres,
        programs,
        server::{Engine, Server},
    },
};

/// Runs everything that nodes and operators run, and reads all of it, also as another user.
async fn everything_works(backend: &Backend, store: &Arc<dyn Store>, case: &str) {
    let scope = scope(1, 9);
    store.prepare().await.expect(case);
    create_rows(store, &scope, &HighWaterMarks::all_at(0, 2)).await.expect(case);
    let survey = store.survey(&scope).await.expect(case);
    assert_eq!(survey.free, 9, "{case}");
    let late_ms = SystemClock::default().now_ms() - survey.now_ms;
    assert!(late_ms.abs() < 60_000, "{case}: the clock is {late_ms} ms late");
    assert_eq!(store.free_rows(&scope, None, 9).await.expect(case).len(), 9, "{case}");
    assert!(store.swap_row(&scope, 1, birth(1), &write(1)).await.expect(case), "{case}");
    let words = record(2, "words");
    let swapped = store.swap_record("default", rows_record().token, &words).await;
    assert!(swapped.expect(case), "{case}");
    let written = "SELECT token FROM soc_raindrop_worker WHERE worker_id = 1";
    assert_eq!(backend.texts(written).await, [token(1).to_string()], "{case}");
    assert_eq!(store.list_rows().await.expect(case).len(), 9, "{case}");
    store.prepare_segments().await.expect(case);
    let codes = ["a", "b"].map(|code| NewSegment { code: code.into(), first: 1 });
    store.create_segments("numbers", &codes).await.expect(case);
    assert_eq!(store.list_segments().await.expect(case).len(), 2, "{case}");
    assert_eq!(store.foreign_segments(&leaf_alloc()).await.expect(case).len(), 2, "{case}");
}

/// Makes an empty database, but for a table of another service.
async fn with_foreign_table(backend: &Backend) {
    backend.run("CREATE TABLE leaf_alloc (biz_tag VARCHAR(128), max_id BIGINT, step INT)").await;
    backend.run("INSERT INTO leaf_alloc VALUES ('a', 1, 1), ('b', 1, 1)").await;
}

/// Makes a user whom `init_connect` binds, with these rights beside the usual ones.
async fn make_user(server: &Server, rights: &str) {
    server.run("CREATE USER 'node'@'127.0.0.1'").await;
    let usual = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX";
    server.run(&format!("GRANT {usual}{rights} ON *.* TO 'node'@'127.0.0.1'")).await;
}

fn as_user(backend: &Backend) -> String {
    backend.url().replace("root@", "node@")
}

async fn no_setting_counts(engine: &'static dyn Engine, own: &[&str]) {
    let server = Server::start(engine).await;
    make_user(&server, "").await;
    let common = [
        "autocommit = 0",
        "sql_auto_is_null = 1, completion_type = 1, time_zone = '-12:00'",
        "sql_big_selects = 0, max_join_size = 1",
        "sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'",
        "sql_safe_updates = 1",
        "sql_select_limit = 1",
        "timestamp = 86400",
        "SESSION TRANSACTION READ ONLY",
        "SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    ];
    for setting in common.iter().chain(own) {
        let backend = Backend::Mariadb(server.database().await);
        with_foreign_table(&backend).await;
        server.run(&format!("SET GLOBAL init_connect = \"SET {setting}\"")).await;
        let store = open(&patient(as_user(&backend))).await;
        everything_works(&backend, &store, setting).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_setting_of_a_mariadb_counts() {
    no_setting_counts(&Mariadb, &["max_statement_time = 0.000001"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make mysql-test"]
async fn no_setting_of_a_mysql_counts() {
    no_setting_counts(&Mysql, &["max_execution_time = 1"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_whose_writes_replicas_do_not_get_is_refused() {
    let server = Server::start_with(&Mariadb, vec!["--log-bin=history".to_owned()]).await;
    let backend = Backend::Mariadb(server.database().await);
    make_user(&server, ", BINLOG ADMIN, REPLICATION SLAVE ADMIN").await;
    for (setting, wanted) in
        [("sql_log_bin = 0", "sql_log_bin = 1"), ("skip_replication = 1", "skip_replication = 0")]
    {
        server.run(&format!("SET GLOBAL init_connect = 'SET {setting}'")).await;
        let error = open(&patient(as_user(&backend))).await.prepare().await.expect_err(setting);
        let said = error.to_string();
        assert!(error.is_permanent(), "{error:?}");
        assert!(said.contains(&format!("a session must have {wanted}, but has O")), "{said}");
    }
}

/// The server may flush commits less often for a while, without a crash.
async fn toggled_setting_begins_no_epoch_each_time(engine: &'static dyn Engine) {
    let server = Server::start(engine).await;
    let backend = Backend::Mariadb(server.database().await);
    let store = with_rows(&backend, &scope(1, 3)).await;
    let identity = async || {
        let survey = async || store.survey(&scope(1, 3)).await.ok();
        poll::until(PATIENCE, "a survey", survey).await.identity
    };
    let flush = async |value: u32| {
        server.run(&format!("SET GLOBAL innodb_flush_log_at_trx_commit = {value}")).await;
    };
    let loses_nothing = identity().await;
    flush(0).await;
    // A crash may lose writes from here on.
    let may_lose = identity().await;
    assert_ne!(may_lose, loses_nothing);
    for value in [1, 2, 1, 0] {
        flush(value).await;
        assert_eq!(identity().await, may_lose, "{value}");
    }
    server.restart().await;
    assert_eq!(identity().await, loses_nothing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn toggled_setting_of_a_mariadb_begins_no_epoch_each_time() {
    toggled_setting_begins_no_epoch_each_time(&Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make mysql-test"]
async fn toggled_setting_of_a_mysql_begins_no_epoch_each_time() {
    toggled_setting_begins_no_epoch_each_time(&Mysql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_setting_of_a_postgres_counts() {
    let server = Server::start(&Postgres).await;
    let backend = Backend::Postgres(server.database().await);
    with_foreign_table(&backend).await;
    let database = backend.url().rsplit('/').next().expect("a name").to_owned();
    let set = async |name: &str, value: &str| {
        server.run(&format!("ALTER DATABASE {database} SET {name} = '{value}'")).await;
    };
    for (name, value) in [
        ("bytea_output", "escape"),
        ("datestyle", "German"),
        ("intervalstyle", "sql_standard"),
        ("timezone", "Asia/Tokyo"),
    ] {
        set(name, value).await;
    }
    let pinned = [
        ("client_min_messages", "error", "warning"),
        ("default_transaction_deferrable", "on", "off"),
        ("default_transaction_isolation", "serializable", "read committed"),
        ("extra_float_digits", "-15", "1"),
        ("idle_in_transaction_session_timeout", "7s", "0"),
        ("lock_timeout", "7s", "10s"),
        ("row_security", "on", "off"),
        ("standard_conforming_strings", "off", "on"),
        ("statement_timeout", "7s", "20s"),
        ("transform_null_equals", "on", "off"),
    ];
    for (name, value, _) in pinned {
        set(name, value).await;
    }
    // The trigger notes the settings of the store's session when it writes.
    backend.run("CREATE TABLE seen (name TEXT, setting TEXT)").await;
    backend.store().await;
    let names = pinned.map(|(name, ..)| format!("'{name}'")).join(",");
    backend
        .run(&format!(
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             INSERT INTO seen SELECT name, current_setting(name) FROM pg_settings \
             WHERE name IN ({names}); RETURN NEW; END $$"
        ))
        .await;
    backend
        .run(
            "CREATE TRIGGER note BEFORE UPDATE ON soc_raindrop_worker \
             FOR EACH ROW EXECUTE FUNCTION note()",
        )
        .await;
    everything_works(&backend, &backend.unprepared().await, "every setting").await;
    let seen = backend.texts("SELECT name || ' = ' || setting FROM seen ORDER BY name").await;
    assert_eq!(seen, pinned.map(|(name, _, wanted)| format!("{name} = {wanted}")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_a_policy_hides_are_an_error() {
    let server = Server::start(&Postgres).await;
    let backend = Backend::Postgres(server.database().await);
    with_rows(&backend, &scope(1, 3)).await;
    server.run("CREATE ROLE node LOGIN").await;
    backend.run("GRANT ALL ON ALL TABLES IN SCHEMA public TO node").await;
    let store = open(&patient(backend.url().replace("postgres@", "node@"))).await;
    assert_eq!(store.list_rows().await.expect("all rows").len(), 3);
    backend.run("CREATE POLICY one ON soc_raindrop_worker USING (worker_id = 1)").await;
    backend.run("ALTER TABLE soc_raindrop_worker ENABLE ROW LEVEL SECURITY").await;
    let error = store.list_rows().await.expect_err("two are hidden");
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    assert_eq!(error.kind(), "it denied access");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_of_a_cluster_waits_for_what_other_nodes_wrote() {
    let folders = ["/usr/lib/galera", "/usr/lib64/galera-4"].map(PathBuf::from);
    let library = programs::find(&["libgalera_smm.so"], &folders)
        .expect("this test needs Galera: `make deps` names the package");
    let arguments = [
        "--wsrep-on=ON".to_owned(),
        "--wsrep-cluster-address=gcomm://".to_owned(),
        "--wsrep-node-address=127.0.0.1".to_owned(),
        format!("--wsrep-provider={}", library.display()),
        format!("--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{}", free_port()),
        "--binlog-format=ROW".to_owned(),
    ];
    let server = Server::start_with(&Mariadb, arguments.into()).await;
    poll::until(PATIENCE, "the cluster is ready", async || {
        let mut connection = MySqlConnection::connect(server.address()).await.ok()?;
        connection.execute("CREATE DATABASE IF NOT EXISTS ready").await.ok()
    })
    .await;
    let backend = Backend::Mariadb(server.database().await);
    with_rows(&backend, &scope(1, 3)).await;
    backend.run("CREATE TABLE seen (wait INT PRIMARY KEY)").await;
    backend
        .run(
            "CREATE TRIGGER note BEFORE UPDATE ON soc_raindrop_worker FOR EACH ROW \
             INSERT INTO seen VALUES (@@SESSION.wsrep_sync_wait)",
        )
        .await;
    let store = backend.store().await;
    assert!(store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect("an answer"));
    assert_eq!(backend.texts("SELECT CAST(wait AS CHAR) FROM seen").await, ["7"]);
}
