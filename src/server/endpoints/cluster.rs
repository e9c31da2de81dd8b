//! `/cluster`: who holds which worker id, in every namespace.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::health::NamespaceHealth;
use crate::{
    core::{instant::format_unix_ms, layout::Layout},
    server::{problem::Problem, state::AppState},
    store::ListedRow,
};

#[derive(Serialize)]
struct Cluster<'a> {
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

/// Every worker id that is held, as the store has it now.
pub(in crate::server) async fn cluster(
    State(state): State<Arc<AppState>>,
) -> Result<Response, Problem> {
    let rows = state.list_rows().await?;
    let draining = state.is_draining();
    let namespaces = state.issuers().map(|issuer| {
        let layout = issuer.layout();
        let namespace = Namespace {
            node: NamespaceHealth::of(issuer, draining),
            layout: layout.map(Layout::canonical),
            workers: layout.map(|layout| held(&rows, issuer.namespace(), layout)),
        };
        (issuer.namespace(), namespace)
    });
    let cluster = Cluster { namespaces: namespaces.collect() };
    let body = serde_json::to_string(&cluster).expect("texts and numbers are always JSON");
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
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
