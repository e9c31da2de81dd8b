//! Traces: sends spans to a collector of OpenTelemetry, by OTLP over HTTP.
//!
//! The variables `OTEL_*` of the environment configure it. Without an endpoint in them there is no
//! exporter, no thread and no span. Spans are made where the work is done, under the target
//! [`SPANS`]; this module adds the `traceparent` of callers, and the ids of traces to lines of the
//! log. A thread of the library sends the spans, so nothing waits for the collector. This
//! module does not decide which spans there are, and sends no metrics and no lines of the log.
//! Tests: in the files of this folder, and tests/traces, against a collector.

mod export;
mod variables;

use std::{env, fmt, sync::OnceLock, time::Duration};

use axum::http::{HeaderMap, Method};
use opentelemetry::{
    Context, TraceId,
    propagation::{Extractor, TextMapPropagator as _},
    trace::{TraceContextExt as _, TracerProvider as _},
};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tracing::{Event, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Writer},
    },
    registry::LookupSpan,
};

use self::{export::Client, variables::Settings};
use crate::keeper::SPANS;

/// How long the end of the process waits for the last export.
const FLUSHED_WITHIN: Duration = Duration::from_secs(1);

/// The longest `tracestate` in bytes that a span keeps: the length that W3C requires.
const LONGEST_STATE: usize = 512;

/// The methods that the semantic conventions of OpenTelemetry know.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// The exporter of this process, if there is one.
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Returns whether spans are sent.
pub(crate) fn are_sent() -> bool {
    PROVIDER.get().is_some()
}

/// Starts the exporter if the environment names a collector. Call it before the log starts, whose
/// subscriber passes the spans on.
///
/// # Errors
///
/// When a variable has a value that the exporter cannot use. The error names the variable.
pub(crate) fn start() -> Result<(), String> {
    let given = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
    let Some(settings) = Settings::read(given)? else { return Ok(()) };
    let exporter = exporter(&settings)?;
    let mut resource = Resource::builder();
    if !settings.names_service {
        resource = resource.with_service_name("raindrop");
    }
    let provider = SdkTracerProvider::builder()
        .with_span_processor(export::processor(exporter, &settings))
        .with_sampler(settings.sampler)
        .with_resource(resource.build())
        .build();
    let _ = PROVIDER.set(provider);
    Ok(())
}

fn exporter(settings: &Settings) -> Result<SpanExporter, String> {
    SpanExporter::builder()
        .with_http()
        .with_http_client(Client::new(settings.timeout))
        .with_endpoint(&settings.endpoint)
        // By default, the library repeats an export up to three times.
        .with_retry_policy(RetryPolicy::disabled())
        .build()
        .map_err(|error| format!("OTEL_EXPORTER_OTLP_*: {error}"))
}

/// Returns the layer that passes spans to the exporter, if there is one.
pub(super) fn layer<S>() -> Option<impl Layer<S>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let tracer = PROVIDER.get()?.tracer("raindrop");
    let layer = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_target(false);
    Some(layer.with_filter(Targets::new().with_target(SPANS, tracing::Level::DEBUG)))
}

/// Sends what is queued, at the end of the process.
pub(super) fn flush() {
    if let Some(provider) = PROVIDER.get() {
        // A collector that does not answer must not hold up the end.
        let _ = provider.shutdown_with_timeout(FLUSHED_WITHIN);
    }
}

/// Continues the trace of a caller, by its header `traceparent`.
pub(crate) fn continue_trace(span: &Span, headers: &HeaderMap) {
    let parent = caller(headers);
    if parent.span().span_context().is_valid() {
        // Fails only for a span that no subscriber records.
        let _ = span.set_parent(parent);
    }
}

/// Returns the context of a caller, of which each span of the trace keeps a copy.
fn caller(headers: &HeaderMap) -> Context {
    TraceContextPropagator::new().extract(&WithShortState(HeaderExtractor(headers)))
}

/// Reads headers, without a `tracestate` above [`LONGEST_STATE`].
struct WithShortState<'a>(HeaderExtractor<'a>);

impl Extractor for WithShortState<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).filter(|value| key != "tracestate" || value.len() <= LONGEST_STATE)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys()
    }
}

/// Returns a method as the name of a span has it, and as `http.request.method`. A caller may send
/// any text as a method, so that of an unknown one is in neither.
pub(crate) fn method_in_spans(method: &Method) -> (&'static str, &'static str) {
    let known = METHODS.into_iter().find(|known| *known == method.as_str());
    // The semantic conventions have these two.
    known.map_or(("HTTP", "_OTHER"), |known| (known, known))
}

/// Ends a span now, although others below it may still go on.
pub(crate) fn end(span: &Span) {
    span.context().span().end();
}

/// Writes a line by another format, and adds `trace_id` as its last field.
pub(crate) struct WithTraceId<F> {
    format: F,
    is_json: bool,
}

impl<F> WithTraceId<F> {
    pub(crate) fn json(format: F) -> Self {
        Self { format, is_json: true }
    }
}

impl<F, T> WithTraceId<Format<F, T>> {
    pub(crate) fn text(format: Format<F, T>, has_colours: bool) -> Self {
        // The line is written to a text first, which does not know about colours.
        Self { format: format.with_ansi(has_colours), is_json: false }
    }
}

impl<S, N, F> FormatEvent<S, N> for WithTraceId<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let trace_id = Context::map_current(|context| context.span().span_context().trace_id());
        if trace_id == TraceId::INVALID {
            return self.format.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.format.format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end_matches('\n');
        match line.strip_suffix('}').filter(|_| self.is_json) {
            Some(object) => writeln!(writer, r#"{object},"trace_id":"{trace_id}"}}"#),
            None => writeln!(writer, "{line} trace_id={trace_id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Read as _, Write as _},
        net::TcpListener,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
    };

    use opentelemetry::trace::Tracer as _;

    use super::*;

    /// Returns the settings for a collector at this address.
    fn settings(endpoint: &str) -> Settings {
        let given = |name: &str| {
            (name == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").then(|| endpoint.to_owned())
        };
        Settings::read(given).expect("allowed").expect("an endpoint")
    }

    #[test]
    fn a_failing_export_is_attempted_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().expect("an address"));
        let attempts = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&attempts);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                seen.fetch_add(1, Ordering::SeqCst);
                let _ = stream.read(&mut [0; 1024]);
                // The library repeats after this status.
                let _ = stream.write_all(b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n");
                let _ = io::copy(&mut stream, &mut io::sink());
            }
        });
        let exporter = exporter(&settings(&endpoint)).expect("an exporter");
        // This one waits for the export, with all its attempts.
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
        provider.tracer("test").start("span");
        assert_eq!(attempts.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_long_tracestate_is_dropped_but_its_trace_goes_on() {
        let longest = format!("a={},b={}", "x".repeat(253), "y".repeat(254));
        for (state, kept) in [
            ("a=b", "a=b"),
            (longest.as_str(), longest.as_str()),
            (format!("{longest}y").as_str(), ""),
            ([longest.as_str(); 16].join(",").as_str(), ""),
        ] {
            let mut headers = HeaderMap::new();
            let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
            headers.insert("traceparent", parent.parse().expect("a value"));
            headers.insert("tracestate", state.parse().expect("a value"));
            let context = caller(&headers);
            let span = context.span();
            let span = span.span_context();
            assert_eq!(span.trace_id().to_string(), &parent[3..35]);
            assert_eq!(span.trace_state().header(), kept);
        }
    }

    #[test]
    fn unknown_methods_are_not_in_spans() {
        assert_eq!(method_in_spans(&Method::GET), ("GET", "GET"));
        assert_eq!(method_in_spans(&Method::PATCH), ("PATCH", "PATCH"));
        for unknown in ["get", "BREW", &"X".repeat(5_000)] {
            let method = unknown.parse().expect("a method");
            assert_eq!(method_in_spans(&method), ("HTTP", "_OTHER"));
        }
    }
}
