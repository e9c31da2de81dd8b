//! From an address to a store.

use std::{fmt, sync::Arc, time::Duration};

#[cfg(any(feature = "mysql", feature = "sqlite"))]
use super::sql;
use super::{MemoryStore, Store, StoreError};
use crate::core::clock::Clock;

/// Where the store is and how it is used.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSettings {
    /// `mysql://user:password@host/database`, `sqlite://file` or `memory:`.
    pub url: String,
    /// The table of worker rows; two more tables have this name with `_layout` and
    /// `_migrations`. See [`is_valid_table_name`].
    pub worker_table: String,
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
            max_connections: 2,
            timeout: Duration::from_secs(3),
        }
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
    let Some((user, rest)) = rest.rsplit_once('@') else { return url.to_owned() };
    let user = user.split_once(':').map_or(user, |(user, _)| user);
    format!("{scheme}://{user}@{rest}")
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
    if !is_valid_table_name(&settings.worker_table) {
        return Err(StoreError::Unusable(format!(
            "{:?} cannot be the name of the worker table: it must be a letter or _, then at most \
             47 letters, digits or _",
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
        "mysql" | "mariadb" => sql::mysql(settings),
        #[cfg(feature = "sqlite")]
        "sqlite" => sql::sqlite(settings),
        "mysql" | "mariadb" | "sqlite" => Err(unknown(
            &settings.url,
            &format!(
                "this build of Raindrop was made without its feature {:?}",
                match scheme {
                    "sqlite" => "sqlite",
                    _ => "mysql",
                }
            ),
        )),
        _ => Err(unknown(&settings.url, "no such kind of store is known")),
    }
}

fn unknown(url: &str, reason: &str) -> StoreError {
    let mut allowed = vec!["memory:"];
    if cfg!(feature = "mysql") {
        allowed.push("mysql://");
    }
    if cfg!(feature = "sqlite") {
        allowed.push("sqlite://");
    }
    StoreError::Unusable(format!(
        "the store's address {} cannot be used: {reason}; it must begin with {}",
        describe(url),
        allowed.join(", "),
    ))
}
