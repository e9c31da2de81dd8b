//! A service whose parts the test owns.

use std::{
    collections::HashMap,
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode},
};
use raindrop::{
    auth::Auth,
    config::{Config, ConfigError, Inputs},
    core::clock::{Clock, SystemClock},
    keeper::{Backfill, Issuer, Keeper, KeeperSettings, SegmentKeeper, SegmentSettings},
    server::{AppState, Metrics, NamespaceIssuer, router},
    store::{MemoryStore, Store},
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tower::ServiceExt;
use tracing::subscriber::DefaultGuard;

use crate::api::assert_documented;

/// For what must happen, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The configuration of these keys, and defaults.
pub(crate) fn config(pairs: &[(&str, &str)]) -> Config {
    let variable = |key: &str| format!("RAINDROP__{}", key.replace('.', "__").to_uppercase());
    let environment: HashMap<String, String> =
        pairs.iter().map(|(key, value)| (variable(key), (*value).to_owned())).collect();
    Config::load(&Inputs { environment, ..Inputs::default() }).expect("a valid configuration")
}

/// The configuration of a file.
pub(crate) fn config_of(text: &str) -> Config {
    try_config_of(text).expect("a valid configuration")
}

/// The configuration of a file, or its problems.
pub(crate) fn try_config_of(text: &str) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("raindrop.toml");
    std::fs::write(&path, text).expect("written");
    Config::load(&Inputs { file: Some(path), ..Inputs::default() })
}

/// A service that is called without a socket.
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) state: Arc<AppState>,
    /// Of the namespace `default`.
    pub(crate) issuer: Issuer,
    /// Of the namespace `default`.
    pub(crate) keeper: Keeper,
    /// Of the other namespaces that lease, by name.
    pub(crate) others: Vec<Keeper>,
    /// Of those that count.
    pub(crate) segments: SegmentKeeper,
}

impl World {
    /// With a lease.
    pub(crate) async fn start(pairs: &[(&str, &str)]) -> Self {
        let world = Self::start_with(pairs, Arc::new(SystemClock::default())).await;
        let leased = tokio::time::timeout(PATIENCE, world.issuer.leased()).await;
        assert!(leased.expect("a lease in time").is_issuing());
        world
    }

    /// Perhaps without a lease; the handlers read this clock, the keeper a real one.
    pub(crate) async fn start_with(pairs: &[(&str, &str)], handlers_clock: Arc<dyn Clock>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        Self::start_over(pairs, Arc::new(MemoryStore::new(clock)), handlers_clock).await
    }

    /// Over this store.
    pub(crate) async fn start_over(
        pairs: &[(&str, &str)],
        store: Arc<MemoryStore>,
        handlers_clock: Arc<dyn Clock>,
    ) -> Self {
        Self::with_config(config(pairs), store, handlers_clock)
    }

    /// Of these parts; needs a runtime.
    pub(crate) fn with_config(
        config: Config,
        store: Arc<dyn Store>,
        handlers_clock: Arc<dyn Clock>,
    ) -> Self {
        let metrics = Metrics::new();
        let clock = Arc::new(SystemClock::default());
        let start = |settings: &KeeperSettings| {
            let observer = metrics.observer(&settings.namespace);
            Keeper::start(settings.clone(), store.clone(), clock.clone(), observer)
        };
        let (mut keepers, issuers): (Vec<Keeper>, Vec<Issuer>) =
            config.keepers().map(start).unzip();
        let (keeper, issuer) = (keepers.remove(0), issuers[0].clone());
        let observed = |settings: &SegmentSettings| {
            (settings.clone(), metrics.segment_observer(&settings.namespace))
        };
        let observed = config.segments().map(observed).collect();
        let backfills: Vec<Backfill> = config
            .keepers()
            .zip(&issuers)
            .map(|(settings, issuer)| Backfill::new(settings.clone(), store.clone(), issuer))
            .collect();
        let (segments, counting) = SegmentKeeper::start(observed, store);
        let auth = Auth::of(&config).expect("usable tokens");
        let issuers = issuers.into_iter().map(NamespaceIssuer::from);
        let issuers = issuers.chain(counting.into_iter().map(NamespaceIssuer::from));
        let (codes, http) = (config.codes.clone(), config.http.clone());
        let state = AppState::new(issuers, codes, http, handlers_clock, metrics);
        let state =
            state.with_backfills(backfills).with_layouts(&config).with_request_log(&config.log);
        let state = Arc::new(match auth {
            Some(auth) => state.with_auth(Arc::new(auth)),
            None => state,
        });
        let router = router(Arc::clone(&state));
        Self { router, state, issuer, keeper, others: keepers, segments }
    }

    /// Waits until every namespace issues.
    pub(crate) async fn until_issuing(&self) {
        for _ in 0..6_000 {
            if self.get("/readyz").await.status == 200 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never ready: {}", self.get("/health").await.body);
    }

    pub(crate) async fn call(&self, method: &str, uri: &str, headers: &[(&str, &str)]) -> Answer {
        call(&self.router, method, uri, headers).await
    }

    pub(crate) async fn get(&self, uri: &str) -> Answer {
        self.call("GET", uri, &[]).await
    }

    /// The value of the metric with exactly these labels.
    pub(crate) async fn metric(&self, name_and_labels: &str) -> Option<f64> {
        let text = self.get("/metrics").await.body;
        let line =
            text.lines().find_map(|line| line.strip_prefix(name_and_labels)?.strip_prefix(' '));
        line.map(|value| value.parse().expect("a number"))
    }

    pub(crate) async fn ids_issued(&self) -> f64 {
        self.metric(r#"raindrop_ids_issued_total{id_namespace="default"}"#).await.expect("exported")
    }
}

/// A token's entry in the file of tokens, to which what it may use can be added.
pub(crate) fn token_entry(name: &str, token: &str) -> String {
    let hash: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("[[token]]\nname = '{name}'\nhash = 'sha256:{hash}'\n")
}

/// The log of this thread, as lines of JSON.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Collects lines until the guard is dropped.
    pub(crate) fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().json().flatten_event(true).with_target(false);
        let lines = lines.with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(lines))
    }

    /// Returns the lines with this message, without their timestamps.
    pub(crate) fn lines(&self, message: &str) -> Vec<Value> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = std::str::from_utf8(&bytes).expect("UTF-8").lines();
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let lines = lines.filter(|line| line["message"] == message).map(|mut line| {
            let fields = line.as_object_mut().expect("an object");
            fields.remove("timestamp").expect("each line has one");
            line
        });
        lines.collect()
    }
}

/// A clock that panics at each reading.
#[derive(Debug)]
pub(crate) struct BrokenClock;

impl Clock for BrokenClock {
    fn now_ms(&self) -> i64 {
        panic!("a defect, as this test wants it")
    }

    fn steady(&self) -> Duration {
        Duration::ZERO
    }
}

/// Calls a router without a socket.
pub(crate) async fn call(
    router: &Router,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let mut request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).expect("a method"))
        .uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).expect("a request");
    let response = router.clone().oneshot(request).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    let answer = Answer {
        status: parts.status,
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).expect("UTF-8"),
    };
    assert_documented(method, uri, &answer);
    answer
}

/// An answer that was read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Asserts a problem document of this status and code, and gives its detail.
    pub(crate) fn problem(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let json = self.json();
        assert_eq!(json["code"], code, "{self:?}");
        assert_eq!(json["type"], format!("urn:raindrop:problem:{code}"));
        assert_eq!(json["status"], status);
        assert!(json["title"].as_str().is_some_and(|title| !title.is_empty()));
        let retry_after = self.header("retry-after").map(|value| value.parse::<u64>());
        match status {
            429 | 503 => assert!(matches!(retry_after, Some(Ok(1..))), "{self:?}"),
            _ => assert_eq!(retry_after, None),
        }
        json["detail"].as_str().expect("a detail").to_owned()
    }

    /// The IDs of an `/ids` answer in JSON strings.
    pub(crate) fn ids(&self) -> Vec<u64> {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        let json = self.json();
        let ids = json["ids"].as_array().expect("ids");
        ids.iter().map(|id| id.as_str().expect("a string").parse().expect("an ID")).collect()
    }
}
