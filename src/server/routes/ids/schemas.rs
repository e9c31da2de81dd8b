//! The parameters and responses of `/id` and `/ids`, as the API document describes them. Other code
//! writes the responses.

#![expect(dead_code, reason = "most are only described")]

use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::{
    core::{instant::format_unix_ms, layout::Layout},
    server::openapi,
};

/// The parameter that only a request for one ID has.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OfOne {
    /// A JSON string. `number` is for people who try a request: a JSON number, which is never
    /// rounded, since above 2^53 - 1 the answer is 422 `unsafe_number`. `number` cannot be combined
    /// with `encoding`, `padded` or a code that has a prefix.
    #[param(inline, value_type = Option<openapi::OneFormat>)]
    format: Option<String>,
}

/// The parameters that only a batch has.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OfMany {
    /// How many IDs, at most `http.max_batch`.
    #[param(minimum = 1, default = 1)]
    n: Option<u32>,
    /// Replaces `n`, and needs `format=range`. The service issues at least one ID and at most this
    /// number, and only so many that the next request waits for 10 ms at most. At most
    /// `http.max_range`, or what the layout allows if that is less.
    #[param(minimum = 1)]
    up_to: Option<u32>,
    /// JSON strings, or ranges of IDs; `number` is served as for one ID. Number and range go with
    /// neither `encoding` nor `padded`, range not with `text/plain`.
    #[param(inline, value_type = Option<openapi::ManyFormat>)]
    format: Option<String>,
}

/// The parameter that only POST has.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct At {
    /// A past instant that the IDs are for: from the namespace's first start on, or from where its
    /// `layout.backfill_from` opens the past.
    #[param(inline, value_type = Option<openapi::Instant>)]
    at: Option<String>,
}

/// The header of a request that may be repeated.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct Repeatable {
    /// Names this request for a strict code. Every request with this key and code gets the same
    /// number, for at least 30 days. A string in quotes, as in the IETF draft
    /// `idempotency-key-header`, or the same text without quotes: 1 to 255 visible ASCII characters,
    /// without blanks. Any other code than a strict one refuses it, and so does a store on Kubernetes.
    #[param(rename = "Idempotency-Key", example = "\"order-2026-0017\"")]
    idempotency_key: Option<String>,
}

/// One ID.
#[derive(ToSchema)]
pub(super) struct OneId {
    /// In the requested encoding, after the prefix of its code if that has one.
    #[schema(example = "249679838552547328", min_length = 1)]
    id: String,
}

/// `ids`, or with `format=range` everything else.
#[derive(Serialize, ToSchema)]
pub(super) struct Ids {
    /// Each as one ID alone, in ascending order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    ids: Option<Vec<String>>,
    /// When the IDs were claimed, by the service's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = "date-time")]
    issued_at: Option<String>,
    /// The layout's canonical text; not in segment mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    layout: Option<String>,
    /// Not in segment mode, nor where the timestamp wraps.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    time: Option<IdTime>,
    /// In segment mode: from each number of the code to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^[0-9]{1,19}$")]
    increment: Option<String>,
    /// The text before each ID, if the code has a prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    prefix: Option<String>,
    /// Ascending.
    #[schema(nullable = false)]
    ranges: Option<Vec<Range>>,
}

/// An ID's time in Unix ms is `epoch_ms + (id >> shift & 2^bits - 1) * unit_ms`.
#[derive(Serialize, ToSchema)]
pub(super) struct IdTime {
    epoch_ms: i64,
    unit_ms: i64,
    shift: u32,
    bits: u32,
}

impl Ids {
    /// Returns the description of ranges, without any range yet.
    pub(super) fn no_ranges(
        issued_at_ms: i64,
        layout: Option<&Layout>,
        increment: Option<u64>,
        prefix: &str,
    ) -> Self {
        let time = layout.filter(|layout| !layout.wraps()).map(|layout| IdTime {
            epoch_ms: layout.epoch_ms(),
            unit_ms: layout.unit().millis(),
            shift: layout.widths().below_timestamp(),
            bits: layout.widths().timestamp,
        });
        Self {
            ids: None,
            issued_at: Some(format_unix_ms(issued_at_ms)),
            layout: layout.map(Layout::canonical),
            time,
            increment: increment.map(|increment| increment.to_string()),
            prefix: Some(prefix.to_owned()).filter(|prefix| !prefix.is_empty()),
            ranges: Some(Vec::new()),
        }
    }
}

/// IDs at equal distances.
#[derive(Serialize, ToSchema)]
pub(super) struct Range {
    #[schema(pattern = "^[0-9]{1,19}$", example = "249679838552547328")]
    first: String,
    /// The last of all.
    #[schema(pattern = "^[0-9]{1,19}$", example = "249679838552551423")]
    last: String,
    /// From each ID to the next.
    #[schema(pattern = "^[0-9]{1,19}$", example = "1")]
    step: String,
    /// How many there are, each time.
    #[schema(minimum = 1)]
    count: i64,
    /// How many times they come, if that is more than once.
    #[schema(nullable = false, minimum = 2)]
    repeat: Option<i64>,
    /// How much further they are each time.
    #[schema(nullable = false, pattern = "^[0-9]{1,19}$", example = "4194304")]
    stride: Option<String>,
}
