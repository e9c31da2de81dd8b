//! `/cluster`: who holds which worker id, in every namespace.

mod workers;

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, http::StatusCode, response::Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

pub(crate) use self::workers::{Worker, WorkerList, WorkerState, has_layout};
use super::health::NamespaceHealth;
use crate::{
    core::{instant::format_unix_ms, layout::Layout, namespace::DEFAULT_NAMESPACE},
    keeper::{KeeperSettings, NamespaceIssuer, Operator, OperatorError, WorkerRelease},
    server::{
        extract::{Client, JsonBody, Query, invalid},
        metrics::history::Report,
        openapi::names,
        response::{Problem, ProblemCode as P, body::uncached_json, store_problem, store_text},
        state::AppState,
    },
    store::ListedRow,
};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct ClusterQuery {
    /// Whether `workers` has each worker id that has a row, of every value of the reserved bits, as
    /// `raindrop workers --all --json` prints them, and each namespace their counts; else those
    /// that are held.
    #[serde(default)]
    #[param(required = false)]
    all: bool,
}

/// Which worker id to free.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::server) struct ReleaseBody {
    #[serde(default = "default_namespace")]
    #[schema(example = "default")]
    namespace: String,
    worker_id: u64,
}

fn default_namespace() -> String {
    DEFAULT_NAMESPACE.to_owned()
}

/// The result of a release of a worker id.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ReleaseDocument {
    /// False if the worker id was free already.
    pub(crate) released: bool,
    /// The holder until the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<String>,
    /// When the lease would have expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<String>,
}

impl From<&WorkerRelease> for ReleaseDocument {
    fn from(release: &WorkerRelease) -> Self {
        match release {
            WorkerRelease::Released(row) => Self {
                released: true,
                holder: Some(row.holder.clone()),
                expires: Some(format_unix_ms(row.expires_ms)),
            },
            WorkerRelease::AlreadyFree(_) => Self { released: false, holder: None, expires: None },
        }
    }
}

#[derive(Serialize)]
struct Cluster<'a> {
    /// This node's clock.
    now: String,
    /// Whether no other server on the network can pose as the store; absent if it never answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    store_verified: Option<bool>,
    /// Why the store did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    store_error: Option<String>,
    /// How long ago the store listed `workers`; null if it never did.
    workers_age_seconds: Option<u64>,
    namespaces: BTreeMap<&'a str, Namespace>,
    /// The work of this node in the last ten minutes.
    history: Report,
}

#[derive(Serialize)]
struct Namespace {
    /// The same as in `/health` of this node.
    #[serde(flatten)]
    node: NamespaceHealth,
    #[serde(flatten)]
    leases: Option<Leases>,
}

/// The worker ids of a namespace that has some.
#[derive(Serialize)]
#[serde(untagged)]
enum Leases {
    Held {
        layout: String,
        /// The worker ids that are held; null if the store never answered.
        workers: Option<Vec<HeldWorker>>,
    },
    /// With `all`.
    All(WorkerList),
}

/// A worker id that is held.
#[derive(Serialize)]
struct HeldWorker {
    worker_id: u64,
    lane: usize,
    holder: String,
    renewed: String,
    expires: String,
}

/// Who holds which worker id
///
/// Every worker id that is held, in every namespace, as the store has it now. If the store does not
/// answer within a second, `store_error` says why. `workers` is then the last list that the store
/// returned, or null, and `workers_age_seconds` the age of that list.
#[utoipa::path(
    get,
    path = "/cluster",
    operation_id = "cluster",
    params(ClusterQuery),
    responses((status = 200, description = "Who holds which worker id", body = Object)),
)]
pub(in crate::server) async fn cluster(
    State(state): State<Arc<AppState>>,
    client: Client,
    Query(ClusterQuery { all }): Query<ClusterQuery>,
) -> Result<Response, Problem> {
    let (listing, error) = state.list_rows().await?;
    let store_error = error.map(|error| store_text(&error, client.is_operator()));
    let workers_age_seconds = listing.as_ref().map(|listing| listing.age().as_secs());
    let store_verified = listing.as_ref().map(|listing| listing.verified);
    let issuers = state.issuers.values();
    let is_shown = |name: &str| client.caller.may_use(name);
    let namespaces = issuers.filter(|issuer| is_shown(issuer.namespace()));
    let namespaces = namespaces.map(|issuer| {
        let leases = |layout: &Layout| match &listing {
            Some(listing) if all => Leases::All(state.worker_list(listing, issuer.namespace())),
            _ => Leases::Held {
                layout: layout.canonical(),
                workers: listing.as_ref().map(|it| held(&it.rows, issuer.namespace(), layout)),
            },
        };
        let namespace = Namespace {
            node: NamespaceHealth::of(issuer, &state, client.is_operator()),
            leases: issuer.layout().map(leases),
        };
        (issuer.namespace(), namespace)
    });
    let now = format_unix_ms(state.clock.now_ms());
    let (namespaces, history) = (namespaces.collect(), state.history.report(is_shown));
    let cluster =
        Cluster { now, store_verified, store_error, workers_age_seconds, namespaces, history };
    client.json(StatusCode::OK, &cluster)
}

/// Frees a worker id early
///
/// Always safe: a holder that still runs notices, at the latest after `lease.renew`, and leases
/// another worker id; the next holder never issues its IDs.
#[utoipa::path(
    post,
    path = "/cluster/release",
    operation_id = "release",
    request_body = ReleaseBody,
    responses((status = 200, description = "Frees a worker id early", body = Object)),
    extensions(("x-problems" = json!(names(&[RELEASE])))),
)]
pub(in crate::server) async fn release(
    State(state): State<Arc<AppState>>,
    client: Client,
    JsonBody(ReleaseBody { namespace, worker_id }): JsonBody<ReleaseBody>,
) -> Result<Response, Problem> {
    client.caller.check_namespace(&namespace, Some(&namespace))?;
    let NamespaceIssuer::Snowflake(issuer) = state.issuer(&namespace)? else {
        let detail = format!("namespace {namespace:?} is in segment mode: it has no worker ids");
        return Err(invalid(detail));
    };
    let settings = KeeperSettings {
        namespace: namespace.clone(),
        lease: issuer.lease_times(),
        ..KeeperSettings::new(issuer.layout().clone(), "")
    };
    let store = state.store().await?;
    let mut operator = Operator::new(settings, Arc::clone(&store), Arc::clone(&state.clock));
    let release = match operator.release(worker_id).await {
        Ok(release) => release,
        Err(error) => {
            let code = match error {
                OperatorError::WorkerOutOfRange { .. } => P::InvalidParameter,
                OperatorError::Store(error) => {
                    return Err(store_problem(&error, client.is_operator()));
                }
                _ => P::Conflict,
            };
            return Err(Problem::new(code, error.to_string()));
        }
    };
    let by = client.caller.name().unwrap_or("an operator");
    let answer = ReleaseDocument::from(&release);
    let (WorkerRelease::Released(row) | WorkerRelease::AlreadyFree(row)) = &release;
    let (worker, holder, released) = (worker_id, &row.holder, answer.released);
    tracing::info!(namespace, worker, holder, by, released, "worker id released");
    Ok(uncached_json(StatusCode::OK, &answer))
}

const RELEASE: &[P] = &[
    P::InvalidParameter,
    P::UnknownNamespace,
    P::Conflict,
    P::UnsupportedMediaType,
    P::StoreUnavailable,
    P::StoreLost,
];

fn held(rows: &[ListedRow], namespace: &str, layout: &Layout) -> Vec<HeldWorker> {
    let reserved_key = layout.reserved_key();
    let of_it = |row: &&ListedRow| {
        row.namespace == namespace && row.reserved_key == reserved_key && !row.row.free
    };
    let worker = |listed: &ListedRow| HeldWorker {
        worker_id: listed.row.worker,
        lane: listed.row.lane,
        holder: listed.row.holder.clone(),
        renewed: format_unix_ms(listed.row.heartbeat_ms),
        expires: format_unix_ms(listed.row.expires_ms),
    };
    rows.iter().filter(of_it).map(worker).collect()
}
