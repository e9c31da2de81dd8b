//! Exports spans in batches, and counts those that are dropped.
//!
//! The library drops spans when its queue is full, and counts them where no reader can see it. So a
//! span is given to the library only when there is room, and dropped here otherwise. Nothing waits:
//! neither for room in the queue nor for an export, and no export is repeated.
//!
//! [`Client`] sends an export by HTTP/1.1 without TLS, on a connection for each. It logs when
//! exports begin to fail and when they succeed again, never what is in their headers. The
//! exporter's thread calls it, which has no runtime.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::http::{Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use opentelemetry::Context;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor},
};
use tokio::net::TcpStream;

use super::variables::Settings;
use crate::process::telemetry::SPANS_DROPPED;

/// Returns what takes ended spans: a queue, whose spans a thread gives to the exporter.
pub(super) fn processor(
    exporter: impl SpanExporter + 'static,
    &Settings { queue, batch, delay, .. }: &Settings,
) -> Bounded {
    let queued = Arc::new(AtomicUsize::new(0));
    let exporter = Counting { exporter, queued: Arc::clone(&queued) };
    // All is set here, because the library ignores a value that it cannot use.
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(queue)
        .with_max_export_batch_size(batch)
        .with_scheduled_delay(delay)
        .build();
    let batches = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
    Bounded { batches, queued, queue }
}

/// Takes a span if the queue has room.
#[derive(Debug)]
pub(super) struct Bounded {
    batches: BatchSpanProcessor,
    queued: Arc<AtomicUsize>,
    queue: usize,
}

impl SpanProcessor for Bounded {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.queued.fetch_add(1, Ordering::Relaxed) >= self.queue {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            SPANS_DROPPED.inc();
            return;
        }
        self.batches.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// Notes that a batch has left the queue, and counts the spans of those that cannot be sent.
#[derive(Debug)]
struct Counting<E> {
    exporter: E,
    queued: Arc<AtomicUsize>,
}

impl<E: SpanExporter> SpanExporter for Counting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.queued.fetch_sub(spans, Ordering::Relaxed);
        let result = self.exporter.export(batch).await;
        if result.is_err() {
            SPANS_DROPPED.inc_by(u64::try_from(spans).unwrap_or(u64::MAX));
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use opentelemetry::trace::{Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::{error::OTelSdkError, trace::SdkTracerProvider};

    use super::*;

    /// An exporter whose exports last until the test lets them go, and then fail.
    #[derive(Debug)]
    struct Stuck(Arc<Mutex<()>>);

    impl SpanExporter for Stuck {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            drop(self.0.lock());
            Err(OTelSdkError::InternalFailure("planted".to_owned()))
        }
    }

    #[test]
    fn every_span_that_is_not_sent_is_counted_and_none_waits() {
        let lock = Arc::new(Mutex::new(()));
        let held = lock.lock().expect("no panic");
        let given = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://unused".to_owned()),
            "OTEL_BSP_MAX_QUEUE_SIZE" => Some("8".to_owned()),
            _ => None,
        };
        let settings = Settings::read(given).expect("allowed").expect("an endpoint");
        let processor = processor(Stuck(Arc::clone(&lock)), &settings);
        let provider = SdkTracerProvider::builder().with_span_processor(processor).build();
        let before = SPANS_DROPPED.get();
        for _ in 0..100 {
            provider.tracer("test").start("span");
        }
        // At most the queue waits, while one batch of it is with the exporter.
        let dropped = SPANS_DROPPED.get() - before;
        assert!((84..=92).contains(&dropped), "{dropped}");
        drop(held);
        provider.shutdown().expect("the thread ends");
        assert_eq!(SPANS_DROPPED.get() - before, 100);
    }
}
