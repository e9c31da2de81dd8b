//! `/health`, `/readyz` and `/livez`.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::Response,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    core::instant::format_unix_ms,
    keeper::{NamespaceIssuer, SegmentStatus, UnavailableReason},
    server::{
        extract::{Client, Query},
        openapi::{self, names},
        response::{
            Problem, ProblemCode as P, RETRY_UNKNOWN, body::uncached_json, retry_after_seconds,
        },
        state::AppState,
    },
};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct HealthQuery {
    /// The only namespace to report.
    #[param(inline, value_type = Option<openapi::Namespace>)]
    namespace: Option<String>,
}

/// How the service is doing.
#[derive(Serialize, ToSchema)]
struct Health<'a> {
    status: Readiness,
    /// The namespaces by name; only `/health` has them.
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

/// How a namespace is doing.
// One object for both modes: generators of clients would make three classes of a `oneOf`.
#[derive(Serialize, ToSchema)]
pub(super) struct NamespaceHealth {
    #[schema(inline)]
    mode: IssuingMode,
    /// Whether IDs are issued.
    issuing: bool,
    #[serde(flatten)]
    #[schema(inline, value_type = SnowflakeHealth)]
    snowflake: Option<SnowflakeHealth>,
    #[serde(flatten)]
    #[schema(inline, value_type = SegmentHealth)]
    segment: Option<SegmentHealth>,
    /// The fault of the namespace, null without one. A node may issue IDs in spite of it.
    reason: Option<String>,
    /// What operators should correct at the store: the settings by which it may lose acknowledged
    /// writes, as they were when this node started, and a Kubernetes Lease that keeps no labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    store_warnings: Vec<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum IssuingMode {
    Snowflake,
    Segment,
}

/// The fields that only mode snowflake has.
#[derive(Serialize, ToSchema)]
struct SnowflakeHealth {
    /// The leased worker id.
    worker_id: Option<u64>,
    /// The leased lane.
    lane: Option<u64>,
    /// The instant up to which the node can issue without the store, RFC 3339.
    valid_until: Option<String>,
}

/// The fields that only mode segment has.
#[derive(Serialize, ToSchema)]
struct SegmentHealth {
    /// The number of codes.
    #[schema(required = false)]
    codes: usize,
    /// The reserved and unused numbers of all codes.
    #[schema(required = false)]
    remaining: u64,
}

impl NamespaceHealth {
    /// Returns the state of a namespace. Only operators get the store's errors and warnings, which
    /// may name the server.
    pub(super) fn of(issuer: &NamespaceIssuer, state: &AppState, is_operator: bool) -> Self {
        let draining = state.is_draining();
        let mut store_warnings = Vec::new();
        if is_operator {
            store_warnings = state.metrics.store_warnings(issuer.namespace());
            store_warnings.extend(state.refused_labels());
        }
        let text = |reason: Option<UnavailableReason>| {
            let reason = if draining { UnavailableReason::ShuttingDown } else { reason? };
            Some(if is_operator { reason.to_string() } else { reason.public_text() })
        };
        match issuer {
            NamespaceIssuer::Snowflake(issuer) => {
                let status = issuer.status();
                Self {
                    mode: IssuingMode::Snowflake,
                    issuing: status.is_issuing(),
                    snowflake: Some(SnowflakeHealth {
                        worker_id: status.lease.map(|lease| lease.worker),
                        lane: status.lease.map(|lease| lease.lane),
                        valid_until: status.lease.map(|lease| format_unix_ms(lease.valid_until_ms)),
                    }),
                    segment: None,
                    reason: text(status.reason),
                    store_warnings,
                }
            }
            NamespaceIssuer::Segment(issuer) => {
                let SegmentStatus { issuing, reason, code_of_reason, codes, remaining, .. } =
                    issuer.status();
                let reason = text(reason).map(|reason| match code_of_reason {
                    Some(code) if is_operator && !draining => format!("code {code}: {reason}"),
                    _ => reason,
                });
                Self {
                    mode: IssuingMode::Segment,
                    issuing,
                    snowflake: None,
                    segment: Some(SegmentHealth { codes, remaining }),
                    reason,
                    store_warnings,
                }
            }
        }
    }
}

const PROBLEMS: &[P] = &[P::InvalidParameter, P::UnknownNamespace, P::Forbidden];

/// How each namespace is doing
///
/// 200 when every namespace issues IDs, or the one that `namespace` names, and the service is not
/// stopping; else 503. Neither exhaustion nor the store's reachability counts.
#[utoipa::path(
    get,
    path = "/health",
    operation_id = "health",
    params(HealthQuery),
    responses(
        (status = 200, description = "How each namespace is doing", body = Health<'_>),
        (status = 503, description = "How each namespace is doing", body = Health<'_>,
         headers(("Retry-After"))),
    ),
    extensions(("x-problems" = json!(names(&[PROBLEMS])))),
)]
pub(in crate::server) async fn health(
    State(state): State<Arc<AppState>>,
    client: Client,
    Query(query): Query<HealthQuery>,
) -> Result<Response, Problem> {
    let issuers = query.issuers(&state, &client)?;
    let readiness = readiness(&state, &issuers);
    // If operators have a listener of their own, clients get only the sum of all namespaces.
    if state.http.admin_listen.is_some() && !client.is_operator() {
        return Ok(answer(readiness));
    }
    let of = |issuer| NamespaceHealth::of(issuer, &state, client.is_operator());
    let shown = issuers.iter().filter(|issuer| client.caller.may_use(issuer.namespace()));
    let namespaces = shown.map(|issuer| (issuer.namespace(), of(issuer))).collect();
    let health = client.json(readiness.code(), &Health { status: readiness, namespaces })?;
    Ok(with_retry(readiness, health))
}

/// Whether traffic is welcome
///
/// 200 when every namespace issues IDs, or the one that `namespace` names, and the service is not
/// stopping; else 503. Neither exhaustion nor the store's reachability counts. `namespace` needs a
/// token where requests do.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readyz",
    params(HealthQuery),
    responses(
        (status = 200, description = "Whether traffic is welcome", body = Health<'_>),
        (status = 503, description = "Whether traffic is welcome", body = Health<'_>,
         headers(("Retry-After"))),
    ),
    extensions(("x-problems" = json!(names(&[PROBLEMS, &[P::Unauthorized]])))),
)]
pub(in crate::server) async fn ready(
    State(state): State<Arc<AppState>>,
    client: Client,
    Query(query): Query<HealthQuery>,
) -> Result<Response, Problem> {
    Ok(answer(readiness(&state, &query.issuers(&state, &client)?)))
}

/// Whether the process answers
///
/// 200, whatever the state of leases and store; 503 when a background task failed that cannot be
/// restarted, and the process is ending.
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "livez",
    responses((status = 200, description = "Whether the process answers", body = Health<'_>)),
    extensions(("x-problems" = json!(names(&[&[P::ShuttingDown]])))),
)]
pub(in crate::server) async fn live(
    State(state): State<Arc<AppState>>,
) -> Result<Response, Problem> {
    if state.has_failed() {
        let detail = "a background task failed, which was logged: the process is ending";
        return Err(Problem::passing(P::ShuttingDown, detail, RETRY_UNKNOWN));
    }
    Ok(answer(Readiness::Ok))
}

impl HealthQuery {
    /// Returns the namespaces that the request is about: one, or all.
    fn issuers<'a>(
        self,
        state: &'a AppState,
        client: &Client,
    ) -> Result<Vec<&'a NamespaceIssuer>, Problem> {
        let Some(name) = self.namespace else { return Ok(state.issuers.values().collect()) };
        client.caller.check_namespace(&name, Some(&name))?;
        let issuer = state.issuers.get(&name).map(|issuer| vec![issuer]);
        // The text does not list the namespaces that exist: the caller may have no token.
        let unknown = || format!("namespace {name:?} does not exist");
        issuer.ok_or_else(|| Problem::new(P::UnknownNamespace, unknown()))
    }
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

impl Readiness {
    fn code(self) -> StatusCode {
        if self == Self::Ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
    }
}

/// Returns the response without namespaces. A response this small needs no reservation, so the
/// service answers probes while memory for responses is used up.
fn answer(status: Readiness) -> Response {
    let health = Health { status, namespaces: BTreeMap::new() };
    with_retry(status, uncached_json(status.code(), &health))
}

fn with_retry(status: Readiness, mut response: Response) -> Response {
    if status != Readiness::Ok {
        let retry_after = retry_after_seconds(RETRY_UNKNOWN).into();
        response.headers_mut().insert(header::RETRY_AFTER, retry_after);
    }
    response
}
