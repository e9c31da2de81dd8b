//! Connections to Redis servers, and the classes of their errors.
//!
//! The store connects only to a primary: directly, or through a Sentinel that names it. A call has
//! a connection to itself for as long as it runs, and a time-out around it. If a server answers
//! that it takes no commands or no writes at present, the next search begins at another host
//! ([`AWAY`]). After a time-out or a broken connection, the outcome of a script is unknown; this
//! module retries nothing. Tests: tests/store/redis.rs, hosts.rs and outage.rs.

use std::{error::Error, fs};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, ErrorKind, FromRedisValue, RedisError,
    Script, ServerErrorKind, TlsCertificates, aio::MultiplexedConnection, cmd,
};
use tokio::time::timeout;

use super::{
    RedisStore,
    address::{Address, Service},
    keys::Key,
};
use crate::{
    Result, StoreError, StoreSettings,
    error::{Cause, Refusal},
    hosts::{self, Connector, Hosts},
    pool::Pool,
    renewed::Renewed,
    store_id::StoreIdCheck,
    value::Value,
};

/// The error codes of a server that takes no commands, or no writes, at present.
const AWAY: &[&str] =
    &["BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "NOREPLICAS", "READONLY", "TRYAGAIN"];

impl Address {
    async fn connect(&self, server: &ConnectionInfo) -> Result<MultiplexedConnection> {
        // Off, because `call` and `Pool` have time-outs around everything.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let client = match &self.ca_file {
            None => Client::open(server.clone()),
            Some(file) => {
                let root_cert = fs::read(file).map_err(StoreError::unavailable)?;
                let authorities = TlsCertificates { client_tls: None, root_cert: Some(root_cert) };
                Client::build_with_tls(server.clone(), authorities)
            }
        };
        let client = client.map_err(store_error)?;
        let opened = client.get_multiplexed_async_connection_with_config(&config).await;
        opened.map_err(store_error)
    }

    async fn connect_to_primary(&self, server: &ConnectionInfo) -> Result<MultiplexedConnection> {
        let mut connection = self.connect(server).await?;
        match role(&mut connection).await?.as_deref() {
            None | Some("master") => Ok(connection),
            Some("") => Err(StoreError::Unusable(
                "the store is a Redis Sentinel, which keeps no rows: use \
                 redis+sentinel://host/service-name, or the address of the primary"
                    .to_owned(),
            )),
            Some(_) => Err(StoreError::AcceptsNoWrites(
                "it is a replica: name its primary in store.url, or promote it".to_owned(),
            )),
        }
    }

    /// Connects to the primary that a Sentinel names.
    async fn connect_by(
        &self,
        sentinel: &ConnectionInfo,
        service: &Service,
    ) -> Result<MultiplexedConnection> {
        let mut sentinel = self.connect(sentinel).await?;
        let mut question = cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(&service.name);
        let answer = question.query_async::<Option<(String, u16)>>(&mut sentinel).await;
        let Some((host, port)) = answer.map_err(store_error)? else {
            let reason = format!("the Sentinel knows no service {}", service.name);
            return Err(StoreError::unavailable(reason));
        };
        let connected = match service.primary(&host, port) {
            Ok(server) => self.connect_to_primary(&server).await,
            Err(reason) => Err(StoreError::unavailable(reason)),
        };
        connected.map_err(|error| {
            error.at(&format!("the Sentinel names {} as the primary", hosts::name(&host, port)))
        })
    }
}

impl Connector for Address {
    type Connection = MultiplexedConnection;

    fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    async fn open(&self, host: usize) -> Result<MultiplexedConnection> {
        let server = &self.servers[host];
        match &self.service {
            None => self.connect_to_primary(server).await,
            Some(service) => self.connect_by(server, service).await,
        }
    }

    async fn is_alive(&self, connection: &mut MultiplexedConnection) -> bool {
        matches!(role(connection).await.as_ref().map(Option::as_deref), Ok(None | Some("master")))
    }

    async fn close(_: MultiplexedConnection) {}
}

/// Returns a server's role; empty for a Sentinel. `None` if the user may not ask: then only a
/// refused write shows that it is a replica.
async fn role(connection: &mut MultiplexedConnection) -> Result<Option<String>> {
    let info = cmd("INFO").arg("replication").query_async::<String>(connection).await;
    let info = match info {
        Err(error) if is_forbidden(&error) => return Ok(None),
        info => info.map_err(store_error)?,
    };
    let role = info.lines().find_map(|line| line.trim_end().strip_prefix("role:"));
    Ok(Some(role.unwrap_or_default().to_owned()))
}

impl RedisStore {
    pub(crate) fn new(settings: &StoreSettings) -> Result<Self> {
        let address = Renewed::new(settings, Address::read)?;
        let pool = Pool::new(address, settings.max_connections, settings.timeout);
        Ok(Self { settings: settings.clone(), pool, id_check: StoreIdCheck::default() })
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

    /// Runs a command about the server. Returns `None` if the user may not.
    pub(super) async fn command_if_allowed<T: FromRedisValue>(
        &self,
        command: &[&str],
    ) -> Result<Option<T>> {
        match self.send(command).await {
            Err(StoreError::Refused(reason)) if is_forbidden_by(&*reason) => Ok(None),
            answer => answer.map(Some),
        }
    }

    async fn send<T: FromRedisValue>(&self, command: &[&str]) -> Result<T> {
        self.call(async |connection| Cmd::new().arg(command).query_async(connection).await).await
    }

    /// Runs `work` on a connection that no other call uses: a cancelled call closes its connection,
    /// and must not affect others.
    async fn call<T>(
        &self,
        work: impl AsyncFnOnce(&mut MultiplexedConnection) -> Result<T, RedisError>,
    ) -> Result<T> {
        let after = self.settings.timeout;
        let mut checkout = self.pool.checkout().await?;
        let answer = timeout(after, work(&mut checkout.connection)).await;
        let answer = answer.map_err(|_| StoreError::TimedOut { after })?;
        let is_usable = answer.as_ref().err().is_none_or(|error| {
            matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
        });
        let answer = answer.map_err(store_error);
        if answer.as_ref().is_err_and(StoreError::is_of_server) {
            checkout.leave_host();
        } else if is_usable {
            checkout.put_back();
        }
        answer
    }

    /// Returns the answer. An error because a key has another type names that key: another
    /// application uses it.
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

/// Returns whether a command is not allowed for this user, or was renamed away.
fn is_forbidden(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        || error.to_string().contains("unknown command")
}

/// Returns whether this reason of a refusal is that a command is not allowed.
fn is_forbidden_by(reason: &(dyn Error + Send + Sync + 'static)) -> bool {
    let reason = reason.downcast_ref::<Refusal>().map_or(reason, |refusal| &*refusal.reason);
    reason.downcast_ref().is_some_and(is_forbidden)
}

/// Returns the cause of a refusal that the operator can mend.
fn cause(error: &RedisError) -> Option<Cause> {
    match error.code() {
        Some("NOAUTH" | "WRONGPASS" | "NOPERM") => Some(Cause::AccessDenied),
        Some("OOM") => Some(Cause::NoSpace),
        Some("MISCONF") => Some(Cause::DiskFails),
        _ if error.kind() == ErrorKind::AuthenticationFailed => Some(Cause::AccessDenied),
        _ => None,
    }
}

fn store_error(error: RedisError) -> StoreError {
    let text = error.to_string();
    let is_away = error.is_io_error()
        || error.is_connection_dropped()
        || error.kind() == ErrorKind::Parse
        || error.code().is_some_and(|code| AWAY.contains(&code))
        // Older servers put the code of a script's error into its text.
        || text.contains("READONLY")
        || text.contains("max number of clients reached");
    match cause(&error) {
        _ if is_away => StoreError::unavailable(error),
        Some(cause) => StoreError::refused_for(cause, error),
        None => StoreError::Refused(Box::new(error)),
    }
}
