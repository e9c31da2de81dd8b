//! Starts the service, serves, and stops it in order.

mod error;
mod keepers;
mod serve;
mod supervisor;

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpListener, time::Instant};

pub use self::{error::ServeError, serve::serve};
use self::{
    keepers::Keepers,
    serve::{serve_clients, serve_operators},
    supervisor::{Supervised, Supervisor},
};
use super::{
    listener::{Follower, Tls},
    metrics::{Metrics, Task},
    state::AppState,
};
use crate::{
    auth::{Auth, announce as announce_auth},
    config::{Config, Mode},
    core::{clock::Clock, instant::format_unix_ms_or_year},
    keeper::{
        Backfill, Issuer, KeeperError, NamespaceIssuer, SegmentIssuer, StateFile, catch_panic,
    },
    plan::scarce_ids,
    process::hangup::Hangups,
    store::{Store, identity, redact_url},
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
    /// With `auth.tokens_file`, SIGHUP and a change of that file reload it.
    ///
    /// # Errors
    ///
    /// When the service cannot go on: a namespace was recorded with another layout, the store's
    /// tables are not ours, the tokens cannot be read, the state file cannot be used, or a
    /// background task failed. In the last case it stops in order first, with `/livez` answering 503.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServeError> {
        let Self { config, listener, admin_listener, store, clock } = self;
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        let auth = Auth::of(&config).map_err(ServeError::Tokens)?.map(Arc::new);
        let metrics = Metrics::new();
        metrics.store_verified.set(store.is_verified().into());
        let tasks = Supervisor::new(metrics.task_failures.clone());
        let reloading =
            auth.as_ref().map(|auth| reload(&tasks, Arc::clone(auth), Arc::clone(&clock)));
        let _reloading = reloading.transpose().map_err(ServeError::Hangup)?;
        let tls = config.http.tls.clone().map(|files| Tls::load(files, metrics.tls()));
        let tls = tls.transpose().map_err(ServeError::Tls)?.map(Arc::new);
        let following = tls.as_ref().map(|tls| follow(&tasks, Arc::clone(tls)));
        let _following = following.transpose().map_err(ServeError::Hangup)?;
        let open = |path| StateFile::open(path, &identity(&config.store));
        let state_file = config.state_file.as_deref().map(open).transpose();
        let state_file = state_file.map_err(ServeError::StateFile)?;
        let mut keepers = Keepers::start(&config, &store, &clock, &metrics, state_file.as_ref());
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
        let mut state = AppState::new(issuers.clone(), codes, config.http.clone(), clock, metrics)
            .with_backfills(backfills)
            .with_layouts(&config)
            .with_cluster(Arc::clone(&store), config.store.timeout);
        state.auth = auth;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let state = Arc::new(state);
        let recorded = Arc::clone(&state);
        let _recording = tasks.restarted(Task::History, move || {
            let state = Arc::clone(&recorded);
            async move { state.record_history().await }
        });

        // A listener that fails loses its socket and its connections, so it cannot be restarted.
        let stop = tasks.stopping.subscribe();
        let serving = serve_clients(listener, Arc::clone(&state), tls.clone(), stop);
        let serving = tasks.essential(Task::PublicListener, serving);
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "listening on {scheme}://{address}");
        announce_auth(state.auth.as_deref(), address, state.clock.now_ms());
        // Ends last, so that operators can watch the shutdown.
        let mut operations = None;
        if let Some(listener) = admin_listener {
            let address = listener.local_addr().map_err(ServeError::Listener)?;
            tracing::info!("metrics, health and cluster on {scheme}://{address}");
            let serving = serve_operators(listener, Arc::clone(&state), tls);
            operations = Some(tasks.essential(Task::AdminListener, serving));
        }
        warn_of_assigned_workers(&config);
        for note in &config.notes {
            tracing::info!("{note}");
        }
        for keeper in config.keepers() {
            if let Some(warning) = scarce_ids(keeper) {
                let namespace = &keeper.namespace;
                tracing::warn!(namespace, "{warning}");
            }
        }
        if !store.is_verified() {
            tracing::warn!(
                store = redact_url(&config.store.url),
                "store not verified: whoever controls the network between can pose as it; \
                 store.tls = \"verify\" prevents that (docs/security.md)"
            );
        }
        let place = format!("{scheme}://{address} · store {}", describe_store(&config.store.url));
        // These tasks only read and log, so they can be restarted.
        let announcement = |issuer: NamespaceIssuer| {
            let place = place.clone();
            tasks.restarted(Task::Announcement, move || announce(issuer.clone(), place.clone()))
        };
        let announcing: Vec<Supervised> = issuers.into_iter().map(announcement).collect();
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
        tasks.stopping.send_replace(true);
        let for_release = config.store.timeout.min(config.http.shutdown_timeout / 3);
        let for_requests = config.http.shutdown_timeout - for_release;
        if !serving.end_within(for_requests).await {
            tracing::warn!(after = ?for_requests, "shutdown deadline reached, aborting open requests");
        }
        keepers.release(deadline.saturating_duration_since(Instant::now())).await;
        let _ = tokio::time::timeout_at(deadline, store.close()).await;
        drop(operations);
        ended
    }
}

/// Uses new certificates when their files change.
fn follow(tasks: &Supervisor, tls: Arc<Tls>) -> std::io::Result<Supervised> {
    let follower = Arc::new(Follower::new(tls)?);
    Ok(tasks.restarted(Task::CertificateReload, move || {
        let follower = Arc::clone(&follower);
        async move { follower.follow().await }
    }))
}

/// Reloads the tokens at SIGHUP and when their file changes. The task has no state but the signals,
/// so it can be restarted.
fn reload(
    tasks: &Supervisor,
    auth: Arc<Auth>,
    clock: Arc<dyn Clock>,
) -> std::io::Result<Supervised> {
    let hangups = Arc::new(Hangups::listen()?);
    Ok(tasks.restarted(Task::TokenReload, move || {
        let (hangups, auth, clock) = (Arc::clone(&hangups), Arc::clone(&auth), Arc::clone(&clock));
        async move { auth.follow(&hangups, &*clock).await }
    }))
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
async fn announce(issuer: NamespaceIssuer, place: String) {
    if tokio::time::timeout(LEASE_EXPECTED_WITHIN, issuer.ready()).await.is_err() {
        let reason = issuer.reason();
        let reason = reason.map_or_else(|| "no lease or block yet".into(), |it| it.to_string());
        tracing::warn!(namespace = issuer.namespace(), "not ready, retrying: {reason}");
        issuer.ready().await;
    }
    let described = match &issuer {
        NamespaceIssuer::Snowflake(issuer) => describe_lease(issuer),
        NamespaceIssuer::Segment(issuer) => Some(describe_segments(issuer)),
    };
    if let Some(described) = described {
        let namespace = issuer.namespace();
        tracing::info!(namespace, "serving IDs on {place} · {described}");
    }
}

fn describe_lease(issuer: &Issuer) -> Option<String> {
    let (lease, layout) = (issuer.status().lease?, issuer.layout());
    Some(format!(
        "worker {} · lane {} · {} · IDs valid until {}",
        lease.worker,
        lease.lane,
        layout.canonical(),
        format_unix_ms_or_year(layout.valid_until_ms()),
    ))
}

fn describe_segments(issuer: &SegmentIssuer) -> String {
    let codes = issuer.codes();
    let more = codes.len().saturating_sub(CODES_NAMED);
    let mut codes: Vec<String> = codes.take(CODES_NAMED).map(str::to_owned).collect();
    if more > 0 {
        codes.push(format!("and {more} more"));
    }
    if issuer.makes_codes() {
        codes.push("others on demand".into());
    }
    if codes.is_empty() {
        codes.push("none configured".into());
    }
    format!("mode segment · codes {}", codes.join(", "))
}

/// The store's URL without secrets, and the scope of its guarantee.
fn describe_store(url: &str) -> String {
    let scope = match url {
        "memory:" => " (unique only if no other process uses this worker id)",
        _ if url.starts_with("sqlite:") => " (unique within this file)",
        _ => "",
    };
    redact_url(url) + scope
}
