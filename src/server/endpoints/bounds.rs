//! `/bounds`: which IDs a span of time has.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{Uri, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    core::{instant::parse_unix_ms, layout::Bounds, namespace::DEFAULT_NAMESPACE},
    server::{
        auth::Caller,
        endpoints::parse::no_fields,
        openapi::{About, Kind, shared, with},
        params::{Params, invalid},
        problem::Problem,
        state::AppState,
    },
};

pub(in crate::server) static ABOUT: About = About {
    name: "bounds",
    summary: "The IDs of a span of time",
    description: "The smallest IDs at two instants, for `id >= from AND id < until`. Both ends are \
                  floored to the tick.",
    parameters: PARAMETERS,
    formats: &[],
    answers: &[("application/json", shared::<BoundsOfSpan>)],
    schemas: with::<BoundsOfSpan>,
    kind: Kind::Tells,
};

const PARAMETERS: &[&str] = &["from", "to", "namespace"];

/// The IDs of a span: `id >= from AND id < until`.
#[derive(Serialize, ToSchema)]
#[schema(as = Bounds)]
struct BoundsOfSpan {
    /// The smallest ID of the tick that contains the start.
    #[schema(pattern = "^[0-9]{1,19}$", example = "249322851532800000")]
    from: String,
    /// The smallest ID of the tick that contains the end.
    #[schema(pattern = "^[0-9]{1,19}$", example = "249685239398400000")]
    until: String,
}

/// Answers the smallest IDs at two instants.
pub(in crate::server) async fn bounds(
    State(state): State<Arc<AppState>>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, Problem> {
    let params = Params::read(&uri, PARAMETERS)?;
    let namespace = params.get("namespace").unwrap_or(DEFAULT_NAMESPACE);
    caller.check_namespace(namespace, Some(namespace), &state)?;
    let layout = state.issuer(namespace)?.layout().ok_or_else(|| no_fields(namespace))?;
    let read = |name| match params.get(name) {
        Some(text) => read_instant(name, text),
        None => Err(invalid(format!("{name} must be given: an RFC 3339 instant"))),
    };
    let (from_ms, to_ms) = (read("from")?, read("to")?);
    let Bounds { from, until } = layout.bounds(from_ms, to_ms)?;
    let answer = BoundsOfSpan { from: from.to_string(), until: until.to_string() };
    let body = serde_json::to_string(&answer).expect("texts are always JSON");
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Reads an instant; Unix ms.
pub(super) fn read_instant(name: &str, text: &str) -> Result<i64, Problem> {
    parse_unix_ms(text).ok_or_else(|| {
        invalid(format!(
            "{name} = {text:?}: must be an RFC 3339 instant such as 2026-11-20T00:00:00Z; a + is \
             written %2B in an address"
        ))
    })
}
