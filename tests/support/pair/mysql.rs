//! Pairs of MariaDB and of MySQL: a replica asks for the transactions that it lacks by their global
//! identifiers.

use std::{fs, path::Path};

use async_trait::async_trait;

use super::{PATIENCE, Replicated};
use crate::support::{mariadb::Mariadb, mysql::Mysql, programs::copy_folder, server::Server};

/// Seconds that a statement waits for a replica.
const WAITING: u64 = PATIENCE.as_secs();

#[async_trait(?Send)]
impl Replicated for Mariadb {
    async fn start_pair(&self) -> [Server; 2] {
        let start = async |id: u32| {
            let arguments = [
                format!("--server-id={id}"),
                "--log-bin=history".to_owned(),
                "--log-slave-updates".to_owned(),
                "--binlog-format=ROW".to_owned(),
                "--sync-binlog=1".to_owned(),
            ];
            Server::start_with(&Mariadb, arguments.into()).await
        };
        let servers = [start(1).await, start(2).await];
        follow_mariadb(&servers[1], &servers[0]).await;
        servers
    }

    async fn nodes_database(&self, primary: &Server) -> String {
        nodes_database(primary).await
    }

    async fn stop_replication(&self, _: &Server, replica: &Server) {
        replica.run("STOP SLAVE").await;
    }

    async fn until_caught_up(&self, primary: &Server, replica: &Server) {
        let position = text(primary, "SELECT @@GLOBAL.gtid_binlog_pos").await;
        let wait = format!("SELECT CAST(MASTER_GTID_WAIT('{position}', {WAITING}) AS CHAR)");
        assert_eq!(text(replica, &wait).await, "0", "the replica reaches {position}");
    }

    async fn promote(&self, replica: &Server) {
        for sql in ["STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0"] {
            replica.run(sql).await;
        }
    }

    async fn rejoin(&self, old: &Server, primary: &Server) {
        // The server keeps its identity, which is one of its arguments.
        old.refill(|folder| copy_data(primary, folder)).await;
        old.run("SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos").await;
        follow_mariadb(old, primary).await;
    }
}

#[async_trait(?Send)]
impl Replicated for Mysql {
    async fn start_pair(&self) -> [Server; 2] {
        let start = async |id: u32| {
            let arguments = [
                format!("--server-id={id}"),
                "--log-bin=history".to_owned(),
                "--gtid-mode=ON".to_owned(),
                "--enforce-gtid-consistency=ON".to_owned(),
            ];
            Server::start_with(&Mysql, arguments.into()).await
        };
        let servers = [start(1).await, start(2).await];
        follow_mysql(&servers[1], &servers[0]).await;
        servers
    }

    async fn nodes_database(&self, primary: &Server) -> String {
        nodes_database(primary).await
    }

    async fn stop_replication(&self, _: &Server, replica: &Server) {
        replica.run("STOP REPLICA").await;
    }

    async fn until_caught_up(&self, primary: &Server, replica: &Server) {
        let done = text(primary, "SELECT @@GLOBAL.gtid_executed").await;
        let wait = format!("SELECT CAST(WAIT_FOR_EXECUTED_GTID_SET('{done}', {WAITING}) AS CHAR)");
        assert_eq!(text(replica, &wait).await, "0", "the replica reaches {done}");
    }

    async fn promote(&self, replica: &Server) {
        for sql in ["STOP REPLICA", "RESET REPLICA ALL", "SET GLOBAL read_only = 0"] {
            replica.run(sql).await;
        }
    }

    async fn rejoin(&self, old: &Server, primary: &Server) {
        old.refill(|folder| {
            let file = folder.join("data/auto.cnf");
            let kept = fs::read(&file).expect("the server's identity");
            copy_data(primary, folder);
            fs::write(file, kept).expect("the server's identity");
        })
        .await;
        follow_mysql(old, primary).await;
    }
}

/// Makes a database, and a user who is bound by `read_only`.
async fn nodes_database(primary: &Server) -> String {
    let url = primary.database().await;
    let name = url.rsplit('/').next().expect("a database");
    primary.run("CREATE USER 'node'@'127.0.0.1'").await;
    primary.run(&format!("GRANT ALL ON {name}.* TO 'node'@'127.0.0.1'")).await;
    url.replace("root@", "node@")
}

async fn follow_mariadb(replica: &Server, primary: &Server) {
    replica.run("SET GLOBAL read_only = 1").await;
    let source = format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'root', \
         MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos",
        primary.port()
    );
    replica.run(&source).await;
    replica.run("START SLAVE").await;
}

async fn follow_mysql(replica: &Server, primary: &Server) {
    replica.run("SET GLOBAL read_only = 1").await;
    let source = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {}, \
         SOURCE_USER = 'root', SOURCE_CONNECT_RETRY = 1, SOURCE_AUTO_POSITION = 1",
        primary.port()
    );
    replica.run(&source).await;
    replica.run("START REPLICA").await;
}

/// Copies a server's data into a folder, as of one moment: a server that reads it recovers as after
/// a crash. A replay of the whole log would leave out the server's own first writes.
fn copy_data(server: &Server, folder: &Path) {
    let data = folder.join("data");
    fs::remove_dir_all(&data).expect("a data folder");
    server.freeze();
    copy_folder(&server.folder().join("data"), &data);
    server.thaw();
}

/// Returns the only answer to a query.
async fn text(server: &Server, sql: &str) -> String {
    server.texts(server.address(), sql).await.pop().expect("an answer")
}
