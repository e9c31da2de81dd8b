//! Reads the `http`, `auth` and `log` sections: settings of the whole service.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
    path::PathBuf,
    time::Duration,
};

use axum::http::HeaderValue;
use ipnet::IpNet;

use super::{keys::TOKENS_FILE, reader::Reader, small_file};

const KEY_FILE: &str = "http.tls.key_file";

/// The settings of the HTTP service.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// A separate address for operators.
    pub admin_listen: Option<SocketAddr>,
    /// The host names under which the operators' listener answers, in addition to IP addresses and
    /// other names that no other site can own.
    pub admin_hosts: Vec<String>,
    /// Whether every client that reaches the operators' listener may change things there, although
    /// no tokens are configured.
    pub admin_changes: bool,
    /// The largest n for `/ids`.
    pub max_batch: u32,
    /// The largest `up_to` for `/ids`; a layout may allow less.
    pub max_range: u32,
    /// The origins that browsers may call from.
    pub cors_origins: CorsOrigins,
    /// How long a request may take before it gets 408.
    pub request_timeout: Duration,
    /// The largest number of open connections. By default, as many as half of the control group's
    /// memory limit holds, at most 10 000.
    pub max_connections: Option<usize>,
    /// How long a connection may be idle, and how long a client may take to send the head of a
    /// request.
    pub idle_timeout: Duration,
    /// The largest number of ID requests in flight.
    pub max_in_flight: usize,
    /// The largest memory for responses that clients have not read yet, in bytes. By default an
    /// eighth of the control group's memory limit, or 128 MiB without one.
    pub max_unsent: Option<u64>,
    /// Whether `/` and `/docs` serve the console.
    pub console: bool,
    /// TLS on both listeners.
    pub tls: Option<HttpTls>,
    /// The largest number of open connections of a client address; `None` is no limit.
    pub max_connections_per_ip: Option<NonZeroU32>,
    /// The largest number of requests per second of a client address; `None` is no limit.
    pub max_requests_per_ip: Option<NonZeroU32>,
    /// The largest number of requests per second with a token; `None` is no limit.
    pub max_requests_per_token: Option<NonZeroU32>,
    /// The proxies that are trusted to name the client of a request in `X-Forwarded-For` or
    /// `Forwarded`.
    pub trusted_proxies: Vec<IpNet>,
    /// How long a stopping node keeps serving after it became unready.
    pub drain_delay: Duration,
    /// How long open requests and the release of the lease may take after that.
    pub shutdown_timeout: Duration,
}

/// The files of TLS on the listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTls {
    /// The certificate chain of the service, PEM.
    pub cert_file: PathBuf,
    /// Its private key, PEM.
    pub key_file: PathBuf,
    /// The certificate authorities of clients, PEM. Without it, the handshake requests no client
    /// certificate.
    pub client_ca_file: Option<PathBuf>,
    /// The revocation lists of these authorities, PEM, one for each.
    pub client_crl_file: Option<PathBuf>,
}

impl HttpTls {
    /// Returns the configured files.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let optional = [&self.client_ca_file, &self.client_crl_file];
        let own = [&self.cert_file, &self.key_file].into_iter();
        own.chain(optional.into_iter().flatten()).cloned()
    }

    /// Returns a warning if every user of this machine may read the key. This call can hang with a
    /// file system that does not answer, so reading the configuration does not make it.
    pub(crate) fn readable_key(&self) -> Option<String> {
        small_file::readable_by_all(KEY_FILE, &self.key_file)
    }
}

/// The settings of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// Text or JSON.
    pub format: LogFormat,
    /// The requests that get a line of their own.
    pub requests: LoggedRequests,
    /// How long a request takes at least that [`LoggedRequests::Slow`] logs.
    pub slow_after: Duration,
}

/// The requests that get a line in the log, by their responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedRequests {
    /// None.
    Off,
    /// Those with a status of 408, or of 500 or above; at most one a second for each problem.
    Errors,
    /// The same, and those that take at least [`LogConfig::slow_after`].
    Slow,
    /// All.
    All,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The values of `log.level`.
pub(crate) const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The origins that browsers may call from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigins {
    /// Every origin.
    Any,
    /// These; an empty list allows none.
    List(Vec<HeaderValue>),
}

pub(super) fn read_http(reader: &mut Reader) -> HttpConfig {
    let address = "an address and port such as 127.0.0.1:8080 or [::]:8080; :8080 for every address, \
                   or localhost:8080, but no other name";
    let listen: SocketAddr = reader.value("http.listen", address, listen_address);
    let admin_listen = reader.given("http.admin_listen", address, listen_address);
    // Port 0 means any free port, so two listeners may both have it.
    let is_another = admin_listen != Some(listen) || listen.port() == 0;
    reader.relate("http.admin_listen", "http.listen", is_another, "another address or port than");
    HttpConfig {
        listen,
        admin_listen,
        admin_hosts: read_hosts(reader),
        admin_changes: read_admin_changes(reader),
        max_batch: reader.number("http.max_batch"),
        max_range: reader.number("http.max_range"),
        cors_origins: read_origins(reader),
        request_timeout: reader.duration("http.request_timeout"),
        max_connections: reader.given_in_range("http.max_connections"),
        idle_timeout: reader.duration("http.idle_timeout"),
        max_in_flight: reader.number("http.max_in_flight"),
        max_unsent: reader.given_size("http.max_unsent"),
        console: reader.boolean("http.console"),
        tls: read_tls(reader),
        max_connections_per_ip: read_limit(reader, "http.max_connections_per_ip"),
        max_requests_per_ip: read_limit(reader, "http.max_requests_per_ip"),
        max_requests_per_token: read_limit(reader, "auth.max_requests_per_token"),
        trusted_proxies: read_networks(reader),
        drain_delay: reader.duration("http.drain_delay"),
        shutdown_timeout: reader.duration("http.shutdown_timeout"),
    }
}

fn read_admin_changes(reader: &mut Reader) -> bool {
    let key = "http.admin_changes";
    let is_open = reader.boolean(key);
    // With tokens, changes need the permission `admin` instead.
    let holds = !(is_open && reader.is_given(TOKENS_FILE));
    reader.relate(key, TOKENS_FILE, holds, "false beside");
    is_open
}

/// Reads an address and port. Looks up no names: the answer could be another machine.
fn listen_address(text: &str) -> Option<SocketAddr> {
    text.parse().ok().or_else(|| {
        let (host, port) = text.rsplit_once(':')?;
        let ip: IpAddr = match host {
            "" => Ipv6Addr::UNSPECIFIED.into(),
            _ if host.eq_ignore_ascii_case("localhost") => Ipv4Addr::LOCALHOST.into(),
            _ => return None,
        };
        // Parse the port as the port of an address.
        format!("127.0.0.1:{port}").parse().ok().map(|with: SocketAddr| (ip, with.port()).into())
    })
}

fn read_tls(reader: &mut Reader) -> Option<HttpTls> {
    let keys =
        ["http.tls.cert_file", KEY_FILE, "http.tls.client_ca_file", "http.tls.client_crl_file"];
    let [cert, key, client_ca, client_crl] =
        keys.map(|key| reader.given(key, "the path of a PEM file", file_path));
    if client_crl.is_some() && client_ca.is_none() {
        reader.reject("http.tls.client_crl_file", "used with http.tls.client_ca_file");
    }
    if client_ca.is_some() && !reader.is_given(TOKENS_FILE) {
        let allowed = "used with auth.tokens_file, whose entries name the certificates of clients";
        reader.reject("http.tls.client_ca_file", allowed);
    }
    match (cert, key) {
        (Some(cert_file), Some(key_file)) => {
            let (client_ca_file, client_crl_file) = (client_ca, client_crl);
            Some(HttpTls { cert_file, key_file, client_ca_file, client_crl_file })
        }
        (cert, key) => {
            let all = "used with both http.tls.cert_file and http.tls.key_file";
            if cert.is_some() != key.is_some() || client_ca.is_some() {
                reader.reject_given(&keys, all);
            }
            None
        }
    }
}

fn file_path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// Reads a limit; 0 means no limit.
fn read_limit(reader: &mut Reader, key: &str) -> Option<NonZeroU32> {
    NonZeroU32::new(reader.number(key))
}

fn read_networks(reader: &mut Reader) -> Vec<IpNet> {
    let key = "http.trusted_proxies";
    let items = reader.list(key).unwrap_or_default();
    let network =
        |item: &String| item.parse().ok().or_else(|| item.parse::<IpAddr>().ok().map(IpNet::from));
    // Addresses of clients are canonical, so an IPv4-mapped network would match none.
    let is_canonical = |network: &IpNet| network.addr().to_canonical() == network.addr();
    let networks: Option<Vec<IpNet>> =
        items.iter().map(|item| network(item).filter(is_canonical)).collect();
    if networks.is_none() {
        reader.reject(key, "addresses or networks such as 10.0.0.0/8 or fd00::/8");
    }
    networks.unwrap_or_default()
}

fn read_hosts(reader: &mut Reader) -> Vec<String> {
    let key = "http.admin_hosts";
    let items = reader.list(key).unwrap_or_default();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if !items.iter().all(|item| item.bytes().all(is_name)) {
        reader.reject(key, "domain names such as raindrop.example.com, without a port");
    }
    items
}

fn read_origins(reader: &mut Reader) -> CorsOrigins {
    let items = reader.list("http.cors_origins").unwrap_or_default();
    match items.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["*"] => return CorsOrigins::Any,
        ["none"] => return CorsOrigins::List(Vec::new()),
        _ => {}
    }
    let origins: Option<Vec<HeaderValue>> = items.iter().map(|item| origin(item)).collect();
    if origins.is_none() {
        reader.reject(
            "http.cors_origins",
            "* or none alone, or origins such as https://app.example.com, in lower case and \
             without a path or the default port",
        );
    }
    CorsOrigins::List(origins.unwrap_or_default())
}

fn origin(text: &str) -> Option<HeaderValue> {
    let (scheme, host) = text.split_once("://")?;
    let default_port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => return None,
    };
    let is_host =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]".contains(&byte);
    let is_valid = !host.is_empty() && host.bytes().all(is_host) && !host.ends_with(default_port);
    HeaderValue::from_str(text).ok().filter(|_| is_valid)
}

/// Reads the path of the token file. Only commands that need the file open it: `raindrop health`
/// must not fail because of it.
pub(super) fn read_tokens_file(reader: &mut Reader) -> Option<PathBuf> {
    reader.given(TOKENS_FILE, "the path of a file, or unset", file_path)
}

pub(super) fn read_log(reader: &mut Reader) -> LogConfig {
    let level = |text: &str| LOG_LEVELS.into_iter().find(|level| *level == text);
    let format = |text: &str| match text {
        "text" => Some(LogFormat::Text),
        "json" => Some(LogFormat::Json),
        _ => None,
    };
    let requests = |text: &str| match text {
        "off" => Some(LoggedRequests::Off),
        "errors" => Some(LoggedRequests::Errors),
        "slow" => Some(LoggedRequests::Slow),
        "all" => Some(LoggedRequests::All),
        _ => None,
    };
    LogConfig {
        level: reader.value("log.level", LOG_LEVELS.join(", "), level),
        format: reader.value("log.format", "text or json", format),
        requests: reader.value("log.requests", "off, errors, slow or all", requests),
        slow_after: reader.duration("log.slow_after"),
    }
}
