//! `raindrop health`: a probe for images that have no other program.

mod tls;

use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use axum::http::{Request, StatusCode, Uri, header};
use clap::ArgGroup;
use http_body_util::{BodyExt, Empty};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime::Builder,
};

use super::{
    arguments::{Overrides, namespace},
    failure::Failure,
    output,
    serve::is_without_ipv6,
    store::block_on,
};
use crate::store::with_sources;

const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("readiness").multiple(true))]
pub(super) struct HealthArguments {
    /// Ask whether the service is ready, not only alive.
    #[arg(long, group = "readiness")]
    ready: bool,
    /// Print the answer of GET /health, which is JSON with the state of each namespace. The exit
    /// code is that of --ready. No token is sent.
    #[arg(long, group = "readiness")]
    json: bool,
    /// Ask about this namespace only. No token is sent: where requests need one, only
    /// http.admin_listen answers.
    #[arg(long, value_name = "NAME", requires = "readiness", value_parser = namespace)]
    namespace: Option<String>,
    /// The service's address, such as http://127.0.0.1:8080 or https://127.0.0.1:8443; by default
    /// the configured http.admin_listen, or else http.listen.
    #[arg(long)]
    url: Option<Uri>,
}

pub(super) fn run(overrides: Overrides, arguments: &HealthArguments) -> Result<(), Failure> {
    let (scheme, authority) = match &arguments.url {
        Some(url) => authority_of(url)?,
        None => {
            let http = overrides.load()?.http;
            let scheme = if http.tls.is_some() { "https" } else { "http" };
            (scheme, reachable(http.admin_listen.unwrap_or(http.listen)).to_string())
        }
    };
    let route = match arguments {
        HealthArguments { json: true, .. } => "/health",
        HealthArguments { ready: true, .. } => "/readyz",
        _ => "/livez",
    };
    let query = arguments.namespace.as_ref().map(|namespace| format!("?namespace={namespace}"));
    let path = route.to_owned() + query.as_deref().unwrap_or_default();
    let failed =
        |reason: String| Failure::Failed(format!("{scheme}://{authority}{path}: {reason}"));
    block_on(Builder::new_current_thread(), async {
        let answer = tokio::time::timeout(TIMEOUT, probe(scheme, &authority, &path)).await;
        let answer = answer.map_err(|_| failed(format!("no answer within {TIMEOUT:?}")))?;
        let (status, body) = answer.map_err(|error| failed(with_sources(&*error)))?;
        match status {
            StatusCode::OK => output::say(&body),
            // With the reason of each namespace.
            StatusCode::SERVICE_UNAVAILABLE if arguments.json => {
                output::say(&body)?;
                Err(failed(format!("{status}")))
            }
            status => Err(failed(format!("{status}: {body}"))),
        }
    })
}

fn authority_of(url: &Uri) -> Result<(&'static str, String), Failure> {
    let (scheme, port, authority) = match (url.scheme_str(), url.authority()) {
        (Some("http"), Some(authority)) => ("http", 80, authority),
        (Some("https"), Some(authority)) => ("https", 443, authority),
        _ => return Err(Failure::Usage(format!("--url {url}: must be http(s)://host:port"))),
    };
    let port = url.port_u16().unwrap_or(port);
    Ok((scheme, format!("{}:{port}", authority.host())))
}

/// Returns an address that reaches the listener: the loopback address if it listens on every
/// address.
fn reachable(listen: SocketAddr) -> SocketAddr {
    match listen.ip() {
        ip if !ip.is_unspecified() => listen,
        IpAddr::V4(_) => (Ipv4Addr::LOCALHOST, listen.port()).into(),
        IpAddr::V6(_) => (Ipv6Addr::LOCALHOST, listen.port()).into(),
    }
}

async fn probe(
    scheme: &str,
    authority: &str,
    path: &str,
) -> Result<(StatusCode, String), Box<dyn Error>> {
    let stream = match TcpStream::connect(authority).await {
        // Fall back to IPv4, as the service does.
        Err(error) if is_without_ipv6(&error) => {
            TcpStream::connect(authority.replace("[::1]", "127.0.0.1")).await?
        }
        stream => stream?,
    };
    if scheme == "https" {
        return get(tls::connect(stream).await?, authority, path).await;
    }
    get(stream, authority, path).await
}

async fn get(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    authority: &str,
    path: &str,
) -> Result<(StatusCode, String), Box<dyn Error>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header(header::HOST, authority).body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_addresses_are_reached_on_the_loopback() {
        for (listen, asked) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("10.0.0.7:80", "10.0.0.7:80"),
        ] {
            assert_eq!(reachable(listen.parse().expect("an address")).to_string(), asked);
        }
    }
}
