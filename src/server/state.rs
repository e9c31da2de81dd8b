//! The state that all requests share.
//!
//! [`AppState`] has the issuers, the settings and the metrics of a service, and the last listing of
//! the rows in the store. It bounds the claims in flight, and serves requests for a past time one
//! at a time, so that renewals do not queue behind them. Handlers take what they need from it; none
//! of them changes it, apart from counters and permits. The state starts and stops nothing:
//! `service` does, and calls [`AppState::drain`] and [`AppState::fail`]. Tests: tests/http.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use tokio::{
    sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit, watch},
    time::{Instant, timeout, timeout_at},
};

use super::{
    clients::Clients,
    listener::HeadBudget,
    memory::{max_heads, max_unsent, most_connections},
    metrics::{Metrics, history::History},
    request_log::RequestLog,
    response::{Problem, ProblemCode, UnsentBudget},
    routes::cluster::{WorkerList, has_layout},
};
use crate::{
    auth::Auth,
    config::{Codes, Config, HttpConfig, LogConfig, LoggedRequests},
    core::{clock::Clock, preset::foreign::ForeignLayout},
    keeper::{Backfill, KeeperSettings, NamespaceIssuer},
    plan::Plan,
    process::log_level::LogLevel,
    store::{ListedRow, Store, StoreError},
};

/// Returns the error text for a namespace that does not exist.
pub(crate) fn unknown_namespace<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let known: Vec<&str> = known.map(String::as_str).collect();
    format!("namespace {name:?} does not exist; existing namespaces: {}", known.join(", "))
}

/// Returns the error text for a code that a segment namespace does not know.
pub(crate) fn unknown_segment_code(code: &str, namespace: &str) -> String {
    format!(
        "code {code:?} is not among the configured codes of the segment namespace {namespace:?}; \
         an operator adds it with a [[code]] entry or codes.allow in the configuration, with \
         segment.auto_create = true, or with `raindrop codes create`"
    )
}

/// How long `/cluster` waits for the store before it answers with what the node knows.
const LIST_PATIENCE: Duration = Duration::from_secs(1);

/// The worker rows as the store listed them.
#[derive(Debug)]
pub(super) struct Listing {
    /// With the marks that count in the present epoch, in the namespaces of `known`.
    pub(super) rows: Vec<ListedRow>,
    /// The namespaces whose recorded layout is the configured one.
    known: BTreeSet<String>,
    /// Whether the store was verified then.
    pub(super) verified: bool,
    read: Instant,
}

impl Listing {
    async fn read(store: &dyn Store, leasing: &[KeeperSettings]) -> Result<Self, StoreError> {
        let mut rows = store.list_rows().await?;
        let mut known = BTreeSet::new();
        for settings in leasing {
            // The rows can be shown without it.
            let record = store.read_record(&settings.namespace).await.unwrap_or(None);
            if has_layout(settings, record.as_ref(), &mut rows) {
                known.insert(settings.namespace.clone());
            }
        }
        Ok(Self { rows, known, verified: store.is_verified(), read: Instant::now() })
    }

    pub(super) fn age(&self) -> Duration {
        self.read.elapsed()
    }
}

/// The state that all requests share, behind one `Arc`.
#[derive(Debug)]
pub struct AppState {
    pub(super) issuers: BTreeMap<String, NamespaceIssuer>,
    pub(super) backfills: BTreeMap<String, Backfill>,
    /// Locked for each request for a past time. One at a time reaches the store, so that renewals
    /// do not queue behind many of them.
    backfill_turn: Mutex<()>,
    pub(super) auth: Option<Arc<Auth>>,
    pub(super) codes: Codes,
    pub(super) http: HttpConfig,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
    pub(super) request_log: RequestLog,
    /// `None` if the program has a log of its own.
    pub(super) log_level: Option<LogLevel>,
    pub(super) history: History,
    pub(super) unsent_budget: UnsentBudget,
    pub(super) head_budget: HeadBudget,
    pub(super) clients: Clients,
    /// The configured layout of `default`, if it has one.
    pub(super) plan: Option<Plan>,
    /// The configured layouts by which `/parse` can read IDs.
    pub(super) layouts: Vec<ForeignLayout>,
    /// A permit for each claim that may be in flight.
    in_flight: Semaphore,
    /// The number of connections that clients may have open.
    pub(super) max_connections: usize,
    pub(super) draining: watch::Sender<bool>,
    failed: AtomicBool,
    /// The store that all nodes share. Operators' requests lock it, so that they query it one at a
    /// time.
    store: Option<Arc<Mutex<Arc<dyn Store>>>>,
    /// The same store, for what it knows without a query.
    known: Option<Arc<dyn Store>>,
    list_timeout: Duration,
    /// The namespaces that lease worker ids.
    leasing: Arc<[KeeperSettings]>,
    /// The last answer of the store to `/cluster`.
    listing: Arc<ArcSwapOption<Listing>>,
}

impl AppState {
    /// Creates the state of a service that issues with these issuers.
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
            unsent_budget: UnsentBudget::new(max_unsent(&http)),
            head_budget: HeadBudget::new(max_heads()),
            max_connections: most_connections(&http),
            backfills: BTreeMap::new(),
            backfill_turn: Mutex::default(),
            auth: None,
            plan: None,
            layouts: Vec::new(),
            codes,
            clients: Clients::new(&http),
            in_flight: Semaphore::new(http.max_in_flight),
            http,
            clock,
            metrics,
            request_log: RequestLog::new(LoggedRequests::Off, Duration::ZERO),
            log_level: None,
            history: History::default(),
            draining: watch::Sender::new(false),
            failed: AtomicBool::new(false),
            store: None,
            known: None,
            list_timeout: Duration::MAX,
            leasing: Arc::default(),
            listing: Arc::default(),
        }
    }

    /// Enables backfill in these namespaces.
    #[must_use]
    pub fn with_backfills(mut self, backfills: impl IntoIterator<Item = Backfill>) -> Self {
        let by_name = |backfill: Backfill| (backfill.namespace().to_owned(), backfill);
        self.backfills = backfills.into_iter().map(by_name).collect();
        self
    }

    /// Lets `/plan` judge the configured layout of `default` when a request names no other, and
    /// `/parse` read IDs by the configured layouts.
    #[must_use]
    pub fn with_layouts(mut self, config: &Config) -> Self {
        self.plan = Plan::configured(config);
        self.layouts.clone_from(&config.layouts);
        self
    }

    /// Logs the requests that `log.requests` selects.
    #[must_use]
    pub fn with_request_log(mut self, config: &LogConfig) -> Self {
        self.request_log = RequestLog::new(config.requests, config.slow_after);
        self
    }

    /// Enables `/cluster` and `/codes`. Listing the worker ids takes at most `timeout`.
    #[must_use]
    pub fn with_cluster(
        mut self,
        store: Arc<dyn Store>,
        timeout: Duration,
        leasing: impl IntoIterator<Item = KeeperSettings>,
    ) -> Self {
        self.leasing = leasing.into_iter().collect();
        self.known = Some(Arc::clone(&store));
        (self.store, self.list_timeout) = (Some(Arc::new(Mutex::new(store))), timeout);
        self
    }

    /// Returns which Kubernetes Lease keeps no labels and why, as [`Store::refused_labels`] does.
    pub(super) fn refused_labels(&self) -> Option<String> {
        self.known.as_ref()?.refused_labels()
    }

    /// Waits until no other operator's request uses the store, and locks it until the guard is
    /// dropped.
    pub(super) async fn store(&self) -> Result<MutexGuard<'_, Arc<dyn Store>>, Problem> {
        let detail = "this service has no store to query";
        let none = || Problem::new(ProblemCode::NotFound, detail);
        Ok(self.store.as_ref().ok_or_else(none)?.lock().await)
    }

    /// Asks the store for every worker row. Returns what it listed last, by this request or an
    /// earlier one, and why this request got no answer from it.
    ///
    /// A request waits for one second. A longer query continues in the background, for at most the
    /// time-out of lists, and the next request gets its answer.
    pub(super) async fn list_rows(
        &self,
    ) -> Result<(Option<Arc<Listing>>, Option<StoreError>), Problem> {
        let none = || Problem::new(ProblemCode::NotFound, "this service has no store to query");
        let store = Arc::clone(self.store.as_ref().ok_or_else(none)?);
        let until = Instant::now() + LIST_PATIENCE.min(self.list_timeout);
        let late = || StoreError::TimedOut { after: LIST_PATIENCE.min(self.list_timeout) };
        let error = match timeout_at(until, store.lock_owned()).await {
            Err(_) => Some(late()),
            Ok(store) => {
                let (after, listing) = (self.list_timeout, Arc::clone(&self.listing));
                let leasing = Arc::clone(&self.leasing);
                let query = tokio::spawn(async move {
                    let listed = timeout(after, Listing::read(&**store, &leasing)).await;
                    let listed = listed.unwrap_or(Err(StoreError::TimedOut { after }))?;
                    listing.store(Some(Arc::new(listed)));
                    Ok(())
                });
                match timeout_at(until, query).await {
                    Err(_) => Some(late()),
                    Ok(Ok(answer)) => answer.err(),
                    Ok(Err(ended)) => match ended.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        // The runtime is shutting down, and this request with it.
                        Err(_) => Some(late()),
                    },
                }
            }
        };
        Ok((self.listing.load_full(), error))
    }

    /// Describes each worker id of a namespace that has a row.
    pub(super) fn worker_list(&self, listing: &Listing, namespace: &str) -> WorkerList {
        let is_known = listing.known.contains(namespace);
        let settings = self.leasing.iter().find(|it| is_known && it.namespace == namespace);
        WorkerList::of(namespace, &listing.rows, settings, self.clock.now_ms())
    }

    /// Requires a token or client certificate that `auth` knows.
    #[must_use]
    pub fn with_auth(mut self, auth: Arc<Auth>) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Returns the issuer of a namespace; an unknown one is a problem that names the known ones.
    pub(super) fn issuer(&self, name: &str) -> Result<&NamespaceIssuer, Problem> {
        self.issuers.get(name).ok_or_else(|| {
            let detail = unknown_namespace(name, self.issuers.keys());
            Problem::new(ProblemCode::UnknownNamespace, detail)
        })
    }

    /// Counts a claim as in flight until the permit is dropped. Refuses it if `http.max_in_flight`
    /// claims are in flight already.
    pub(super) fn begin_claim(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.in_flight.try_acquire().map_err(|_| {
            let detail = format!("{} requests are in flight", self.http.max_in_flight);
            Problem::passing(ProblemCode::Overloaded, detail, Duration::from_secs(1))
        })
    }

    /// Waits until no other request for a past time is being served, for at most half of
    /// `http.request_timeout`: the other half is left to serve this one.
    pub(super) async fn begin_backfill(&self) -> Result<MutexGuard<'_, ()>, Problem> {
        let turn = timeout(self.http.request_timeout / 2, self.backfill_turn.lock());
        turn.await.map_err(|_| {
            let detail = "too many requests for a past time are waiting";
            Problem::passing(ProblemCode::Overloaded, detail, Duration::from_secs(1))
        })
    }

    /// Records the counts of each namespace, interval after interval; never returns.
    pub(super) async fn record_history(&self) {
        let issuers = || self.issuers.values();
        let of = |issuer: &NamespaceIssuer| self.metrics.counts(issuer);
        let counts = || issuers().map(|issuer| (issuer.namespace(), of(issuer))).collect();
        self.history.follow(counts).await;
    }

    /// Makes `/readyz` answer 503 from now on. All other requests are still answered.
    pub fn drain(&self) {
        self.draining.send_replace(true);
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
        *self.draining.borrow()
    }
}
