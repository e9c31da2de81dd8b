//! `/id/{code}` and `/ids/{code}`: one ID, or a batch of them.

mod request;
mod response;
mod schemas;
mod writer;

use axum::http::Method;

pub(in crate::server) use self::response::IdResponse;
use self::{request::IdRequest, schemas::schemas};
use crate::{
    core::issue::ClaimError,
    keeper::{BackfillError, IssueError},
    server::{
        auth::Permission,
        issuer::NamespaceIssuer,
        problem::{Problem, ProblemCode as P},
        route::{Call, Handler, Kind, PLAIN_TEXT, Route, schema_ref},
        state::unknown_segment_code,
    },
    store::with_sources,
};

pub(in crate::server) static ONE: Route = Route {
    summary: "One ID",
    description: "Claims one ID of a code. With `Accept: text/plain` the answer is the ID alone, \
                  on a line. GET and POST are the same, except that POST alone has `at`.",
    kind: Kind::Claim,
    permission: Some(Permission::Ids),
    is_for_clients: true,
    parameters: &["format", "encoding", "padded", "namespace", "at"],
    content: &[("application/json", || schema_ref("OneId")), PLAIN_TEXT],
    schemas,
    problems: &PROBLEMS,
    ..Route::new("/id/{code}", Handler::Claim { is_batch: false })
};

pub(in crate::server) static MANY: Route = Route {
    path: "/ids/{code}",
    summary: "IDs in ascending order",
    description: "Claims `n` IDs of a code at once. With `Accept: text/plain` each stands on a \
                  line. GET and POST are the same, except that POST alone has `at`.",
    parameters: &["n", "format", "encoding", "padded", "namespace", "at"],
    content: &[("application/json", || schema_ref("Ids")), PLAIN_TEXT],
    handler: Handler::Claim { is_batch: true },
    ..ONE
};

/// Problems of a request for IDs, before anything is claimed.
const PROBLEMS: [P; 5] =
    [P::InvalidCode, P::InvalidParameter, P::Forbidden, P::UnknownNamespace, P::UnsafeNumber];

/// Claims IDs and writes them. HEAD claims nothing: it checks the request.
pub(in crate::server) async fn claim(
    call: &Call<'_>,
    is_batch: bool,
) -> Result<IdResponse, Problem> {
    let request = IdRequest::read(call, is_batch)?;
    if call.head.method == Method::HEAD {
        return Ok(request.without_ids());
    }
    // Before the claim, whose IDs would be lost otherwise.
    let sending = request.sending(|bytes| call.state.unsent.has_plenty(bytes));
    let reservation = call.state.reserve(sending.memory(), true)?;
    let (code, count) = (request.code, request.count);
    let client = || call.state.clients.key(&call.caller, call.peer, &call.head.headers);
    let is_known = call.caller.name().is_some() || call.peer.address.is_some();
    let client = is_known.then_some(&client as &(dyn Fn() -> u64 + Sync));
    let mut response = match (&request.backfill, request.issuer) {
        // Boxed, so that every other request carries less from call to call.
        (Some((backfill, at_ms)), _) => {
            let ids = Box::pin(backfill.ids(code, count, *at_ms)).await;
            if let Err(BackfillError::Store(error)) = &ids {
                // The answer does not say where the store is.
                let (namespace, error) = (backfill.namespace(), with_sources(error));
                tracing::warn!(namespace, error, "backfill failed");
            }
            request.write(ids?.into_iter(), sending)
        }
        (None, NamespaceIssuer::Snowflake(issuer)) => {
            call.state.clock.refresh();
            request.write(issuer.next_ids_for(client, code, count).await?, sending)
        }
        (None, NamespaceIssuer::Segment(issuer)) => {
            let ids = issuer.next_ids_for(client, code, count).await;
            let ids = ids.map_err(|error| of_segment(error, issuer.namespace()))?;
            request.write(ids, sending)
        }
    }?;
    response.body.keep(reservation);
    Ok(response)
}

/// The problem of a claim in segment mode: that of an unknown code says how it can be added.
fn of_segment(error: IssueError, namespace: &str) -> Problem {
    match error {
        IssueError::Refused(ClaimError::UnknownCode(code)) => {
            Problem::new(P::UnknownCode, unknown_segment_code(&code, namespace))
        }
        error => error.into(),
    }
}
