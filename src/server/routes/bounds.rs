//! `/bounds`: the smallest IDs at two instants, for range queries by time.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::parse::no_fields;
use crate::{
    core::{
        encoding::{Encoder, Encoding},
        layout::Bounds,
        namespace::DEFAULT_NAMESPACE,
    },
    server::{
        extract::{Client, Query, encoding, instant, invalid},
        openapi::{self, names},
        response::{Problem, ProblemCode as P},
        state::AppState,
    },
};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct BoundsQuery {
    /// The start of the span.
    #[param(inline, value_type = openapi::Instant)]
    from: Option<String>,
    /// The end of the span, not before `from`.
    #[param(inline, value_type = openapi::Instant)]
    to: Option<String>,
    /// The namespace of the IDs.
    #[param(inline, value_type = Option<openapi::Namespace>)]
    namespace: Option<String>,
    /// How they are written; only encodings whose texts sort as their IDs, which `uuid7` does. For
    /// a UUID, the smallest that an ID can have.
    #[param(inline, value_type = Option<openapi::OneEncoding>)]
    encoding: Option<String>,
}

/// The IDs of a span: `id >= from AND id < until`.
#[derive(Serialize, ToSchema)]
#[schema(as = Bounds)]
struct BoundsOfSpan {
    /// The smallest ID of the tick that contains the start; padded unless in decimal.
    #[schema(example = "249322851532800000")]
    from: String,
    /// The smallest ID of the tick that contains the end.
    #[schema(example = "249685239398400000")]
    until: String,
}

/// The IDs of a span of time
///
/// The smallest IDs at two instants, for `id >= from AND id < until`. Both ends are floored to the
/// tick.
#[utoipa::path(
    get,
    path = "/bounds",
    operation_id = "bounds",
    params(BoundsQuery),
    responses((status = 200, description = "The IDs of a span of time", body = BoundsOfSpan)),
    extensions(("x-problems" = json!(names(&[PROBLEMS])))),
)]
pub(in crate::server) async fn bounds(
    State(state): State<Arc<AppState>>,
    client: Client,
    Query(query): Query<BoundsQuery>,
) -> Result<Response, Problem> {
    let namespace = query.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    client.caller.check_namespace(namespace, Some(namespace))?;
    let layout = state.issuer(namespace)?.layout().ok_or_else(|| no_fields(namespace))?;
    let read = |name, text: Option<String>| {
        let missing = || invalid(format!("{name} must be given: an RFC 3339 instant"));
        instant(name, text.as_deref())?.ok_or_else(missing)
    };
    let (from_ms, to_ms) = (read("from", query.from)?, read("to", query.to)?);
    let encoding = encoding(query.encoding.as_deref())?.unwrap_or_default();
    // A comparison of numbers needs no zeros before them.
    let encoder = Encoder::new(encoding, encoding != Encoding::Decimal, layout)?;
    let Bounds { from, until } = layout.bounds(from_ms, to_ms)?;
    client.cached_json(&BoundsOfSpan {
        from: encoder.smallest_text(from).to_string(),
        until: encoder.smallest_text(until).to_string(),
    })
}

const PROBLEMS: &[P] =
    &[P::InvalidParameter, P::UnknownNamespace, P::NotEncodable, P::NotDecodable, P::OutOfRange];
