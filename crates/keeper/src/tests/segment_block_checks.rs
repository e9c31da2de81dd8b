//! Checks of the codes in use, over a slow memory store, under paused time.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use raindrop_core::{
    clock::ManualClock,
    lease::Token,
    segment::{SegmentSpec, SpecChange},
};
use raindrop_store::{Call, CodeState, Intercept, MemoryStore, Reply, Store, StoreError};
use rand::{SeedableRng, rngs::StdRng};
use tokio::time::{Instant, sleep};

use super::world::NOW;
use crate::{
    CodeManager, IssueError, NoObserver, SegmentIssuer, SegmentKeeper, SegmentSettings,
    UnavailableReason, core::issue::ClaimError,
};

const CODES: usize = 1_200;
/// The delay of each answer of the store.
const LATENCY: Duration = Duration::from_millis(3);
/// The time between two polls.
const POLL: Duration = Duration::from_secs(25);

/// A memory store that records its calls.
#[derive(Debug)]
struct SlowStore {
    inner: MemoryStore,
    calls: Mutex<Vec<String>>,
    /// Whether the first code of each list cannot be read.
    is_corrupt: AtomicBool,
    /// Whether the first code of each list is not returned in time.
    is_late: AtomicBool,
    /// The next call whose name ends like this takes as long as a poll interval.
    hangs_at: Mutex<Option<&'static str>>,
}

#[async_trait]
impl Intercept for SlowStore {
    fn memory(&self) -> &MemoryStore {
        &self.inner
    }

    async fn answer(&self, call: Call) -> Result<Reply, StoreError> {
        sleep(LATENCY).await;
        let name = match &call {
            Call::Survey(_) => "survey".to_owned(),
            Call::ListManagedCodes(_) => "settings".to_owned(),
            Call::ReadSegments(_, codes, _) => format!("{} rows", codes.len()),
            _ => "other".to_owned(),
        };
        let hangs = {
            let mut hangs_at = self.hangs_at.lock().expect("unpoisoned");
            hangs_at.take_if(|end| name.ends_with(*end)).is_some()
        };
        self.calls.lock().expect("unpoisoned").push(name);
        if hangs {
            sleep(POLL).await;
        }
        let mut reply = call.run(&self.inner).await?;
        if let Some(states) = reply.downcast_mut::<Vec<Result<CodeState, StoreError>>>() {
            if self.is_corrupt.load(Ordering::SeqCst) {
                states[0] = Err(StoreError::Refused("planned by the test".into()));
            }
            if self.is_late.load(Ordering::SeqCst) {
                states[0] = Err(StoreError::TimedOut { after: POLL });
            }
        }
        Ok(reply)
    }
}

impl SlowStore {
    fn new() -> Arc<Self> {
        let inner = MemoryStore::new(Arc::new(ManualClock::new(NOW)));
        let (is_corrupt, is_late) = (AtomicBool::new(false), AtomicBool::new(false));
        let (calls, hangs_at) = (Mutex::default(), Mutex::default());
        Arc::new(Self { inner, calls, is_corrupt, is_late, hangs_at })
    }

    fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().expect("unpoisoned"))
    }

    async fn epoch(&self) -> Token {
        let record = self.inner.read_record("numbers").await.expect("up");
        record.expect("the record").history.epoch()
    }
}

fn code(number: usize) -> String {
    format!("code-{number:04}")
}

fn spec() -> SegmentSpec {
    SegmentSpec { min_step: 10, max_step: 1_000, ..SegmentSpec::default() }
}

/// Returns a node that has issued a number of each of many codes.
async fn busy_node(store: &Arc<SlowStore>) -> (SegmentKeeper, SegmentIssuer) {
    let settings = (0..CODES).fold(SegmentSettings::new("numbers"), |settings, number| {
        settings.with_code(code(number), spec())
    });
    let random = Box::new(StdRng::seed_from_u64(1));
    let nodes = vec![(settings, Arc::new(NoObserver) as _)];
    let (keeper, mut issuers) = SegmentKeeper::start_with(nodes, store.clone(), random);
    let issuer = issuers.pop().expect("one namespace has one issuer");
    issuer.prepared().await;
    sleep(POLL / 2).await;
    for number in 0..CODES {
        issuer.next_id(&code(number)).await.expect("issued");
    }
    // Each code reserves once more.
    sleep(POLL / 4).await;
    store.take_calls();
    (keeper, issuer)
}

#[tokio::test(start_paused = true)]
async fn settings_are_read_first_and_codes_many_at_a_time() {
    let store = SlowStore::new();
    let (_keeper, _issuer) = busy_node(&store).await;
    sleep(POLL).await;
    assert_eq!(store.take_calls(), ["survey", "settings", "500 rows", "500 rows", "200 rows"]);
    sleep(POLL).await;
    assert_eq!(store.take_calls(), ["survey", "settings"], "none was used since");
}

/// Thousands of refills wait for their turn. The poll is done after as many round trips as without
/// them.
#[tokio::test(start_paused = true)]
async fn poll_does_not_wait_behind_the_refills_of_many_codes() {
    let store = SlowStore::new();
    let (_keeper, issuer) = busy_node(&store).await;
    // Each code lacks numbers when the poll is due. Most claims give up before their turn.
    sleep(POLL / 4 - LATENCY * 4).await;
    store.take_calls();
    for number in 0..CODES {
        let issuer = issuer.clone();
        tokio::spawn(async move { issuer.next_ids(&code(number), 100).await });
    }
    sleep(POLL / 2).await;
    let calls = store.take_calls();
    let at = |name: &str| calls.iter().position(|call| call == name).expect(name);
    let poll = &calls[at("survey")..=at("200 rows")];
    let (reads, refills) = (5, poll.len() - 5);
    // Two refills at a time, beside each read.
    assert!(calls.iter().filter(|call| *call == "other").count() >= CODES, "all have their turn");
    assert!(refills > 0 && refills <= 2 * reads, "{poll:?}");
}

/// A list of thousands of codes may take seconds, which no client waits.
#[tokio::test(start_paused = true)]
async fn claim_of_an_unknown_code_does_not_wait_behind_a_poll() {
    for call in ["settings", "rows"] {
        let store = SlowStore::new();
        let (_keeper, issuer) = busy_node(&store).await;
        *store.hangs_at.lock().expect("unpoisoned") = Some(call);
        while !store.take_calls().iter().any(|name| name.ends_with(call)) {
            sleep(LATENCY).await;
        }
        let begin = Instant::now();
        let error = issuer.next_id("unknown").await.expect_err("no such code");
        let is_unknown = matches!(error, IssueError::Refused(ClaimError::UnknownCode(_)));
        assert!(is_unknown, "{call}: {error}");
        // Nor does a new code.
        let manager = CodeManager::new(store.clone(), SegmentSettings::new("numbers"));
        manager.put("invoice", &SpecChange::default(), true).await.expect("created");
        sleep(Duration::from_secs(1)).await;
        issuer.next_id("invoice").await.expect(call);
        assert!(begin.elapsed() < POLL, "the poll still waits");
    }
}

#[tokio::test(start_paused = true)]
async fn retirement_is_known_before_the_codes_were_looked_at() {
    let store = SlowStore::new();
    let (_keeper, issuer) = busy_node(&store).await;
    let manager = CodeManager::new(store.clone(), SegmentSettings::new("numbers"));
    manager.put("invoice", &SpecChange::default(), true).await.expect("created");
    issuer.next_id("invoice").await.expect("issued");
    manager.retire("invoice").await.expect("retired");
    store.take_calls();
    let retired = |issued| matches!(issued, Err(IssueError::Refused(ClaimError::RetiredCode(_))));
    while !retired(issuer.next_id("invoice").await) {
        sleep(LATENCY).await;
    }
    let calls = store.take_calls();
    assert!(calls.iter().all(|call| !call.ends_with("rows")), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn store_that_went_back_is_found_at_the_first_look() {
    for is_corrupt in [false, true] {
        let store = SlowStore::new();
        let (_keeper, issuer) = busy_node(&store).await;
        let (before, held) = (store.epoch().await, store.inner.snapshot());
        // The last code of the last list reserves, and the store loses that.
        let last = code(CODES - 1);
        let in_hand = u32::try_from(issuer.in_hand(&last)).expect("few");
        let lost = issuer.next_ids(&last, in_hand + 1).await.expect("issued").last();
        store.inner.restore(held);
        store.is_corrupt.store(is_corrupt, Ordering::SeqCst);
        sleep(POLL + LATENCY * 100).await;
        assert_ne!(store.epoch().await, before, "corrupt: {is_corrupt}");
        let next = issuer.next_id(&last).await.expect("issued");
        assert!(Some(next) > lost, "{next:?} after {lost:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn row_that_cannot_be_read_is_reported() {
    let store = SlowStore::new();
    let (_keeper, issuer) = busy_node(&store).await;
    store.is_corrupt.store(true, Ordering::SeqCst);
    sleep(POLL).await;
    let reason = issuer.status().reason;
    assert!(matches!(reason, Some(UnavailableReason::StoreUnavailable(_))), "{reason:?}");
}

/// The store did answer, so the node reports nothing, and checks these codes the next time.
#[tokio::test(start_paused = true)]
async fn codes_that_a_slow_store_did_not_return_are_checked_later() {
    let store = SlowStore::new();
    let (_keeper, issuer) = busy_node(&store).await;
    store.is_late.store(true, Ordering::SeqCst);
    sleep(POLL).await;
    assert_eq!(issuer.status().reason, None);
    store.take_calls();
    store.is_late.store(false, Ordering::SeqCst);
    sleep(POLL).await;
    assert_eq!(store.take_calls(), ["survey", "settings", "3 rows"]);
    sleep(POLL).await;
    assert_eq!(store.take_calls(), ["survey", "settings"]);
}

/// The node gives unused numbers back during a poll that has already read the codes.
#[tokio::test(start_paused = true)]
async fn clean_stop_during_a_poll_begins_no_epoch() {
    // Before each answer of a poll: the epoch, the settings, and three lists of rows.
    for answers in 0..6 {
        let store = SlowStore::new();
        let (keeper, _issuer) = busy_node(&store).await;
        let before = store.epoch().await;
        while !store.take_calls().iter().any(|call| call == "survey") {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(LATENCY * answers).await;
        keeper.release(POLL).await;
        sleep(POLL).await;
        assert_eq!(store.epoch().await, before, "after {answers} answers");
    }
}
