//! PostgreSQL servers of the tests' own.
//!
//! Without PostgreSQL on the machine, and as root on Debian or Ubuntu, it is installed. With
//! `RAINDROP_TEST_POSTGRES_URL` (`postgres://user:password@host:port`, no database) the shared
//! server is that one.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use rustix::process::geteuid;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tokio::sync::OnceCell;

use super::{
    debian,
    server::{Kind, Server, find_program, initialised, succeed},
};

const KIND: Kind = Kind { name: "postgres", polite: "INT", fill, program };

/// A server.
#[derive(Debug)]
pub(crate) struct Postgres {
    address: String,
    private: Option<Server>,
}

impl Postgres {
    /// The server that the tests of this process share: for tests that do it no harm.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Postgres> = OnceCell::const_new();
        SHARED
            .get_or_init(async || match env::var("RAINDROP_TEST_POSTGRES_URL") {
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
        let server = Server::start(KIND, answers).await;
        Self { address: address(server.port()), private: Some(server) }
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
        let url = self.url("postgres");
        let mut connection = PgConnection::connect(&url).await.expect("the server");
        connection.execute(AssertSqlSafe(sql)).await.expect(sql);
        connection.close().await.expect("a polite end");
    }

    /// The server, to be harmed.
    pub(crate) fn private(&self) -> &Server {
        self.private.as_ref().expect("only a server that the tests started can be harmed")
    }

    /// Starts the server again on the same port and data; ends it first if it still runs.
    pub(crate) async fn restart(&self) {
        self.private().restart(answers).await;
    }
}

fn address(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}")
}

async fn answers(port: u16) -> bool {
    let url = format!("{}/postgres", address(port));
    let Ok(connection) = PgConnection::connect(&url).await else { return false };
    connection.close().await.expect("a polite end");
    true
}

/// The server's program, and a data folder to copy.
fn programs() -> &'static (PathBuf, PathBuf) {
    static PROGRAMS: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let found = find().or_else(|| debian::install("postgresql").then(find).flatten());
        let (postgres, initdb) = found.unwrap_or_else(|| {
            panic!(
                "these tests need PostgreSQL: install postgresql (found neither postgres nor \
                 initdb, and could not install them: that needs root and apt-get)"
            )
        });
        let data = initialised(&postgres, "postgres", |data| {
            give_away(data.parent().expect("a folder"));
            let words = unprivileged(&initdb);
            succeed(
                Command::new(&words[0])
                    .args(&words[1..])
                    .arg("-D")
                    .arg(data)
                    .args(["-U", "postgres", "-A", "trust", "-N", "--no-locale", "-E", "UTF8"])
                    .current_dir(data.parent().expect("a folder")),
            );
        });
        (postgres, data)
    })
}

/// The newest version, which Debian keeps off the path.
fn find() -> Option<(PathBuf, PathBuf)> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort_by_key(|folder| {
        let version = folder.parent().and_then(Path::file_name).unwrap_or_default();
        std::cmp::Reverse(version.to_string_lossy().parse::<u32>().unwrap_or(0))
    });
    Some((find_program(&["postgres"], &folders)?, find_program(&["initdb"], &folders)?))
}

fn fill(folder: &Path) {
    succeed(Command::new("cp").arg("-R").arg(&programs().1).arg(folder.join("data")));
    give_away(folder);
}

fn program(folder: &Path, port: u16) -> Vec<OsString> {
    let mut words = unprivileged(&programs().0);
    words.push("-D".into());
    words.push(folder.join("data").into());
    words.extend(["-p".into(), port.to_string().into()]);
    for setting in [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "max_connections=500",
        "shared_buffers=32MB",
        "autovacuum=off",
    ] {
        words.extend(["-c".into(), setting.into()]);
    }
    words
}

/// The server refuses to run as root.
fn unprivileged(program: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if geteuid().is_root() {
        let (user, group) = (format!("--reuid={}", user()), format!("--regid={}", group()));
        words.extend(["setpriv".into(), user.into(), group.into(), "--clear-groups".into()]);
    }
    words.push(program.into());
    words
}

fn give_away(folder: &Path) {
    if geteuid().is_root() {
        let owner = format!("{}:{}", user(), group());
        succeed(Command::new("chown").arg("-R").arg(owner).arg(folder));
    }
}

fn user() -> &'static str {
    if has_postgres() { "postgres" } else { "nobody" }
}

fn group() -> &'static str {
    if has_postgres() { "postgres" } else { "nogroup" }
}

/// The package brings a user of this name.
fn has_postgres() -> bool {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().any(|line| line.starts_with("postgres:"))
}
