//! Lines of the log with the id of the trace in which they are written.

use std::fmt;

use opentelemetry::{Context, TraceId, trace::TraceContextExt as _};
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Writer},
    },
    registry::LookupSpan,
};

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
