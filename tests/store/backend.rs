//! The databases that a test runs on.

use std::{sync::Arc, time::Duration};

use raindrop::{
    core::{
        clock::SystemClock,
        lease::{HighWaterMarks, History, NodeTimes, Row, RowExpiry, RowWrite, Token},
    },
    store::{
        Failover, LayoutRecord, MemoryStore, NewRows, Scope, Store, StoreError, StoreSettings,
        connect,
    },
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection};
use tempfile::TempDir;

use crate::support::{
    kubernetes::Kubernetes,
    mariadb::Mariadb,
    postgres::Postgres,
    redis::Redis,
    server::{Engine as _, Server},
};

/// Long enough for a busy machine; the tests that measure a time-out set another.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
/// For locks and leases that must not expire during a test.
pub(crate) const HOUR: Duration = Duration::from_hours(1);

/// One empty database.
#[derive(Debug)]
pub(crate) enum Backend {
    Memory(Arc<MemoryStore>),
    Sqlite(TempDir),
    Mariadb(String),
    Postgres(String),
    Redis(String),
    Kubernetes(String),
}

impl Backend {
    pub(crate) async fn memory() -> Self {
        Self::Memory(Arc::new(MemoryStore::new(Arc::new(SystemClock::default()))))
    }

    pub(crate) async fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) async fn mariadb() -> Self {
        Self::Mariadb(Server::shared(&Mariadb).await.database().await)
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Server::shared(&Postgres).await.database().await)
    }

    pub(crate) async fn redis() -> Self {
        Self::Redis(Server::shared(&Redis).await.database().await)
    }

    pub(crate) async fn kubernetes() -> Self {
        Self::Kubernetes(Server::shared(&Kubernetes).await.database().await)
    }

    /// Returns the part of a time that the store's clock leaves out.
    pub(crate) fn resolution_ms(&self) -> i64 {
        if matches!(self, Self::Kubernetes(_)) { 1_000 } else { 0 }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Memory(_) => "memory:".to_owned(),
            Self::Sqlite(folder) => format!("sqlite://{}", folder.path().join("a.db").display()),
            Self::Mariadb(url) | Self::Postgres(url) | Self::Redis(url) | Self::Kubernetes(url) => {
                url.clone()
            }
        }
    }

    pub(crate) fn settings(&self) -> StoreSettings {
        patient(self.url())
    }

    /// Opens one more store on the database, as another node does; the tables may be missing.
    pub(crate) async fn unprepared(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => store.clone(),
            _ => open(&self.settings()).await,
        }
    }

    /// Opens one more store on the database.
    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        let store = self.unprepared().await;
        store.prepare().await.expect("the tables are made");
        store
    }

    /// Opens a store on the database that compares no identities; memory never fails over.
    pub(crate) async fn lossless(&self) -> Option<Arc<dyn Store>> {
        if let Self::Memory(_) = self {
            return None;
        }
        let mut settings = self.settings();
        settings.failover = Failover::Lossless;
        let store = open(&settings).await;
        store.prepare().await.expect("the tables are made");
        Some(store)
    }

    /// Runs a statement, as a person with a SQL console does.
    pub(crate) async fn run(&self, sql: &str) {
        match self {
            Self::Sqlite(_) => {
                let url = format!("{}?mode=rwc", self.url());
                let mut connection = SqliteConnection::connect(&url).await.expect("the file");
                connection.execute(AssertSqlSafe(sql)).await.expect(sql);
                connection.close().await.expect("a polite end");
            }
            Self::Mariadb(url) => Mariadb.run(url, sql).await,
            Self::Postgres(url) => Postgres.run(url, sql).await,
            _ => panic!("it speaks no SQL"),
        }
    }

    /// Returns the texts in the first column.
    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        match self {
            Self::Sqlite(_) => {
                let mut connection = SqliteConnection::connect(&self.url()).await.expect("a file");
                let query = sqlx::query_scalar(AssertSqlSafe(sql));
                query.fetch_all(&mut connection).await.expect("texts")
            }
            Self::Mariadb(url) => Mariadb.texts(url, sql).await,
            Self::Postgres(url) => Postgres.texts(url, sql).await,
            _ => panic!("it speaks no SQL"),
        }
    }

    /// Returns a column's value as text, in SQL.
    pub(crate) fn as_text(&self, column: &str) -> String {
        let kind = if let Self::Postgres(_) = self { "TEXT" } else { "CHAR" };
        format!("CAST({column} AS {kind})")
    }

    /// Returns the names of all tables, in order.
    pub(crate) async fn tables(&self) -> Vec<String> {
        let sql = match self {
            Self::Sqlite(_) => "SELECT name FROM sqlite_schema WHERE type = 'table'",
            Self::Postgres(_) => {
                "SELECT CAST(table_name AS TEXT) FROM information_schema.tables \
                 WHERE table_schema = current_schema()"
            }
            _ => {
                "SELECT CAST(table_name AS CHAR) FROM information_schema.tables \
                 WHERE table_schema = DATABASE()"
            }
        };
        let mut tables = self.texts(sql).await;
        tables.sort();
        tables
    }
}

pub(crate) async fn open(settings: &StoreSettings) -> Arc<dyn Store> {
    let clock = Arc::new(SystemClock::default());
    connect(settings, clock).expect("usable settings")
}

pub(crate) fn scope(min_worker: u64, max_worker: u64) -> Scope {
    Scope {
        namespace: "default".to_owned(),
        reserved_key: "0/0".to_owned(),
        min_worker,
        max_worker,
    }
}

pub(crate) fn token(bits: u128) -> Token {
    Token::from_bits(bits)
}

/// The seed of the rows that [`create_rows`] creates.
pub(crate) const BIRTHS: u128 = 0xb1 << 120;

/// Returns the token that [`create_rows`] gives the row of this worker.
pub(crate) fn birth(worker: u64) -> Token {
    token(BIRTHS + u128::from(worker))
}

/// Returns new rows with the tokens that [`birth`] names, decided on this record.
pub(crate) fn new_rows(marks: &HighWaterMarks, record: Token) -> NewRows {
    NewRows { marks: marks.clone(), seed: token(BIRTHS), record, until_ms: i64::MAX }
}

/// Returns the record that [`create_rows`] writes if there is none.
pub(crate) fn rows_record() -> LayoutRecord {
    record(0xec0, "rows")
}

/// Creates the missing rows of a scope, each with the token that [`birth`] names, and the
/// namespace's record if that is missing.
pub(crate) async fn create_rows(
    store: &Arc<dyn Store>,
    scope: &Scope,
    marks: &HighWaterMarks,
) -> Result<(), StoreError> {
    let record = store.create_record(&scope.namespace, &rows_record()).await?;
    let is_filled = store.create_rows(scope, &new_rows(marks, record.token)).await?;
    assert!(is_filled, "the record did not change");
    Ok(())
}

/// The epoch of [`record`].
pub(crate) const EPOCH: Token = Token::from_bits(0xe0);

/// Returns a record as a first start writes it, with this token, and without the identity of a
/// server.
pub(crate) fn record(bits: u128, words: &str) -> LayoutRecord {
    LayoutRecord::new(words, token(bits), 0, History::first("", EPOCH, NodeTimes::default()))
}

/// Returns a write that sets this token and holds the row for an hour.
pub(crate) fn write(bits: u128) -> RowWrite {
    RowWrite {
        token: token(bits),
        epoch: EPOCH,
        holder: "10.0.0.1:8080#02:42:ac:11:00:02".to_owned(),
        lane: 1,
        marks: HighWaterMarks::all_at(7, 2),
        expiry: RowExpiry::After(HOUR),
    }
}

/// Returns settings for a busy machine.
pub(crate) fn patient(url: impl Into<String>) -> StoreSettings {
    let mut settings = StoreSettings::new(url);
    settings.timeout = TIMEOUT;
    settings
}

/// Returns a write that sets this token and frees the row.
pub(crate) fn release(bits: u128) -> RowWrite {
    RowWrite { expiry: RowExpiry::Released, ..write(bits) }
}

/// Returns a store with the free rows of a scope.
pub(crate) async fn with_rows(backend: &Backend, scope: &Scope) -> Arc<dyn Store> {
    let store = backend.store().await;
    create_rows(&store, scope, &HighWaterMarks::all_at(0, 2)).await.expect("rows");
    store
}

/// Returns the worker ids of rows, in their order.
pub(crate) fn workers(rows: &[Row]) -> Vec<u64> {
    rows.iter().map(|row| row.worker).collect()
}
