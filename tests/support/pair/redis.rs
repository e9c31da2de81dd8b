//! Pairs of Redis: a replica streams the primary's writes.

use async_trait::async_trait;

use super::{PATIENCE, Replicated, Sentinel};
use crate::support::{
    poll,
    redis::{Redis, run},
    server::Server,
};

/// The user of replicas, so that a test that shuts them out affects no other user.
const USER: &str = "replica";

#[async_trait(?Send)]
impl Replicated for Redis {
    async fn start_pair(&self) -> [Server; 2] {
        let start = async || {
            let permitted = ["--user", USER, "on", "nopass", "+psync", "+replconf", "+ping"];
            let follows =
                ["--masteruser", USER, "--masterauth", "any", "--repl-diskless-sync-delay"];
            let arguments = permitted.into_iter().chain(follows).chain(["0"]);
            Server::start_with(&Redis, arguments.map(str::to_owned).collect()).await
        };
        let servers = [start().await, start().await];
        follow(&servers[1], &servers[0]).await;
        servers
    }

    async fn nodes_database(&self, primary: &Server) -> String {
        primary.database().await
    }

    async fn stop_replication(&self, primary: &Server, replica: &Server) {
        run::<String>(primary.address(), &["ACL", "SETUSER", USER, "off"]).await;
        run::<i64>(primary.address(), &["CLIENT", "KILL", "TYPE", "replica"]).await;
        until_info(replica, "master_link_status", "down").await;
    }

    async fn until_caught_up(&self, primary: &Server, replica: &Server) {
        let written: u64 = info(primary, "master_repl_offset").await.parse().expect("a number");
        poll::until(PATIENCE, "the replica catches up", async || {
            let replayed: u64 = info(replica, "slave_repl_offset").await.parse().ok()?;
            (replayed >= written).then_some(())
        })
        .await;
    }

    async fn promote(&self, replica: &Server) {
        run::<String>(replica.address(), &["REPLICAOF", "NO", "ONE"]).await;
    }

    async fn rejoin(&self, old: &Server, primary: &Server) {
        old.restart().await;
        follow(old, primary).await;
    }

    async fn token(&self, url: &str, worker: u64) -> String {
        let key = format!("soc_raindrop_worker:{{default}}:row:0/0:{worker:020}");
        run(url, &["HGET", &key, "token"]).await
    }

    async fn sentinel(&self, primary: u16) -> Option<Sentinel> {
        Some(Sentinel::start(primary).await)
    }
}

async fn follow(replica: &Server, primary: &Server) {
    let port = primary.port().to_string();
    run::<String>(replica.address(), &["REPLICAOF", "127.0.0.1", &port]).await;
    until_info(replica, "master_link_status", "up").await;
}

async fn until_info(server: &Server, name: &str, value: &str) {
    poll::until(PATIENCE, &format!("{name} is {value}"), async || {
        (info(server, name).await == value).then_some(())
    })
    .await;
}

/// Returns a field of a server's replication state.
async fn info(server: &Server, name: &str) -> String {
    let text: String = run(server.address(), &["INFO", "replication"]).await;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(field, _)| *field == name);
    found.map(|(_, value)| value.to_owned()).unwrap_or_default()
}
