//! Nodes on an API server that loses answers and takes requests late, while a person deletes and
//! restores Leases: no two acknowledged writes of a row cover the same part of its marks.
//!
//! The test also finds a server that omits a comparison. `SEED=n` runs one seed again, and
//! `SEEDS=n` runs n seeds.

mod server;

use std::{env, ops::Range, panic::catch_unwind, sync::Arc, time::Duration};

use raindrop_core::{
    lease::{HighWaterMarks, History, NodeTimes, Row, RowExpiry, RowWrite, Token},
    segment::CodeRow,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

pub(super) use self::server::Server;
use self::server::{Bug, Patches};
use super::{
    KubernetesStore,
    api_server::ApiServer,
    labels::{PAUSE, REPORTED},
    lock,
    object::{EPOCH, HISTORY, IDENTITY, TOKEN},
};
use crate::{
    CodeState, LayoutRecord, ManagedCode, NewRows, NewSegment, Result, Scope, SegmentStore as _,
    Store as _, StoreError, StoreSettings, UnreleasedRow,
};

/// How far a write raises a mark, in ms.
const WINDOW_MS: u64 = 30_000;
/// How long a decision to create rows holds, in ms.
const DECISION_MS: i64 = 5_000;
const NODES: u64 = 4;
const WORKERS: u64 = 3;
const LASTS: Duration = Duration::from_secs(120);

type Writes = std::sync::Mutex<Vec<(u64, Range<u64>)>>;

fn scope() -> Scope {
    let (namespace, reserved_key) = ("default".to_owned(), "0/0".to_owned());
    Scope { namespace, reserved_key, min_worker: 1, max_worker: WORKERS }
}

/// The epoch of [`record`].
const FIRST: Token = Token::from_bits(0xe1);

/// A record as a first start writes it.
fn record(token: Token) -> LayoutRecord {
    LayoutRecord::new("words", token, 0, History::first("", FIRST, NodeTimes::default()))
}

/// A node, and the row that it holds.
struct Node {
    store: KubernetesStore,
    server: Arc<Server>,
    random: StdRng,
    /// Whether the node has seen that every row was created.
    is_prepared: bool,
    held: Option<Row>,
    writes: Arc<Writes>,
}

impl Node {
    fn token(&mut self) -> Token {
        Token::from_bits(self.random.random())
    }

    async fn live(mut self) {
        let end = Instant::now() + LASTS;
        while Instant::now() < end {
            let step = match self.held.take() {
                None if !self.is_prepared || self.random.random_bool(0.3) => self.prepare().await,
                None => self.acquire().await,
                Some(row) => self.renew(row).await,
            };
            match step {
                Ok(()) | Err(StoreError::TimedOut { .. } | StoreError::Unavailable(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
            let pause = self.random.random_range(0..1_000);
            sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Creates what is missing, as the keeper does.
    async fn prepare(&mut self) -> Result<()> {
        let scope = scope();
        let survey = self.store.survey(&scope).await?;
        let record = if survey.record.is_some() {
            self.store.read_record(&scope.namespace).await?.expect("nobody deletes it")
        } else {
            let record = record(self.token());
            self.store.create_record(&scope.namespace, &record).await?
        };
        let is_complete = record.complete.contains(&scope.reserved_key);
        let until_ms = self.server.now_ms() + DECISION_MS;
        let mark = if is_complete { until_ms.unsigned_abs() + WINDOW_MS } else { 0 };
        let (marks, seed) = (HighWaterMarks::all_at(mark, 1), self.token());
        let new = NewRows { marks, seed, record: record.token, until_ms };
        let is_created = self.store.create_rows(&scope, &new).await?;
        self.is_prepared |= is_created && is_complete;
        if is_created && !is_complete {
            let complete = vec![scope.reserved_key.clone()];
            let completed = LayoutRecord { token: self.token(), complete, ..record.clone() };
            let completed = self.store.swap_record(&scope.namespace, record.token, &completed);
            self.is_prepared = completed.await?;
        }
        Ok(())
    }

    async fn acquire(&mut self) -> Result<()> {
        let rows = self.store.free_rows(&scope(), None, 3).await?;
        if !rows.is_empty() {
            let at = self.random.random_range(..rows.len());
            self.renew(rows[at].clone()).await?;
        }
        Ok(())
    }

    /// Raises the marks of a row, and releases it now and then.
    async fn renew(&mut self, row: Row) -> Result<()> {
        let from = row.marks[0];
        let to = self.server.now_ms().unsigned_abs() + WINDOW_MS;
        // No lease ends beyond its window, so a lease that would start there has to wait.
        if from >= to {
            return Ok(());
        }
        let expiry = match self.random.random_range(0..4) {
            0 => RowExpiry::Released,
            _ => RowExpiry::After(Duration::from_secs(8)),
        };
        let (token, holder) = (self.token(), "node".to_owned());
        let marks = HighWaterMarks::all_at(to, 1);
        let write = RowWrite { token, epoch: FIRST, holder, lane: 0, marks, expiry };
        let swapped = self.store.swap_row(&scope(), row.worker, row.token, &write).await;
        if let Ok(true) = swapped {
            self.acknowledged(row.worker, from..to);
        }
        // The row has a token of this node, or another node took it.
        let seen = loop {
            match self.store.read_row(&scope(), row.worker).await {
                Ok(seen) => break seen,
                Err(_) => sleep(Duration::from_millis(500)).await,
            }
        };
        self.held = seen.filter(|seen| [token, row.token].contains(&seen.token));
        swapped.map(drop)
    }

    fn acknowledged(&self, worker: u64, range: Range<u64>) {
        let mut writes = lock(&self.writes);
        let overlaps = |(other, of): &&(u64, Range<u64>)| {
            *other == worker && of.start < range.end && range.start < of.end
        };
        if let Some((_, other)) = writes.iter().find(overlaps) {
            panic!("row {worker} is written {range:?} and {other:?}");
        }
        writes.push((worker, range));
    }
}

/// Runs a simulation. Returns how many writes of rows were acknowledged.
async fn simulate(seed: u64, bug: Option<Bug>) -> usize {
    let server = Server::new(seed, bug);
    let writes = Arc::new(Writes::default());
    let node = |number: u64| {
        let settings = StoreSettings::new("kubernetes:");
        let mut store = KubernetesStore::new(&settings).expect("usable settings");
        store.random = std::sync::Mutex::new(StdRng::seed_from_u64(seed ^ number));
        store.api.server = ApiServer::Simulated(Arc::clone(&server));
        let random = StdRng::seed_from_u64(seed.wrapping_mul(NODES).wrapping_add(number));
        let (server, writes) = (Arc::clone(&server), Arc::clone(&writes));
        Node { store, server, random, is_prepared: false, held: None, writes }
    };
    let mut nodes = JoinSet::new();
    for number in 0..NODES {
        nodes.spawn(node(number).live());
    }
    let person = {
        let (server, mut random) = (Arc::clone(&server), StdRng::seed_from_u64(!seed));
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(random.random_range(0..5_000))).await;
                server.interfere("soc-raindrop-worker.");
            }
        })
    };
    while let Some(ended) = nodes.join_next().await {
        if let Err(error) = ended {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    person.abort();
    // Every row can be used once the server works again.
    server.heal();
    sleep(Duration::from_secs(60)).await;
    let mut last = node(NODES);
    for _ in 0..2 {
        last.prepare().await.expect("the server answers");
    }
    // The marks of rows that are created now are ahead.
    sleep(Duration::from_secs(60)).await;
    for worker in 1..=WORKERS {
        let row = last.store.read_row(&scope(), worker).await.expect("an answer").expect("a row");
        last.renew(row).await.expect("the server answers");
        assert!(last.held.take().is_some(), "row {worker} is written");
    }
    let writes = lock(&writes).len();
    assert!(writes > 10, "{writes} writes");
    writes
}

/// Runs a simulation on a new runtime, in which time passes as fast as it can.
fn run(seed: u64, bug: Option<Bug>) -> usize {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(simulate(seed, bug))
}

fn from_environment(name: &str) -> Option<u64> {
    env::var(name).ok().map(|number| number.parse().expect(name))
}

#[tokio::test(start_paused = true)]
async fn overloaded_server_is_left_alone_for_as_long_as_it_says() {
    let server = Server::new(0, None);
    server.heal();
    let mut settings = StoreSettings::new("kubernetes:");
    // Longer than one pause with its responses, and shorter than two pauses.
    settings.timeout = Duration::from_millis(1_600);
    let mut store = KubernetesStore::new(&settings).expect("usable");
    store.api.server = ApiServer::Simulated(Arc::clone(&server));
    server.refuse(1);
    let begin = Instant::now();
    store.read_record("default").await.expect("an answer after the pause");
    assert!(begin.elapsed() >= Duration::from_secs(1));
    // Not for longer than the time-out.
    server.refuse(9);
    let error = store.read_record("default").await.expect_err("too much to do");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    server.refuse(0);
    store.read_record("default").await.expect("an answer");
}

/// Returns an API server without faults, and a store on it that has a record and rows.
async fn store_with_rows() -> (Arc<Server>, KubernetesStore, NewRows) {
    let server = Server::new(0, None);
    server.heal();
    let mut store = KubernetesStore::new(&StoreSettings::new("kubernetes:")).expect("usable");
    store.api.server = ApiServer::Simulated(Arc::clone(&server));
    let first = record(Token::from_bits(1));
    store.create_record("default", &first).await.expect("a record");
    let (marks, seed) = (HighWaterMarks::all_at(0, 1), Token::from_bits(100));
    let new = NewRows { marks, seed, record: first.token, until_ms: i64::MAX };
    assert!(store.create_rows(&scope(), &new).await.expect("an answer"));
    (server, store, new)
}

/// Returns the same with as many codes, `code-1` and so on, each of which begins at its number.
async fn store_with_codes(count: u64) -> (Arc<Server>, KubernetesStore, Vec<NewSegment>) {
    let (server, store, _) = store_with_rows().await;
    let new = |number: u64| NewSegment { code: format!("code-{number}"), first: number };
    let codes: Vec<_> = (1..=count).map(new).collect();
    store.create_segments("default", &codes).await.expect("codes");
    (server, store, codes)
}

/// Returns the name of the Lease of `code-{number}`.
fn code_lease(number: u32) -> String {
    format!("soc-raindrop-segment.default.code-{number}")
}

#[tokio::test(start_paused = true)]
async fn missing_annotations_are_named() {
    let (server, store, new) = store_with_rows().await;
    let marks = new.marks.clone();
    let (token, holder, expiry) = (Token::from_bits(2), "node".to_owned(), RowExpiry::Released);
    let write = RowWrite { token, epoch: FIRST, holder, lane: 0, marks, expiry };
    assert!(store.swap_row(&scope(), 1, new.token(1), &write).await.expect("an answer"));
    // Reads the row without the record, because the UID of its Lease is known.
    for (name, [of_record, of_row]) in [
        (HISTORY, [Some("history"), None]),
        (EPOCH, [Some("epoch"), Some("epoch")]),
        (IDENTITY, [Some("identity"), Some("epoch")]),
        (TOKEN, [Some("token"), Some("token")]),
    ] {
        server.forget_annotations(&[name]);
        let record = missing(store.read_record("default").await.map(drop));
        let row = missing(store.read_row(&scope(), 1).await.map(drop));
        assert_eq!([record, row], [of_record, of_row], "{name}");
    }
}

/// A list has every code of the namespace, however few a node uses.
#[tokio::test(start_paused = true)]
async fn few_codes_are_read_without_a_list_of_all() {
    let (server, store, codes) = store_with_codes(20).await;
    let names: Vec<_> = ["missing"].into_iter().chain(codes.iter().map(|it| &*it.code)).collect();
    for (count, lists) in [(1, 0), (2, 0), (16, 0), (17, 1), (21, 1)] {
        let before = server.lists();
        let states = store.read_segments("default", &names[..count], FIRST).await.expect("states");
        assert_eq!(server.lists() - before, lists, "{count}");
        let states: Vec<_> = states.into_iter().map(|state| state.expect("readable")).collect();
        let row = |new: &NewSegment| CodeState::Row(CodeRow::missing(new.first));
        let rows = codes.iter().take(count - 1).map(row);
        assert_eq!(states, [CodeState::Missing].into_iter().chain(rows).collect::<Vec<_>>());
        let other = store.read_segments("default", &names[..count], Token::from_bits(9)).await;
        let other = other.expect("states").into_iter().map(|state| state.expect("readable"));
        assert!(other.into_iter().all(|state| state == CodeState::OtherEpoch), "{count}");
    }
}

/// A slow server is not asked for a list of all codes, of which this namespace has two pages: it
/// returns as many codes one by one as the caller waits for, and all of them in a few calls.
#[tokio::test(start_paused = true)]
async fn slow_server_answers_a_read_of_codes_in_time() {
    let (server, store, codes) = store_with_codes(600).await;
    let codes = &codes[..16];
    let names: Vec<_> = codes.iter().map(|it| &*it.code).collect();
    // The last one is nearly the time-out of a request.
    for (delay, least) in [(10, 16), (500, 16), (1_000, 16), (1_350, 16), (2_900, 7)] {
        server.slow_down(Duration::from_millis(delay));
        let (mut unread, before): (Vec<_>, _) = (names.clone(), server.lists());
        for _ in 0..40 {
            let begin = Instant::now();
            let states = store.read_segments("default", &names, FIRST).await.expect("states");
            let took = begin.elapsed();
            assert!(took < store.longest_call(), "{delay} ms a request: {took:?}");
            let mut read = 0;
            for (code, state) in codes.iter().zip(states) {
                match state {
                    Ok(state) => {
                        assert_eq!(state, CodeState::Row(CodeRow::missing(code.first)));
                        unread.retain(|name| *name != code.code);
                        read += 1;
                    }
                    Err(StoreError::TimedOut { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            assert!(read >= least, "{delay} ms a request: {read} codes");
        }
        assert_eq!((unread, server.lists() - before), (vec![], 0), "{delay} ms a request");
    }
}

/// Where the delays of a server vary, a call reads fewer codes, or fails if requests get no answer
/// within the time-out. Repeated calls still read each code, and none takes longer than its caller
/// waits.
#[tokio::test(start_paused = true)]
async fn server_whose_delays_vary_answers_for_every_code() {
    let (server, store, codes) = store_with_codes(16).await;
    let names: Vec<_> = codes.iter().map(|it| &*it.code).collect();
    for (shortest, longest) in [(0, 500), (10, 2_900), (1_000, 2_900), (10, 5_000)] {
        let delays = Duration::from_millis(shortest)..=Duration::from_millis(longest);
        server.vary_delays(delays.clone());
        let mut unread = names.clone();
        for _ in 0..100 {
            let begin = Instant::now();
            let states = store.read_segments("default", &names, FIRST).await;
            let took = begin.elapsed();
            assert!(took < store.longest_call(), "{delays:?}: {took:?}");
            let states = match states {
                Ok(states) => states,
                Err(StoreError::TimedOut { after }) if *delays.end() > after => continue,
                Err(error) => panic!("{delays:?}: {error:?}"),
            };
            for (code, state) in codes.iter().zip(states) {
                match state {
                    Ok(state) => {
                        assert_eq!(state, CodeState::Row(CodeRow::missing(code.first)));
                        unread.retain(|name| *name != code.code);
                    }
                    Err(StoreError::TimedOut { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
        assert_eq!(unread, Vec::<&str>::new(), "{delays:?}");
    }
}

/// A request without an answer costs its own code. After two in succession no more are sent, and
/// with no code at all the read fails.
#[tokio::test(start_paused = true)]
async fn request_without_an_answer_hides_no_other_code() {
    let (server, store, codes) = store_with_codes(16).await;
    let names: Vec<_> = codes.iter().map(|it| &*it.code).collect();
    // With the last delay, the request without an answer would end after the call.
    for (delay, answered, lost, read) in [
        (10, 0, 1, Some(15)),
        (10, 5, 1, Some(15)),
        (10, 5, 2, Some(5)),
        (10, 0, 2, None),
        (1_300, 15, 1, Some(15)),
    ] {
        server.slow_down(Duration::from_millis(delay));
        server.lose_reads(answered, lost);
        let begin = Instant::now();
        let states = store.read_segments("default", &names, FIRST).await;
        let took = begin.elapsed();
        assert!(took < store.longest_call(), "{delay} ms a request: {took:?}");
        let Some(read) = read else {
            assert!(matches!(states, Err(StoreError::TimedOut { .. })), "{states:?}");
            continue;
        };
        let states = states.expect("states");
        let is_late = |state: &&Result<_>| matches!(state, Err(StoreError::TimedOut { .. }));
        assert_eq!(states.iter().filter(is_late).count(), 16 - read);
        assert_eq!(states.iter().filter(|state| state.is_ok()).count(), read);
    }
}

/// A row that was not released makes starts wait, whatever else of it cannot be read.
#[tokio::test(start_paused = true)]
async fn row_that_cannot_be_read_counts_as_unreleased() {
    let (server, store, new) = store_with_rows().await;
    let marks = new.marks.clone();
    for (worker, expiry) in [(1, RowExpiry::Released), (2, RowExpiry::After(LASTS))] {
        let (token, holder) = (Token::from_bits(2), "node".to_owned());
        let write = RowWrite { token, epoch: FIRST, holder, lane: 0, marks: marks.clone(), expiry };
        let scope = scope();
        let swap = store.swap_row(&scope, worker, new.token(worker), &write);
        assert!(swap.await.expect("an answer"));
    }
    let unreleased = async || store.unreleased_rows("default", 9).await.expect("rows");
    let known = unreleased().await;
    let [UnreleasedRow { worker: Ok(2), heartbeat_ms: 1.., .. }] = known[..] else {
        panic!("{known:?}")
    };
    server.forget_annotations(&["raindrop/marks"]);
    assert_eq!(unreleased().await, known);
    server.forget_annotations(&["raindrop/heartbeat-ms"]);
    assert_eq!(unreleased().await, [UnreleasedRow { heartbeat_ms: 0, ..known[0].clone() }]);
    server.forget_annotations(&["raindrop/expires-ms"]);
    let workers: Vec<_> = unreleased().await.into_iter().map(|row| row.worker).collect();
    assert_eq!(workers, [Ok(1), Ok(2)]);
}

/// A release writes 1970 and no other time, so an earlier one does not release a row.
#[tokio::test(start_paused = true)]
async fn expiry_before_1970_releases_no_row() {
    let (server, store, new) = store_with_rows().await;
    let (token, holder) = (Token::from_bits(2), "node".to_owned());
    let (marks, expiry) = (new.marks.clone(), RowExpiry::Released);
    let write = RowWrite { token, epoch: FIRST, holder, lane: 0, marks, expiry };
    assert!(store.swap_row(&scope(), 2, new.token(2), &write).await.expect("an answer"));
    for (expires, is_released) in [("0", true), ("-1", false), ("1", false)] {
        server.annotate("soc-raindrop-worker.default.0-0.2", "raindrop/expires-ms", Some(expires));
        let rows = store.unreleased_rows("default", 9).await.expect("rows");
        assert_eq!(rows.is_empty(), is_released, "{expires}");
    }
}

/// The record says which row a Lease is, so a person who changes annotations hides no row.
#[tokio::test(start_paused = true)]
async fn annotations_of_a_row_that_a_person_changed_hide_nothing() {
    let lease = "soc-raindrop-worker.default.0-0.2";
    let (worker, namespace) = ("raindrop/worker", "raindrop/namespace");
    for (name, value) in [
        (worker, None),
        (worker, Some("five")),
        (worker, Some("-2")),
        // The worker id of another row, and one outside the range.
        (worker, Some("1")),
        (worker, Some("999")),
        (namespace, None),
        (namespace, Some("other")),
    ] {
        let (server, store, new) = store_with_rows().await;
        let (token, holder) = (Token::from_bits(2), "node".to_owned());
        let (marks, expiry) = (new.marks.clone(), RowExpiry::After(LASTS));
        let write = RowWrite { token, epoch: FIRST, holder, lane: 0, marks, expiry };
        assert!(store.swap_row(&scope(), 2, new.token(2), &write).await.expect("an answer"));
        let before = seen(&store).await;
        assert_eq!((before.0.len(), before.1), (1, 1));
        server.annotate(lease, name, value);
        assert_eq!(seen(&store).await, before, "{name} {value:?}");
        // No row is missing, and none is taken for one of another record.
        assert!(store.create_rows(&scope(), &new).await.expect("an answer"), "{name} {value:?}");
        let row = store.read_row(&scope(), 2).await.expect("readable").expect("the row");
        assert_eq!((row.worker, row.token), (2, token), "{name} {value:?}");
        assert_eq!(seen(&store).await, before, "{name} {value:?}");
        // The next write of the row repairs its worker id.
        let write = RowWrite { token: Token::from_bits(3), ..write };
        assert!(store.swap_row(&scope(), 2, token, &write).await.expect("an answer"));
        assert_eq!(server.annotation(lease, worker), "2");
    }
}

/// A list selects by labels, and lacks a Lease whose labels a person changed. The row is there
/// nevertheless, and a start waits for its holder.
#[tokio::test(start_paused = true)]
async fn labels_that_a_person_changed_hide_neither_row_nor_record() {
    let (row, record) = ("soc-raindrop-worker.default.0-0.2", "soc-raindrop-worker-layout.default");
    let (table, reserved) = ("raindrop/table", "raindrop/reserved");
    let namespace = "raindrop/namespace";
    for lease in [row, record] {
        for label in
            [None, Some((table, "other")), Some((namespace, "other")), Some((reserved, "9-9"))]
        {
            let (server, store, new) = store_with_rows().await;
            let (token, holder) = (Token::from_bits(2), "node".to_owned());
            let (marks, expiry) = (new.marks.clone(), RowExpiry::After(LASTS));
            let write = RowWrite { token, epoch: FIRST, holder, lane: 0, marks, expiry };
            assert!(store.swap_row(&scope(), 2, new.token(2), &write).await.expect("an answer"));
            let (before, labels) = (seen(&store).await, server.labels(lease));
            assert_eq!((before.0.len(), before.1), (1, 1));

            server.label(lease, label);
            let unreleased = store.unreleased_rows("default", 9).await.expect("rows");
            assert_eq!(unreleased, before.0, "{lease} {label:?}");

            server.label(lease, label);
            assert_eq!(store.survey(&scope()).await.expect("a survey").held, 1);
            assert_eq!(server.labels(lease), labels, "it has its labels again");

            server.label(lease, label);
            assert!(store.create_rows(&scope(), &new).await.expect("an answer"));
            let present = store.read_row(&scope(), 2).await.expect("readable").expect("the row");
            assert_eq!(present.token, token, "no row is created in its place");
            assert_eq!(seen(&store).await, before, "{lease} {label:?}");

            // A command whose account may only read finds the row nevertheless.
            server.label(lease, label);
            server.treat_patches(Patches::Forbidden);
            let unreleased = store.unreleased_rows("default", 9).await.expect("rows");
            assert_eq!(unreleased, before.0, "{lease} {label:?}");
        }
    }
}

/// A few Leases are read one by one, many by a list of all. Labels of others stay.
#[tokio::test(start_paused = true)]
async fn labels_that_a_person_changed_hide_no_code() {
    for hidden in [1, 4, 5, 20] {
        let (server, store, codes) = store_with_codes(20).await;
        let names: Vec<_> = codes.iter().map(|it| &*it.code).collect();
        let lease = |new: &NewSegment| format!("soc-raindrop-segment.default.{}", new.code);
        let hide = || {
            for code in &codes[..hidden] {
                server.label(&lease(code), Some(("of-another", "1")));
                server.label(&lease(code), Some(("raindrop/table", "other")));
            }
        };
        let are_repaired = || {
            codes[..hidden].iter().all(|code| {
                let labels = server.labels(&lease(code));
                labels["raindrop/table"] == "soc-raindrop-segment" && labels["of-another"] == "1"
            })
        };
        hide();
        let states = store.read_segments("default", &names, FIRST).await.expect("states");
        let states: Vec<_> = states.into_iter().map(|state| state.expect("readable")).collect();
        let rows = codes.iter().map(|new| CodeState::Row(CodeRow::missing(new.first)));
        assert_eq!(states, rows.collect::<Vec<_>>(), "{hidden}");
        assert!(are_repaired(), "{hidden}");
        // So does a start, which creates the codes of its configuration.
        hide();
        assert_eq!(store.count_segments("default").await.expect("a count"), 20 - hidden as u64);
        store.create_segments("default", &codes).await.expect("codes");
        assert!(are_repaired(), "{hidden}");
        assert_eq!(store.count_segments("default").await.expect("a count"), 20);
    }
}

/// A refused patch costs a login, and one without an answer the time-out, so the store repeats it
/// after a pause only. The Lease is found by its name nevertheless.
#[tokio::test(start_paused = true)]
async fn labels_that_do_not_hold_are_repaired_again_after_a_pause() {
    let row = "soc-raindrop-worker.default.0-0.2";
    for patches in [Patches::Forbidden, Patches::Failing, Patches::Late, Patches::WithoutLabels] {
        let (server, store, new) = store_with_rows().await;
        let (token, holder) = (Token::from_bits(2), "node".to_owned());
        let (marks, expiry) = (new.marks.clone(), RowExpiry::After(LASTS));
        let write = RowWrite { token, epoch: FIRST, holder, lane: 0, marks, expiry };
        assert!(store.swap_row(&scope(), 2, new.token(2), &write).await.expect("an answer"));
        let (before, labels) = (seen(&store).await.0, server.labels(row));
        server.label(row, None);
        server.treat_patches(patches.clone());
        for repairs in 1..=3 {
            for _ in 0..5 {
                let unreleased = store.unreleased_rows("default", 9).await;
                assert_eq!(unreleased.expect("rows"), before, "{patches:?}");
                sleep(Duration::from_secs(1)).await;
            }
            assert_eq!(server.relabelled(), repairs, "{patches:?}");
            let refused = store.refused_labels().expect("an operator must know of it");
            assert!(refused.contains(row), "{patches:?}: {refused}");
            sleep(PAUSE).await;
        }
        server.treat_patches(Patches::Applied);
        store.unreleased_rows("default", 9).await.expect("rows");
        assert_eq!(server.labels(row), labels, "{patches:?}");
        assert_eq!(store.refused_labels(), None, "{patches:?}");
        // A repair that holds is followed by no pause.
        server.label(row, None);
        store.unreleased_rows("default", 9).await.expect("rows");
        assert_eq!(server.labels(row), labels, "{patches:?}");
        // A person gives the Lease its labels after a refusal, so no repair follows.
        server.label(row, None);
        server.treat_patches(patches.clone());
        store.unreleased_rows("default", 9).await.expect("rows");
        assert!(store.refused_labels().is_some(), "{patches:?}");
        sleep(REPORTED).await;
        assert_eq!(store.refused_labels(), None, "{patches:?}");
    }
}

/// An API server that is away says nothing about labels, so the next list tries again. It tries one
/// Lease: with many, each attempt could take the whole time-out.
#[tokio::test(start_paused = true)]
async fn repairs_that_the_server_did_not_answer_are_tried_again_at_the_next_list() {
    let (server, store, codes) = store_with_codes(20).await;
    let names: Vec<_> = codes.iter().map(|it| &*it.code).collect();
    (1..=3).for_each(|number| server.label(&code_lease(number), None));
    server.treat_patches(Patches::Unavailable);
    for attempts in 1..=3 {
        store.read_segments("default", &names, FIRST).await.expect("states");
        assert_eq!(server.relabelled(), attempts);
        assert_eq!(store.refused_labels(), None);
    }
    server.treat_patches(Patches::Applied);
    store.read_segments("default", &names, FIRST).await.expect("states");
    assert!((1..=3).all(|number| !server.labels(&code_lease(number)).is_null()));
}

/// A repair that holds ends no pause that began while it was under way.
#[tokio::test(start_paused = true)]
async fn repair_under_way_does_not_end_a_pause() {
    let (server, store, _) = store_with_rows().await;
    let lease = |code: &str| format!("soc-raindrop-segment-settings.default.{code}");
    for code in ["one", "two"] {
        let (settings, token) = ("{}".to_owned(), Token::from_bits(3));
        let managed = ManagedCode { code: code.to_owned(), settings, token };
        assert!(store.write_managed_code("default", None, &managed).await.expect("an answer"));
        server.label(&lease(code), None);
    }
    server.treat_patches(Patches::WithoutLabelsOf(lease("one")));
    // Reads the Lease, and gives it its labels again.
    let read = async |code: &str| drop(store.managed_code("default", code).await.expect("a code"));
    let is_repaired = || !server.labels(&lease("two")).is_null();
    server.slow_down(Duration::from_secs(1));
    let overtake = async {
        sleep(Duration::from_millis(1_500)).await;
        server.slow_down(Duration::ZERO);
        read("one").await;
        assert_eq!((server.relabelled(), is_repaired()), (1, false));
    };
    tokio::join!(read("two"), overtake);
    assert_eq!((server.relabelled(), is_repaired()), (2, true));
    read("one").await;
    assert_eq!(server.relabelled(), 2, "the pause goes on");
}

/// The order of repairs is random, so a Lease that keeps no label delays the others only.
#[tokio::test(start_paused = true)]
async fn lease_that_keeps_no_label_leaves_the_others_theirs() {
    let (server, store, codes) = store_with_codes(20).await;
    let names: Vec<_> = codes.iter().map(|it| &*it.code).collect();
    (1..=3).for_each(|number| server.label(&code_lease(number), None));
    server.treat_patches(Patches::WithoutLabelsOf(code_lease(1)));
    let is_repaired = |number: u32| !server.labels(&code_lease(number)).is_null();
    // By chance, so with more attempts than it ever takes.
    for _ in 0..100 {
        store.read_segments("default", &names, FIRST).await.expect("states");
        sleep(PAUSE).await;
    }
    assert!(is_repaired(2) && is_repaired(3));
    assert!(!is_repaired(1));
}

/// A list does not show these settings. A node that took the code for one without settings would
/// create it on demand, with other numbers.
#[tokio::test(start_paused = true)]
async fn settings_whose_labels_were_changed_are_read_by_the_name_of_their_code() {
    let (server, store, _) = store_with_rows().await;
    let (code, settings) = ("Order".to_owned(), "{}".to_owned());
    let code = ManagedCode { code, settings, token: Token::from_bits(3) };
    let read = async |name: &str| store.managed_code("default", name).await.expect("an answer");
    assert!(store.lists_may_lack_codes());
    assert_eq!(read("Order").await, None);
    assert!(store.write_managed_code("default", None, &code).await.expect("an answer"));
    let listed = async || store.list_managed_codes("default").await.expect("a list");
    server.label("soc-raindrop-segment-settings.default.x4frder", None);
    assert_eq!(listed().await, []);
    assert_eq!(read("Order").await.as_ref(), Some(&code));
    assert_eq!(read("order").await, None);
    assert_eq!(listed().await, [code], "it has its labels again");
}

/// An operator who creates the settings of a code that a list lacks finds them afterwards.
#[tokio::test(start_paused = true)]
async fn creation_of_settings_that_exist_gives_them_their_labels_again() {
    let (server, store, _) = store_with_rows().await;
    let (code, settings) = ("order".to_owned(), "{}".to_owned());
    let code = ManagedCode { code, settings, token: Token::from_bits(3) };
    assert!(store.write_managed_code("default", None, &code).await.expect("an answer"));
    server.label("soc-raindrop-segment-settings.default.order", None);
    let listed = async || store.list_managed_codes("default").await.expect("a list");
    assert_eq!(listed().await, []);
    let other = ManagedCode { token: Token::from_bits(4), ..code.clone() };
    assert!(!store.write_managed_code("default", None, &other).await.expect("an answer"));
    assert_eq!(listed().await, [code]);
}

/// Returns the unreleased rows, how many rows are held, and every row, as a store shows them.
async fn seen(store: &KubernetesStore) -> (Vec<UnreleasedRow>, u64, Vec<u64>) {
    let unreleased = store.unreleased_rows("default", 9).await.expect("rows");
    let held = store.survey(&scope()).await.expect("a survey").held;
    let listed = store.list_rows().await.expect("a list");
    (unreleased, held, listed.into_iter().map(|listed| listed.row.worker).collect())
}

/// The name of a record says whose it is, so a changed annotation hides no namespace, and a copy
/// under another name is no record.
#[tokio::test(start_paused = true)]
async fn list_of_rows_takes_the_names_of_records_for_true() {
    let (server, store, _) = store_with_rows().await;
    let other = record(Token::from_bits(5));
    store.create_record("other", &other).await.expect("a record");
    let default = "soc-raindrop-worker-layout.default";
    let listed = async || {
        let rows = store.list_rows().await.expect("a list");
        rows.into_iter().map(|row| (row.namespace, row.row.worker)).collect::<Vec<_>>()
    };
    let known: Vec<_> = (1..=WORKERS).map(|worker| ("default".to_owned(), worker)).collect();
    assert_eq!(listed().await, known);
    for value in [None, Some("other")] {
        server.annotate(default, "raindrop/namespace", value);
        assert_eq!(listed().await, known, "{value:?}");
    }
    for name in ["copy", "soc-raindrop-worker-layout.copy", "soc-raindrop-worker-layout.default-2"]
    {
        server.copy(default, name);
        assert_eq!(listed().await, known, "{name}");
    }
}

/// A code is found by the name of its Lease, so a changed annotation does not make it a missing
/// one.
#[tokio::test(start_paused = true)]
async fn annotations_of_a_code_that_a_person_changed_are_named() {
    let (code, namespace) = ("raindrop/code", "raindrop/namespace");
    for (name, value, column, found) in [
        (code, None, "code", "null"),
        (namespace, None, "namespace", "null"),
        // Those of another code, and of none.
        (code, Some("code-2"), "code", "code-2"),
        (code, Some("other"), "code", "other"),
        (namespace, Some("other"), "code", "code-1"),
    ] {
        let (server, store, codes) = store_with_codes(20).await;
        server.annotate("soc-raindrop-segment.default.code-1", name, value);
        let names: Vec<_> = codes.iter().map(|it| &*it.code).collect();
        for count in [1, 20] {
            let states = store.read_segments("default", &names[..count], FIRST).await;
            let mut states = states.expect("states").into_iter();
            let error = states.next().expect("a state").expect_err("changed");
            let StoreError::Corrupt { column: of, value: is, .. } = &error else {
                panic!("{error:?}")
            };
            assert_eq!((*of, &**is), (column, found), "{name} of {count}");
            assert!(states.all(|state| state.is_ok()), "{name} of {count}");
        }
    }
}

/// A process that reads a row for the first time reads the record, too. The error says which of the
/// two has the value.
#[tokio::test(start_paused = true)]
async fn token_of_the_record_is_not_taken_for_that_of_a_row() {
    let (server, store, new) = store_with_rows().await;
    let (token, holder, expiry) = (Token::from_bits(2), "node".to_owned(), RowExpiry::Released);
    let write = RowWrite { token, epoch: FIRST, holder, lane: 0, marks: new.marks.clone(), expiry };
    assert!(store.swap_row(&scope(), 1, new.token(1), &write).await.expect("an answer"));
    server.annotate("soc-raindrop-worker.default.0-0.1", TOKEN, Some("x"));
    let place = async |store: &KubernetesStore| match store.read_row(&scope(), 1).await {
        Err(StoreError::Corrupt { row, column, .. }) => (row, column),
        read => panic!("{read:?}"),
    };
    assert_eq!(place(&store).await, (scope().row_name(1), "token"));
    let mut other = KubernetesStore::new(&StoreSettings::new("kubernetes:")).expect("usable");
    other.api.server = ApiServer::Simulated(Arc::clone(&server));
    server.annotate("soc-raindrop-worker-layout.default", TOKEN, Some("x"));
    assert_eq!(place(&other).await, ("default".to_owned(), "token"));
}

/// Returns the column that a Lease lacks.
fn missing(read: Result<()>) -> Option<&'static str> {
    match read {
        Ok(()) => None,
        Err(StoreError::Corrupt { column, value, .. }) if value == "null" => Some(column),
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn no_part_of_a_row_is_written_twice() {
    let seeds = match from_environment("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..from_environment("SEEDS").unwrap_or(40),
    };
    for seed in seeds {
        assert!(catch_unwind(|| run(seed, None)).is_ok(), "run it again with SEED={seed}");
    }
}

#[test]
fn server_that_does_not_compare_is_found_out() {
    // Each planted fault, with a seed from which the search finds it.
    for (bug, first) in [
        (Bug::VersionNotCompared, 27),
        (Bug::TemplatesNotCompared, 1_473),
        (Bug::UidNotCompared, 9),
        (Bug::UidsComeBack, 0),
    ] {
        let is_found = |seed: &u64| catch_unwind(|| run(*seed, Some(bug))).is_err();
        let found = (first..first + 1_500).find(is_found);
        assert!(found.is_some(), "{bug:?} is not found");
    }
}
