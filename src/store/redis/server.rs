//! The connections to a server, and what its errors mean.

use std::time::Duration;

use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError, Script,
    ServerErrorKind, aio::MultiplexedConnection,
};
use tokio::time::timeout;

use super::keys::Key;
use crate::store::{
    Result, StoreError, StoreSettings,
    pool::{Connector, Pool},
    value::Value,
};

/// The connections to one server.
pub(super) struct Server {
    pool: Pool<Opener>,
    timeout: Duration,
}

/// Opens connections. One call at a time uses a connection, so that a cancelled call takes no
/// other along.
struct Opener(Client);

impl Connector for Opener {
    type Connection = MultiplexedConnection;
    type Error = StoreError;

    async fn open(&self) -> Result<MultiplexedConnection> {
        // Our own time-out is around everything; the driver's are others.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let opened = self.0.get_multiplexed_async_connection_with_config(&config).await;
        opened.map_err(store_error)
    }

    async fn is_alive(connection: &mut MultiplexedConnection) -> bool {
        redis::cmd("PING").query_async::<String>(connection).await.is_ok()
    }

    async fn close(_: MultiplexedConnection) {}
}

impl Server {
    pub(super) fn new(settings: &StoreSettings) -> Result<Self> {
        let client =
            Client::open(settings.url.as_str()).map_err(|error| settings.unusable(error))?;
        if settings.url.starts_with("rediss:") {
            // The driver takes the process's choice; an application's own one stays.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let pool = Pool::new(Opener(client), settings.max_connections);
        Ok(Self { pool, timeout: settings.timeout })
    }

    /// Runs a script.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[Key],
        args: &[Value],
    ) -> Result<T> {
        let mut invocation = script.prepare_invoke();
        for key in keys {
            invocation.key(&key.name);
        }
        for arg in args {
            invocation.arg(arg);
        }
        let invocation = &invocation;
        let answer = self.call(async |connection| invocation.invoke_async(connection).await);
        self.explain(answer.await?, keys).await
    }

    /// Runs a command on one key.
    pub(super) async fn command<T: FromRedisValue>(&self, name: &str, key: &Key) -> Result<T> {
        let answer = self.send(&[name, &key.name]).await?;
        self.explain(answer, std::slice::from_ref(key)).await
    }

    /// Runs a command about the server. Returns `None` where it is not allowed.
    pub(super) async fn command_if_allowed<T: FromRedisValue>(
        &self,
        command: &[&str],
    ) -> Result<Option<T>> {
        match self.send(command).await? {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if is_forbidden(&error) => Ok(None),
            Err(error) => Err(store_error(error)),
        }
    }

    /// Closes the idle connections and opens no more.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    async fn send<T: FromRedisValue>(&self, command: &[&str]) -> Result<Result<T, RedisError>> {
        self.call(async |connection| Cmd::new().arg(command).query_async(connection).await).await
    }

    /// Runs `work` on a connection and returns the server's answer. A cancelled call closes its
    /// connection.
    async fn call<T>(
        &self,
        work: impl AsyncFnOnce(&mut MultiplexedConnection) -> Result<T, RedisError>,
    ) -> Result<Result<T, RedisError>> {
        let call = async {
            let mut checkout = self.pool.checkout().await?;
            let answer = work(&mut checkout.connection).await;
            let is_usable = answer.as_ref().err().is_none_or(|error| {
                matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
            });
            if is_usable {
                checkout.put_back();
            }
            Ok(answer)
        };
        let timed_out = StoreError::TimedOut { after: self.timeout };
        timeout(self.timeout, call).await.unwrap_or(Err(timed_out))
    }

    /// Returns the answer, or the error; if a key is somebody else's, the error names it.
    async fn explain<T>(&self, answer: Result<T, RedisError>, keys: &[Key]) -> Result<T> {
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        // Older servers put the code of a script's error into its text.
        if error.to_string().contains("WRONGTYPE") {
            for key in keys {
                let kind: Option<String> = self.command_if_allowed(&["TYPE", &key.name]).await?;
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
        }
        Err(store_error(error))
    }
}

/// Whether a command is not allowed for this user, or was renamed away.
fn is_forbidden(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::NoPerm))
        || error.to_string().contains("unknown command")
}

fn store_error(error: RedisError) -> StoreError {
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
