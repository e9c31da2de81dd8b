//! Requests to the Kubernetes API, for the Leases of one namespace.
//!
//! A client that failed is dropped: the next request makes another, which reads tokens and
//! certificates again and opens a new connection.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

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
        ObjectList, Request,
        params::{
            DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
        },
        request,
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value as Json;
use tokio::{
    sync::{Mutex, Semaphore},
    time::{Instant, sleep, timeout},
};

use super::{
    clock::DateClock,
    object::{annotation, name_of, uid},
    place::Place,
};
use crate::{Result, StoreError};

/// A request, or why it cannot be built.
type Built = Result<http::Request<Vec<u8>>, request::Error>;

/// How many Leases one answer lists at most, as `kubectl` asks for.
const PAGE: u32 = 500;
/// The shortest pause after 429, whatever the answer says.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The pause after 429 where the answer names none.
const PAUSE: Duration = Duration::from_secs(1);

/// The Leases of one namespace of a cluster.
pub(super) struct Api {
    place: Place,
    timeout: Duration,
    permits: Semaphore,
    client: Mutex<Option<Arc<Connected>>>,
    /// The server and namespace of the first client.
    connected_to: OnceLock<String>,
    pub(super) clock: DateClock,
}

struct Connected {
    client: Client,
    leases: Request,
}

/// An answer of the API server that says what became of a request.
enum Answer {
    /// It took place; what the server returned.
    Done(Vec<u8>),
    /// A condition was not met: there is such a Lease already, or it is not as expected.
    Refused(Said),
    /// There is no such Lease.
    Missing(Said),
}

/// What the API server says of a request that it refused.
#[derive(Debug, Deserialize)]
struct Said {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Details,
}

/// What an answer is about.
#[derive(Debug, Default, Deserialize)]
struct Details {
    #[serde(default)]
    kind: String,
}

/// What became of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It took place.
    Done,
    /// Its condition was not met.
    Refused,
    /// There is no such Lease.
    Missing,
}

impl Api {
    pub(super) fn new(place: Place, timeout: Duration, max_connections: u32) -> Self {
        Self {
            place,
            timeout,
            permits: Semaphore::new(max_connections as usize),
            client: Mutex::default(),
            connected_to: OnceLock::new(),
            clock: DateClock::new(),
        }
    }

    /// Connects to another server from now on.
    #[cfg(test)]
    pub(super) fn connect_to(&mut self, place: Place) {
        self.place = place;
    }

    /// Reads a Lease.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Lease>> {
        match self.send(|leases| leases.get(name, &GetParams::default())).await? {
            Answer::Missing(_) => Ok(None),
            answer => answer.read().map(Some),
        }
    }

    /// Lists the Leases that a selector of labels names, as they were at one instant.
    pub(super) async fn list(&self, labels: &str) -> Result<Vec<Lease>> {
        let mut params = ListParams::default().labels(labels).limit(PAGE);
        let mut found = Vec::new();
        loop {
            let answer = self.send(|leases| leases.list(&params)).await?;
            let page: ObjectList<Lease> = answer.read()?;
            found.extend(page.items);
            match page.metadata.continue_.filter(|next| !next.is_empty()) {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(found),
            }
        }
    }

    /// Creates a Lease. Returns it as the server keeps it; `None` when there is one of its name.
    pub(super) async fn create(&self, lease: &Lease) -> Result<Option<Lease>> {
        let data = serde_json::to_vec(lease).expect("a Lease is JSON");
        let params = PostParams::default();
        match self.send(|leases| leases.create(&params, data)).await? {
            Answer::Refused(said) if said.reason == "AlreadyExists" => Ok(None),
            answer => {
                let stored: Lease = answer.read()?;
                let sent = lease.metadata.annotations.iter().flatten();
                check_stored(
                    &stored,
                    sent.map(|(name, value)| (name.as_str(), Some(value.as_str()))),
                )?;
                Ok(Some(stored))
            }
        }
    }

    /// Changes a Lease by a JSON patch, which names its own conditions.
    pub(super) async fn patch(&self, name: &str, patch: Vec<Json>) -> Result<Written> {
        let sent = patch.iter().filter(|part| part["op"] == "add").filter_map(|part| {
            let path = part["path"].as_str()?.strip_prefix("/metadata/annotations/")?;
            Some((path.replace("~1", "/"), part["value"].as_str().map(str::to_owned)))
        });
        let sent: Vec<_> = sent.collect();
        let patch = serde_json::from_value(Json::Array(patch)).expect("a JSON patch");
        self.patch_by(name, &Patch::Json::<()>(patch), &sent).await
    }

    /// Changes a Lease by a merge patch, which names the version that it changes.
    pub(super) async fn merge(&self, name: &str, patch: &Json) -> Result<Written> {
        let sent = patch["metadata"]["annotations"].as_object().into_iter().flatten();
        let sent = sent.map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned)));
        let sent: Vec<_> = sent.collect();
        self.patch_by(name, &Patch::Merge(patch), &sent).await
    }

    async fn patch_by<P>(
        &self,
        name: &str,
        patch: &Patch<P>,
        sent: &[(String, Option<String>)],
    ) -> Result<Written>
    where
        P: serde::Serialize + fmt::Debug + Sync,
    {
        let params = PatchParams::default();
        let answer = self.send(|leases| leases.patch(name, &params, patch)).await?;
        let written = answer.written();
        if written == Written::Done {
            let sent = sent.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
            check_stored(&answer.read()?, sent)?;
        }
        Ok(written)
    }

    /// Deletes a Lease, if nobody wrote it since it was read.
    pub(super) async fn delete(&self, lease: &Lease) -> Result<Written> {
        let conditions = Preconditions {
            resource_version: lease.metadata.resource_version.clone(),
            uid: Some(uid(lease).to_owned()),
        };
        let params = DeleteParams { preconditions: Some(conditions), ..DeleteParams::default() };
        let answer = self.send(|leases| leases.delete(name_of(lease), &params)).await?;
        Ok(answer.written())
    }

    /// Sends no further request.
    pub(super) async fn close(&self) {
        self.permits.close();
        self.forget().await;
    }

    /// Sends a request within the time-out. Fails unless the answer says what became of it.
    async fn send(&self, build: impl FnOnce(&Request) -> Built) -> Result<Answer> {
        let after = self.timeout;
        let answer = timeout(after, self.exchange(build, Instant::now() + after)).await;
        match answer.unwrap_or(Err(StoreError::TimedOut { after })) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(unavailable("the API server has too much to do (HTTP 429)")),
            Err(error) => {
                self.forget().await;
                Err(error)
            }
        }
    }

    /// Sends a request until the server does it; `None` if the server would not before the deadline.
    async fn exchange(
        &self,
        build: impl FnOnce(&Request) -> Built,
        deadline: Instant,
    ) -> Result<Option<Answer>> {
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|_| StoreError::Unavailable("the store was closed".into()))?;
        let connected = self.connected().await?;
        let request =
            build(&connected.leases).map_err(|error| StoreError::Refused(error.into()))?;
        loop {
            let sent = Instant::now();
            let answer = connected.client.send(request.clone().map(Body::from)).await;
            let (head, body) = answer.map_err(unavailable)?.into_parts();
            let date = head.headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(date_ms);
            let date_ms = date.ok_or_else(|| unavailable("an answer without a date"))?;
            self.clock.observe(date_ms, sent, Instant::now());
            // The server has too much to do, and did nothing.
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
            let body = body.collect().await.map_err(unavailable)?.to_bytes();
            return Answer::of(head.status, &body).map(Some);
        }
    }

    async fn connected(&self) -> Result<Arc<Connected>> {
        let mut present = self.client.lock().await;
        if let Some(connected) = &*present {
            return Ok(Arc::clone(connected));
        }
        let (client, place, namespace) = self.place.connect().await?;
        // A kubeconfig whose current context changed names another store.
        let now = format!("{place}, namespace {namespace}");
        let first = self.connected_to.get_or_init(|| now.clone());
        if *first != now {
            return Err(unavailable(format!(
                "the kubeconfig now names {now}, and named {first} when the process started"
            )));
        }
        let leases =
            Request::new(format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"));
        Ok(Arc::clone(present.insert(Arc::new(Connected { client, leases }))))
    }

    async fn forget(&self) {
        *self.client.lock().await = None;
    }
}

impl Answer {
    /// Tells answers that say what became of a request from all others: those may come from anybody
    /// between, or leave the outcome open.
    fn of(status: StatusCode, body: &[u8]) -> Result<Self> {
        if status.is_success() {
            return Ok(Self::Done(body.to_vec()));
        }
        let Ok(said) = serde_json::from_slice::<Said>(body) else {
            return Err(unavailable(format!("HTTP {status} that is not from an API server")));
        };
        match &*said.reason {
            // Not that the path or the namespace is missing.
            "NotFound" if said.details.kind == "leases" => Ok(Self::Missing(said)),
            // The list took so long that the server forgot how it began.
            "Expired" | "Gone" => Err(unavailable(said)),
            "AlreadyExists" | "Conflict" | "Invalid" => Ok(Self::Refused(said)),
            _ if status.is_server_error() => Err(unavailable(said)),
            _ => Err(said.refused()),
        }
    }

    /// Reads what the server returned.
    fn read<T: DeserializeOwned>(self) -> Result<T> {
        match self {
            Self::Done(body) => serde_json::from_slice(&body).map_err(unavailable),
            Self::Refused(said) | Self::Missing(said) => Err(said.refused()),
        }
    }

    const fn written(&self) -> Written {
        match self {
            Self::Done(_) => Written::Done,
            Self::Refused(_) => Written::Refused,
            Self::Missing(_) => Written::Missing,
        }
    }
}

impl Said {
    fn refused(self) -> StoreError {
        StoreError::Refused(self.into())
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl std::error::Error for Said {}

/// Checks that a Lease was stored with the annotations that were sent; `None` stands for one that was
/// removed. Otherwise nobody knows what an acknowledgement means.
fn check_stored<'a>(
    stored: &Lease,
    sent: impl Iterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<()> {
    for (name, value) in sent {
        if annotation(stored, name) != value {
            let lease = name_of(stored);
            let reason = format!(
                "Lease {lease} was stored with another annotation {name} than was sent: something \
                 between, an admission webhook perhaps, changes it"
            );
            return Err(StoreError::Refused(reason.into()));
        }
    }
    Ok(())
}

fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Unavailable(error.into())
}

/// Reads a date such as `Sun, 06 Nov 1994 08:49:37 GMT`, as Unix ms.
fn date_ms(date: &str) -> Option<i64> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    Some(PARSER.parse_timestamp(date).ok()?.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::object;

    #[test]
    fn dates_are_read() {
        assert_eq!(date_ms("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777_000));
        assert_eq!(date_ms("soon"), None);
    }

    #[test]
    fn lease_that_was_stored_otherwise_than_sent_is_noticed() {
        let stored = object::lease("a".to_owned(), [], [("raindrop/token", "1".to_owned())]);
        let is_as_sent = |name, value| check_stored(&stored, [(name, value)].into_iter()).is_ok();
        assert!(is_as_sent("raindrop/token", Some("1")) && is_as_sent("raindrop/rows", None));
        for (name, value) in
            [("raindrop/token", Some("2")), ("raindrop/token", None), ("raindrop/rows", Some("{}"))]
        {
            assert!(!is_as_sent(name, value), "{name} {value:?}");
        }
    }

    #[test]
    fn only_the_api_server_says_that_a_lease_is_missing() {
        let about = |reason, kind| {
            format!(r#"{{"kind":"Status","reason":"{reason}","details":{{"kind":"{kind}"}}}}"#)
        };
        let status = |reason| about(reason, "leases");
        let of = |code: u16, body: &str| {
            let code = StatusCode::from_u16(code).expect("a status");
            Answer::of(code, body.as_bytes()).map(|answer| answer.written())
        };
        assert!(matches!(of(201, "{}"), Ok(Written::Done)));
        assert!(matches!(of(404, &status("NotFound")), Ok(Written::Missing)));
        assert!(matches!(of(409, &status("Conflict")), Ok(Written::Refused)));
        assert!(matches!(of(409, &status("AlreadyExists")), Ok(Written::Refused)));
        assert!(matches!(of(422, &status("Invalid")), Ok(Written::Refused)));
        let no_namespace = about("NotFound", "namespaces");
        assert!(matches!(of(404, &no_namespace), Err(StoreError::Refused(_))));
        assert!(matches!(of(410, &status("Expired")), Err(StoreError::Unavailable(_))));
        assert!(matches!(of(404, "<html>"), Err(StoreError::Unavailable(_))));
        assert!(matches!(of(500, &status("InternalError")), Err(StoreError::Unavailable(_))));
        assert!(matches!(of(403, &status("Forbidden")), Err(StoreError::Refused(_))));
    }
}
