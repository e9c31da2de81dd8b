//! Requests to the Kubernetes API, for the Leases of one namespace.
//!
//! The client is dropped after each failure. The next request creates a new one, which reads tokens
//! and certificates again and opens a new connection.
//!
//! A response counts only if it states the outcome of the request; any other response, such as a
//! proxy's error page, is an error. The client retries a request only after 429, which says that
//! the server did nothing. [`check_stored`] notices admission webhooks that change a stored object.
//! The caller sets the conditions of a write. Tests: tests/server.rs simulates the API, and
//! tests/store/kubernetes.rs uses a real one.

use std::{sync::OnceLock, time::Duration};

use http::{
    StatusCode,
    header::{DATE, RETRY_AFTER},
};
use http_body_util::BodyExt as _;
use jiff::fmt::rfc2822::DateTimeParser;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Client,
    client::Body,
    core::{
        ObjectList, Request, Status,
        params::{
            DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
        },
        request,
    },
};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value as Json;
use tokio::{
    sync::{Mutex, Semaphore},
    time::{Instant, sleep, timeout},
};

use super::{
    api_server::ApiServer,
    clock::DateClock,
    object::{ANNOTATIONS, LABELS, name_of, set, uid},
};
use crate::{Result, StoreError};

/// The server's response; `Err` if a condition was not met: the Lease exists already, does not
/// exist, or is not as expected.
type Answer<T> = Result<T, Status>;
/// A request, or why it cannot be built.
type Built = Result<http::Request<Vec<u8>>, request::Error>;

/// The most Leases in one response, as `kubectl` requests them.
const PAGE: u32 = 500;
/// The shortest pause after 429, whatever the response says.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The pause after 429 without `Retry-After`.
const PAUSE: Duration = Duration::from_secs(1);

/// The Leases of one namespace of a cluster.
pub(super) struct Api {
    pub(super) server: ApiServer,
    timeout: Duration,
    permits: Semaphore,
    /// The client, and the path that every request begins with.
    client: Mutex<Option<(Client, Request)>>,
    /// The server and namespace of the first client; later ones must have the same.
    connected_to: OnceLock<String>,
    pub(super) clock: DateClock,
}

impl Api {
    pub(super) fn new(server: ApiServer, timeout: Duration, max_connections: u32) -> Self {
        Self {
            server,
            timeout,
            permits: Semaphore::new(max_connections as usize),
            client: Mutex::default(),
            connected_to: OnceLock::new(),
            clock: DateClock::new(),
        }
    }

    /// Reads a Lease.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Lease>> {
        match self.send(|leases| leases.get(name, &GetParams::default())).await? {
            Err(status) if status.reason == "NotFound" => Ok(None),
            answer => answer.map(Some).map_err(refused),
        }
    }

    /// Lists the Leases that a label selector matches, as of one instant.
    pub(super) async fn list(&self, labels: &str) -> Result<Vec<Lease>> {
        let mut params = ListParams::default().labels(labels).limit(PAGE);
        let mut found = Vec::new();
        loop {
            let answer = self.send(|leases| leases.list(&params)).await?;
            let page: ObjectList<Lease> = answer.map_err(refused)?;
            found.extend(page.items);
            match page.metadata.continue_.filter(|next| !next.is_empty()) {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(found),
            }
        }
    }

    /// Creates a Lease. Returns its UID; `None` if there is one with its name.
    pub(super) async fn create(&self, lease: &Lease) -> Result<Option<String>> {
        let data = serde_json::to_vec(lease).expect("a Lease is JSON");
        match self.send(|leases| leases.create(&PostParams::default(), data)).await? {
            Err(status) if status.reason == "AlreadyExists" => Ok(None),
            answer => {
                let stored = answer.map_err(refused)?;
                check_stored(&stored, &set(lease.metadata.annotations.iter().flatten()))?;
                Ok(Some(stored["metadata"]["uid"].as_str().unwrap_or_default().to_owned()))
            }
        }
    }

    /// Changes a Lease by a JSON patch, which contains its own conditions. Returns `false` if they
    /// are not met, or if there is no such Lease.
    pub(super) async fn patch(&self, name: &str, parts: Vec<Json>) -> Result<bool> {
        let patch = serde_json::from_value(Json::Array(parts.clone())).expect("a JSON patch");
        let (patch, params) = (Patch::Json::<()>(patch), PatchParams::default());
        match self.send(|leases| leases.patch(name, &params, &patch)).await? {
            Ok(stored) => check_stored(&stored, &parts).map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Deletes a Lease, unless it was written since it was read.
    pub(super) async fn delete(&self, lease: &Lease) -> Result<()> {
        let conditions = Preconditions {
            resource_version: lease.metadata.resource_version.clone(),
            uid: Some(uid(lease).to_owned()),
        };
        let params = DeleteParams { preconditions: Some(conditions), ..DeleteParams::default() };
        self.send::<IgnoredAny>(|leases| leases.delete(name_of(lease), &params)).await.map(drop)
    }

    /// Refuses all further requests.
    pub(super) async fn close(&self) {
        self.permits.close();
        self.forget().await;
    }

    /// Sends a request within the time-out. Fails unless the response says what became of the
    /// request.
    async fn send<T: DeserializeOwned>(
        &self,
        build: impl FnOnce(&Request) -> Built,
    ) -> Result<Answer<T>> {
        let after = self.timeout;
        let answer = timeout(after, self.exchange(build, Instant::now() + after)).await;
        match answer.unwrap_or(Err(StoreError::TimedOut { after })) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => {
                Err(StoreError::unavailable("the API server has too much to do (HTTP 429)"))
            }
            Err(error) => {
                self.forget().await;
                Err(error)
            }
        }
    }

    /// Sends a request until the server accepts it; `None` if it did not before the deadline.
    async fn exchange<T: DeserializeOwned>(
        &self,
        build: impl FnOnce(&Request) -> Built,
        deadline: Instant,
    ) -> Result<Option<Answer<T>>> {
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|_| StoreError::unavailable("the store was closed"))?;
        let (client, leases) = self.connected().await?;
        let request = build(&leases).map_err(|error| StoreError::Refused(error.into()))?;
        loop {
            let sent = Instant::now();
            let answer = client.send(request.clone().map(Body::from)).await;
            let (head, body) = answer.map_err(StoreError::unavailable)?.into_parts();
            let date = head.headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(date_ms);
            let date_ms =
                date.ok_or_else(|| StoreError::unavailable("an answer without a date"))?;
            self.clock.observe(date_ms, sent, Instant::now());
            // The server is overloaded, and did nothing.
            if head.status == StatusCode::TOO_MANY_REQUESTS {
                let seconds = head.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok());
                let seconds = seconds.and_then(|seconds| seconds.parse().ok());
                let pause = seconds.map_or(PAUSE, Duration::from_secs).max(SHORTEST_PAUSE);
                let pause = pause.mul_f64(rand::random_range(1.0..1.5));
                if Instant::now() + pause >= deadline {
                    return Ok(None);
                }
                sleep(pause).await;
                continue;
            }
            let body = body.collect().await.map_err(StoreError::unavailable)?.to_bytes();
            return read(head.status, &body).map(Some);
        }
    }

    async fn connected(&self) -> Result<(Client, Request)> {
        let mut present = self.client.lock().await;
        if let Some(connected) = &*present {
            return Ok(connected.clone());
        }
        let (client, url, namespace) = self.server.connect().await?;
        // If the kubeconfig's current context changed, it names another store.
        let now = format!("{url}, namespace {namespace}");
        let first = self.connected_to.get_or_init(|| now.clone());
        if *first != now {
            return Err(StoreError::unavailable(format!(
                "the kubeconfig now names {now}, and named {first} when the process started"
            )));
        }
        let leases =
            Request::new(format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"));
        Ok(present.insert((client, leases)).clone())
    }

    async fn forget(&self) {
        *self.client.lock().await = None;
    }
}

/// Parses a response that says what became of the request. All others are errors: they may come
/// from a proxy in between, or leave the outcome open.
fn read<T: DeserializeOwned>(code: StatusCode, body: &[u8]) -> Result<Answer<T>> {
    if code.is_success() {
        return serde_json::from_slice(body).map(Ok).map_err(StoreError::unavailable);
    }
    let Ok(status) = serde_json::from_slice::<Status>(body) else {
        return Err(StoreError::unavailable(format!("HTTP {code} that is not from an API server")));
    };
    match &*status.reason {
        // The Lease is missing, not the path or the namespace.
        "NotFound" if status.details.as_ref().is_some_and(|it| it.kind == "leases") => {
            Ok(Err(status))
        }
        "AlreadyExists" | "Conflict" if !is_of_webhook(&status) => Ok(Err(status)),
        "Invalid" if is_failed_test(&status) => Ok(Err(status)),
        // The server has dropped the version of the list's first page: reading the list took too
        // long.
        "Expired" | "Gone" => Err(StoreError::unavailable(status)),
        _ if code.is_server_error() && !is_of_webhook(&status) => {
            Err(StoreError::unavailable(status))
        }
        _ => Err(refused(status)),
    }
}

/// Returns whether a condition of a JSON patch was not met. The server gives the same reason if
/// validation or an admission policy refuses a Lease, but then names the Lease or the causes; an
/// admission webhook is named in the message.
fn is_failed_test(status: &Status) -> bool {
    let details = status.details.as_ref();
    let is_about_patch = details.is_none_or(|it| it.kind.is_empty() && it.causes.is_empty());
    is_about_patch && !is_of_webhook(status)
}

/// Returns whether an admission webhook refused the request, or did not answer although it must. It
/// chooses the reason of a refusal freely; without an answer, the reason is `InternalError`.
fn is_of_webhook(status: &Status) -> bool {
    status.message.starts_with("admission webhook")
        || status.message.contains("failed calling webhook")
}

/// Checks that the stored Lease has the annotations and labels as the JSON patch set or removed
/// them. Otherwise an acknowledgement would prove nothing.
fn check_stored(stored: &Json, parts: &[Json]) -> Result<()> {
    for part in parts.iter().filter(|part| part["op"] != "test") {
        let path = part["path"].as_str().unwrap_or_default();
        let of_label = || path.strip_prefix(LABELS)?.strip_prefix('/').map(|name| ("label", name));
        let changed = path.strip_prefix(ANNOTATIONS).map(|name| ("annotation", name));
        let Some((what, name)) = changed.or_else(of_label) else { continue };
        if stored.pointer(path) != part.get("value") {
            let lease = stored["metadata"]["name"].as_str().unwrap_or_default();
            let name = name.replace("~1", "/");
            let reason = format!(
                "Lease {lease} was stored with another {what} {name} than was sent: something \
                 between, an admission webhook perhaps, changes it"
            );
            return Err(StoreError::Refused(reason.into()));
        }
    }
    Ok(())
}

fn refused(status: Status) -> StoreError {
    StoreError::Refused(format!("the API server says: {status}").into())
}

/// Parses a date such as `Sun, 06 Nov 1994 08:49:37 GMT`; returns Unix ms.
fn date_ms(date: &str) -> Option<i64> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    Some(PARSER.parse_timestamp(date).ok()?.as_millisecond())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        kubernetes::object::{TOKEN, remove},
        with_sources,
    };

    #[test]
    fn dates_are_read() {
        assert_eq!(date_ms("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777_000));
        assert_eq!(date_ms("soon"), None);
    }

    #[test]
    fn lease_that_was_stored_otherwise_than_sent_is_noticed() {
        let stored = json!({ "metadata": { "annotations": { TOKEN: "1" } } });
        let is_as_sent = |parts: Vec<Json>| check_stored(&stored, &parts).is_ok();
        assert!(is_as_sent(set([(TOKEN, "1")])) && is_as_sent(vec![remove("raindrop/rows")]));
        for parts in [set([(TOKEN, "2")]), vec![remove(TOKEN)], set([("raindrop/rows", "{}")])] {
            assert!(!is_as_sent(parts.clone()), "{parts:?}");
        }
    }

    #[test]
    fn invalid_is_a_lost_race_only_if_a_condition_of_the_patch_is_not_met() {
        let read = |message: &str, details: Json| {
            let status = json!({ "reason": "Invalid", "message": message, "details": details });
            let code = StatusCode::UNPROCESSABLE_ENTITY;
            read::<Json>(code, status.to_string().as_bytes()).map(|answer| answer.is_ok())
        };
        let of_patch = "the server rejected our request due to an error in our request";
        assert!(matches!(read(of_patch, json!({})), Ok(false)));
        assert!(matches!(read(of_patch, Json::Null), Ok(false)));
        let cause = json!({ "message": "too long", "field": "metadata.annotations" });
        for (message, details) in [
            ("Lease \"r\" is invalid: too long", json!({ "kind": "Lease", "causes": [cause] })),
            (
                "leases \"r\" is forbidden: ValidatingAdmissionPolicy 'p' denied request",
                json!({ "kind": "leases", "name": "r" }),
            ),
            ("admission webhook \"w\" denied the request: no", json!({})),
        ] {
            let error = with_sources(&read(message, details).expect_err(message));
            assert!(error.contains(&format!("the API server says: {message}")), "{error}");
        }
    }

    #[test]
    fn refusal_of_a_webhook_is_no_lost_race_whatever_its_reason() {
        for reason in ["Conflict", "AlreadyExists", "Invalid"] {
            let message = "admission webhook \"w\" denied the request: no";
            let status = json!({ "reason": reason, "message": message, "details": {} });
            let answer = read::<Json>(StatusCode::CONFLICT, status.to_string().as_bytes());
            let error = with_sources(&answer.expect_err(reason));
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn webhook_that_does_not_answer_refuses() {
        let of = |message: &str| {
            let status = json!({ "reason": "InternalError", "message": message, "details": {} });
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            read::<Json>(code, status.to_string().as_bytes()).expect_err(message)
        };
        let webhook = "Internal error occurred: failed calling webhook \"w\": failed to call \
                       webhook: Post \"https://w/\": context deadline exceeded";
        assert!(matches!(of(webhook), StoreError::Refused(_)));
        let etcd = "Internal error occurred: etcdserver: request timed out";
        assert!(matches!(of(etcd), StoreError::Unavailable(_)));
    }

    #[test]
    fn only_the_api_server_says_that_a_lease_is_missing() {
        let about = |reason, kind| {
            format!(r#"{{"kind":"Status","reason":"{reason}","details":{{"kind":"{kind}"}}}}"#)
        };
        let status = |reason| about(reason, "leases");
        let of = |code: u16, body: &str| {
            let code = StatusCode::from_u16(code).expect("a status");
            read::<Json>(code, body.as_bytes()).map(|answer| answer.is_ok())
        };
        assert!(matches!(of(201, "{}"), Ok(true)));
        assert!(matches!(of(404, &status("NotFound")), Ok(false)));
        assert!(matches!(of(409, &status("Conflict")), Ok(false)));
        assert!(matches!(of(409, &status("AlreadyExists")), Ok(false)));
        assert!(matches!(
            of(422, r#"{"kind":"Status","reason":"Invalid","details":{}}"#),
            Ok(false)
        ));
        let no_namespace = about("NotFound", "namespaces");
        assert!(matches!(of(404, &no_namespace), Err(StoreError::Refused(_))));
        assert!(matches!(of(410, &status("Expired")), Err(StoreError::Unavailable(_))));
        assert!(matches!(of(404, "<html>"), Err(StoreError::Unavailable(_))));
        assert!(matches!(of(500, &status("InternalError")), Err(StoreError::Unavailable(_))));
        assert!(matches!(of(403, &status("Forbidden")), Err(StoreError::Refused(_))));
    }
}
