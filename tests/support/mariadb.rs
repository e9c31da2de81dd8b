//! MariaDB servers of the tests' own.
//!
//! Without MariaDB on the machine, and as root on Debian or Ubuntu, it is installed. With
//! `RAINDROP_TEST_MYSQL_URL` (`mysql://user:password@host:port`, no database) the shared server
//! is that one, so that the same tests run against MySQL proper.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use rustix::process::geteuid;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};
use tokio::sync::OnceCell;

use super::{
    debian, faketime,
    server::{Kind, Server, find_program, initialised, succeed},
};

const KIND: Kind = Kind { name: "mariadbd", polite: "TERM", fill, program };
const KIND_WITH_CLOCK: Kind = Kind { program: program_with_clock, ..KIND };

/// A server.
#[derive(Debug)]
pub(crate) struct Mariadb {
    address: String,
    private: Option<Server>,
}

impl Mariadb {
    /// The server that the tests of this process share: for tests that do it no harm.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Mariadb> = OnceCell::const_new();
        SHARED
            .get_or_init(async || match env::var("RAINDROP_TEST_MYSQL_URL") {
                Ok(url) => {
                    let address = url.trim_end_matches('/').to_owned();
                    Self { address, private: None }
                }
                Err(_) => Self::start().await,
            })
            .await
    }

    /// A server for one test, which may do to it what it likes.
    pub(crate) async fn start() -> Self {
        Self::start_kind(KIND).await
    }

    /// Like [`Self::start`], with a clock that [`Self::shift_clock`] moves.
    pub(crate) async fn start_with_clock() -> Self {
        Self::start_kind(KIND_WITH_CLOCK).await
    }

    async fn start_kind(kind: Kind) -> Self {
        let server = Server::start(kind, answers).await;
        Self { address: address(server.port()), private: Some(server) }
    }

    /// Shifts the server's clock against the machine's, by seconds.
    pub(crate) fn shift_clock(&self, seconds: f64) {
        faketime::shift(&clock(self.private().folder()), seconds);
    }

    /// The address of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.address)
    }

    /// Makes an empty database and returns its address.
    pub(crate) async fn database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("raindrop_test_{}_{number}", std::process::id());
        self.run(&format!("DROP DATABASE IF EXISTS {name}")).await;
        self.run(&format!("CREATE DATABASE {name}")).await;
        self.url(&name)
    }

    /// Runs a statement as the administrator.
    pub(crate) async fn run(&self, sql: &str) {
        let mut connection = MySqlConnection::connect(&self.address).await.expect("the server");
        connection.execute(AssertSqlSafe(sql)).await.expect(sql);
        connection.close().await.expect("a polite end");
    }

    /// The server's port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.private().port()
    }

    /// Ends the server as a power failure would.
    pub(crate) fn kill9(&self) {
        self.private().kill9();
    }

    /// Ends the server as an operator would.
    pub(crate) fn stop(&self) {
        self.private().stop();
    }

    /// Starts the server again on the same port and data; ends it first if it still runs.
    pub(crate) async fn restart(&self) {
        self.private().restart(answers).await;
    }

    /// Stops the server's clockwork: it accepts connections and answers nothing.
    pub(crate) fn freeze(&self) {
        self.private().freeze();
    }

    /// The opposite of [`Self::freeze`].
    pub(crate) fn thaw(&self) {
        self.private().thaw();
    }

    /// The server, to be harmed.
    pub(crate) fn private(&self) -> &Server {
        self.private.as_ref().expect("only a server that the tests started can be harmed")
    }
}

fn address(port: u16) -> String {
    format!("mysql://root@127.0.0.1:{port}")
}

async fn answers(port: u16) -> bool {
    let Ok(connection) = MySqlConnection::connect(&address(port)).await else { return false };
    connection.close().await.expect("a polite end");
    true
}

/// The server's program, and a data folder to copy.
fn programs() -> &'static (PathBuf, PathBuf) {
    static PROGRAMS: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let found = find().or_else(|| debian::install("mariadb-server").then(find).flatten());
        let (mariadbd, install_db) = found.unwrap_or_else(|| {
            panic!(
                "these tests need MariaDB: install mariadb-server (found neither mariadbd nor \
                 mariadb-install-db, and could not install them: that needs root and apt-get)"
            )
        });
        let data = initialised(&mariadbd, "mariadb", |data| {
            succeed(
                Command::new(&install_db)
                    .arg("--no-defaults")
                    .arg(format!("--datadir={}", data.display()))
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
    let install_db = find_program(&["mariadb-install-db", "mysql_install_db"], &[])?;
    Some((find_program(&["mariadbd", "mysqld"], &[])?, install_db))
}

fn fill(folder: &Path) {
    succeed(Command::new("cp").arg("-R").arg(&programs().1).arg(folder.join("data")));
}

fn program(folder: &Path, port: u16) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![programs().0.clone().into(), "--no-defaults".into()];
    words.push(format!("--datadir={}", folder.join("data").display()).into());
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

fn as_root() -> Option<&'static str> {
    geteuid().is_root().then_some("--user=root")
}

fn clock(folder: &Path) -> PathBuf {
    folder.join("clock")
}

/// The program as `env` starts it, with a clock of its own.
fn program_with_clock(folder: &Path, port: u16) -> Vec<OsString> {
    let assigned = faketime::environment(&clock(folder)).map(|(name, value)| {
        let mut assignment = OsString::from(name);
        assignment.push("=");
        assignment.push(value);
        assignment
    });
    [OsString::from("env")].into_iter().chain(assigned).chain(program(folder, port)).collect()
}
