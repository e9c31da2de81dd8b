//! Tests the files of statements, as a database administrator would try them.

use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, PgConnection, SqlSafeStr as _,
    SqliteConnection,
};

use crate::{backend::Backend, sql::on_every_engine};

on_every_engine! { every_statement_can_be_prepared }

async fn every_statement_can_be_prepared(backend: &Backend) {
    let store = backend.store().await;
    store.prepare_segments().await.expect("tables");
    for table in [
        "leaf (biz_tag VARCHAR(128), max_id BIGINT, step INT)",
        "tinyid (biz_type VARCHAR(128), max_id BIGINT, step INT, delta INT)",
        "cosid (name VARCHAR(128), last_max_id BIGINT)",
    ] {
        backend.run(&format!("CREATE TABLE {table}")).await;
    }
    let file = match backend {
        Backend::Mariadb(_) => include_str!("../../crates/store/src/sql/mysql.sql"),
        Backend::Postgres(_) => include_str!("../../crates/store/src/sql/postgres.sql"),
        _ => include_str!("../../crates/store/src/sql/sqlite.sql"),
    };
    let mut prepared = 0;
    for statement in file.split("-- name: ").skip(1) {
        let (name, sql) = statement.split_once('\n').expect("a name");
        let (sql, _) = sql.split_once(";\n").expect("a semicolon");
        let table = match name.split_once('_') {
            Some(("read", service @ ("leaf" | "tinyid" | "cosid"))) => service,
            _ => "soc_raindrop_worker_migrations",
        };
        let sql = sql
            .replace("{worker}", "soc_raindrop_worker")
            .replace("{segment}", "soc_raindrop_segment")
            .replace("{table}", table);
        prepare(backend, name, sql).await;
        prepared += 1;
    }
    assert!(prepared >= 30, "{prepared}");
}

async fn prepare(backend: &Backend, name: &str, sql: String) {
    let (url, sql) = (backend.url(), AssertSqlSafe(sql).into_sql_str());
    let failed = match backend {
        Backend::Mariadb(_) => {
            let mut connection = MySqlConnection::connect(&url).await.expect("the server");
            connection.prepare(sql).await.err()
        }
        Backend::Postgres(_) => {
            let mut connection = PgConnection::connect(&url).await.expect("the server");
            connection.prepare(sql).await.err()
        }
        _ => {
            let mut connection = SqliteConnection::connect(&url).await.expect("the file");
            connection.prepare(sql).await.err()
        }
    };
    assert!(failed.is_none(), "{name}: {failed:?}");
}
