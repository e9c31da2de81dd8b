//! `/health`, `/readyz` and `/livez`.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::{
    core::instant::format_unix_ms,
    keeper::{SegmentStatus, Trouble},
    server::{
        issuer::NamespaceIssuer,
        problem::{RETRY_UNKNOWN, retry_after_seconds},
        state::AppState,
    },
};

#[derive(Serialize)]
struct Health<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    namespaces: BTreeMap<&'a str, NamespaceHealth>,
}

#[derive(Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub(super) enum NamespaceHealth {
    Snowflake {
        issuing: bool,
        worker_id: Option<u64>,
        lane: Option<u64>,
        valid_until: Option<String>,
        reason: Option<String>,
    },
    Segment {
        issuing: bool,
        codes: usize,
        remaining: u64,
        reason: Option<String>,
    },
}

impl NamespaceHealth {
    pub(super) fn of(issuer: &NamespaceIssuer, draining: bool) -> Self {
        let reason = |trouble| {
            let trouble = if draining { Some(Trouble::ShuttingDown) } else { trouble };
            trouble.map(|trouble: Trouble| trouble.to_string())
        };
        match issuer {
            NamespaceIssuer::Snowflake(issuer) => {
                let status = issuer.status();
                Self::Snowflake {
                    issuing: status.is_issuing(),
                    worker_id: status.lease.map(|lease| lease.worker),
                    lane: status.lease.map(|lease| lease.lane),
                    valid_until: status.lease.map(|lease| format_unix_ms(lease.valid_until_ms)),
                    reason: reason(status.trouble),
                }
            }
            NamespaceIssuer::Segment(issuer) => {
                let SegmentStatus { issuing, trouble, codes, remaining, .. } = issuer.status();
                Self::Segment { issuing, codes, remaining, reason: reason(trouble) }
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

/// Whether the process answers at all.
pub(in crate::server) async fn live() -> Response {
    answer("ok", BTreeMap::new())
}

fn readiness(state: &AppState) -> &'static str {
    if state.is_draining() {
        "shutting_down"
    } else if state.issuers().all(NamespaceIssuer::is_issuing) {
        "ok"
    } else {
        "unavailable"
    }
}

fn answer(status: &'static str, namespaces: BTreeMap<&str, NamespaceHealth>) -> Response {
    let health = Health { status, namespaces };
    let body = serde_json::to_string(&health).expect("texts and numbers are always JSON");
    let code = if status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = (code, body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if code == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, retry_after_seconds(RETRY_UNKNOWN).into());
    }
    response
}
