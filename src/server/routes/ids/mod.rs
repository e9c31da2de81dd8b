//! `/id/{code}` and `/ids/{code}`: one ID, or a batch of them.

mod keyed;
mod request;
mod response;
mod schemas;
mod strict_claim;
mod writer;

use axum::{http::Method, response::Response};

use self::{
    request::{IdParameters, IdRequest, IdsQuery},
    schemas::{At, Ids, OfMany, OfOne, OneId, Repeatable},
    strict_claim::StrictClaim,
};
use crate::{
    core::issue::ClaimError,
    keeper::{BackfillError, IssueError, NamespaceIssuer},
    server::{
        extract::{CodeInPath, NoBody},
        openapi::{CLAIM, POSTED, names},
        response::{Problem, ProblemCode as P},
        state::unknown_segment_code,
    },
    store::with_sources,
};

/// One ID
///
/// Claims one ID of a code. With `Accept: text/plain` the answer is the ID alone, on a line. GET
/// and POST are the same, except that POST alone has `at` and claims IDs of a strict code.
#[utoipa::path(
    method(get, post),
    path = "/id/{code}",
    operation_id = "id",
    params(CodeInPath, OfOne, IdsQuery, At, Repeatable),
    responses((
        status = 200,
        description = "One ID",
        content((OneId = "application/json"), (String = "text/plain")),
    )),
    extensions(("x-problems" = json!(names(&[CHECKED, CLAIM, POSTED])))),
)]
pub(in crate::server) async fn one(
    parameters: IdParameters,
    _: NoBody,
) -> Result<Response, Problem> {
    claim(&parameters, false).await
}

/// IDs in ascending order
///
/// Claims `n` IDs of a code at once, or with `up_to` as many as are due. With `Accept: text/plain`
/// each stands on a line. GET and POST are the same, except that POST alone has `at` and claims IDs
/// of a strict code.
#[utoipa::path(
    method(get, post),
    path = "/ids/{code}",
    operation_id = "ids",
    params(CodeInPath, OfMany, IdsQuery, At),
    responses((
        status = 200,
        description = "IDs in ascending order",
        content((Ids = "application/json"), (String = "text/plain")),
    )),
    extensions(("x-problems" = json!(names(&[CHECKED, &[P::InvalidCount], CLAIM, POSTED])))),
)]
pub(in crate::server) async fn many(
    parameters: IdParameters,
    _: NoBody,
) -> Result<Response, Problem> {
    claim(&parameters, true).await
}

/// Problems of a request for IDs that are found before a claim.
const CHECKED: &[P] = &[
    P::InvalidCode,
    P::InvalidParameter,
    P::Forbidden,
    P::UnknownNamespace,
    P::UnsafeNumber,
    P::NotEncodable,
];

/// Claims IDs and writes the response. For HEAD it checks the request and claims nothing.
async fn claim(parameters: &IdParameters, is_batch: bool) -> Result<Response, Problem> {
    let mut request = IdRequest::read(parameters, is_batch)?;
    if parameters.method == Method::HEAD {
        return Ok(request.without_ids());
    }
    let (state, client) = (&*parameters.state, &parameters.client);
    let _in_flight = state.begin_claim()?;
    if let NamespaceIssuer::Segment(issuer) = request.issuer {
        let learnt = issuer.learn(request.code).await;
        if learnt.map_err(|error| segment_problem(error, issuer.namespace(), request.code))? {
            // The code may have a form of texts, which excludes other parameters.
            request = IdRequest::read(parameters, is_batch)?;
        }
    }
    // Reserved before the claim: a refusal after it would lose the claimed IDs.
    let sending = request.sending(|bytes| state.unsent_budget.has_plenty(bytes));
    let reservation = client.reserve(sending.memory)?;
    let (code, count) = (request.code, request.count);
    let (idempotency_key, request_id) =
        (parameters.idempotency_key.clone(), parameters.request_id.as_ref());
    if idempotency_key.is_some() {
        keyed::check(&request)?;
    }
    let identify = || state.clients.key(client.caller.name(), client.address);
    let is_known = client.caller.name().is_some() || client.address.is_some();
    let key = is_known.then_some(&identify as &(dyn Fn() -> u64 + Sync));
    let issued_at_ms = request.tells_instant().then(|| {
        state.clock.refresh();
        state.clock.now_ms()
    });
    match (&request.backfill, request.issuer) {
        (Some((backfill, at_ms)), _) => {
            let turn = state.begin_backfill().await?;
            let ids = backfill.ids(code, count.most(), *at_ms).await;
            drop(turn);
            if let Err(BackfillError::Store(error)) = &ids {
                // Logged here, because the response does not quote the store's error.
                let (namespace, error) = (backfill.namespace(), with_sources(error));
                tracing::warn!(namespace, error, "backfill failed");
            }
            request.write(ids?.into_iter(), issued_at_ms, sending, reservation)
        }
        (None, NamespaceIssuer::Snowflake(issuer)) => {
            state.clock.refresh();
            let ids = issuer.next_ids_for(key, code, count).await?;
            request.write(ids, issued_at_ms, sending, reservation)
        }
        (None, NamespaceIssuer::Segment(issuer)) if let Some(idempotency_key) = idempotency_key => {
            // Boxed: the other requests, of which many may wait, need no room for it.
            let claim = keyed::claim(&request, issuer, key, idempotency_key, request_id, sending);
            Box::pin(claim).await
        }
        (None, NamespaceIssuer::Segment(issuer)) => {
            let claimed = issuer.next_ids_for(key, code, count).await;
            let ids = claimed.map_err(|error| segment_problem(error, issuer.namespace(), code))?;
            if !request.is_strict {
                return request.write(ids, issued_at_ms, sending, reservation);
            }
            let claim = StrictClaim::new(&request, &ids, request_id);
            let response = request.write(ids, issued_at_ms, sending, reservation)?;
            Ok(claim.follow(response))
        }
    }
}

/// Returns the problem of a claim in segment mode. For an unknown code it says how an operator adds
/// it, and it names a code that has too few numbers left.
pub(super) fn segment_problem(error: IssueError, namespace: &str, code: &str) -> Problem {
    match error {
        IssueError::Refused(ClaimError::UnknownCode(code)) => {
            Problem::new(P::UnknownCode, unknown_segment_code(&code, namespace))
        }
        IssueError::Refused(ClaimError::SequenceExhausted { retry_after }) => {
            let detail =
                format!("code {code:?} in namespace {namespace:?} has too few numbers left");
            Problem::passing(P::SequenceExhausted, detail, retry_after)
        }
        error => error.into(),
    }
}
