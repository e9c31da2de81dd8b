//! Exports spans in batches, and counts those that are dropped.
//!
//! The library drops spans when its queue is full, and counts them where nobody can read it. So a
//! span is only given to it when there is room, and dropped here otherwise. Nothing waits: neither
//! for room in the queue nor for an export, and no export is repeated.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor},
};

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
