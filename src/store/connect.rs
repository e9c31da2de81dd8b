//! From an address to a store.

use std::{fmt, sync::Arc, time::Duration};

#[cfg(feature = "redis")]
use super::redis;
#[cfg(feature = "sql")]
use super::sql;
use super::{MemoryStore, Store, StoreError};
use crate::core::clock::{Clock, ManualClock};

/// Where the store is and how it is used.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSettings {
    /// `mysql://user:password@host/database`, `postgres://user:password@host/database`,
    /// `redis://user:password@host/0` (`rediss://` with TLS), `sqlite://file` or `memory:`.
    pub url: String,
    /// The table of worker rows; two more tables have this name with `_layout` and
    /// `_migrations`. See [`is_valid_table_name`].
    pub worker_table: String,
    /// The table of segment codes, made when there is a segment namespace; one more table has
    /// this name with `_migrations`.
    pub segment_table: String,
    /// The most connections that are open at once; 2.
    pub max_connections: u32,
    /// How long any one operation may take, connecting included; 3 s.
    pub timeout: Duration,
}

impl StoreSettings {
    /// The defaults, for this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            worker_table: "soc_raindrop_worker".to_owned(),
            segment_table: "soc_raindrop_segment".to_owned(),
            max_connections: 2,
            timeout: Duration::from_secs(3),
        }
    }
}

impl StoreSettings {
    /// The error for an address that cannot be used, without its password.
    pub(super) fn unusable(&self, reason: impl fmt::Display) -> StoreError {
        let address = describe(&self.url);
        StoreError::Unusable(format!("the store's address {address} cannot be used: {reason}"))
    }
}

impl Default for StoreSettings {
    /// A SQLite file in the working directory.
    fn default() -> Self {
        Self::new("sqlite://raindrop.db")
    }
}

impl fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSettings")
            .field("url", &describe(&self.url))
            .field("worker_table", &self.worker_table)
            .field("segment_table", &self.segment_table)
            .field("max_connections", &self.max_connections)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// Whether a table may have this name: `[A-Za-z_][A-Za-z0-9_]{0,47}`.
pub fn is_valid_table_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.len() <= 48
}

/// The address without its password, for logs.
pub fn describe(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    if scheme == "sqlite" {
        return url.to_owned();
    }
    // The last '@', should the password contain one that is not encoded.
    let Some((user, rest)) = rest.rsplit_once('@') else {
        return format!("{scheme}://{}", without_passwords(rest));
    };
    let user = user.split_once(':').map_or(user, |(user, _)| user);
    format!("{scheme}://{user}@{}", without_passwords(rest))
}

/// What follows the user, without parameters such as `password=` and `sslpassword=`.
fn without_passwords(rest: &str) -> String {
    let Some((address, query)) = rest.split_once('?') else { return rest.to_owned() };
    let is_secret = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        name.to_lowercase().contains("pass")
    };
    let shown: Vec<_> = query.split('&').filter(|pair| !is_secret(pair)).collect();
    if shown.is_empty() { address.to_owned() } else { format!("{address}?{}", shown.join("&")) }
}

/// The store at this address. Connects when it is first used: a server that cannot be reached is
/// not an error here.
///
/// `clock` is the clock of `memory:`; the other stores have their own.
///
/// # Errors
///
/// [`StoreError::Unusable`] when the address or another setting cannot be used.
pub async fn connect(
    settings: &StoreSettings,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Store>, StoreError> {
    store(settings, clock)
}

/// Whether [`connect`] can use these settings; it asks no server.
///
/// # Errors
///
/// [`StoreError::Unusable`] when the address or another setting cannot be used.
pub fn check(settings: &StoreSettings) -> Result<(), StoreError> {
    store(settings, Arc::new(ManualClock::new(0))).map(drop)
}

fn store(settings: &StoreSettings, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>, StoreError> {
    let tables = [("worker", &settings.worker_table), ("segment", &settings.segment_table)];
    if let Some((what, name)) = tables.into_iter().find(|(_, name)| !is_valid_table_name(name)) {
        return Err(StoreError::Unusable(format!(
            "{name:?} cannot be the name of the {what} table: it must be a letter or _, then at \
             most 47 letters, digits or _"
        )));
    }
    if settings.worker_table == settings.segment_table {
        return Err(StoreError::Unusable(format!(
            "the worker table and the segment table cannot both be {:?}",
            settings.worker_table
        )));
    }
    if settings.max_connections == 0 || settings.timeout.is_zero() {
        return Err(StoreError::Unusable(
            "the store needs at least one connection and a time-out above zero".to_owned(),
        ));
    }
    let scheme = settings.url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        "memory" if settings.url == "memory:" => Ok(Arc::new(MemoryStore::new(clock))),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(Arc::new(sql::SqlStore::<sql::mysql::MySql>::new(settings)?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            Ok(Arc::new(sql::SqlStore::<sql::postgres::Postgres>::new(settings)?))
        }
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(sql::SqlStore::<sql::sqlite::Sqlite>::new(settings)?)),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => Ok(Arc::new(redis::RedisStore::new(settings)?)),
        _ => Err(settings.unusable(unknown(scheme))),
    }
}

/// Why no store has this scheme.
fn unknown(scheme: &str) -> String {
    let engines: [(&str, bool, &[&str]); 4] = [
        ("MySQL", cfg!(feature = "mysql"), &["mysql", "mariadb"]),
        ("PostgreSQL", cfg!(feature = "postgres"), &["postgres", "postgresql"]),
        ("Redis", cfg!(feature = "redis"), &["redis", "rediss"]),
        ("SQLite", cfg!(feature = "sqlite"), &["sqlite"]),
    ];
    let engine = engines.iter().find(|(.., schemes)| schemes.contains(&scheme));
    let reason = match engine {
        Some((engine, false, _)) => format!("this build is without {engine}"),
        _ => "no such kind of store is known".to_owned(),
    };
    let built = engines.iter().filter(|(_, is_built, _)| *is_built);
    let schemes = built.flat_map(|(.., schemes)| schemes.iter().map(|name| format!(", {name}://")));
    format!("{reason}; it must begin with memory:{}", schemes.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refusal(url: &str) -> String {
        let clock = Arc::new(ManualClock::new(0));
        let error = connect(&StoreSettings::new(url), clock).await.expect_err("unusable");
        assert!(error.is_permanent());
        error.to_string()
    }

    #[test]
    fn table_names_are_plain() {
        for name in ["soc_raindrop_worker", "_", "T1", &"a".repeat(48)] {
            assert!(is_valid_table_name(name), "{name:?}");
        }
        for name in ["", "1a", "a b", "a.b", "a`b", "a\"b", "a-b", "\u{e9}", &"a".repeat(49)] {
            assert!(!is_valid_table_name(name), "{name:?}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let cases = [
            (
                "mysql://u:secret@host:1/db?ssl-mode=REQUIRED",
                "mysql://u@host:1/db?ssl-mode=REQUIRED",
            ),
            ("mysql://u:sec@ret/?@host/db", "mysql://u@host/db"),
            ("mysql://u@host/db", "mysql://u@host/db"),
            ("mysql://host/db", "mysql://host/db"),
            ("redis://:secret@host", "redis://@host"),
            ("rediss://u:secret@host:1/2", "rediss://u@host:1/2"),
            ("postgres://u:secret@host:1/db", "postgres://u@host:1/db"),
            ("postgresql://host/db?user=u&password=secret", "postgresql://host/db?user=u"),
            ("postgres://u@host/db?Password=secret", "postgres://u@host/db"),
            ("sqlite:///data/a:b@c.db", "sqlite:///data/a:b@c.db"),
            ("memory:", "memory:"),
        ];
        for (url, expected) in cases {
            assert_eq!(describe(url), expected);
            assert!(!format!("{:?}", StoreSettings::new(url)).contains("sec"), "{url}");
        }
    }

    #[tokio::test]
    async fn memory_needs_nothing() {
        let clock = Arc::new(ManualClock::new(7));
        let store = connect(&StoreSettings::new("memory:"), clock).await.expect("a store");
        assert!(store.clock_is_local());
    }

    #[tokio::test]
    async fn what_cannot_be_used_is_said() {
        for url in ["", "host/db", "oracle://u:secret@host/db", "memory:x", "mysql:"] {
            let said = refusal(url).await;
            assert!(said.contains("cannot be used"), "{url}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
        assert!(refusal("oracle://host/db").await.contains("it must begin with memory:"));
        let clock = Arc::new(ManualClock::new(0));
        for (worker_table, max_connections) in [("a b", 2), ("a", 0)] {
            let worker_table = worker_table.to_owned();
            let settings =
                StoreSettings { worker_table, max_connections, ..StoreSettings::new("memory:") };
            connect(&settings, clock.clone()).await.expect_err("unusable");
        }
    }

    #[cfg(feature = "mysql")]
    #[tokio::test]
    async fn a_mysql_address_names_a_database() {
        assert!(refusal("mysql://u:secret@host").await.contains("it names no database"));
        assert!(refusal("mysql://u:secret@host:port/db").await.contains("invalid port"));
        for url in ["mysql://u:p@host/db?ssl-mode=VERIFY_CA", "mariadb://host/db"] {
            let clock = Arc::new(ManualClock::new(0));
            let store = connect(&StoreSettings::new(url), clock).await.expect("a store");
            assert!(!store.clock_is_local());
        }
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn a_postgres_address_names_a_database() {
        assert!(refusal("postgres://u:secret@host").await.contains("it names no database"));
        let said = refusal("postgres://u:secret@host:port/db").await;
        assert!(said.contains("invalid port") && !said.contains("secret"), "{said}");
        for url in ["postgres://u:secret@host/db?sslmode=verify-full", "postgresql://host/db"] {
            let clock = Arc::new(ManualClock::new(0));
            let store = connect(&StoreSettings::new(url), clock).await.expect("a store");
            assert!(!store.clock_is_local());
            assert!(!format!("{store:?}").contains("secret"), "{store:?}");
        }
    }

    #[cfg(feature = "redis")]
    #[tokio::test]
    async fn a_redis_address_names_a_host() {
        for url in ["redis://", "redis://u:secret@host:port", "redis://u:secret@host/words"] {
            let said = refusal(url).await;
            assert!(said.contains("cannot be used") && !said.contains("secret"), "{said}");
        }
        for url in ["redis://host", "rediss://u:secret@host:1/2", "redis://:secret@host/0"] {
            let clock = Arc::new(ManualClock::new(0));
            let store = connect(&StoreSettings::new(url), clock).await.expect("a store");
            assert!(!store.clock_is_local());
            assert!(!format!("{store:?}").contains("secret"), "{store:?}");
        }
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_sqlite_address_names_a_writable_file() {
        for url in ["sqlite::memory:", "sqlite://:memory:", "sqlite://a.db?mode=memory"] {
            assert!(refusal(url).await.contains("use memory: instead"), "{url}");
        }
        for url in ["sqlite://", "sqlite:", "sqlite:///", "sqlite://?cache=shared"] {
            assert!(refusal(url).await.contains("it names no file"), "{url}");
        }
        for url in ["sqlite://a.db?mode=ro", "sqlite://a.db?cache=shared&immutable=1"] {
            assert!(refusal(url).await.contains("must be writable"), "{url}");
        }
        for url in ["sqlite://raindrop.db", "sqlite:raindrop.db", "sqlite:///data/a.db?mode=rwc"] {
            let clock = Arc::new(ManualClock::new(0));
            let store = connect(&StoreSettings::new(url), clock).await.expect("a store");
            assert!(store.clock_is_local());
        }
    }
}
