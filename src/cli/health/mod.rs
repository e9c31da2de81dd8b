//! `raindrop health`: a probe for images that have no other program.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use axum::http::{StatusCode, Uri};
use clap::ArgGroup;
use tokio::runtime::Builder;

use super::{
    arguments::{Overrides, namespace},
    client::{Address, Answer},
    failure::Failure,
    output,
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
    let address = match &arguments.url {
        Some(url) => Address::of("--url", url)?,
        None => {
            let http = overrides.load()?.http;
            let listen = http.admin_listen.unwrap_or(http.listen);
            Address::new(http.tls.is_some(), reachable(listen))
        }
    };
    let route = match arguments {
        HealthArguments { json: true, .. } => "/health",
        HealthArguments { ready: true, .. } => "/readyz",
        _ => "/livez",
    };
    let query = arguments.namespace.as_ref().map(|namespace| format!("?namespace={namespace}"));
    let path = route.to_owned() + query.as_deref().unwrap_or_default();
    let failed = |reason: String| Failure::Failed(format!("{address}{path}: {reason}"));
    block_on(Builder::new_current_thread(), async {
        let answer = tokio::time::timeout(TIMEOUT, address.probe(&path)).await;
        let answer = answer.map_err(|_| failed(format!("no answer within {TIMEOUT:?}")))?;
        let Answer { status, body } = answer.map_err(|error| failed(with_sources(&*error)))?;
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

/// Returns an address that reaches the listener: the loopback address if it listens on every
/// address.
fn reachable(listen: SocketAddr) -> SocketAddr {
    match listen.ip() {
        ip if !ip.is_unspecified() => listen,
        IpAddr::V4(_) => (Ipv4Addr::LOCALHOST, listen.port()).into(),
        IpAddr::V6(_) => (Ipv6Addr::LOCALHOST, listen.port()).into(),
    }
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
