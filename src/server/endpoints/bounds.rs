//! `/bounds`: which IDs a span of time has.

use axum::http::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::parse::no_fields;
use crate::{
    core::{layout::Bounds, namespace::DEFAULT_NAMESPACE},
    server::{
        auth::Permission,
        body::{self, ResponseBody},
        params::{Params, invalid},
        problem::{Problem, ProblemCode as P},
        route::{Call, Handler, Route, schema_ref, schemas_of},
    },
};

pub(in crate::server) static ROUTE: Route = Route {
    summary: "The IDs of a span of time",
    description: "The smallest IDs at two instants, for `id >= from AND id < until`. Both ends are \
                  floored to the tick.",
    permission: Some(Permission::Ids),
    is_for_clients: true,
    parameters: &["from", "to", "namespace"],
    content: &[("application/json", || schema_ref("Bounds"))],
    schemas: schemas_of::<BoundsOfSpan>,
    problems: &[
        P::InvalidParameter,
        P::Forbidden,
        P::UnknownNamespace,
        P::NotDecodable,
        P::OutOfRange,
    ],
    ..Route::new("/bounds", Handler::Ready(bounds))
};

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
fn bounds(call: &Call<'_>) -> Result<Response<ResponseBody>, Problem> {
    let params = Params::read(&call.head.uri, call.route.parameters)?;
    let namespace = params.get("namespace").unwrap_or(DEFAULT_NAMESPACE);
    call.caller.check_namespace(namespace, Some(namespace))?;
    let layout = call.state.issuer(namespace)?.layout().ok_or_else(|| no_fields(namespace))?;
    let read = |name| {
        let missing = || invalid(format!("{name} must be given: an RFC 3339 instant"));
        params.instant(name)?.ok_or_else(missing)
    };
    let (from_ms, to_ms) = (read("from")?, read("to")?);
    let Bounds { from, until } = layout.bounds(from_ms, to_ms)?;
    Ok(body::json(&BoundsOfSpan { from: from.to_string(), until: until.to_string() }))
}
