//! Pairs of PostgreSQL: a standby streams the primary's log.

use std::fs;

use async_trait::async_trait;

use super::{PATIENCE, Replicated};
use crate::support::{
    poll,
    postgres::Postgres,
    server::{Engine as _, Server},
};

#[async_trait(?Send)]
impl Replicated for Postgres {
    async fn start_pair(&self) -> [Server; 2] {
        let primary = Server::start(&Postgres).await;
        let standby = primary.start_standby().await;
        [primary, standby]
    }

    async fn nodes_database(&self, primary: &Server) -> String {
        // A standby refuses all writes.
        primary.database().await
    }

    async fn stop_replication(&self, _: &Server, replica: &Server) {
        replica.run("ALTER SYSTEM SET primary_conninfo = ''").await;
        replica.run("SELECT pg_reload_conf()").await;
        let receivers = "SELECT CAST(pid AS TEXT) FROM pg_stat_wal_receiver";
        until(replica, receivers, &[]).await;
    }

    async fn until_caught_up(&self, primary: &Server, replica: &Server) {
        let sql = "SELECT CAST(pg_current_wal_lsn() AS TEXT)";
        let written = primary.texts(primary.address(), sql).await;
        let sql = format!(
            "SELECT CAST(pg_last_wal_replay_lsn() >= CAST('{}' AS pg_lsn) AS TEXT)",
            written[0]
        );
        until(replica, &sql, &["true"]).await;
    }

    async fn promote(&self, replica: &Server) {
        replica.run("SELECT pg_promote()").await;
    }

    async fn rejoin(&self, old: &Server, primary: &Server) {
        old.refill(|folder| {
            fs::remove_dir_all(folder.join("data")).expect("a data folder");
            self.fill_standby(folder, primary.port());
        })
        .await;
    }
}

async fn until(server: &Server, sql: &str, expected: &[&str]) {
    poll::until(PATIENCE, &format!("{sql} says {expected:?}"), async || {
        (server.texts(server.address(), sql).await == expected).then_some(())
    })
    .await;
}
