//! An API server in memory whose requests may come late or never, and whose answers may be lost.

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{
    Method, Request, Response,
    header::{DATE, RETRY_AFTER},
};
use http_body_util::BodyExt as _;
use jiff::{Timestamp, fmt::rfc2822::DateTimePrinter};
use kube::{Client, client::Body};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, sleep};

use crate::kubernetes::object::{ANNOTATIONS, LABELS};

/// The server's clock when a simulation begins, in Unix ms.
pub(super) const BEGIN_MS: i64 = 1_800_000_000_000;

/// A planted fault: a check that the simulated server leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// A patch is applied to an object of any version.
    VersionNotCompared,
    /// A row is listed whatever its template is.
    TemplatesNotCompared,
    /// A patch is applied to an object of any UID.
    UidNotCompared,
    /// An object that is created under a former name has the former UID.
    UidsComeBack,
}

/// What becomes of every patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Patches {
    Applied,
    /// The account may only read.
    Forbidden,
    /// An admission webhook does not answer.
    Failing,
    /// An admission webhook takes longer than the node waits.
    Late,
    /// The API server cannot reach its database.
    Unavailable,
    /// An admission webhook keeps the labels of every Lease as they are.
    WithoutLabels,
    /// It keeps those of this Lease.
    WithoutLabelsOf(String),
}

#[derive(Debug)]
pub(in crate::kubernetes) struct Server {
    begin: Instant,
    bug: Option<Bug>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: StdRng,
    objects: BTreeMap<String, Json>,
    /// Every state of every object that was ever written.
    past: Vec<Json>,
    writes: u64,
    lists: u32,
    is_faulty: bool,
    patches: Patches,
    /// How many patches of labels were requested.
    relabelled: u32,
    /// The number of requests to refuse with 429.
    overload: u32,
    /// How much longer each request takes: between these.
    delay: RangeInclusive<Duration>,
    /// The number of requests for one object that get no answer, after this many that get one.
    lost_reads: (u32, u32),
}

/// The fate of a request.
enum Fate {
    Answered,
    AnswerLost,
    Late,
    Never,
}

impl Server {
    pub(super) fn new(seed: u64, bug: Option<Bug>) -> Arc<Self> {
        let state = State {
            random: StdRng::seed_from_u64(seed),
            objects: BTreeMap::new(),
            past: Vec::new(),
            writes: 0,
            lists: 0,
            is_faulty: true,
            patches: Patches::Applied,
            relabelled: 0,
            overload: 0,
            delay: Duration::ZERO..=Duration::ZERO,
            lost_reads: (0, 0),
        };
        Arc::new(Self { begin: Instant::now(), bug, state: Mutex::new(state) })
    }

    pub(in crate::kubernetes) fn client(self: &Arc<Self>) -> Client {
        let server = Arc::clone(self);
        let service = tower::service_fn(move |request| Arc::clone(&server).serve(request));
        Client::new(service, "default")
    }

    pub(super) fn now_ms(&self) -> i64 {
        BEGIN_MS + i64::try_from(self.begin.elapsed().as_millis()).expect("a short simulation")
    }

    /// Answers every request from now on, without delay and without a fault.
    pub(super) fn heal(&self) {
        self.lock().is_faulty = false;
    }

    /// Does this with patches from now on.
    pub(super) fn treat_patches(&self, patches: Patches) {
        self.lock().patches = patches;
    }

    /// Returns how many patches of labels were requested.
    pub(super) fn relabelled(&self) -> u32 {
        self.lock().relabelled
    }

    /// Refuses this many requests with 429, each with a pause of 1 s.
    pub(super) fn refuse(&self, requests: u32) {
        self.lock().overload = requests;
    }

    /// Takes this much longer for each request from now on.
    pub(super) fn slow_down(&self, delay: Duration) {
        self.vary_delays(delay..=delay);
    }

    /// Takes longer for each request from now on, by any time between these.
    pub(super) fn vary_delays(&self, delay: RangeInclusive<Duration>) {
        self.lock().delay = delay;
    }

    /// Answers this many requests for one object, and then loses as many as `lost`.
    pub(super) fn lose_reads(&self, answered: u32, lost: u32) {
        self.lock().lost_reads = (answered, lost);
    }

    /// Returns how many lists were requested.
    pub(super) fn lists(&self) -> u32 {
        self.lock().lists
    }

    /// Removes annotations from every object.
    pub(super) fn forget_annotations(&self, names: &[&str]) {
        for object in self.lock().objects.values_mut() {
            let annotations = object["metadata"]["annotations"].as_object_mut().expect("a map");
            annotations.retain(|name, _| !names.contains(&name.as_str()));
        }
    }

    /// Sets an annotation of one object, as a person would; with `None` removes it.
    pub(super) fn annotate(&self, object: &str, name: &str, value: Option<&str>) {
        let mut state = self.lock();
        let mut object = state.objects[object].clone();
        let annotations = object["metadata"]["annotations"].as_object_mut().expect("a map");
        match value {
            Some(value) => drop(annotations.insert(name.to_owned(), json!(value))),
            None => drop(annotations.remove(name)),
        }
        write(&mut state, object);
    }

    /// Sets a label of one object, as a person would; with `None` removes all labels.
    pub(super) fn label(&self, object: &str, label: Option<(&str, &str)>) {
        let mut state = self.lock();
        let mut object = state.objects[object].clone();
        let metadata = object["metadata"].as_object_mut().expect("a map");
        match label {
            Some((name, value)) => metadata["labels"][name] = json!(value),
            None => drop(metadata.remove("labels")),
        }
        write(&mut state, object);
    }

    /// Returns the labels of an object.
    pub(super) fn labels(&self, object: &str) -> Json {
        self.lock().objects[object]["metadata"]["labels"].clone()
    }

    /// Creates a copy of an object under another name, as a person would.
    pub(super) fn copy(&self, object: &str, name: &str) {
        let mut state = self.lock();
        let mut copy = state.objects[object].clone();
        copy["metadata"]["name"] = json!(name);
        self.create(&mut state, copy);
    }

    /// Returns an annotation of an object.
    pub(super) fn annotation(&self, object: &str, name: &str) -> Json {
        self.lock().objects[object]["metadata"]["annotations"][name].clone()
    }

    /// Deletes an object, or restores an earlier state of it, as an operator would.
    pub(super) fn interfere(&self, prefix: &str) {
        let mut state = self.lock();
        if state.random.random_bool(0.5) {
            let names: Vec<_> =
                state.objects.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
            if !names.is_empty() {
                let at = state.random.random_range(..names.len());
                state.objects.remove(&names[at]);
            }
            return;
        }
        let name = |object: &Json| object["metadata"]["name"].as_str().map(str::to_owned);
        let past = state.past.iter().filter(|object| {
            name(object)
                .is_some_and(|name| name.starts_with(prefix) && !state.objects.contains_key(&name))
        });
        let past: Vec<_> = past.cloned().collect();
        if !past.is_empty() {
            let at = state.random.random_range(..past.len());
            self.create(&mut state, past[at].clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(self: Arc<Self>, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or(Json::Null);
        let (arrives, answers, fate) = {
            let mut state = self.lock();
            let slow = if state.is_faulty { 0.1 } else { 0.0 };
            let mut takes = || {
                let most = if state.random.random_bool(slow) { 1_400 } else { 20 };
                Duration::from_millis(state.random.random_range(0..most))
            };
            let (arrives, answers) = (takes(), takes());
            let is_read = head.method == Method::GET && head.uri.query().is_none();
            let is_lost = is_read && state.loses_read();
            let fate = match state.random.random_range(0..100) {
                _ if is_lost => Fate::Never,
                _ if !state.is_faulty => Fate::Answered,
                0..4 => Fate::AnswerLost,
                4..8 => Fate::Late,
                8..10 => Fate::Never,
                _ => Fate::Answered,
            };
            let delay = state.delay.clone();
            // Without a draw where there is no choice: a seed of the simulation stands for its run.
            let is_fixed = delay.start() == delay.end();
            let delay = if is_fixed { *delay.start() } else { state.random.random_range(delay) };
            (arrives + delay, answers, fate)
        };
        sleep(arrives).await;
        if head.method == Method::PATCH && is_relabelling(&body) && self.delays_patches() {
            return std::future::pending().await;
        }
        let handle = {
            let server = Arc::clone(&self);
            move || server.handle(&head.method, &head.uri, body)
        };
        match fate {
            Fate::Answered => {}
            Fate::AnswerLost => {
                handle();
                return std::future::pending().await;
            }
            Fate::Late => {
                let late = Duration::from_millis(self.lock().random.random_range(0..20_000));
                tokio::spawn(async move {
                    sleep(late).await;
                    handle();
                });
                return std::future::pending().await;
            }
            Fate::Never => return std::future::pending().await,
        }
        let is_refused = {
            let mut state = self.lock();
            let is_refused = state.overload > 0;
            state.overload = state.overload.saturating_sub(1);
            is_refused
        };
        let (status, body) = if is_refused { refused(429, "TooManyRequests") } else { handle() };
        let now = Timestamp::from_millisecond(self.now_ms()).expect("a time");
        let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&now).expect("a date");
        sleep(answers).await;
        let answer = Response::builder().status(status).header(DATE, date);
        let answer = if is_refused { answer.header(RETRY_AFTER, "1") } else { answer };
        Ok(answer.body(Body::from(body.to_string().into_bytes())).expect("an answer"))
    }

    /// Counts a patch of labels if it gets no answer, and returns whether it gets none.
    fn delays_patches(&self) -> bool {
        let mut state = self.lock();
        let is_late = matches!(state.patches, Patches::Late);
        state.relabelled += u32::from(is_late);
        is_late
    }

    fn handle(&self, method: &Method, uri: &http::Uri, body: Json) -> (u16, Json) {
        let mut state = self.lock();
        let (_, name) = uri.path().split_once("/leases").expect("a path of Leases");
        let name = name.trim_start_matches('/').to_owned();
        match *method {
            Method::GET if name.is_empty() => {
                state.lists += 1;
                let query = uri.query().unwrap_or_default();
                let items = state.objects.values().filter(|object| is_selected(object, query));
                let items: Vec<_> = items.cloned().collect();
                (200, json!({ "kind": "LeaseList", "metadata": {}, "items": items }))
            }
            Method::GET => state.objects.get(&name).map_or_else(missing, |o| (200, o.clone())),
            Method::POST => {
                let name = body["metadata"]["name"].as_str().expect("a name");
                if state.objects.contains_key(name) {
                    return refused(409, "AlreadyExists");
                }
                (201, self.create(&mut state, body))
            }
            Method::PATCH => {
                state.relabelled += u32::from(is_relabelling(&body));
                let keeps_labels = match &state.patches {
                    Patches::Applied | Patches::Late => false,
                    Patches::Forbidden => return refused(403, "Forbidden"),
                    Patches::Failing => {
                        let (status, mut body) = refused(500, "InternalError");
                        let message = "Internal error occurred: failed calling webhook \"w\": EOF";
                        body["message"] = json!(message);
                        return (status, body);
                    }
                    Patches::Unavailable => return refused(500, "InternalError"),
                    Patches::WithoutLabels => true,
                    Patches::WithoutLabelsOf(lease) => *lease == name,
                };
                let Some(mut object) = state.objects.get(&name).cloned() else { return missing() };
                let labels = object["metadata"]["labels"].clone();
                if !self.patch(&mut object, &body) {
                    return refused(422, "Invalid");
                }
                if keeps_labels {
                    object["metadata"]["labels"] = labels;
                }
                (200, write(&mut state, object))
            }
            Method::DELETE => {
                let Some(object) = state.objects.get(&name) else { return missing() };
                let (expected, found) = (&body["preconditions"], &object["metadata"]);
                let is_met = expected["uid"] == found["uid"]
                    && expected["resourceVersion"] == found["resourceVersion"];
                if !is_met {
                    return refused(409, "Conflict");
                }
                state.objects.remove(&name);
                (200, json!({}))
            }
            _ => panic!("{method} {uri}"),
        }
    }

    fn create(&self, state: &mut State, mut object: Json) -> Json {
        let uid = match self.bug {
            Some(Bug::UidsComeBack) => object["metadata"]["name"].clone(),
            _ => json!(format!("uid-{}", state.writes)),
        };
        object["metadata"]["uid"] = uid;
        write(state, object)
    }

    fn patch(&self, object: &mut Json, patch: &Json) -> bool {
        for part in patch.as_array().expect("a JSON patch") {
            let (path, value) = (part["path"].as_str().expect("a path"), &part["value"]);
            if part["op"] == "test" {
                let ignored = match self.bug {
                    Some(Bug::VersionNotCompared) => path == "/metadata/resourceVersion",
                    Some(Bug::UidNotCompared) => path == "/metadata/uid",
                    Some(Bug::TemplatesNotCompared) => path.ends_with("raindrop~1rows"),
                    _ => false,
                };
                // A missing value is null.
                if object.pointer(path).unwrap_or(&Json::Null) != value && !ignored {
                    return false;
                }
                continue;
            }
            if let Some(name) = path.strip_prefix(LABELS) {
                let labels = &mut object["metadata"]["labels"];
                match name.strip_prefix('/') {
                    None => *labels = value.clone(),
                    Some(_) if labels.is_null() => return false,
                    Some(name) => labels[name.replace("~1", "/")] = value.clone(),
                }
                continue;
            }
            let Some(name) = path.strip_prefix(ANNOTATIONS) else {
                object["spec"] = value.clone();
                continue;
            };
            let annotations = object["metadata"]["annotations"].as_object_mut().expect("a map");
            let name = name.replace("~1", "/");
            match part["op"] == "remove" {
                true if annotations.remove(&name).is_none() => return false,
                true => {}
                false => drop(annotations.insert(name, value.clone())),
            }
        }
        true
    }
}

impl State {
    /// Returns whether a request for one object gets no answer.
    fn loses_read(&mut self) -> bool {
        let (answered, lost) = &mut self.lost_reads;
        match (*answered, *lost) {
            (0, 0) => false,
            (0, _) => {
                *lost -= 1;
                true
            }
            _ => {
                *answered -= 1;
                false
            }
        }
    }
}

fn write(state: &mut State, mut object: Json) -> Json {
    state.writes += 1;
    object["metadata"]["resourceVersion"] = json!(state.writes.to_string());
    let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
    state.objects.insert(name, object.clone());
    state.past.push(object.clone());
    object
}

fn is_selected(object: &Json, query: &str) -> bool {
    let selector = form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == "labelSelector")
        .expect("a selector")
        .1
        .into_owned();
    if selector.is_empty() {
        return true;
    }
    // Commas in brackets do not separate terms.
    let (terms, choice) = match selector.split_once(" in (") {
        Some((before, among)) => {
            let (terms, name) = before.rsplit_once(',').expect("other terms");
            (terms.to_owned(), Some((name.to_owned(), among.trim_end_matches(')').to_owned())))
        }
        None => (selector, None),
    };
    let label = |name: &str| object["metadata"]["labels"][name].as_str().unwrap_or_default();
    terms
        .split(',')
        .all(|term| term.split_once('=').is_some_and(|(name, value)| label(name) == value))
        && choice.is_none_or(|(name, among)| among.split(',').any(|value| label(&name) == value))
}

/// Returns whether a patch changes labels.
fn is_relabelling(patch: &Json) -> bool {
    let mut paths = patch.as_array().into_iter().flatten().filter_map(|part| part["path"].as_str());
    paths.any(|path| path.starts_with(LABELS))
}

fn missing() -> (u16, Json) {
    refused(404, "NotFound")
}

fn refused(status: u16, reason: &str) -> (u16, Json) {
    // The response to an unmet condition of a patch names no object.
    let details = if reason == "Invalid" { json!({}) } else { json!({ "kind": "leases" }) };
    (status, json!({ "kind": "Status", "reason": reason, "details": details }))
}
