//! Parses the addresses of Redis servers and Sentinels, and decides whether a password may be sent
//! to them.

use std::path::PathBuf;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisConnectionInfo};

use crate::{
    Result, StoreSettings, TlsMode,
    hosts::{self, Hosts},
    parameters::{self, Parameters, Target},
    tls::{choose_cryptography, is_local},
};

const PARAMETERS: Parameters = Parameters::without_tls(&[]);
const SENTINEL_PARAMETERS: Parameters =
    Parameters::without_tls(&["sentinel-password", "sentinel-user"]);

const SENTINEL_PORT: u16 = 26379;

/// The servers of an address, with the settings of TLS.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) hosts: Hosts,
    /// How to connect to each host: a Redis server, or a Sentinel of the service.
    pub(super) servers: Vec<ConnectionInfo>,
    pub(super) service: Option<Service>,
    pub(super) ca_file: Option<PathBuf>,
    /// Whether no other server on the network can pose as the store.
    pub(super) is_verified: bool,
}

/// A service whose primary the Sentinels name.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: String,
    /// The user, password and database at the primary.
    login: RedisConnectionInfo,
    tls: Option<TlsMode>,
    has_tls: bool,
}

impl Address {
    pub(super) fn read(settings: &StoreSettings) -> Result<Self> {
        let is_sentinel = has_sentinel(settings.url.secret());
        let parameters = if is_sentinel { &SENTINEL_PARAMETERS } else { &PARAMETERS };
        let Target { url, tls, ca_file } = parameters::read(settings, parameters)?;
        let has_tls = url.starts_with("rediss");
        match tls {
            Some(TlsMode::Verify | TlsMode::Require) if !has_tls => {
                let kind = if is_sentinel { "+sentinel" } else { "" };
                let reason = format!("TLS is chosen, so it must begin with rediss{kind}://");
                return Err(settings.unusable(reason));
            }
            Some(TlsMode::Prefer | TlsMode::Off) if has_tls => {
                let reason = "rediss:// is TLS, so store.tls must be \"verify\" or \"require\"";
                return Err(settings.unusable(reason));
            }
            _ => {}
        }
        let (mut servers, service) = if is_sentinel {
            let (sentinels, service) = read_service(settings, &url, tls, has_tls)?;
            (sentinels, Some(service))
        } else {
            (hosts::parse::<ConnectionInfo>(settings, &url, &[])?, None)
        };
        let is_local = servers.iter().all(|server| is_local(host_of(server.addr()).0));
        let logins = servers.iter().map(ConnectionInfo::redis_settings);
        let mut logins = logins.chain(service.as_ref().map(|service| &service.login));
        let has_password = logins.any(|login| login.password().is_some());
        if has_password && !has_tls && !is_local && tls != Some(TlsMode::Off) {
            return Err(settings.unusable(CLEAR_TEXT));
        }
        let mut names = Vec::new();
        for server in &mut servers {
            let (host, port) = host_of(server.addr());
            names.push(hosts::name(host, port));
            *server = server.clone().set_addr(address_of(host, port, has_tls, tls));
        }
        if has_tls {
            choose_cryptography();
        }
        Ok(Self {
            hosts: Hosts::new(names),
            // A Sentinel on this machine may name a primary on another one, so it does not count as
            // local.
            is_verified: is_local && service.is_none() || has_tls && tls != Some(TlsMode::Require),
            servers,
            service,
            ca_file,
        })
    }
}

impl Service {
    /// Returns how to connect to the primary at an address that a Sentinel named.
    ///
    /// # Errors
    ///
    /// If the password would be sent over the network in clear text.
    pub(super) fn primary(&self, host: &str, port: u16) -> Result<ConnectionInfo, &'static str> {
        let may_read = !self.has_tls && !is_local(host) && self.tls != Some(TlsMode::Off);
        if may_read && self.login.password().is_some() {
            return Err(CLEAR_TEXT);
        }
        let address = address_of(host, port, self.has_tls, self.tls);
        let server = address.into_connection_info().map_err(|_| "no address")?;
        Ok(server.set_redis_settings(self.login.clone()))
    }
}

const CLEAR_TEXT: &str = "redis:// would send the password over the network in clear text: use rediss:// \
     (rediss+sentinel:// with Sentinel), or store.tls = \"off\" where nobody can listen";

/// Returns whether it is the address of a service's Sentinels.
fn has_sentinel(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.ends_with("+sentinel"))
}

/// Parses the Sentinels, and the service after the hosts.
fn read_service(
    settings: &StoreSettings,
    url: &str,
    tls: Option<TlsMode>,
    has_tls: bool,
) -> Result<(Vec<ConnectionInfo>, Service)> {
    let url = url.replacen("+sentinel://", "://", 1);
    let address = hosts::Address::of(&url).map_err(|reason| settings.unusable(reason))?;
    let (path, query) = address.after.split_once('?').unwrap_or((address.after, ""));
    let path = path.trim_matches('/');
    let (name, database) = path.split_once('/').unwrap_or((path, "0"));
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(settings.unusable(
            "after the Sentinels it must name a service by letters, digits, ., _ and -, as in \
             redis+sentinel://host/service-name/0",
        ));
    }
    let with_port = |host: &&str| {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        if has_port { (*host).to_owned() } else { format!("{host}:{SENTINEL_PORT}") }
    };
    let hosts = address.hosts.iter().map(with_port).collect::<Vec<_>>().join(",");
    let url = format!("{}{hosts}/{database}", address.before);
    let mut sentinels: Vec<ConnectionInfo> = hosts::parse(settings, &url, &[])?;
    let login = sentinels.first().map(|sentinel| sentinel.redis_settings().clone());
    let mut login_there = RedisConnectionInfo::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        login_there = match &*name {
            "sentinel-user" => login_there.set_username(value),
            _ => login_there.set_password(value),
        };
    }
    for sentinel in &mut sentinels {
        *sentinel = sentinel.clone().set_redis_settings(login_there.clone());
    }
    let login = login.unwrap_or_default();
    Ok((sentinels, Service { name: name.to_owned(), login, tls, has_tls }))
}

fn host_of(address: &ConnectionAddr) -> (&str, u16) {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            (host, *port)
        }
        // None of our schemes has another kind of address.
        _ => ("", 0),
    }
}

fn address_of(host: &str, port: u16, has_tls: bool, tls: Option<TlsMode>) -> ConnectionAddr {
    let host = host.to_owned();
    if has_tls {
        let insecure = tls == Some(TlsMode::Require);
        ConnectionAddr::TcpTls { host, port, insecure, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    }
}
