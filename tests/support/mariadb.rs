//! Runs MariaDB, or with `RAINDROP_TEST_MYSQL_URL` (`mysql://user:password@host:port`, no database)
//! uses MySQL proper as the shared server.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use async_trait::async_trait;
use rustix::process::geteuid;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};
use tokio::sync::OnceCell;

use super::{
    programs::{self, copy_folder, initialised, succeed},
    server::{Engine, Server},
};

/// MariaDB servers.
#[derive(Debug)]
pub(crate) struct Mariadb;

#[async_trait]
impl Engine for Mariadb {
    fn name(&self) -> &'static str {
        "MariaDB"
    }

    fn polite(&self) -> &'static str {
        "TERM"
    }

    fn shared(&self) -> (&'static OnceCell<Server>, &'static str) {
        static SHARED: OnceCell<Server> = OnceCell::const_new();
        (&SHARED, "RAINDROP_TEST_MYSQL_URL")
    }

    fn fill(&self, folder: &Path) {
        copy_folder(&programs().1, &folder.join("data"));
    }

    fn program(&self, folder: &Path, port: u16) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![programs().0.clone().into(), "--no-defaults".into()];
        words.push(format!("--datadir={}", folder.join("data").display()).into());
        // A server that starts removes the temporary tables that it finds, also those of other
        // servers.
        words.push(format!("--tmpdir={}", folder.display()).into());
        words.push(format!("--port={port}").into());
        words.extend(as_root().map(OsString::from));
        words.extend(
            [
                "--socket=server.sock",
                "--pid-file=server.pid",
                "--bind-address=127.0.0.1",
                "--skip-networking=0",
                "--skip-name-resolve",
                "--innodb-flush-log-at-trx-commit=1",
                "--innodb-flush-method=nosync",
                "--innodb-doublewrite=0",
                "--skip-log-bin",
                "--innodb-buffer-pool-size=64M",
                "--innodb-fast-shutdown=2",
                "--performance-schema=0",
                "--max-connections=500",
                "--character-set-server=utf8mb4",
            ]
            .map(OsString::from),
        );
        words
    }

    fn address(&self, _folder: &Path, port: u16) -> String {
        format!("mysql://root@127.0.0.1:{port}")
    }

    async fn answers(&self, address: &str) -> bool {
        let Ok(connection) = MySqlConnection::connect(address).await else { return false };
        connection.close().await.expect("a polite end");
        true
    }

    async fn make_database(&self, address: &str, number: u32) -> String {
        let name = format!("raindrop_test_{}_{number}", std::process::id());
        self.run(address, &format!("DROP DATABASE IF EXISTS {name}")).await;
        self.run(address, &format!("CREATE DATABASE {name}")).await;
        format!("{address}/{name}")
    }

    async fn run(&self, address: &str, sql: &str) {
        let mut connection = MySqlConnection::connect(address).await.expect("the server");
        connection.execute(AssertSqlSafe(sql)).await.expect(sql);
        connection.close().await.expect("a polite end");
    }

    async fn texts(&self, address: &str, sql: &str) -> Vec<String> {
        let mut connection = MySqlConnection::connect(address).await.expect("the server");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut connection).await.expect("texts")
    }

    fn log(&self) -> &'static str {
        "ib_logfile"
    }

    fn unencrypted(&self) -> &'static str {
        "?ssl-mode=DISABLED"
    }
}

/// Returns the server's program, and a data folder to copy.
fn programs() -> &'static (PathBuf, PathBuf) {
    static PROGRAMS: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let (mariadbd, install_db) =
            find().expect("these tests need MariaDB: `make deps` names the package");
        let data = initialised(&mariadbd, "mariadb", |data| {
            succeed(
                Command::new(&install_db)
                    .arg("--no-defaults")
                    .arg(format!("--datadir={}", data.display()))
                    .arg(format!("--tmpdir={}", data.parent().expect("a folder").display()))
                    .args(as_root())
                    .args([
                        "--auth-root-authentication-method=normal",
                        "--skip-test-db",
                        "--skip-name-resolve",
                        "--innodb-log-file-size=16M",
                        "--innodb-flush-method=nosync",
                    ]),
            );
        });
        (mariadbd, data)
    })
}

fn find() -> Option<(PathBuf, PathBuf)> {
    let install_db = programs::find(&["mariadb-install-db", "mysql_install_db"], &[])?;
    Some((programs::find(&["mariadbd", "mysqld"], &[])?, install_db))
}

fn as_root() -> Option<&'static str> {
    geteuid().is_root().then_some("--user=root")
}
