//! The connections to a server, and what its errors mean.

use std::{error::Error, fs, path::PathBuf};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, RedisError,
    Script, ServerErrorKind, TlsCertificates, aio::MultiplexedConnection,
};
use tokio::time::timeout;

use super::{RedisStore, keys::Key};
use crate::store::{
    Result, StoreError, StoreSettings, TlsMode,
    parameters::{self, Parameters, Target},
    pool::{Connector, Pool},
    tls::is_local,
    value::Value,
};

const PARAMETERS: Parameters = Parameters::without_tls(&[]);

/// How to connect to one server.
#[derive(Debug)]
pub(super) struct Server {
    client: Client,
    ca_file: Option<PathBuf>,
    pub(super) is_verified: bool,
}

impl Server {
    fn new(settings: &StoreSettings) -> Result<Self> {
        let Target { mut url, tls, ca_file } = parameters::read(settings, &PARAMETERS)?;
        let has_tls = url.starts_with("rediss:");
        match tls {
            Some(TlsMode::Verify | TlsMode::Require) if !has_tls => {
                return Err(settings.unusable("TLS is chosen, so it must begin with rediss://"));
            }
            Some(TlsMode::Prefer | TlsMode::Off) if has_tls => {
                let reason = "rediss:// is TLS, so store.tls must be \"verify\" or \"require\"";
                return Err(settings.unusable(reason));
            }
            Some(TlsMode::Require) => url += "#insecure",
            _ => {}
        }
        let client = Client::open(url).map_err(|error| settings.unusable(error))?;
        let info = client.get_connection_info();
        let is_local = match info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => is_local(host),
            _ => true,
        };
        let has_password = info.redis_settings().password().is_some();
        if has_password && !has_tls && !is_local && tls != Some(TlsMode::Off) {
            return Err(settings.unusable(
                "redis:// would send the password over the network in clear text: use rediss://, or \
                 store.tls = \"off\" where nobody can listen",
            ));
        }
        if has_tls {
            // The driver takes the process's choice; an application's own one stays.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let is_verified = is_local || has_tls && tls != Some(TlsMode::Require);
        Ok(Self { client, ca_file, is_verified })
    }
}

impl Connector for Server {
    type Connection = MultiplexedConnection;
    type Error = StoreError;

    async fn open(&self) -> Result<MultiplexedConnection> {
        // Our own time-out is around everything; the driver's are others.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let client = match &self.ca_file {
            None => self.client.clone(),
            Some(file) => {
                let root_cert =
                    fs::read(file).map_err(|error| StoreError::Unavailable(error.into()))?;
                let authorities = TlsCertificates { client_tls: None, root_cert: Some(root_cert) };
                let server = self.client.get_connection_info().clone();
                Client::build_with_tls(server, authorities).map_err(store_error)?
            }
        };
        let opened = client.get_multiplexed_async_connection_with_config(&config).await;
        opened.map_err(store_error)
    }

    async fn is_alive(connection: &mut MultiplexedConnection) -> bool {
        redis::cmd("PING").query_async::<String>(connection).await.is_ok()
    }

    async fn close(_: MultiplexedConnection) {}
}

impl RedisStore {
    pub(in crate::store) fn new(settings: &StoreSettings) -> Result<Self> {
        let pool = Pool::new(Server::new(settings)?, settings.max_connections);
        Ok(Self { settings: settings.clone(), pool })
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
        let answer = self.call(async |connection| invocation.invoke_async(connection).await).await;
        self.name_foreign_key(answer, keys).await
    }

    /// Runs a command on one key.
    pub(super) async fn command<T: FromRedisValue>(&self, name: &str, key: &Key) -> Result<T> {
        let answer = self.send(&[name, &key.name]).await;
        self.name_foreign_key(answer, std::slice::from_ref(key)).await
    }

    /// Runs a command about the server. Returns `None` where it is not allowed.
    pub(super) async fn command_if_allowed<T: FromRedisValue>(
        &self,
        command: &[&str],
    ) -> Result<Option<T>> {
        match self.send(command).await {
            Err(StoreError::Refused(error)) if is_forbidden(&*error) => Ok(None),
            answer => answer.map(Some),
        }
    }

    async fn send<T: FromRedisValue>(&self, command: &[&str]) -> Result<T> {
        self.call(async |connection| Cmd::new().arg(command).query_async(connection).await).await
    }

    /// Runs `work` on a connection of its own, so that a cancelled call, which closes the connection,
    /// takes no other along.
    async fn call<T>(
        &self,
        work: impl AsyncFnOnce(&mut MultiplexedConnection) -> Result<T, RedisError>,
    ) -> Result<T> {
        let call = async {
            let mut checkout = self.pool.checkout().await?;
            let answer = work(&mut checkout.connection).await;
            let is_usable = answer.as_ref().err().is_none_or(|error| {
                matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
            });
            if is_usable {
                checkout.put_back();
            }
            answer.map_err(store_error)
        };
        let after = self.settings.timeout;
        timeout(after, call).await.unwrap_or(Err(StoreError::TimedOut { after }))
    }

    /// Returns the answer, or the error: one that names the key if it is somebody else's.
    async fn name_foreign_key<T>(&self, answer: Result<T>, keys: &[Key]) -> Result<T> {
        // Older servers put the code of a script's error into its text.
        if let Err(StoreError::Refused(error)) = &answer
            && error.to_string().contains("WRONGTYPE")
        {
            for key in keys {
                let kind: Option<String> = self.command_if_allowed(&["TYPE", &key.name]).await?;
                if let Some(kind) = kind.filter(|kind| kind != key.kind && kind != "none") {
                    return Err(StoreError::ForeignTable {
                        table: key.name.clone(),
                        difference: format!("it is a {kind}, not a {}", key.kind),
                    });
                }
            }
        }
        answer
    }
}

/// Whether a command is not allowed for this user, or was renamed away.
fn is_forbidden(error: &(dyn Error + 'static)) -> bool {
    let kind = error.downcast_ref().map(RedisError::kind);
    kind == Some(ErrorKind::Server(ServerErrorKind::NoPerm))
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
