//! `raindrop health`: a probe for images that have no other program.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use axum::http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{Failure, output};
use crate::{
    config::{Config, ConfigError},
    store::with_sources,
};

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(super) struct HealthArguments {
    /// Ask whether it is ready, not only alive.
    #[arg(long)]
    ready: bool,
    /// Where it is, such as http://127.0.0.1:8080; the configured http.admin_listen or else http.listen
    /// by default.
    #[arg(long)]
    url: Option<Uri>,
}

pub(super) fn run(
    load: impl FnOnce() -> Result<Config, ConfigError>,
    arguments: HealthArguments,
) -> Result<(), Failure> {
    let authority = match arguments.url {
        Some(url) => authority_of(&url)?,
        None => {
            let http = load()?.http;
            reachable(http.admin_listen.unwrap_or(http.listen)).to_string()
        }
    };
    let path = if arguments.ready { "/readyz" } else { "/livez" };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let probe = async { tokio::time::timeout(ANSWER_WITHIN, probe(&authority, path)).await };
    let (status, body) = runtime
        .block_on(probe)
        .unwrap_or_else(|_| Err(format!("no answer within {ANSWER_WITHIN:?}")))
        .map_err(|reason| Failure::Failed(format!("http://{authority}{path}: {reason}")))?;
    if status == StatusCode::OK {
        return Ok(output::print(&format!("{body}\n"))?);
    }
    Err(Failure::Failed(format!("http://{authority}{path}: {status}: {body}")))
}

fn authority_of(url: &Uri) -> Result<String, Failure> {
    let is_http = url.scheme_str() == Some("http");
    let authority = url.authority().filter(|_| is_http).map(ToString::to_string);
    let authority = authority
        .ok_or_else(|| Failure::Usage(format!("--url {url}: must be http://host:port")))?;
    Ok(if url.port().is_some() { authority } else { format!("{authority}:80") })
}

/// An address that listens everywhere is asked on the loopback.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

async fn probe(authority: &str, path: &str) -> Result<(StatusCode, String), String> {
    let text = |error: &dyn std::error::Error| with_sources(error);
    let stream = TcpStream::connect(authority).await.map_err(|error| text(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
    tokio::spawn(connection);
    let request = Request::get(path)
        .header(header::HOST, authority)
        .body(Empty::<Bytes>::new())
        .map_err(|error| text(&error))?;
    let response = sender.send_request(request).await.map_err(|error| text(&error))?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| text(&error))?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_addresses_are_asked_on_the_loopback() {
        for (listen, asked) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("10.0.0.7:80", "10.0.0.7:80"),
        ] {
            assert_eq!(reachable(listen.parse().expect("an address")).to_string(), asked);
        }
    }
}
