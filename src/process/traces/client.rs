//! The HTTP client of the exporter: HTTP/1.1 without TLS, a connection for each export.
//!
//! It says in the log when exports begin to fail and when they succeed again, never what is in
//! their headers. The exporter's thread calls it, which has no runtime.

use std::{
    error::Error,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use axum::http::{Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::net::TcpStream;

/// The most bytes of a collector's answer that are read.
const LARGEST_ANSWER: usize = 64 * 1024;

/// Sends the requests of the exporter.
#[derive(Debug)]
pub(super) struct Client {
    timeout: Duration,
    is_failing: AtomicBool,
}

impl Client {
    /// Makes a client whose requests may take this long.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, is_failing: AtomicBool::new(false) }
    }

    /// Logs the first failure, and the first success after it.
    fn report(&self, collector: &str, failure: Option<String>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => {
                tracing::warn!(collector, error, "spans cannot be sent and are dropped");
            }
            None if was_failing => tracing::info!(collector, "spans are sent again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let collector = authority(request.uri());
        // An export takes place every few seconds, so a runtime for each costs nothing.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer = runtime.block_on(async {
            let late = |_| format!("no answer within {:?}", self.timeout);
            tokio::time::timeout(self.timeout, send(request)).await.map_err(late)?
        });
        let failure = match &answer {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("status {}", response.status().as_u16())),
            Err(error) => Some(with_causes(error.as_ref())),
        };
        self.report(&collector, failure);
        answer
    }
}

async fn send(mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let uri = request.uri().clone();
    let host = uri.host().ok_or("the endpoint must name a host")?.trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    request.headers_mut().insert(header::HOST, authority(&uri).parse()?);
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = target.parse()?;
    let (head, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
    let body = Limited::new(body, LARGEST_ANSWER).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}

/// Returns host and port, without user info.
fn authority(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |it| it.as_str());
    authority.rsplit('@').next().unwrap_or_default().to_owned()
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
