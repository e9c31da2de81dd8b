//! What stands in requests and responses, as the API document describes it: the responses are
//! written by hand.

#![expect(dead_code, reason = "only described")]

use utoipa::{IntoParams, ToSchema};

use crate::server::openapi;

/// What one ID has alone.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OfOne {
    /// A JSON string or number. A number is never rounded: above 2^53 - 1 the answer is 422
    /// `unsafe_number`. Number goes with neither `encoding`, `padded` nor a code with a prefix.
    #[param(inline, value_type = Option<openapi::OneFormat>)]
    format: Option<String>,
}

/// What a batch has alone.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OfMany {
    /// How many IDs, at most `http.max_batch`.
    #[param(minimum = 1, default = 1)]
    n: Option<u32>,
    /// JSON strings or numbers, or ranges of IDs. A number is never rounded: above 2^53 - 1 the
    /// answer is 422 `unsafe_number`. Number and range go with neither `encoding`, `padded` nor a
    /// code with a prefix, range not with `text/plain`.
    #[param(inline, value_type = Option<openapi::ManyFormat>)]
    format: Option<String>,
}

/// What POST alone has.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct At {
    /// A past instant that the IDs are for: from the namespace's first start on, or from where its
    /// `layout.backfill_from` opens the past.
    #[param(inline, value_type = Option<openapi::Instant>)]
    at: Option<String>,
}

/// One ID.
#[derive(ToSchema)]
pub(super) struct OneId {
    id: Id,
}

/// A text, or with `format=number` a number.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum Id {
    Text(IdText),
    Number(IdNumber),
}

/// In the requested encoding, after the prefix of its code if that has one.
#[derive(ToSchema)]
#[schema(example = "249679838552547328", min_length = 1)]
pub(super) struct IdText(String);

/// Exact in JavaScript.
#[derive(ToSchema)]
#[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
pub(super) struct IdNumber(i64);

/// IDs, or ranges of them.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum Ids {
    /// In ascending order.
    Ids { ids: Vec<Id> },
    /// With `format=range`.
    Ranges { ranges: Vec<Range> },
}

/// IDs at equal distances.
#[derive(ToSchema)]
pub(super) struct Range {
    #[schema(pattern = "^[0-9]{1,19}$", example = "249679838552547328")]
    first: String,
    #[schema(pattern = "^[0-9]{1,19}$", example = "249679838552551423")]
    last: String,
    /// From each ID to the next.
    #[schema(pattern = "^[0-9]{1,19}$", example = "1")]
    step: String,
    /// How many there are.
    #[schema(minimum = 1)]
    count: i64,
}
