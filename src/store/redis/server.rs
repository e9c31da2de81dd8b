//! The connection to a server, what its errors mean, and whether it can be trusted.

use std::{fmt, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, RedisError, Script, ServerErrorKind,
    aio::MultiplexedConnection, cmd,
};
use tokio::time::timeout;

use super::keys::Key;
use crate::store::{
    StoreError, StoreSettings, describe,
    pool::{Lent, Pool, Pooled},
};

/// The connections to one server.
pub(super) struct Server {
    client: Client,
    pool: Pool<Connection>,
    timeout: Duration,
}

impl fmt::Debug for Server {
    /// The client would show the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.client.get_connection_info().addr().to_string();
        f.debug_struct("Server").field("address", &address).finish_non_exhaustive()
    }
}

/// Used by one call at a time, so that a call that is given up takes no other along.
struct Connection(MultiplexedConnection);

impl Pooled for Connection {
    async fn is_alive(&mut self) -> bool {
        cmd("PING").query_async::<String>(&mut self.0).await.is_ok()
    }

    async fn close(self) {}
}

/// Why a call failed.
#[derive(Debug)]
enum Failure {
    Redis(RedisError),
    Store(StoreError),
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Server {
    pub(super) fn new(settings: &StoreSettings) -> Result<Self, StoreError> {
        let unusable = |reason: &dyn fmt::Display| {
            let address = describe(&settings.url);
            StoreError::Unusable(format!("the store's address {address} cannot be used: {reason}"))
        };
        let client = Client::open(settings.url.as_str()).map_err(|error| unusable(&error))?;
        if settings.url.starts_with("rediss:") {
            // The driver takes the process's choice; an application's own one stays.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        Ok(Self { client, pool: Pool::new(settings.max_connections), timeout: settings.timeout })
    }

    /// Runs a script.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[Key],
        args: &[&str],
    ) -> Result<T, StoreError> {
        let mut invocation = script.prepare_invoke();
        for key in keys {
            invocation.key(&key.name);
        }
        for arg in args {
            invocation.arg(*arg);
        }
        let invocation = &invocation;
        let answer = self
            .within_the_timeout(async |connection| invocation.invoke_async(connection).await)
            .await;
        self.explain(answer, keys).await
    }

    /// Runs a command; the key that it is about comes first.
    pub(super) async fn command<T: FromRedisValue>(
        &self,
        name: &str,
        key: &Key,
    ) -> Result<T, StoreError> {
        let answer = self
            .within_the_timeout(async |connection| {
                cmd(name).arg(&key.name).query_async(connection).await
            })
            .await;
        self.explain(answer, std::slice::from_ref(key)).await
    }

    /// Runs a command about the server; nothing where it is not allowed.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        words: &[&str],
    ) -> Result<Option<T>, StoreError> {
        let answer = self
            .within_the_timeout(async |connection| {
                let mut command = cmd(words.first().copied().unwrap_or_default());
                for word in words.iter().skip(1) {
                    command.arg(*word);
                }
                command.query_async(connection).await
            })
            .await;
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(Failure::Redis(error)) if is_forbidden(&error) => Ok(None),
            Err(failure) => Err(store_error(failure)),
        }
    }

    /// Closes what is idle; what is in use is closed when it comes back.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// A call that is given up closes its connection.
    async fn within_the_timeout<T>(
        &self,
        work: impl AsyncFnOnce(&mut MultiplexedConnection) -> Result<T, RedisError>,
    ) -> Result<T, Failure> {
        let call = async {
            let mut lent = self.pool.lend(|| self.open()).await?;
            let answer = work(&mut lent.connection.0).await;
            Ok(settle(lent, answer)?)
        };
        match timeout(self.timeout, call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(StoreError::TimedOut { after: self.timeout }.into()),
        }
    }

    async fn open(&self) -> Result<Connection, Failure> {
        // Our own time-out is around everything; the driver's are others.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        Ok(Connection(self.client.get_multiplexed_async_connection_with_config(&config).await?))
    }

    /// Finds the key that is somebody else's, where that was the reason.
    async fn explain<T>(&self, answer: Result<T, Failure>, keys: &[Key]) -> Result<T, StoreError> {
        match answer {
            Ok(answer) => Ok(answer),
            // Older servers put the code of a script's error into its text.
            Err(Failure::Redis(error)) if error.to_string().contains("WRONGTYPE") => {
                for key in keys {
                    let kind: Option<String> = self.ask(&["TYPE", &key.name]).await?;
                    if let Some(kind) = kind
                        && kind != key.kind
                        && kind != "none"
                    {
                        return Err(StoreError::ForeignTable {
                            table: key.name.clone(),
                            difference: format!("it is a {kind}, not a {}", key.kind),
                        });
                    }
                }
                Err(store_error(error.into()))
            }
            Err(failure) => Err(store_error(failure)),
        }
    }
}

/// Gives the connection back if it can be used further.
fn settle<T>(lent: Lent<'_, Connection>, answer: Result<T, RedisError>) -> Result<T, RedisError> {
    let is_usable = match &answer {
        Ok(_) => true,
        Err(error) => matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension),
    };
    if is_usable {
        lent.give_back();
    }
    answer
}

/// Not allowed for this user, or renamed away.
fn is_forbidden(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::NoPerm))
        || error.to_string().contains("unknown command")
}

fn store_error(failure: Failure) -> StoreError {
    let error = match failure {
        Failure::Store(error) => return error,
        Failure::Redis(error) => error,
    };
    let is_away = error.is_io_error()
        || error.is_connection_dropped()
        || error.kind() == ErrorKind::Parse
        || matches!(
            error.code(),
            Some("LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN")
        )
        || error.to_string().contains("max number of clients reached");
    if is_away {
        StoreError::Unavailable(Box::new(error))
    } else {
        StoreError::Refused(Box::new(error))
    }
}
