//! `/cluster`: who holds which worker id, in every namespace.

use std::{collections::BTreeMap, sync::Arc};

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::health::NamespaceHealth;
use crate::{
    core::{instant::format_unix_ms, layout::Layout, namespace::DEFAULT_NAMESPACE},
    keeper::{KeeperSettings, Operator, OperatorError, WorkerRelease},
    server::{
        auth::Permission,
        body,
        history::Report,
        params::{invalid, read_body},
        problem::{Problem, ProblemCode as P, RETRY_UNKNOWN},
        route::{Call, Handler, HandlerFuture, Kind, Listener, Route, schemas_of},
    },
    store::ListedRow,
};

pub(in crate::server) static ROUTE: Route = Route {
    summary: "Who holds which worker id",
    description: "Every worker id that is held, in every namespace, as the store has it now.",
    kind: Kind::Liveness,
    listener: Listener::Operators,
    permission: Some(Permission::Admin),
    content: &[("application/json", || json!({ "type": "object" }))],
    problems: &[P::Forbidden, P::Overloaded, P::StoreUnavailable, P::StoreLost],
    ..Route::new("/cluster", Handler::Later(cluster))
};

pub(in crate::server) static RELEASE: Route = Route {
    path: "/cluster/release",
    operation: "release",
    summary: "Frees a worker id early",
    description: "Always safe: a holder that still runs uses up its lease, whose IDs the next \
                  holder never issues, and then leases another worker id.",
    kind: Kind::Action,
    problems: &[
        P::InvalidParameter,
        P::Forbidden,
        P::UnknownNamespace,
        P::Conflict,
        P::UnsupportedMediaType,
        P::StoreUnavailable,
        P::StoreLost,
    ],
    body: Some(("ReleaseBody", schemas_of::<ReleaseBody>)),
    handler: Handler::Later(release),
    ..ROUTE
};

/// Which worker id to free.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReleaseBody {
    #[serde(default = "default_namespace")]
    #[schema(example = "default")]
    namespace: String,
    worker_id: u64,
}

fn default_namespace() -> String {
    DEFAULT_NAMESPACE.to_owned()
}

#[derive(Serialize)]
struct Cluster<'a> {
    /// This node's clock.
    now: String,
    /// Whether nobody on the network can pose as the store.
    store_verified: bool,
    namespaces: BTreeMap<&'a str, Namespace>,
    /// What this node did lately.
    history: Report,
}

#[derive(Serialize)]
struct Namespace {
    /// What `/health` says of this node.
    #[serde(flatten)]
    node: NamespaceHealth,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<Vec<Worker>>,
}

/// A worker id that is held.
#[derive(Serialize)]
struct Worker {
    worker_id: u64,
    lane: usize,
    holder: String,
    renewed: String,
    expires: String,
}

/// Answers who holds which worker id.
fn cluster<'a>(call: &'a Call<'a>) -> HandlerFuture<'a> {
    Box::pin(async move {
        let (rows, store_verified) = call.state.list_rows().await?;
        let draining = call.state.is_draining();
        let issuers = call.state.issuers.values();
        let namespaces = issuers.filter(|issuer| call.caller.may_use(issuer.namespace()));
        let namespaces = namespaces.map(|issuer| {
            let layout = issuer.layout();
            let namespace = Namespace {
                node: NamespaceHealth::of(issuer, draining, true),
                layout: layout.map(Layout::canonical),
                workers: layout.map(|layout| held(&rows, issuer.namespace(), layout)),
            };
            (issuer.namespace(), namespace)
        });
        let now = format_unix_ms(call.state.clock.now_ms());
        let (namespaces, history) = (namespaces.collect(), call.state.history.report());
        let cluster = Cluster { now, store_verified, namespaces, history };
        Ok(body::uncached_json(StatusCode::OK, &cluster))
    })
}

/// Frees a worker id.
fn release<'a>(call: &'a Call<'a>) -> HandlerFuture<'a> {
    Box::pin(async move {
        let ReleaseBody { namespace, worker_id } = read_body(&call.body)?;
        call.caller.check_namespace(&namespace, Some(&namespace))?;
        let Some(layout) = call.state.issuer(&namespace)?.layout() else {
            let detail =
                format!("namespace {namespace:?} is in segment mode: it has no worker ids");
            return Err(invalid(detail));
        };
        let settings = KeeperSettings {
            namespace: namespace.clone(),
            ..KeeperSettings::new(layout.clone(), "")
        };
        let (store, _turn) = call.state.store().await?;
        let mut operator = Operator::new(settings, store, Arc::clone(&call.state.clock));
        let (released, row) = match operator.release(worker_id).await {
            Ok(WorkerRelease::Released(row)) => (true, row),
            Ok(WorkerRelease::AlreadyFree(row)) => (false, row),
            Err(error) => {
                let code = match error {
                    OperatorError::WorkerOutOfRange { .. } => P::InvalidParameter,
                    OperatorError::Store(_) => {
                        let detail = error.to_string();
                        return Err(Problem::passing(P::StoreUnavailable, detail, RETRY_UNKNOWN));
                    }
                    _ => P::Conflict,
                };
                return Err(Problem::new(code, error.to_string()));
            }
        };
        let by = call.caller.name().unwrap_or("an operator");
        let (worker, holder) = (worker_id, &row.holder);
        tracing::info!(namespace, worker, holder, by, released, "worker id released");
        let answer = if released {
            json!({
                "released": true,
                "holder": row.holder,
                "expires": format_unix_ms(row.expires_ms),
            })
        } else {
            json!({ "released": false })
        };
        Ok(body::uncached_json(StatusCode::OK, &answer))
    })
}

fn held(rows: &[ListedRow], namespace: &str, layout: &Layout) -> Vec<Worker> {
    let reserved_key = layout.reserved_key();
    let of_it = |row: &&ListedRow| {
        row.namespace == namespace && row.reserved_key == reserved_key && !row.row.free
    };
    let worker = |listed: &ListedRow| Worker {
        worker_id: listed.row.worker,
        lane: listed.row.lane,
        holder: listed.row.holder.clone(),
        renewed: format_unix_ms(listed.row.heartbeat_ms),
        expires: format_unix_ms(listed.row.expires_ms),
    };
    rows.iter().filter(of_it).map(worker).collect()
}
