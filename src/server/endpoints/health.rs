//! `/health`, `/readyz` and `/livez`.

use std::collections::BTreeMap;

use axum::http::{Response, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    core::instant::format_unix_ms,
    keeper::{SegmentStatus, UnavailableReason},
    server::{
        body::{self, ResponseBody},
        issuer::NamespaceIssuer,
        params::Params,
        problem::{Problem, ProblemCode, RETRY_UNKNOWN, retry_after_seconds},
        route::{Call, Handler, Kind, Listener, Route, schema_ref, schemas_of},
        state::AppState,
    },
};

pub(in crate::server) static READY: Route = Route {
    summary: "Whether traffic is welcome",
    description: "200 when every namespace issues IDs, or the one that `namespace` names, and the \
                  service is not stopping; else 503. Neither exhaustion nor the store's \
                  reachability counts.",
    kind: Kind::Health,
    listener: Listener::Both,
    // Orchestrators have none.
    needs_token: false,
    parameters: &["namespace"],
    content: &[("application/json", || schema_ref("Health"))],
    schemas: schemas_of::<Health<'_>>,
    problems: &[ProblemCode::InvalidParameter, ProblemCode::UnknownNamespace],
    ..Route::new("/readyz", Handler::Ready(ready))
};

pub(in crate::server) static HEALTH: Route = Route {
    path: "/health",
    summary: "How each namespace is doing",
    needs_token: true,
    handler: Handler::Ready(health),
    ..READY
};

pub(in crate::server) static LIVE: Route = Route {
    path: "/livez",
    summary: "Whether the process answers",
    description: "200, whatever the state of leases and store; 503 when a background task failed \
                  that cannot be restarted, and the process is ending.",
    kind: Kind::Liveness,
    parameters: &[],
    problems: &[ProblemCode::ShuttingDown],
    handler: Handler::Ready(live),
    ..READY
};

/// How the service is doing.
#[derive(Serialize, ToSchema)]
struct Health<'a> {
    status: Readiness,
    /// Of `/health` alone, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    namespaces: BTreeMap<&'a str, NamespaceHealth>,
}

/// `ok` stands in answers of 200, the others in those of 503.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Readiness {
    Ok,
    Unavailable,
    ShuttingDown,
}

/// How a namespace is doing, by its mode.
#[derive(Serialize, ToSchema)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub(super) enum NamespaceHealth {
    Snowflake {
        /// Whether IDs are issued.
        issuing: bool,
        /// The leased worker id.
        worker_id: Option<u64>,
        /// The leased lane.
        lane: Option<u64>,
        /// Up to when IDs are issued without the store, RFC 3339.
        valid_until: Option<String>,
        /// What is wrong.
        reason: Option<String>,
    },
    Segment {
        /// Whether IDs are issued.
        issuing: bool,
        /// How many codes there are.
        codes: usize,
        /// How many numbers are in hand, in all codes.
        remaining: u64,
        /// What is wrong.
        reason: Option<String>,
    },
}

impl NamespaceHealth {
    /// How a namespace is doing; only operators learn what the store's errors say.
    pub(super) fn of(issuer: &NamespaceIssuer, draining: bool, is_operator: bool) -> Self {
        let text = |reason| {
            let reason = if draining { Some(UnavailableReason::ShuttingDown) } else { reason };
            reason.map(
                |reason: UnavailableReason| {
                    if is_operator { reason.to_string() } else { reason.public_text() }
                },
            )
        };
        match issuer {
            NamespaceIssuer::Snowflake(issuer) => {
                let status = issuer.status();
                Self::Snowflake {
                    issuing: status.is_issuing(),
                    worker_id: status.lease.map(|lease| lease.worker),
                    lane: status.lease.map(|lease| lease.lane),
                    valid_until: status.lease.map(|lease| format_unix_ms(lease.valid_until_ms)),
                    reason: text(status.reason),
                }
            }
            NamespaceIssuer::Segment(issuer) => {
                let SegmentStatus { issuing, reason, codes, remaining, .. } = issuer.status();
                Self::Segment { issuing, codes, remaining, reason: text(reason) }
            }
        }
    }
}

/// Whether IDs are issued, namespace by namespace; where operators have a listener of their own,
/// clients are told the sum of it only.
fn health(call: &Call<'_>) -> Result<Response<ResponseBody>, Problem> {
    if call.state.http.admin_listen.is_some() && !call.is_operator {
        return ready(call);
    }
    let draining = call.state.is_draining();
    let of = |issuer| NamespaceHealth::of(issuer, draining, call.is_operator);
    let issuers = issuers(call)?;
    let namespaces = issuers.iter().map(|issuer| (issuer.namespace(), of(issuer))).collect();
    Ok(answer(readiness(call.state, &issuers), namespaces))
}

/// Whether traffic is welcome.
fn ready(call: &Call<'_>) -> Result<Response<ResponseBody>, Problem> {
    Ok(answer(readiness(call.state, &issuers(call)?), BTreeMap::new()))
}

/// The namespaces that are asked about: one, or all.
fn issuers<'a>(call: &'a Call<'_>) -> Result<Vec<&'a NamespaceIssuer>, Problem> {
    let params = Params::read(&call.head.uri, call.route.parameters)?;
    let Some(name) = params.get("namespace") else {
        return Ok(call.state.issuers.values().collect());
    };
    let issuer = call.state.issuers.get(name).map(|issuer| vec![issuer]);
    // Whoever has no token is not told which there are.
    let unknown = || format!("namespace {name:?} does not exist");
    issuer.ok_or_else(|| Problem::new(ProblemCode::UnknownNamespace, unknown()))
}

/// Whether the process answers at all, and can still do its work.
fn live(call: &Call<'_>) -> Result<Response<ResponseBody>, Problem> {
    if call.state.has_failed() {
        let detail = "a background task failed, which was logged: the process is ending";
        return Err(Problem::passing(ProblemCode::ShuttingDown, detail, RETRY_UNKNOWN));
    }
    Ok(answer(Readiness::Ok, BTreeMap::new()))
}

fn readiness(state: &AppState, issuers: &[&NamespaceIssuer]) -> Readiness {
    if state.is_draining() {
        Readiness::ShuttingDown
    } else if issuers.iter().all(|issuer| issuer.is_issuing()) {
        Readiness::Ok
    } else {
        Readiness::Unavailable
    }
}

fn answer(
    status: Readiness,
    namespaces: BTreeMap<&str, NamespaceHealth>,
) -> Response<ResponseBody> {
    let health = Health { status, namespaces };
    if status == Readiness::Ok {
        return body::uncached_json(StatusCode::OK, &health);
    }
    let mut response = body::uncached_json(StatusCode::SERVICE_UNAVAILABLE, &health);
    let retry_after = retry_after_seconds(RETRY_UNKNOWN).into();
    response.headers_mut().insert(header::RETRY_AFTER, retry_after);
    response
}
