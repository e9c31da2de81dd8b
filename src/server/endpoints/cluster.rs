//! `/cluster`: who holds which worker id, in every namespace.

use std::collections::BTreeMap;

use axum::http::{Response, StatusCode};
use serde::Serialize;

use super::health::NamespaceHealth;
use crate::{
    core::{instant::format_unix_ms, layout::Layout},
    server::{
        body::{self, ResponseBody},
        problem::Problem,
        route::{Call, Handler, Listener, Route},
    },
    store::ListedRow,
};

pub(in crate::server) static ROUTE: Route = Route {
    summary: "Who holds which worker id",
    description: "Every worker id that is held, in every namespace, as the store has it now.",
    listener: Listener::OperatorsOnly,
    needs_token: false,
    ..Route::new("/cluster", Handler::Cluster)
};

#[derive(Serialize)]
struct Cluster<'a> {
    /// Whether nobody on the network can pose as the store.
    store_verified: bool,
    namespaces: BTreeMap<&'a str, Namespace>,
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
    expires: String,
}

/// Answers who holds which worker id.
pub(in crate::server) async fn cluster(call: &Call<'_>) -> Result<Response<ResponseBody>, Problem> {
    let (rows, store_verified) = call.state.list_rows().await?;
    let draining = call.state.is_draining();
    let namespaces = call.state.issuers.values().map(|issuer| {
        let layout = issuer.layout();
        let namespace = Namespace {
            node: NamespaceHealth::of(issuer, draining, true),
            layout: layout.map(Layout::canonical),
            workers: layout.map(|layout| held(&rows, issuer.namespace(), layout)),
        };
        (issuer.namespace(), namespace)
    });
    let cluster = Cluster { store_verified, namespaces: namespaces.collect() };
    Ok(body::uncached_json(StatusCode::OK, &cluster))
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
        expires: format_unix_ms(listed.row.expires_ms),
    };
    rows.iter().filter(of_it).map(worker).collect()
}
