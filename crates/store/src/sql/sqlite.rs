//! An embedded SQLite file.
//!
//! Three things differ from a server. The clock is the node's own. There is no session that a proxy
//! could change. And the file can be replaced under a running process:
//! [`Sqlite::check_file`](Engine::check_file) compares the device and inode before each statement,
//! because a restored copy does not know the latest leases. Between two starts, the inode and the
//! creation time are the identity of the history.
//!
//! Durability is asserted: a file that cannot be in WAL mode with `synchronous = FULL` is refused.
//! Only the preparation of the store may create the file. Tests: tests/store/sqlite.rs.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::UNIX_EPOCH,
};

use sqlx::{
    ConnectOptions as _, Connection as _,
    error::DatabaseError,
    sqlite::{
        SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteQueryResult,
        SqliteSynchronous,
    },
};

use super::{
    engine::{Addressed, Answer, Class, Engine, Failure, RunSql as _, Statements, migrations},
    schema::Migrations,
    session::Server,
};
use crate::{
    Result, StoreError, StoreSettings,
    error::Cause,
    hosts::Hosts,
    parameters::{self, Parameters},
    value::values,
};

const PARAMETERS: Parameters = Parameters::without_tls(&["cache", "immutable", "mode", "vfs"]);

/// The text of the statement `session`: there is no proxy between a process and its file.
const SESSION: &str = "this file";

/// How to open one file.
pub(crate) struct Sqlite {
    options: SqliteConnectOptions,
    may_create: AtomicBool,
    /// The file that was opened first. A file that replaces it is another store.
    opened: OnceLock<FileIdentity>,
}

/// The device and inode of a file.
type FileIdentity = (u64, u64);

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<FileIdentity> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

/// On other systems an open file cannot be replaced, so all files are equal here.
#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<FileIdentity> {
    std::fs::metadata(path).map(|_| (0, 0))
}

/// Returns the identity of a file's history. A copy has another inode, or a later creation time.
/// The device is left out: its number may change when the file system is mounted again.
fn history_of(path: &Path) -> String {
    let created = std::fs::metadata(path).and_then(|file| file.created());
    let created = created.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let created_ms = created.unwrap_or_default().as_millis();
    let inode = identity(path).map_or(0, |(_, inode)| inode);
    format!("file {inode} created {created_ms}")
}

/// Finds out why SQLite cannot open a file, or one that it keeps beside it. This function does not
/// open a file that exists: closing it would drop the locks that SQLite holds on it for other
/// connections of this process.
fn check_access(path: &Path, may_create: bool) -> Result<(), (PathBuf, io::Error)> {
    match std::fs::metadata(path) {
        Ok(_) => check_permissions(path),
        Err(error) if may_create && error.kind() == io::ErrorKind::NotFound => {
            std::fs::File::create_new(path).map(drop).map_err(|error| (path.to_owned(), error))
        }
        Err(error) => Err((path.to_owned(), error)),
    }
}

/// Checks that this user may read and write a file, and those beside it that exist. SQLite itself
/// opens a read-only file, and fails at the first write.
#[cfg(unix)]
fn check_permissions(path: &Path) -> Result<(), (PathBuf, io::Error)> {
    use rustix::fs::{Access, access};

    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        match access(&*file, Access::READ_OK | Access::WRITE_OK).map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err((file.into(), error)),
            Ok(()) => {}
        }
    }
    Ok(())
}

#[cfg(not(unix))]
const fn check_permissions(_: &Path) -> Result<(), (PathBuf, io::Error)> {
    Ok(())
}

impl Sqlite {
    fn path(&self) -> String {
        self.options.get_filename().display().to_string()
    }

    /// Explains why the file cannot be opened. SQLite has one text for all reasons, so this asks
    /// the system. Reasons that only the operator can remove are permanent errors.
    fn cannot_open(&self, error: &dyn DatabaseError, may_create: bool) -> Option<StoreError> {
        let path = self.path();
        match primary_code(error) {
            NOT_A_DATABASE => {
                Some(StoreError::Unusable(format!("{path} is not a SQLite database")))
            }
            READ_ONLY => Some(unusable(&path, error.message(), WRITABLE)),
            CANNOT_OPEN => Some(match check_access(self.options.get_filename(), may_create) {
                Ok(()) => StoreError::unavailable(format!("{path}: {}", error.message())),
                Err((file, error)) => no_access(&file.display().to_string(), &error),
            }),
            _ => None,
        }
    }
}

const WRITABLE: &str = "the file, its folder and the files beside it that end in -wal and -shm must be \
                        writable for this user";

/// Returns the error for a file that the system does not let this process open. Reasons that only
/// the operator can remove are permanent errors.
fn no_access(path: &str, error: &io::Error) -> StoreError {
    let advice = match error.kind() {
        io::ErrorKind::NotFound if path.starts_with('~') => {
            "nothing expands the ~: write the whole path"
        }
        io::ErrorKind::NotFound => "its folder must exist: create or mount it first",
        io::ErrorKind::NotADirectory => "a part of the path is a file",
        io::ErrorKind::InvalidFilename => "no file can have this name",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => WRITABLE,
        _ => return StoreError::unavailable(format!("{path}: {error}")),
    };
    unusable(path, &error.to_string(), advice)
}

fn unusable(path: &str, reason: &str, advice: &str) -> StoreError {
    let text = format!("{path} cannot be opened: {reason}; {advice}, or choose another store.url");
    StoreError::Unusable(text)
}

impl Engine for Sqlite {
    type Connection = SqliteConnection;

    const QUOTE: char = '"';
    const SQL: &'static str = include_str!("sqlite.sql");
    const CLOCK_IS_LOCAL: bool = true;
    migrations!("sqlite");

    fn new(settings: &StoreSettings, _: &Statements) -> Result<Addressed<Self>> {
        let url = settings.url.secret();
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let has = |option: &str| query.split('&').any(|given| given == option);
        let refused = if path.ends_with(":memory:") || has("mode=memory") {
            "a SQLite database in memory is gone with its connection; use memory: instead"
        } else if path.trim_start_matches("sqlite:").trim_start_matches('/').is_empty() {
            "it names no file, as in sqlite://raindrop.db"
        } else if has("mode=ro") || has("immutable=1") || has("immutable=true") {
            "the file must be writable"
        } else {
            // There is no connection to protect, so settings of TLS are ignored.
            let plain = StoreSettings { tls: None, tls_ca_file: None, ..settings.clone() };
            let url = parameters::read(&plain, &PARAMETERS)?.url;
            let options: SqliteConnectOptions =
                url.parse().map_err(|error| settings.unusable(error))?;
            let options = options
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                // Shorter than the time-out of the statement, so that SQLite ends its wait first.
                .busy_timeout(settings.timeout / 2);
            let (may_create, opened) = (AtomicBool::new(false), OnceLock::new());
            let engine = Self { options, may_create, opened };
            return Ok(Addressed { engine, hosts: Hosts::default(), is_verified: true });
        };
        Err(settings.unusable(refused))
    }

    fn allow_creation(&self) {
        self.may_create.store(true, Ordering::Relaxed);
    }

    fn check_file(&self) -> Result<()> {
        let Some(opened) = self.opened.get() else { return Ok(()) };
        match identity(self.options.get_filename()) {
            Ok(present) if present == *opened => Ok(()),
            Ok(_) => Err(StoreError::Vanished(format!("{} was replaced", self.path()))),
            Err(error) => Err(StoreError::Vanished(format!("{}: {error}", self.path()))),
        }
    }

    async fn open(&self, _host: usize) -> Result<(SqliteConnection, Server), Failure> {
        let may_create = self.opened.get().is_none() && self.may_create.load(Ordering::Relaxed);
        let path = self.options.get_filename();
        if path.is_dir() {
            let reason = format!("{} is a folder, and must be a file", self.path());
            return Err(StoreError::Unusable(reason).into());
        }
        if !may_create && !path.exists() {
            return Err(StoreError::Vanished(format!("{} does not exist", self.path())).into());
        }
        if let Err((file, error)) = check_permissions(path) {
            return Err(no_access(&file.display().to_string(), &error).into());
        }
        let options = self.options.clone().create_if_missing(may_create);
        let mut connection = options.connect().await.map_err(|error| match &error {
            sqlx::Error::Database(refusal) => {
                let found = self.cannot_open(refusal.as_ref(), may_create);
                found.map_or(Failure::Sql(error), Failure::Store)
            }
            _ => Failure::Sql(error),
        })?;
        // SQLite reports no error for a setting that it cannot apply, so read them back.
        let sql = "SELECT journal_mode, synchronous FROM pragma_journal_mode, pragma_synchronous";
        let settings = connection.run(sql, &[]).await?.into_row();
        if settings != values!["wal", 2_i64] {
            return Err(StoreError::Unusable(format!(
                "{} cannot be made durable: journal_mode and synchronous should be WAL and FULL \
                 but are {settings:?}; it must be on a local file system",
                self.path()
            ))
            .into());
        }
        if let Ok(present) = identity(path) {
            self.opened.get_or_init(|| present);
        }
        let server = Server { session: SESSION.to_owned(), identity: history_of(path) };
        Ok((connection, server))
    }

    async fn migrate(
        &self,
        connection: &mut SqliteConnection,
        migrations: &Migrations,
    ) -> Result<(), Failure> {
        // Takes the write lock at once: one node after the other, all or nothing.
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        migrations.apply(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    fn class(error: &dyn DatabaseError) -> Class {
        match primary_code(error) {
            BUSY | LOCKED => Class::Retry,
            INPUT_OUTPUT | CANNOT_OPEN => Class::Unavailable,
            FULL => Class::RefusedFor(Cause::NoSpace),
            _ if error.message().starts_with("no such table") => Class::Vanished,
            _ => Class::Refused,
        }
    }
}

const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const READ_ONLY: i32 = 8;
const INPUT_OUTPUT: i32 = 10;
const FULL: i32 = 13;
const CANNOT_OPEN: i32 = 14;
const NOT_A_DATABASE: i32 = 26;

/// Returns the primary result code, without its details.
fn primary_code(error: &dyn DatabaseError) -> i32 {
    error.code().and_then(|code| code.parse::<i32>().ok()).map_or(0, |code| code & 0xff)
}

impl From<SqliteQueryResult> for Answer {
    fn from(result: SqliteQueryResult) -> Self {
        Self { matched: result.rows_affected(), ..Self::default() }
    }
}
