//! What every request shares.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Mutex;

use super::{
    auth::Auth,
    clients::Clients,
    issuer::NamespaceIssuer,
    metrics::Metrics,
    problem::{Problem, ProblemCode, RETRY_UNKNOWN},
};
use crate::{
    config::{Codes, HttpConfig},
    core::clock::Clock,
    keeper::Backfill,
    store::{ListedRow, Store, StoreError, with_sources},
};

/// The error for a namespace that does not exist.
pub(crate) fn unknown_namespace<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let known: Vec<&str> = known.map(String::as_str).collect();
    format!("namespace {name:?} does not exist; existing namespaces: {}", known.join(", "))
}

/// What every request shares; behind one `Arc`.
#[derive(Debug)]
pub struct AppState {
    pub(super) issuers: BTreeMap<String, NamespaceIssuer>,
    pub(super) backfills: BTreeMap<String, Backfill>,
    pub(super) auth: Option<Arc<Auth>>,
    pub(super) codes: Codes,
    pub(super) http: HttpConfig,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
    pub(super) clients: Clients,
    in_flight: AtomicUsize,
    draining: AtomicBool,
    failed: AtomicBool,
    /// The store of every node's worker ids, and its time-out; locked for one query at a time.
    cluster: Mutex<Option<(Arc<dyn Store>, Duration)>>,
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight<'a>(&'a AtomicUsize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AppState {
    /// The state of a service that issues from these.
    pub fn new(
        issuers: impl IntoIterator<Item: Into<NamespaceIssuer>>,
        codes: Codes,
        http: HttpConfig,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Self {
        let by_name = |issuer: NamespaceIssuer| (issuer.namespace().to_owned(), issuer);
        Self {
            issuers: issuers.into_iter().map(Into::into).map(by_name).collect(),
            backfills: BTreeMap::new(),
            auth: None,
            codes,
            clients: Clients::new(&http),
            in_flight: AtomicUsize::new(0),
            http,
            clock,
            metrics,
            draining: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            cluster: Mutex::new(None),
        }
    }

    /// Enables backfill in these namespaces.
    #[must_use]
    pub fn with_backfills(mut self, backfills: impl IntoIterator<Item = Backfill>) -> Self {
        let by_name = |backfill: Backfill| (backfill.namespace().to_owned(), backfill);
        self.backfills = backfills.into_iter().map(by_name).collect();
        self
    }

    /// Enables `/cluster`; each store query is bounded by `timeout`.
    #[must_use]
    pub fn with_cluster(mut self, store: Arc<dyn Store>, timeout: Duration) -> Self {
        self.cluster = Mutex::new(Some((store, timeout)));
        self
    }

    /// Every worker row of the store.
    pub(super) async fn list_rows(&self) -> Result<Vec<ListedRow>, Problem> {
        let cluster = self.cluster.lock().await;
        let Some((store, timeout)) = &*cluster else {
            let detail = "this service has no store to query";
            return Err(Problem::new(ProblemCode::NotFound, detail));
        };
        let rows = tokio::time::timeout(*timeout, store.list()).await;
        rows.unwrap_or(Err(StoreError::TimedOut { after: *timeout })).map_err(|error| {
            let code = match error {
                StoreError::Vanished(_) => ProblemCode::StoreLost,
                _ => ProblemCode::StoreUnavailable,
            };
            Problem::passing(code, with_sources(&error), RETRY_UNKNOWN)
        })
    }

    /// Requires one of these tokens.
    #[must_use]
    pub fn with_auth(mut self, auth: Arc<Auth>) -> Self {
        self.auth = Some(auth);
        self
    }

    /// The issuer of a namespace.
    pub(super) fn issuer(&self, name: &str) -> Result<&NamespaceIssuer, Problem> {
        self.issuers.get(name).ok_or_else(|| {
            let detail = unknown_namespace(name, self.issuers.keys());
            Problem::new(ProblemCode::UnknownNamespace, detail)
        })
    }

    /// Counts a request in flight until the result is dropped.
    pub(super) fn enter(&self) -> Result<InFlight<'_>, Problem> {
        let request = InFlight(&self.in_flight);
        if self.in_flight.fetch_add(1, Ordering::Relaxed) < self.http.max_in_flight {
            return Ok(request);
        }
        let detail = format!("{} requests are in flight", self.http.max_in_flight);
        Err(Problem::passing(ProblemCode::Overloaded, detail, Duration::from_secs(1)))
    }

    /// Makes `/readyz` answer 503 from now on; requests are still answered.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Makes `/livez` answer 503 from now on: a background task that cannot be restarted failed.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Whether the service is shutting down.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}
