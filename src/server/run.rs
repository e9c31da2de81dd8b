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
    config::{Config, Mode},
    core::{clock::Clock, instant::format_unix_ms_or_year},
    keeper::{
        Backfill, GivenBack, Issuer, KeeperError, Released, SegmentIssuer, UnavailableReason,
        catch_panic,
    },
    store::{Store, hide_password},
};

/// After this time without a lease, a log line says why.
const LEASE_EXPECTED_WITHIN: Duration = Duration::from_secs(3);

/// The most codes that the start line names.
const CODES_NAMED: usize = 10;

/// The parts of a service.
#[derive(Debug)]
pub struct Service {
    /// The checked configuration.
    pub config: Config,
    /// The public listener, bound before any lease is acquired, so that a port in use costs none.
    pub listener: TcpListener,
    /// The operators' listener, if `http.admin_listen` is set; bound as early.
    pub admin_listener: Option<TcpListener>,
    /// The store of worker ids and segments.
    pub store: Arc<dyn Store>,
    /// The node's clock.
    pub clock: Arc<dyn Clock>,
}

impl Service {
    /// Serves until `shutdown` resolves; then drains, releases the leases and returns within
    /// `http.drain_delay` and `http.shutdown_timeout`.
    ///
    /// With `auth.tokens_file`, SIGHUP reloads that file.
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
            // A store that forgets which IDs were issued would issue them again.
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

        // A listener that fails loses its socket and its connections, so it cannot be restarted.
        let serving = serve(listener, Arc::clone(&state), tasks.stopping());
        let serving = tasks.essential(Task::PublicListener, serving);
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "listening on http://{address}");
        if let Some(auth) = &state.auth {
            let (file, tokens) = (auth.file().display(), auth.count());
            tracing::info!(%file, tokens, "authentication required");
        }
        // Ends last, so that operators can watch the shutdown.
        let mut operations = None;
        if let Some(listener) = admin_listener {
            let address = listener.local_addr().map_err(ServeError::Listener)?;
            tracing::info!("metrics, health and cluster on http://{address}");
            let serving = serve_admin(listener, Arc::clone(&state));
            operations = Some(tasks.essential(Task::AdminListener, serving));
        }
        warn_of_assigned_workers(&config);
        let announcing = announce_all(&tasks, issuers, address, &describe_store(&config.store.url));
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
        let for_requests = config.http.shutdown_timeout - release_timeout(&config);
        if !serving.end_within(for_requests).await {
            tracing::warn!(after = ?for_requests, "shutdown deadline reached, aborting open requests");
        }
        let released = keepers.release(deadline.saturating_duration_since(Instant::now())).await;
        let _ = tokio::time::timeout_at(deadline, store.close()).await;
        released.iter().for_each(log_end);
        drop(operations);
        ended
    }
}

/// Reloads the tokens at SIGHUP. The task has no state but the signals, so it can be restarted.
fn reload(tasks: &Supervisor, auth: Arc<Auth>) -> std::io::Result<Supervised> {
    let hangups = Arc::new(Hangups::listen()?);
    Ok(tasks.restarted(Task::TokenReload, move || {
        let (hangups, auth) = (Arc::clone(&hangups), Arc::clone(&auth));
        async move { hangups.reload(&auth).await }
    }))
}

/// Logs when each namespace is ready. The tasks only read and log, so they can be restarted.
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

/// Counts and logs the keepers' tasks that failed. A keeper that gave up needs another
/// configuration instead.
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

fn log_end(ended: &Ended) {
    match ended {
        Ended::Lease(namespace, Released::Done) => {
            tracing::info!(namespace, "stopped, worker id released");
        }
        Ended::Lease(namespace, Released::NothingHeld) => {
            tracing::info!(namespace, "stopped without a worker id");
        }
        Ended::Lease(namespace, Released::GaveUp) => {
            tracing::warn!(namespace, "stopped, worker id not released; it is free after its ttl");
        }
        Ended::Segments(GivenBack { returned, lost }) => {
            tracing::info!(returned, lost, "stopped, unused segment numbers returned");
        }
    }
}

/// The part of the shutdown time-out that is reserved for releasing the leases.
fn release_timeout(config: &Config) -> Duration {
    config.store.timeout.min(config.http.shutdown_timeout / 3)
}

/// Logs the premise of each worker id that is assigned by the configuration.
fn warn_of_assigned_workers(config: &Config) {
    for namespace in &config.namespaces {
        let Mode::Snowflake { keeper, premise } = &namespace.mode else { continue };
        let (namespace, worker) = (&namespace.name, keeper.min_worker);
        match premise {
            Some(premise) if config.store.url == "memory:" => tracing::warn!(
                namespace,
                worker,
                "the worker id is assigned and not leased: IDs are unique only while {premise}, \
                 and if no restart finds the clock behind"
            ),
            Some(_) => tracing::info!(
                namespace,
                worker,
                "the worker id is assigned: leasing exactly its row, waiting while another holds it"
            ),
            None => {}
        }
    }
}

/// Logs that a namespace is ready, or first why it is not yet.
async fn announce(issuer: NamespaceIssuer, address: SocketAddr, store: String) {
    let described = match issuer {
        NamespaceIssuer::Snowflake(issuer) => describe_lease(&issuer).await,
        NamespaceIssuer::Segment(issuer) => Some(describe_segments(&issuer).await),
    };
    if let Some(described) = described {
        tracing::info!("serving IDs on http://{address} · store {store} · {described}");
    }
}

async fn describe_lease(issuer: &Issuer) -> Option<String> {
    let namespace = issuer.namespace();
    let status = match tokio::time::timeout(LEASE_EXPECTED_WITHIN, issuer.leased()).await {
        Ok(status) => status,
        Err(_) => {
            warn_of_delay(namespace, issuer.status().reason.as_ref());
            issuer.leased().await
        }
    };
    let (lease, layout) = (status.lease?, issuer.layout());
    Some(format!(
        "namespace {namespace} · worker {} · lane {} · {} · IDs valid until {}",
        lease.worker,
        lease.lane,
        layout.canonical(),
        format_unix_ms_or_year(layout.valid_until_ms()),
    ))
}

async fn describe_segments(issuer: &SegmentIssuer) -> String {
    let namespace = issuer.namespace();
    if tokio::time::timeout(LEASE_EXPECTED_WITHIN, issuer.prepared()).await.is_err() {
        warn_of_delay(namespace, issuer.status().reason.as_ref());
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

fn warn_of_delay(namespace: &str, reason: Option<&UnavailableReason>) {
    let reason = reason.map_or_else(|| "no lease or block yet".into(), ToString::to_string);
    tracing::warn!(namespace, "not ready, retrying: {reason}");
}

/// The store's URL without secrets, and the scope of its guarantee.
fn describe_store(url: &str) -> String {
    let shown = hide_password(url);
    if url.starts_with("sqlite:") {
        format!("{shown} (unique within this file)")
    } else if url == "memory:" {
        format!("{shown} (unique only if no other process uses this worker id)")
    } else {
        shown
    }
}
