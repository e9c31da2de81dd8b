//! Starts the service, serves, and stops it in order.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, time::Instant};

use super::{
    auth::{Auth, Hangups},
    connections::{serve, serve_admin},
    error::ServeError,
    issuer::NamespaceIssuer,
    keepers::{Ended, Keepers},
    metrics::Metrics,
    state::AppState,
    supervisor::{Supervised, Supervisor},
    task::Task,
};
use crate::{
    config::{Config, Mode, hide_password},
    core::{clock::Clock, instant::format_unix_ms_or_year},
    keeper::{
        Backfill, GivenBack, Issuer, KeeperError, Released, SegmentIssuer, Trouble, catch_panic,
    },
    store::Store,
};

/// Without a lease for this long, a log line says why.
const LEASE_EXPECTED_WITHIN: Duration = Duration::from_secs(3);

/// How many codes the start names.
const CODES_NAMED: usize = 10;

/// The parts of a service.
#[derive(Debug)]
pub struct Service {
    /// What to serve, and how.
    pub config: Config,
    /// Where; bound before any lease is taken, so that a taken port burns none.
    pub listener: TcpListener,
    /// Where operators ask, when `http.admin_listen` is set; bound as early.
    pub admin_listener: Option<TcpListener>,
    /// Where worker ids are leased and numbers are reserved.
    pub store: Arc<dyn Store>,
    /// The node's clock.
    pub clock: Arc<dyn Clock>,
}

impl Service {
    /// Serves until `shutdown` resolves; then drains, gives the leases back and returns within
    /// `http.drain_delay` and `http.shutdown_timeout`.
    ///
    /// With `auth.tokens_file`, SIGHUP reads that file again.
    ///
    /// # Errors
    ///
    /// When the service cannot go on: a namespace was recorded with another layout, the store's
    /// tables are not ours, the tokens cannot be read, or a background task failed. In the last
    /// case it stops in order first, with `/livez` answering 503.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServeError> {
        let Self { config, listener, admin_listener, store, clock } = self;
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        let auth = Auth::of(&config).map_err(ServeError::Tokens)?.map(Arc::new);
        let metrics = Metrics::new();
        let tasks = Supervisor::new(metrics.tasks.clone());
        let _reloading = match &auth {
            Some(auth) => Some(reload(&tasks, Arc::clone(auth)).map_err(ServeError::Hangup)?),
            None => None,
        };
        let mut keepers = Keepers::start(&config, &store, &clock, &metrics);
        let issuers = keepers.issuers();
        let codes = config.codes.clone();
        let backfills: Vec<Backfill> = config
            .keepers()
            // What forgets which IDs were handed out would hand them out again.
            .filter(|_| config.store.url != "memory:")
            .map(|settings| {
                let observer = metrics.observer(&settings.namespace);
                Backfill::new(settings.clone(), Arc::clone(&store), observer)
            })
            .collect();
        let state = AppState::new(issuers.clone(), codes, config.http.clone(), clock, metrics);
        let state = state.with_backfills(backfills);
        let state = state.with_cluster(Arc::clone(&store), config.store.timeout);
        let state = Arc::new(match auth {
            Some(auth) => state.with_auth(auth),
            None => state,
        });

        // A listener that failed has lost its connections and its socket: neither is restarted.
        let serving = serve(listener, Arc::clone(&state), tasks.stopping());
        let serving = tasks.essential(Task::PublicListener, serving);
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "listening on http://{address}");
        if let Some(auth) = &state.auth {
            let (file, tokens) = (auth.file().display(), auth.count());
            tracing::info!(%file, tokens, "requests need a token");
        }
        // Ends last: what happens at the end is seen, too.
        let mut operations = None;
        if let Some(listener) = admin_listener {
            let address = listener.local_addr().map_err(ServeError::Listener)?;
            tracing::info!("metrics, health and cluster on http://{address}");
            let serving = serve_admin(listener, Arc::clone(&state));
            operations = Some(tasks.essential(Task::AdminListener, serving));
        }
        warn_of_given_workers(&config);
        let announcing = announce_all(&tasks, issuers, address, &store_words(&config.store.url));
        let ended = tokio::select! {
            errors = keepers.failed(LEASE_EXPECTED_WITHIN) => Err(report(&tasks, errors).await),
            failure = tasks.failed() => Err(failure),
            stopped = catch_panic(shutdown) => match stopped {
                Ok(()) => Ok(()),
                Err(panic) => {
                    tasks.report_fatal(Task::StopSignal, format!("it panicked: {panic}"));
                    Err(tasks.failed().await)
                }
            },
        };
        if matches!(ended, Err(ServeError::Task { .. })) {
            state.fail();
        }
        state.drain();
        drop(announcing);
        if let Err(ServeError::Keepers(_)) = ended {
            serving.end_within(Duration::ZERO).await;
            keepers.release(config.http.shutdown_timeout).await;
            store.close().await;
            return ended;
        }

        tokio::time::sleep(config.http.drain_delay).await;
        let deadline = Instant::now() + config.http.shutdown_timeout;
        tasks.stop();
        let for_requests = config.http.shutdown_timeout - for_release(&config);
        if !serving.end_within(for_requests).await {
            tracing::warn!(after = ?for_requests, "requests are still open and are cut off");
        }
        let released = keepers.release(deadline.saturating_duration_since(Instant::now())).await;
        let _ = tokio::time::timeout_at(deadline, store.close()).await;
        released.iter().for_each(tell);
        drop(operations);
        ended
    }
}

/// Reads the tokens again at SIGHUP. It keeps nothing but the signals, so it may begin again.
fn reload(tasks: &Supervisor, auth: Arc<Auth>) -> std::io::Result<Supervised> {
    let hangups = Arc::new(Hangups::listen()?);
    Ok(tasks.restarted(Task::TokenReload, move || {
        let (hangups, auth) = (Arc::clone(&hangups), Arc::clone(&auth));
        async move { hangups.reload(&auth).await }
    }))
}

/// Says when each namespace issues. It only looks and logs, so it may begin again.
fn announce_all(
    tasks: &Supervisor,
    issuers: Vec<NamespaceIssuer>,
    address: SocketAddr,
    store: &str,
) -> Vec<Supervised> {
    let announcing = issuers.into_iter().map(|issuer| {
        let store = store.to_owned();
        tasks
            .restarted(Task::Announcement, move || announce(issuer.clone(), address, store.clone()))
    });
    announcing.collect()
}

/// Counts and logs the keepers' tasks that failed; keepers that gave up need another configuration
/// instead.
async fn report(tasks: &Supervisor, errors: Vec<KeeperError>) -> ServeError {
    let mut has_failed = false;
    for error in &errors {
        if let KeeperError::TaskFailed { task, reason } = error {
            tasks.report_fatal((*task).into(), reason.clone());
            has_failed = true;
        }
    }
    if has_failed { tasks.failed().await } else { ServeError::Keepers(errors) }
}

fn tell(ended: &Ended) {
    match ended {
        Ended::Lease(namespace, Released::Done) => {
            tracing::info!(namespace, "stopped; the worker id is free");
        }
        Ended::Lease(namespace, Released::NothingHeld) => {
            tracing::info!(namespace, "stopped; no worker id was held");
        }
        Ended::Lease(namespace, Released::GaveUp) => {
            tracing::warn!(namespace, "stopped; the worker id comes free after its ttl");
        }
        Ended::Segments(GivenBack { returned, lost }) => {
            tracing::info!(returned, lost, "stopped; unused numbers of segments were given back");
        }
    }
}

/// The part of the shutdown time-out that is kept for giving the leases back.
fn for_release(config: &Config) -> Duration {
    config.store.timeout.min(config.http.shutdown_timeout / 3)
}

/// Says what the worker ids rest on that were given.
fn warn_of_given_workers(config: &Config) {
    for namespace in &config.namespaces {
        let Mode::Snowflake { keeper, premise } = &namespace.mode else { continue };
        let (namespace, worker) = (&namespace.name, keeper.min_worker);
        match premise {
            Some(premise) if config.store.url == "memory:" => tracing::warn!(
                namespace,
                worker,
                "the worker id is given and nobody leases it: IDs are unique only while {premise}, \
                 and while no restart finds the clock behind"
            ),
            Some(_) => tracing::info!(
                namespace,
                worker,
                "the worker id is given: exactly its row is leased, and waited for while it is held"
            ),
            None => {}
        }
    }
}

/// Says when a namespace issues, or why it does not yet.
async fn announce(issuer: NamespaceIssuer, address: SocketAddr, store: String) {
    let words = match issuer {
        NamespaceIssuer::Snowflake(issuer) => lease_words(&issuer).await,
        NamespaceIssuer::Segment(issuer) => Some(segment_words(&issuer).await),
    };
    if let Some(words) = words {
        tracing::info!("serving IDs on http://{address} · store {store} · {words}");
    }
}

async fn lease_words(issuer: &Issuer) -> Option<String> {
    let namespace = issuer.namespace();
    let status = match tokio::time::timeout(LEASE_EXPECTED_WITHIN, issuer.leased()).await {
        Ok(status) => status,
        Err(_) => {
            warn_of_delay(namespace, issuer.status().trouble.as_ref());
            issuer.leased().await
        }
    };
    let (lease, layout) = (status.lease?, issuer.layout());
    Some(format!(
        "namespace {namespace} · worker {} · lane {} · {} · IDs valid until {}",
        lease.worker,
        lease.lane,
        layout.words(),
        format_unix_ms_or_year(layout.valid_until_ms()),
    ))
}

async fn segment_words(issuer: &SegmentIssuer) -> String {
    let namespace = issuer.namespace();
    if tokio::time::timeout(LEASE_EXPECTED_WITHIN, issuer.prepared()).await.is_err() {
        warn_of_delay(namespace, issuer.status().trouble.as_ref());
        issuer.prepared().await;
    }
    let codes = issuer.codes();
    let more = codes.len().saturating_sub(CODES_NAMED);
    let mut codes: Vec<String> = codes.take(CODES_NAMED).map(str::to_owned).collect();
    if more > 0 {
        codes.push(format!("and {more} more"));
    }
    if issuer.makes_codes() {
        codes.push("others on demand".into());
    }
    format!("namespace {namespace} · mode segment · codes {}", codes.join(", "))
}

fn warn_of_delay(namespace: &str, trouble: Option<&Trouble>) {
    let reason = trouble.map_or_else(|| "no lease or block yet".into(), ToString::to_string);
    tracing::warn!(namespace, "not ready, and trying on: {reason}");
}

/// The store's address without secrets, with the reach of its promise.
fn store_words(url: &str) -> String {
    let shown = hide_password(url);
    if url.starts_with("sqlite:") {
        format!("{shown} (unique within this file)")
    } else if url == "memory:" {
        format!("{shown} (unique only while nobody else uses this worker id)")
    } else {
        shown
    }
}
