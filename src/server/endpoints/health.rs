//! `/health`, `/readyz` and `/livez`.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    core::instant::format_unix_ms,
    keeper::{SegmentStatus, UnavailableReason},
    server::{
        issuer::NamespaceIssuer,
        openapi::{About, Kind, shared, with},
        problem::{Problem, ProblemCode, RETRY_UNKNOWN, retry_after_seconds},
        state::AppState,
    },
};

const READINESS: About = About {
    name: "readyz",
    summary: "Whether traffic is welcome",
    description: "200 when every namespace issues IDs and the service is not stopping, else 503. \
                  Neither exhaustion nor the store's reachability counts.",
    parameters: &[],
    formats: &[],
    answers: &[("application/json", shared::<Health<'_>>)],
    schemas: with::<Health<'_>>,
    kind: Kind::Judges,
};

pub(in crate::server) static READY: About = READINESS;

pub(in crate::server) static HEALTH: About =
    About { name: "health", summary: "How each namespace is doing", ..READINESS };

pub(in crate::server) static LIVE: About = About {
    name: "livez",
    summary: "Whether the process answers",
    description: "200, whatever the state of leases and store; 503 when a background task failed \
                  that cannot be restarted, and the process is ending.",
    kind: Kind::Lives,
    ..READINESS
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
    pub(super) fn of(issuer: &NamespaceIssuer, draining: bool) -> Self {
        let text = |reason| {
            let reason = if draining { Some(UnavailableReason::ShuttingDown) } else { reason };
            reason.map(|reason: UnavailableReason| reason.to_string())
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

/// Whether IDs are issued, namespace by namespace.
pub(in crate::server) async fn health(State(state): State<Arc<AppState>>) -> Response {
    let of = |issuer| NamespaceHealth::of(issuer, state.is_draining());
    let namespaces = state.issuers().map(|issuer| (issuer.namespace(), of(issuer))).collect();
    answer(readiness(&state), namespaces)
}

/// Whether traffic is welcome.
pub(in crate::server) async fn ready(State(state): State<Arc<AppState>>) -> Response {
    answer(readiness(&state), BTreeMap::new())
}

/// Whether the process answers at all, and can still do its work.
pub(in crate::server) async fn live(State(state): State<Arc<AppState>>) -> Response {
    if state.has_failed() {
        let detail = "a background task failed, which was logged: the process is ending";
        return Problem::passing(ProblemCode::ShuttingDown, detail, RETRY_UNKNOWN).into_response();
    }
    answer(Readiness::Ok, BTreeMap::new())
}

fn readiness(state: &AppState) -> Readiness {
    if state.is_draining() {
        Readiness::ShuttingDown
    } else if state.issuers().all(NamespaceIssuer::is_issuing) {
        Readiness::Ok
    } else {
        Readiness::Unavailable
    }
}

fn answer(status: Readiness, namespaces: BTreeMap<&str, NamespaceHealth>) -> Response {
    let is_ok = status == Readiness::Ok;
    let health = Health { status, namespaces };
    let body = serde_json::to_string(&health).expect("texts and numbers are always JSON");
    let code = if is_ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = (code, body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if !is_ok {
        headers.insert(header::RETRY_AFTER, retry_after_seconds(RETRY_UNKNOWN).into());
    }
    response
}
