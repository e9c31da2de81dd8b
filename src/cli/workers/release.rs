//! `raindrop workers release`.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::{HeaderMap, Method};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use super::{Target, no_worker_ids};
use crate::{
    cli::{client::Client, confirm::Confirmation, failure::Failure, output::Report},
    core::{instant::format_unix_ms, lease::Row},
    keeper::{OperatorError, WorkerRelease},
    server::{ReleaseDocument, unknown_namespace},
};

/// The document that `raindrop workers release --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    /// Whether all worker ids are free now.
    done: bool,
    namespace: &'a str,
    workers: Vec<Released>,
}

/// A worker id, with the answer of `POST /cluster/release`.
#[derive(Serialize)]
struct Released {
    worker_id: u64,
    #[serde(flatten)]
    document: ReleaseDocument,
}

impl Released {
    /// Describes a row that is not released, or not yet.
    fn not_yet(row: &Row) -> Self {
        let held = |text: String| (!row.free).then_some(text);
        let (holder, expires) = (row.holder.clone(), format_unix_ms(row.expires_ms));
        let document =
            ReleaseDocument { released: false, holder: held(holder), expires: held(expires) };
        Self { worker_id: row.worker, document }
    }
}

pub(super) async fn release(
    target: &mut Target<'_>,
    workers: &[u64],
    confirmation: &Confirmation,
) -> Result<(), Failure> {
    let (report, namespace) = (target.report, target.settings.namespace.clone());
    // Refuse an unknown worker id before any is released.
    workers.iter().try_for_each(|worker| target.operator.check_worker(*worker))?;
    if target.is_unused().await? {
        return Err(OperatorError::NoRow { worker: workers[0] }.into());
    }
    let mut rows = Vec::new();
    for worker in BTreeSet::from_iter(workers) {
        rows.push(target.operator.preview_release(*worker).await?);
    }
    let held: Vec<_> = rows.iter().filter(|row| !row.free).collect();
    if !held.is_empty() {
        confirmation.check("workers release")?;
        let place = target.place();
        for row in held {
            report.say(&frees(&place, row.worker, &row.holder, &format_unix_ms(row.expires_ms)))?;
        }
        report.say(STILL_RUNS)?;
        if !confirmation.is_given()? {
            let workers = rows.iter().map(Released::not_yet).collect();
            return report.document(&Document { done: false, namespace: &namespace, workers });
        }
    }
    let mut workers = Vec::new();
    let result = release_all(target, rows, &mut workers).await;
    report.document(&Document { done: result.is_ok(), namespace: &namespace, workers })?;
    result
}

/// Releases these rows one after the other, and adds what became of each.
async fn release_all(
    target: &mut Target<'_>,
    rows: Vec<Row>,
    workers: &mut Vec<Released>,
) -> Result<(), Failure> {
    for row in rows {
        let worker = row.worker;
        let released = if row.free {
            WorkerRelease::AlreadyFree(row)
        } else {
            let now = target.operator.preview_release(worker).await?;
            if !now.free && now.holder != row.holder {
                // The operator has not confirmed the release from this holder.
                return Err(OperatorError::RowChanged { now: now.into() }.into());
            }
            target.operator.release(worker).await?
        };
        let document = ReleaseDocument::from(&released);
        target.report.say(&became(worker, &document))?;
        workers.push(Released { worker_id: worker, document });
    }
    Ok(())
}

/// The effect of a release on a holder that still runs.
const STILL_RUNS: &str =
    "a holder that still runs may issue IDs up to its mark, and then leases another worker id";

fn frees(place: &str, worker: u64, holder: &str, expires: &str) -> String {
    format!("{place}: frees worker {worker}, which {holder} holds until {expires}")
}

/// Says what became of a worker id.
fn became(worker: u64, document: &ReleaseDocument) -> String {
    match document {
        ReleaseDocument { released: true, holder: Some(holder), expires: Some(expires) } => {
            format!(
                "worker {worker} is free. It was held by {holder} until {expires}; the next lease \
                 starts above its mark"
            )
        }
        _ => format!("worker {worker} was free already"),
    }
}

/// The part of `/cluster` that is read: worker ids, by namespace.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Cluster<T> {
    store_error: Option<String>,
    namespaces: BTreeMap<String, Leases<T>>,
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Leases<T> {
    /// Absent in segment mode.
    workers: Option<Vec<T>>,
}

#[derive(Deserialize)]
struct KnownWorker {
    worker_id: u64,
}

#[derive(Clone, Deserialize)]
struct HeldWorker {
    worker_id: u64,
    holder: String,
    expires: String,
}

/// Returns the worker ids of a namespace that `/cluster` lists; `None` in segment mode.
async fn workers_of<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    namespace: &str,
) -> Result<Option<Vec<T>>, Failure> {
    let Cluster { store_error, mut namespaces } = client.get(path).await?;
    if let Some(reason) = store_error {
        return Err(Failure::Failed(format!("the store of the service: {reason}")));
    }
    let leases = namespaces
        .remove(namespace)
        .ok_or_else(|| Failure::Usage(unknown_namespace(namespace, namespaces.keys())))?;
    Ok(leases.workers)
}

/// Refuses worker ids without a row, and a namespace without worker ids, before any is released.
async fn check_known(
    client: &Client,
    namespace: &str,
    chosen: &BTreeSet<u64>,
) -> Result<(), Failure> {
    let known = workers_of::<KnownWorker>(client, "/cluster?all=true", namespace).await?;
    let known = known.ok_or_else(|| no_worker_ids(namespace))?;
    let known: BTreeSet<u64> = known.iter().map(|known| known.worker_id).collect();
    let unknown = chosen.difference(&known).next();
    unknown.map_or(Ok(()), |worker| Err(OperatorError::NoRow { worker: *worker }.into()))
}

/// Returns who holds these worker ids now, by worker id.
async fn holders(
    client: &Client,
    namespace: &str,
    workers: &BTreeSet<u64>,
) -> Result<BTreeMap<u64, HeldWorker>, Failure> {
    let held = workers_of::<HeldWorker>(client, "/cluster", namespace).await?;
    let held =
        held.unwrap_or_default().into_iter().filter(|worker| workers.contains(&worker.worker_id));
    Ok(held.map(|worker| (worker.worker_id, worker)).collect())
}

/// Releases worker ids through a service, as [`release`] does in the store.
pub(super) async fn release_remote(
    client: &Client,
    namespace: &str,
    workers: &[u64],
    confirmation: &Confirmation,
    report: Report,
) -> Result<(), Failure> {
    let chosen: BTreeSet<u64> = workers.iter().copied().collect();
    check_known(client, namespace, &chosen).await?;
    let held = holders(client, namespace, &chosen).await?;
    if confirmation.is_dry_run() || !held.is_empty() {
        confirmation.check("workers release")?;
        let place = format!("service {}, namespace {namespace}", client.address());
        for HeldWorker { worker_id, holder, expires } in held.values() {
            report.say(&frees(&place, *worker_id, holder, expires))?;
        }
        if !held.is_empty() {
            report.say(STILL_RUNS)?;
        }
        if !confirmation.is_given()? {
            let not_yet = |worker_id: &u64| {
                let held = held.get(worker_id).cloned();
                let (holder, expires) = held.map(|it| (it.holder, it.expires)).unzip();
                let document = ReleaseDocument { released: false, holder, expires };
                Released { worker_id: *worker_id, document }
            };
            let workers = chosen.iter().map(not_yet).collect();
            return report.document(&Document { done: false, namespace, workers });
        }
    }
    let mut workers = Vec::new();
    let result = release_each(client, namespace, &chosen, &held, report, &mut workers).await;
    report.document(&Document { done: result.is_ok(), namespace, workers })?;
    result
}

/// Releases these worker ids one after the other, and adds what became of each.
async fn release_each(
    client: &Client,
    namespace: &str,
    chosen: &BTreeSet<u64>,
    confirmed: &BTreeMap<u64, HeldWorker>,
    report: Report,
    workers: &mut Vec<Released>,
) -> Result<(), Failure> {
    for (worker, HeldWorker { holder, .. }) in holders(client, namespace, chosen).await? {
        if confirmed.get(&worker).is_none_or(|confirmed| confirmed.holder != holder) {
            // The operator has not confirmed the release from this holder.
            return Err(Failure::Failed(format!(
                "worker {worker} is now held by {holder}, which was not confirmed: nothing was \
                 released; run this again"
            )));
        }
    }
    for worker in chosen {
        let body = json!({ "namespace": namespace, "worker_id": worker });
        let document: ReleaseDocument =
            client.change(Method::POST, "/cluster/release", HeaderMap::new(), Some(&body)).await?;
        report.say(&became(*worker, &document))?;
        workers.push(Released { worker_id: *worker, document });
    }
    Ok(())
}
