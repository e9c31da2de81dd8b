//! Store settings, and the choice of the engine by the address.
//!
//! [`connect`] checks all that can be checked without a server: names of tables, limits, and the
//! address with its parameters. So a mistake ends a start at once, and names the setting. It opens
//! no connection: a server that cannot be reached is an error of the first call, which the keeper
//! retries. [`check`] does the same for `raindrop config`. An error shows the address without its
//! password.
//!
//! A new engine is a line in `KINDS`. Tests: connect/tests.rs.

#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use raindrop_core::{
    clock::{Clock, ManualClock},
    lease::Token,
};

#[cfg(feature = "kubernetes")]
use super::kubernetes;
#[cfg(feature = "redis")]
use super::redis;
#[cfg(feature = "sql")]
use super::sql::{self, SqlStore};
use super::{
    MemoryStore, Result, Store, StoreError, StoreUrl, TlsMode, UrlSource,
    address::{escaping_hint, has_torn_password},
};

/// The address of a store, and how to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// `mysql://user:password@host/database`, `postgres://user:password@host/database`,
    /// `redis://user:password@host/0` (`rediss://` with TLS), `kubernetes:`, `sqlite://file` or
    /// `memory:`. In place of one host there may be several, separated by commas: the one that
    /// accepts writes is used. `redis+sentinel://user:password@host/service-name/0` names the
    /// Sentinels of a service instead (`rediss+sentinel://` with TLS).
    pub url: StoreUrl,
    /// Reads the address again for each login at a database or Redis, because its password may be
    /// rotated. An address with other hosts than at the start is not used.
    pub url_source: Option<UrlSource>,
    /// The table of worker rows, `soc_raindrop_worker` by default. Two more tables add `_layout`
    /// and `_migrations` to this name. See [`is_valid_table_name`].
    pub worker_table: String,
    /// The table of segment codes, `soc_raindrop_segment` by default, created when there is a
    /// segment namespace. One more table adds `_migrations` to this name.
    pub segment_table: String,
    /// The id that the store must have, as [`store_id`](super::store_id()) returns it; by default
    /// it may be any store.
    pub id: Option<Token>,
    /// The most connections that are open at once; 2 by default.
    pub max_connections: u32,
    /// How long a statement may take; 3 s by default. Connecting and logging in, which takes
    /// several round trips, may take three times as long.
    pub timeout: Duration,
    /// How connections to a server are protected. By default the address decides (`sslmode`,
    /// `ssl-mode`, `rediss://`), and without such a parameter [`TlsMode::Prefer`]. `sqlite:` and
    /// `memory:` have no connection to protect.
    pub tls: Option<TlsMode>,
    /// A PEM file of authorities for [`TlsMode::Verify`], read for each connection. Without it,
    /// MySQL and PostgreSQL use Mozilla's list, and Redis the system's.
    pub tls_ca_file: Option<PathBuf>,
    /// Whether a fail-over may lose acknowledged writes; [`Failover::Auto`] by default.
    pub failover: Failover,
    /// The age at which a session of a SQL database checks again which server it is on and how that
    /// is configured; 10 s by default. It should not exceed the `max_clock_skew` of leases.
    pub session_max: Duration,
}

/// Whether a fail-over of the store may lose acknowledged writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failover {
    /// A fail-over may lose writes. Nodes compare the identity of the server, and after a fail-over
    /// lease beyond everything that may have been lost.
    #[default]
    Auto,
    /// A fail-over never loses writes: replication is synchronous, or all servers are one cluster.
    /// Identities are not compared.
    Lossless,
}

impl Failover {
    /// Every value.
    pub const ALL: [Self; 2] = [Self::Auto, Self::Lossless];

    /// Returns its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Lossless => "lossless",
        }
    }

    /// Returns the value with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|failover| failover.name() == name)
    }
}

impl StoreSettings {
    /// Creates the default settings for an address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: StoreUrl::new(url),
            url_source: None,
            worker_table: "soc_raindrop_worker".to_owned(),
            segment_table: "soc_raindrop_segment".to_owned(),
            id: None,
            max_connections: 2,
            timeout: Duration::from_secs(3),
            tls: None,
            tls_ca_file: None,
            failover: Failover::Auto,
            session_max: Duration::from_secs(10),
        }
    }

    /// Returns how long a call of a store on a network may take: opening a connection (three
    /// time-outs), and at most three statements, each on a connection that is checked first.
    #[cfg(any(feature = "kubernetes", feature = "redis", feature = "sql"))]
    pub(super) fn longest_call(&self) -> Duration {
        self.timeout * 8
    }

    /// Returns the error for an address that cannot be used, without its password.
    pub(super) fn unusable(&self, reason: impl fmt::Display) -> StoreError {
        let hint = escaping_hint(self.url.secret());
        let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
        let text = format!("the store's address {} cannot be used: {reason}{hint}", self.url);
        StoreError::Unusable(text)
    }
}

impl Default for StoreSettings {
    /// A SQLite file in the working directory.
    fn default() -> Self {
        Self::new("sqlite://raindrop.db")
    }
}

/// Returns whether a table may have this name: `[A-Za-z_][A-Za-z0-9_]{0,47}`.
pub fn is_valid_table_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.len() <= 48
}

/// Refuses a name that is not valid for a table; `what` names the table.
pub(super) fn check_table_name(what: &str, name: &str) -> Result<()> {
    if is_valid_table_name(name) {
        return Ok(());
    }
    Err(StoreError::Unusable(format!(
        "{name:?} cannot be the name of {what}: it must be a letter or _, then at most 47 letters, \
         digits or _"
    )))
}

/// Creates the store at an address. It connects at its first use, so an unreachable server is no
/// error here.
pub fn connect(settings: &StoreSettings, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    check_table_name("the worker table", &settings.worker_table)?;
    check_table_name("the segment table", &settings.segment_table)?;
    let unusable = |reason| Err(StoreError::Unusable(reason));
    if settings.worker_table == settings.segment_table {
        let name = &settings.worker_table;
        return unusable(format!("the worker table and the segment table cannot both be {name:?}"));
    }
    if settings.max_connections == 0 || settings.timeout.is_zero() {
        let needed = "the store needs at least one connection and a time-out above zero";
        return unusable(needed.to_owned());
    }
    let url = settings.url.secret();
    if settings.url.is_memory() {
        return Ok(Arc::new(MemoryStore::new(clock)));
    }
    if settings.url.sqlite_file().is_none() && has_torn_password(url) {
        return Err(settings.unusable(
            "an @ stands behind the host; in the name of a database it must be written as %40",
        ));
    }
    let kind = KINDS.iter().find(|kind| kind.begins.iter().any(|begin| url.starts_with(begin)));
    match kind {
        Some(Kind { connect: Some(connect), .. }) => connect(settings),
        Some(Kind { name, connect: None, .. }) => {
            Err(settings.unusable(beginnings(&format!("this build is without {name}"))))
        }
        None => Err(settings.unusable(beginnings("this kind of store is unknown"))),
    }
}

/// Checks the settings as [`connect`] does, with the same errors.
pub fn check(settings: &StoreSettings) -> Result<()> {
    connect(settings, Arc::new(ManualClock::new(0))).map(drop)
}

/// Appends to a reason the ways in which an address can begin.
fn beginnings(reason: &str) -> String {
    let built = KINDS.iter().filter(|kind| kind.connect.is_some());
    let begins = built.flat_map(|kind| kind.begins).map(|begin| format!(", {begin}"));
    format!("{reason}; it must begin with memory:{}", begins.collect::<String>())
}

type Connect = fn(&StoreSettings) -> Result<Arc<dyn Store>>;

/// A kind of store, chosen by the beginning of the address.
struct Kind {
    name: &'static str,
    /// How its addresses begin. The two slashes are required: drivers take
    /// `mysql:/user:password@host/ids` for a database on this machine.
    begins: &'static [&'static str],
    /// `None` in a build without this feature.
    connect: Option<Connect>,
}

/// Defines a kind by its Cargo feature, name, address beginnings and store.
macro_rules! kind {
    ($feature:literal, $name:literal, $begins:expr, $store:ty) => {
        Kind {
            name: $name,
            begins: &$begins,
            #[cfg(feature = $feature)]
            connect: Some(|settings| Ok(Arc::new(<$store>::new(settings)?))),
            #[cfg(not(feature = $feature))]
            connect: None,
        }
    };
}

const KINDS: [Kind; 5] = [
    kind!("mysql", "MySQL", ["mysql://", "mariadb://"], SqlStore<sql::mysql::MySql>),
    kind!(
        "postgres",
        "PostgreSQL",
        ["postgres://", "postgresql://"],
        SqlStore<sql::postgres::Postgres>
    ),
    kind!(
        "redis",
        "Redis",
        ["redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://"],
        redis::RedisStore
    ),
    kind!("sqlite", "SQLite", ["sqlite:"], SqlStore<sql::sqlite::Sqlite>),
    kind!("kubernetes", "Kubernetes", ["kubernetes:"], kubernetes::KubernetesStore),
];
