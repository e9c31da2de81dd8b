//! Runs PostgreSQL; `RAINDROP_TEST_POSTGRES_URL` (`postgres://user:password@host:port`, no
//! database) names another shared server.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use async_trait::async_trait;
use rustix::process::geteuid;
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, PgConnection,
    postgres::{PgConnectOptions, PgSslMode},
};
use tokio::sync::OnceCell;

use super::{
    programs::{self, copy_folder, initialised, succeed},
    server::{Engine, Server},
};

/// PostgreSQL servers.
#[derive(Debug)]
pub(crate) struct Postgres;

#[async_trait]
impl Engine for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn polite(&self) -> &'static str {
        "INT"
    }

    fn shared(&self) -> (&'static OnceCell<Server>, &'static str) {
        static SHARED: OnceCell<Server> = OnceCell::const_new();
        (&SHARED, "RAINDROP_TEST_POSTGRES_URL")
    }

    fn fill(&self, folder: &Path) {
        copy_folder(&programs().data, &folder.join("data"));
        give_away(folder);
    }

    fn fill_standby(&self, folder: &Path, port: u16) {
        give_away(folder);
        let words = unprivileged(&programs().base_backup);
        succeed(
            Command::new(&words[0])
                .args(&words[1..])
                .arg("--pgdata")
                .arg(folder.join("data"))
                .args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"])
                .args(["--host=127.0.0.1", "--username=postgres"])
                .arg(format!("--port={port}"))
                .current_dir(folder),
        );
    }

    fn program(&self, folder: &Path, port: u16) -> Vec<OsString> {
        let mut words = unprivileged(&programs().postgres);
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

    fn address(&self, _folder: &Path, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}")
    }

    async fn answers(&self, address: &str) -> bool {
        let url = format!("{address}/postgres");
        let Ok(connection) = connect(&url).await else { return false };
        connection.close().await.expect("a polite end");
        true
    }

    async fn make_database(&self, address: &str, number: u32) -> String {
        let name = format!("raindrop_test_{}_{number}", std::process::id());
        let administration = format!("{address}/postgres");
        self.run(&administration, &format!("DROP DATABASE IF EXISTS {name}")).await;
        self.run(&administration, &format!("CREATE DATABASE {name}")).await;
        format!("{address}/{name}")
    }

    async fn run(&self, address: &str, sql: &str) {
        let mut connection = connect(address).await.expect("the server");
        connection.execute(AssertSqlSafe(sql)).await.expect(sql);
        connection.close().await.expect("a polite end");
    }

    async fn texts(&self, address: &str, sql: &str) -> Vec<String> {
        let mut connection = connect(address).await.expect("the server");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut connection).await.expect("texts")
    }

    fn log(&self) -> &'static str {
        "pg_wal"
    }

    fn unencrypted(&self) -> &'static str {
        "?sslmode=disable"
    }
}

/// The server's programs.
struct Programs {
    postgres: PathBuf,
    base_backup: PathBuf,
    /// A data folder to copy.
    data: PathBuf,
}

fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let [postgres, initdb, base_backup] =
            find().expect("these tests need PostgreSQL: `make deps` names the package");
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
        Programs { postgres, base_backup, data }
    })
}

/// Returns the newest version, which Debian keeps off the path.
fn find() -> Option<[PathBuf; 3]> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort_by_key(|folder| {
        let version = folder.parent().and_then(Path::file_name).unwrap_or_default();
        std::cmp::Reverse(version.to_string_lossy().parse::<u32>().unwrap_or(0))
    });
    let find = |name| programs::find(&[name], &folders);
    Some([find("postgres")?, find("initdb")?, find("pg_basebackup")?])
}

/// Returns the words that run a program which refuses to run as root.
pub(crate) fn unprivileged(program: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if geteuid().is_root() {
        let (user, group) = (format!("--reuid={}", user()), format!("--regid={}", group()));
        words.extend(["setpriv".into(), user.into(), group.into(), "--clear-groups".into()]);
    }
    words.push(program.into());
    words
}

pub(crate) fn give_away(folder: &Path) {
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

/// Connects without TLS: some tests have certificates that no client can use.
async fn connect(address: &str) -> sqlx::Result<PgConnection> {
    let options: PgConnectOptions = address.parse()?;
    PgConnection::connect_with(&options.ssl_mode(PgSslMode::Disable)).await
}
