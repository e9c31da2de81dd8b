//! The status and reports of segment mode, over a faulty memory store, under paused time.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use raindrop_core::{clock::ManualClock, issue::ClaimError, segment::SegmentSpec};
use raindrop_store::{MemoryStore, SegmentStore, StoreError};
use rand::{SeedableRng, rngs::StdRng};
use tokio::time::{Instant, sleep, timeout};

use super::{
    faulty_store::{Fault, FaultyStore},
    world::NOW,
};
use crate::{
    GivenBack, IssueError, KeeperError, Observer, RefillOutcome, SegmentIssuer, SegmentKeeper,
    SegmentSettings, StoreOperation, UnavailableReason,
};

const LONG: Duration = Duration::from_secs(10);

/// The number of IDs in each report, and the calls of the store.
#[derive(Debug, Default)]
struct Seen {
    issued: Mutex<Vec<u64>>,
    asked: Mutex<Vec<StoreOperation>>,
    refills: Mutex<Vec<RefillOutcome>>,
}

impl Seen {
    /// Returns the outcomes of reservations.
    fn refills(&self) -> Vec<RefillOutcome> {
        self.refills.lock().expect("unpoisoned").clone()
    }
}

impl Observer for Seen {
    fn ids_issued(&self, count: u64) {
        self.issued.lock().expect("unpoisoned").push(count);
    }

    fn segment_refilled(&self, outcome: RefillOutcome) {
        self.refills.lock().expect("unpoisoned").push(outcome);
    }

    fn store_operation(&self, operation: StoreOperation, _: Duration) {
        self.asked.lock().expect("unpoisoned").push(operation);
    }
}

struct Node {
    store: Arc<FaultyStore>,
    keeper: SegmentKeeper,
    issuer: SegmentIssuer,
    seen: Arc<Seen>,
}

impl Node {
    /// Starts a node, and waits until it has a block of every configured code.
    async fn start(settings: SegmentSettings) -> Self {
        let node = Self::over(store(), settings);
        sleep(LONG).await;
        node
    }

    fn over(store: Arc<FaultyStore>, settings: SegmentSettings) -> Self {
        Self::with_seed(store, settings, 1)
    }

    fn with_seed(store: Arc<FaultyStore>, settings: SegmentSettings, seed: u64) -> Self {
        let seen = Arc::new(Seen::default());
        let (keeper, mut issuers) = SegmentKeeper::start_with(
            vec![(settings, seen.clone())],
            store.clone(),
            Box::new(StdRng::seed_from_u64(seed)),
        );
        let issuer = issuers.pop().expect("one namespace has one issuer");
        Self { store, keeper, issuer, seen }
    }

    async fn issue(&self, code: &str, count: u32) {
        self.issuer.next_ids(code, count).await.expect("issued");
    }

    fn issued(&self) -> Vec<u64> {
        self.seen.issued.lock().expect("unpoisoned").clone()
    }

    /// Returns how often nodes asked the store for numbers.
    fn reservations(&self) -> usize {
        let asked = self.seen.asked.lock().expect("unpoisoned");
        asked.iter().filter(|operation| **operation == StoreOperation::Reserve).count()
    }
}

fn store() -> Arc<FaultyStore> {
    Arc::new(FaultyStore::new(MemoryStore::new(Arc::new(ManualClock::new(NOW)))))
}

fn spec() -> SegmentSpec {
    SegmentSpec { min_step: 10, max_step: 1_000, ..SegmentSpec::default() }
}

fn orders() -> SegmentSettings {
    SegmentSettings::new("numbers").with_code("order", spec())
}

#[tokio::test(start_paused = true)]
async fn numbers_are_reported_once_when_the_status_is_asked_for() {
    let node = Node::start(orders()).await;
    node.issuer.status();
    assert!(node.issued().is_empty());
    node.issue("order", 14).await;
    node.issuer.status();
    node.issuer.status();
    assert_eq!(node.issued(), [14]);
    node.issue("order", 3).await;
    node.issuer.status();
    assert_eq!(node.issued(), [14, 3]);
}

#[tokio::test(start_paused = true)]
async fn unreserved_part_counts_from_the_first_number_to_the_largest() {
    let short = SegmentSpec { max: 25, ..spec() };
    let node = Node::start(SegmentSettings::new("numbers").with_code("order", short)).await;
    // Ten of 25 numbers are reserved.
    let unreserved = node.issuer.status().unreserved;
    assert!((unreserved - 15.0 / 25.0).abs() < 1e-9, "{unreserved}");
}

/// Clients use the code, so another node should get their requests.
#[tokio::test(start_paused = true)]
async fn code_that_was_made_on_demand_counts_once_it_had_a_block() {
    let node = Node::start(SegmentSettings { auto_create: Some(spec()), ..orders() }).await;
    node.issue("new", 1).await;
    sleep(LONG).await;
    node.store.set_down(true);
    while node.issuer.next_id("new").await.is_ok() {}
    let status = node.issuer.status();
    assert!(!status.issuing && status.remaining > 0, "{status:?}");
    node.store.set_down(false);
    sleep(LONG).await;
    assert!(node.issuer.status().issuing);
}

#[tokio::test(start_paused = true)]
async fn issuer_tells_what_it_issues() {
    let node = Node::start(orders()).await;
    let issuer = &node.issuer;
    assert_eq!(issuer.namespace(), "numbers");
    assert_eq!(issuer.codes().collect::<Vec<_>>(), ["order"]);
    assert!(!issuer.makes_codes());
    assert_eq!(issuer.last_at_least("order", 4).map(|id| id.get()), Some(4));
    assert_eq!(issuer.last_at_least("other", 4), None);
    let makes_codes = Node::start(SegmentSettings { auto_create: Some(spec()), ..orders() }).await;
    assert!(makes_codes.issuer.makes_codes());
}

#[tokio::test(start_paused = true)]
async fn codes_are_prepared_once_the_store_is_up() {
    let store = store();
    store.set_down(true);
    let node = Node::over(store, orders());
    timeout(LONG, node.issuer.prepared()).await.expect_err("the store is down");
    node.store.set_down(false);
    timeout(LONG, node.issuer.prepared()).await.expect("prepared");
}

#[tokio::test(start_paused = true)]
async fn store_is_not_asked_for_numbers_of_a_code_that_has_none_left() {
    let short = SegmentSpec { max: 25, ..spec() };
    let node = Node::start(SegmentSettings::new("numbers").with_code("order", short)).await;
    node.issue("order", 25).await;
    let used_up = async || {
        let error = node.issuer.next_id("order").await.expect_err("used up");
        assert!(matches!(error, IssueError::Refused(ClaimError::SequenceExhausted { .. })));
        sleep(LONG).await;
    };
    used_up().await;
    let before = node.reservations();
    used_up().await;
    used_up().await;
    assert_eq!(node.reservations(), before);
}

#[tokio::test(start_paused = true)]
async fn code_without_a_block_is_not_served() {
    let store = store();
    (0..100).for_each(|_| store.fail_next(Fault::NeverArrives));
    let node = Node::over(store, orders());
    timeout(LONG, node.issuer.prepared()).await.expect("prepared");
    sleep(Duration::from_secs(1)).await;
    let status = node.issuer.status();
    assert!(!status.issuing, "{status:?}");
    assert!(matches!(status.reason, Some(UnavailableReason::StoreUnavailable(_))), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn claim_waits_for_a_block_unless_others_waited_in_vain() {
    let node = Node::start(orders()).await;
    node.store.set_down(true);
    let refused = async || {
        let began = Instant::now();
        let error = loop {
            match node.issuer.next_id("order").await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        let IssueError::NoLease { reason: UnavailableReason::StoreUnavailable(how), .. } = error
        else {
            panic!("{error}")
        };
        assert!(how.to_string().contains("planned by the test"), "{how}");
        began.elapsed()
    };
    assert_eq!(refused().await, Duration::from_secs(1));
    assert_eq!(refused().await, Duration::ZERO);
}

/// The code has no numbers left, whether or not the store answers.
#[tokio::test(start_paused = true)]
async fn claim_of_a_used_up_code_does_not_end_an_outage() {
    let short = SegmentSpec { max: 25, ..spec() };
    let node = Node::start(orders().with_code("done", short)).await;
    node.issue("done", 25).await;
    node.issuer.next_id("done").await.expect_err("used up");
    node.store.set_down(true);
    while node.issuer.next_id("order").await.is_ok() {}
    node.issuer.next_id("done").await.expect_err("used up");
    // The task tries it meanwhile.
    sleep(Duration::from_millis(1)).await;
    let reason = node.issuer.status().reason;
    assert!(matches!(reason, Some(UnavailableReason::StoreUnavailable(_))), "{reason:?}");
    let began = Instant::now();
    node.issuer.next_id("order").await.expect_err("the store is down");
    assert_eq!(began.elapsed(), Duration::ZERO, "others waited in vain");
    node.store.set_down(false);
    sleep(LONG).await;
    let status = node.issuer.status();
    assert_eq!((status.issuing, status.reason), (true, Some(UnavailableReason::NumbersUsedUp)));
}

#[tokio::test(start_paused = true)]
async fn released_namespace_is_shutting_down_and_makes_no_codes() {
    let node = Node::start(SegmentSettings { auto_create: Some(spec()), ..orders() }).await;
    node.keeper.release(LONG).await;
    let status = node.issuer.status();
    assert_eq!((status.issuing, status.codes), (false, 1));
    assert_eq!(status.reason, Some(UnavailableReason::ShuttingDown));
    let error = node.issuer.next_id("new").await.expect_err("sealed");
    assert!(
        matches!(error, IssueError::NoLease { reason: UnavailableReason::ShuttingDown, .. }),
        "{error}"
    );
    assert_eq!(node.issuer.status().codes, 1);
}

/// Another node's numbers lie between the blocks, so the node cannot give the first block back.
#[tokio::test(start_paused = true)]
async fn release_counts_what_is_returned_and_what_is_lost() {
    let node = Node::start(orders()).await;
    let other = Node::with_seed(node.store.clone(), orders(), 2);
    sleep(LONG).await;
    node.issue("order", 6).await;
    sleep(LONG).await;
    let remaining = node.issuer.status().remaining;
    let next = node.store.list_segments().await.expect("up")[0].next;
    let given_back = node.keeper.release(LONG).await;
    let GivenBack { returned, lost } = given_back;
    assert!(returned > 0 && lost > 0, "{given_back:?}");
    assert_eq!(returned + lost, remaining);
    assert_eq!(node.store.list_segments().await.expect("up")[0].next, next - returned);
    other.keeper.release(LONG).await;
}

/// Returns a node that has just asked for a block, over a store whose answers take this long.
async fn node_that_waits_for_a_block(latency: Duration) -> Node {
    let memory = MemoryStore::new(Arc::new(ManualClock::new(NOW)));
    let node = Node::over(Arc::new(FaultyStore::new(memory).with_latency(latency)), orders());
    sleep(10 * LONG).await;
    node.issue("order", 6).await;
    tokio::task::yield_now().await;
    node
}

#[tokio::test(start_paused = true)]
async fn release_waits_for_a_reservation_that_is_under_way() {
    let node = node_that_waits_for_a_block(Duration::from_secs(1)).await;
    let in_hand = node.issuer.status().remaining;
    let began = Instant::now();
    let given_back = node.keeper.release(LONG).await;
    assert_eq!(began.elapsed(), Duration::from_secs(2), "the reservation, and the give-back");
    assert!(given_back.returned > in_hand && given_back.lost == 0, "{given_back:?} {in_hand}");
}

#[tokio::test(start_paused = true)]
async fn release_keeps_its_deadline_when_a_reservation_hangs() {
    let node = node_that_waits_for_a_block(Duration::from_secs(9)).await;
    let began = Instant::now();
    let given_back = node.keeper.release(Duration::from_secs(4)).await;
    assert_eq!(began.elapsed(), Duration::from_secs(4));
    assert_eq!(given_back.returned, 0);
}

#[tokio::test(start_paused = true)]
async fn store_that_fails_is_asked_less_and_less_often() {
    // While codes are created, and while they are served.
    let store = store();
    store.set_down(true);
    let node = Node::over(store, orders());
    sleep(6 * LONG).await;
    let questions = node.seen.asked.lock().expect("unpoisoned").len();
    assert!((15..40).contains(&questions), "{questions} in a minute");
    let node = Node::start(orders()).await;
    node.store.set_down(true);
    let before = node.reservations();
    while node.issuer.next_id("order").await.is_ok() {}
    sleep(6 * LONG).await;
    let questions = node.reservations() - before;
    assert!((15..40).contains(&questions), "{questions} in a minute");
}

#[tokio::test(start_paused = true)]
async fn store_that_can_never_be_used_ends_the_keeper() {
    let store = store();
    store.set_unusable();
    let mut node = Node::over(store, orders());
    let failed = timeout(LONG, node.keeper.failed()).await.expect("it gave up");
    assert!(matches!(failed[..], [KeeperError::Store(StoreError::Unusable(_))]), "{failed:?}");
}

/// Two at a time, since there are two connections. One after the other would take twelve seconds.
#[tokio::test(start_paused = true)]
async fn codes_give_back_side_by_side() {
    let slow = FaultyStore::new(MemoryStore::new(Arc::new(ManualClock::new(NOW))));
    let slow = Arc::new(slow.with_latency(Duration::from_secs(1)));
    let codes = (0..12).map(|code| (format!("code{code}"), spec())).collect();
    let node = Node::over(slow, SegmentSettings { codes, ..orders() });
    sleep(10 * LONG).await;
    assert_eq!(node.keeper.release(LONG).await, GivenBack { returned: 120, lost: 0 });
}

/// Other codes get their numbers meanwhile.
#[tokio::test(start_paused = true)]
async fn code_whose_reservations_are_always_too_late_says_so_and_backs_off() {
    let node = Node::start(orders().with_code("invoice", spec())).await;
    node.store.contend(Some("order"));
    let in_hand = u32::try_from(node.issuer.in_hand("order")).expect("few");
    node.issue("order", in_hand).await;
    let before = node.reservations();
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        node.issue("invoice", 5).await;
        let status = node.issuer.status();
        let reason = status.reason.expect("a reason").to_string();
        assert!(reason.contains("other nodes changed code order"), "{reason}");
        assert!(!status.issuing);
    }
    // Each turn of eight attempts is followed by a pause, which doubles up to 5 s.
    let reservations = node.reservations() - before;
    assert!(reservations < 25 * 8, "{reservations}");
    let error = node.issuer.next_id("order").await.expect_err("nothing in hand");
    assert!(error.to_string().contains("other nodes changed code order"), "{error}");
    assert!(node.seen.refills().contains(&RefillOutcome::Failed));
    node.store.contend(None);
    sleep(LONG).await;
    node.issue("order", 1).await;
    assert_eq!(node.issuer.status().reason, None);
}
