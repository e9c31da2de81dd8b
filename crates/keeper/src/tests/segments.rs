//! Segment mode over a faulty memory store, under paused time.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use raindrop_core::{
    clock::ManualClock,
    issue::ClaimError,
    lease::{History, NodeTimes, Token},
    segment::SegmentSpec,
};
use raindrop_store::{
    LayoutRecord, MemoryStore, NewSegment, Reservation, Reserved, SegmentStore, Store,
    UnusedNumbers,
};
use rand::{SeedableRng, rngs::StdRng};
use tokio::time::sleep;

use super::{
    faulty_store::{Fault, FaultyStore},
    world::NOW,
};
use crate::{
    CodeManager, GivenBack, IssueError, KeeperError, LayoutError, Observer, RefillOutcome,
    SegmentIssuer, SegmentKeeper, SegmentSettings, StoreOperation, UnavailableReason,
};

/// Nodes over one store. Every number that they issue is checked.
pub(super) struct World {
    pub(super) store: Arc<FaultyStore>,
    /// The store's clock.
    pub(super) clock: Arc<ManualClock>,
    issued: Mutex<HashSet<(String, u64)>>,
    seeds: AtomicU64,
}

pub(super) struct Node {
    pub(super) keeper: SegmentKeeper,
    pub(super) issuer: SegmentIssuer,
    refills: Arc<Refills>,
}

/// The number of reserved blocks, of calls of the store, and of begun epochs.
#[derive(Debug, Default)]
struct Refills(AtomicU64, AtomicU64, AtomicU64);

impl Observer for Refills {
    fn segment_refilled(&self, outcome: RefillOutcome) {
        self.0.fetch_add(u64::from(outcome == RefillOutcome::Done), Ordering::SeqCst);
    }

    fn store_operation(&self, _: StoreOperation, _: Duration) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }

    fn epoch_changed(&self) {
        self.2.fetch_add(1, Ordering::SeqCst);
    }
}

impl Node {
    /// Returns how many calls of the store there were.
    pub(super) fn questions(&self) -> u64 {
        self.refills.1.load(Ordering::SeqCst)
    }

    /// Returns how many epochs the node began.
    pub(super) fn epochs(&self) -> u64 {
        self.refills.2.load(Ordering::SeqCst)
    }
}

pub(super) const LONG: Duration = Duration::from_secs(10);

impl World {
    pub(super) fn new() -> Self {
        Self::with_latency(Duration::ZERO)
    }

    /// Returns a world whose store takes this long for each answer.
    pub(super) fn with_latency(latency: Duration) -> Self {
        let clock = Arc::new(ManualClock::new(NOW));
        let memory = MemoryStore::new(clock.clone());
        let store = Arc::new(FaultyStore::new(memory).with_latency(latency));
        Self { store, clock, issued: Mutex::default(), seeds: AtomicU64::new(1) }
    }

    pub(super) async fn node(&self, settings: SegmentSettings) -> Node {
        let node = self.start(settings);
        node.issuer.prepared().await;
        node
    }

    fn start(&self, settings: SegmentSettings) -> Node {
        let refills = Arc::new(Refills::default());
        let seed = self.seeds.fetch_add(1, Ordering::SeqCst);
        let (keeper, mut issuers) = SegmentKeeper::start_with(
            vec![(settings, refills.clone())],
            self.store.clone(),
            Box::new(StdRng::seed_from_u64(seed)),
        );
        let issuer = issuers.pop().expect("one namespace has one issuer");
        Node { keeper, issuer, refills }
    }

    pub(super) async fn issue(&self, node: &Node, code: &str, count: u32) -> Vec<u64> {
        let numbers = node.issuer.next_ids(code, count).await.expect("issued");
        let numbers: Vec<u64> = numbers.map(|id| id.get()).collect();
        assert_eq!(numbers.len(), count as usize);
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        let mut issued = self.issued.lock().expect("unpoisoned");
        for number in &numbers {
            assert!(issued.insert((code.to_owned(), *number)), "{code} {number} was issued twice");
        }
        numbers
    }

    /// Empties the table, and issues the numbers that the node has left.
    async fn lose_segments(&self, node: &Node) {
        self.store.lose_segments();
        self.issue_all_in_hand(node).await;
    }

    pub(super) async fn issue_all_in_hand(&self, node: &Node) {
        let remaining = node.issuer.status().remaining;
        self.issue(node, "order", u32::try_from(remaining).expect("few")).await;
    }

    /// Creates the code in the table again, with this next number.
    async fn put_back(&self, first: u64) {
        let back = [NewSegment { code: "order".into(), first }];
        self.store.create_segments("numbers", &back).await.expect("up");
    }

    pub(super) async fn next(&self, code: &str) -> u64 {
        let segments = self.store.list_segments().await.expect("up");
        segments.into_iter().find(|segment| segment.code == code).expect("there").next
    }
}

pub(super) fn orders() -> SegmentSettings {
    SegmentSettings::new("numbers").with_code("order", spec())
}

pub(super) fn spec() -> SegmentSpec {
    SegmentSpec { min_step: 10, max_step: 1_000, ..SegmentSpec::default() }
}

#[tokio::test(start_paused = true)]
async fn numbers_continue_and_batches_cross_blocks() {
    let world = World::new();
    let node = world.node(orders()).await;
    assert_eq!(world.issue(&node, "order", 3).await, [1, 2, 3]);
    assert_eq!(world.issue(&node, "order", 25).await, (4..29).collect::<Vec<_>>());
    assert_eq!(world.issue(&node, "order", 5_000).await.len(), 5_000);
    let unknown = node.issuer.next_id("other").await.expect_err("not configured");
    assert_eq!(unknown, IssueError::Refused(ClaimError::UnknownCode("other".into())));
}

#[tokio::test(start_paused = true)]
async fn two_nodes_issue_distinct_ascending_numbers() {
    let world = World::new();
    let nodes = [world.node(orders()).await, world.node(orders()).await];
    let mut last = [0, 0];
    for round in 0..200 {
        for (node, last) in nodes.iter().zip(&mut last) {
            let numbers = world.issue(node, "order", 1 + round % 7).await;
            assert!(numbers[0] > *last, "{numbers:?} after {last}");
            *last = numbers[numbers.len() - 1];
        }
    }
}

#[tokio::test(start_paused = true)]
async fn handles_share_blocks_until_the_stop() {
    let world = World::new();
    let node = world.node(orders()).await;
    let mut one = node.issuer.handle("order").expect("configured");
    let mut other = one.clone();
    let mut numbers: Vec<u64> = Vec::new();
    for _ in 0..20 {
        // Once a claim has waited for a block, the handles have one again.
        numbers.extend(world.issue(&node, "order", 2).await);
        let ids = [one.try_next_id(), other.try_next_id(), one.try_next_id()];
        numbers.extend(ids.into_iter().flatten().map(|id| id.get()));
    }
    assert!(numbers.len() > 80, "{numbers:?}");
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len(), "{numbers:?}");
    node.keeper.release(LONG).await;
    assert_eq!((one.try_next_id(), other.try_next_id()), (None, None));
    assert_eq!(world.next("order").await, numbers.last().expect("some") + 1);
}

#[tokio::test(start_paused = true)]
async fn clean_stop_returns_numbers_and_crash_loses_them() {
    let world = World::new();
    let node = world.node(orders()).await;
    world.issue(&node, "order", 14).await;
    let remaining = node.issuer.status().remaining;
    assert_eq!(node.keeper.release(LONG).await, GivenBack { returned: remaining, lost: 0 });
    assert_eq!(world.next("order").await, 15);
    let refused = node.issuer.next_id("order").await.expect_err("sealed");
    assert!(matches!(refused, IssueError::NoLease { reason: UnavailableReason::ShuttingDown, .. }));

    let crashed = world.node(orders()).await;
    assert_eq!(world.issue(&crashed, "order", 1).await, [15]);
    sleep(LONG).await;
    let in_hand = crashed.issuer.status().remaining;
    drop(crashed.keeper);
    let again = world.node(orders()).await;
    assert_eq!(world.issue(&again, "order", 1).await, [16 + in_hand]);
}

/// Node A gives numbers back, the write times out but is delayed, and node B issues. A give-back
/// that named a number instead of its reservation would be wrong here.
#[tokio::test(start_paused = true)]
async fn late_give_back_is_refused() {
    let world = World::new();
    let one = world.node(orders()).await;
    world.issue(&one, "order", 5).await;
    world.store.fail_next(Fault::Late);
    let given_back = one.keeper.release(LONG).await;
    assert_eq!(given_back.returned, 0);
    assert!(given_back.lost > 0);
    let two = world.node(orders()).await;
    world.issue(&two, "order", 5).await;
    assert_eq!(two.keeper.release(LONG).await.lost, 0);
    assert_eq!(world.store.deliver().await, 0, "another token stands there");
    let three = world.node(orders()).await;
    world.issue(&three, "order", 50).await;
}

#[tokio::test(start_paused = true)]
async fn lost_reply_of_a_reservation_leaves_a_gap() {
    let world = World::new();
    // A code from which no node has reserved is read first.
    world.node(orders()).await.keeper.release(LONG).await;
    assert_eq!(world.next("order").await, 1);
    world.store.fail_next(Fault::LostReply);
    let node = world.node(orders()).await;
    assert_eq!(world.issue(&node, "order", 2).await, [11, 12]);
}

#[tokio::test(start_paused = true)]
async fn outage_serves_blocks_in_hand_and_then_store_unavailable() {
    let world = World::new();
    let node = world.node(orders()).await;
    world.issue(&node, "order", 1).await;
    sleep(LONG).await;
    world.store.set_down(true);
    let remaining = node.issuer.status().remaining;
    for _ in 0..remaining {
        world.issue(&node, "order", 1).await;
        sleep(Duration::from_millis(10)).await;
    }
    let IssueError::NoLease { reason, retry_after } =
        node.issuer.next_id("order").await.expect_err("nothing in hand")
    else {
        panic!("the store is to blame")
    };
    assert!(matches!(reason, UnavailableReason::StoreUnavailable(_)), "{reason}");
    assert_eq!(retry_after, Duration::from_secs(1));
    assert!(!node.issuer.status().issuing);
    world.store.set_down(false);
    sleep(LONG).await;
    world.issue(&node, "order", 1).await;
    assert!(node.issuer.status().issuing);
}

/// A load balancer should prefer another node only while no claim is served at all.
#[tokio::test(start_paused = true)]
async fn outage_in_which_every_batch_is_larger_than_the_rest_is_seen() {
    let world = World::new();
    let node = world.node(orders()).await;
    world.issue(&node, "order", 1).await;
    sleep(LONG).await;
    world.store.set_down(true);
    let remaining = u32::try_from(node.issuer.status().remaining).expect("a few");
    let fail_batches = async || {
        for _ in 0..20 {
            node.issuer.next_ids("order", remaining + 1).await.expect_err("too many");
            sleep(Duration::from_secs(1)).await;
        }
    };
    fail_batches().await;
    let status = node.issuer.status();
    assert_eq!((status.issuing, status.remaining), (false, u64::from(remaining)));
    assert!(status.store_fails);
    // A served claim ends the outage, and so does a minute without claims.
    world.issue(&node, "order", 1).await;
    assert!(node.issuer.status().issuing);
    fail_batches().await;
    assert!(!node.issuer.status().issuing);
    sleep(7 * LONG).await;
    assert!(node.issuer.status().issuing);
    fail_batches().await;
    world.store.set_down(false);
    sleep(LONG).await;
    let status = node.issuer.status();
    assert_eq!((status.issuing, status.store_fails), (true, false));
}

#[tokio::test(start_paused = true)]
async fn node_started_during_an_outage_serves_after_it() {
    let world = World::new();
    world.store.set_down(true);
    let node = world.start(orders());
    node.issuer.next_id("order").await.expect_err("no store");
    assert!(!node.issuer.status().issuing);
    world.store.set_down(false);
    sleep(LONG).await;
    world.issue(&node, "order", 1).await;
}

#[tokio::test(start_paused = true)]
async fn code_ends_at_its_largest_number() {
    let world = World::new();
    let short = SegmentSpec { max: 25, ..spec() };
    let settings = SegmentSettings::new("numbers").with_code("order", short);
    let node = world.node(settings).await;
    for number in 1..=25_u32 {
        assert_eq!(world.issue(&node, "order", 1).await, [u64::from(number)]);
        let unreserved = node.issuer.status().unreserved;
        assert!(unreserved <= f64::from(25 - number) / 25.0, "{number} {unreserved}");
    }
    assert_eq!(node.issuer.status().unreserved, 0.0);
    let error = node.issuer.next_id("order").await.expect_err("used up");
    let IssueError::Refused(ClaimError::SequenceExhausted { .. }) = error else {
        panic!("{error}")
    };
    // No other node has numbers either, so this node is as good as any.
    let status = node.issuer.status();
    assert_eq!((status.issuing, status.reason), (true, Some(UnavailableReason::NumbersUsedUp)));
}

#[tokio::test(start_paused = true)]
async fn odd_and_even_codes_are_disjoint() {
    let world = World::new();
    let with = |remainder| {
        let spec = SegmentSpec { increment: 2, remainder, ..spec() };
        SegmentSettings::new(format!("remainder-{remainder}")).with_code("order", spec)
    };
    let (even, odd) = (world.node(with(0)).await, world.node(with(1)).await);
    for _ in 0..40 {
        assert!(world.issue(&even, "order", 3).await.iter().all(|number| number % 2 == 0));
        assert!(world.issue(&odd, "order", 3).await.iter().all(|number| number % 2 == 1));
    }
}

#[tokio::test(start_paused = true)]
async fn code_that_cannot_be_created_keeps_the_node_issuing() {
    let world = World::new();
    let settings = SegmentSettings { auto_create: Some(spec()), ..orders() };
    let node = world.node(settings).await;
    world.issue(&node, "order", 1).await;
    sleep(LONG).await;
    world.store.set_down(true);
    let error = node.issuer.next_id("new").await.expect_err("no store");
    assert!(matches!(
        error,
        IssueError::NoLease { reason: UnavailableReason::StoreUnavailable(_), .. }
    ));
    assert!(node.issuer.status().issuing);
    world.issue(&node, "order", 1).await;
    world.store.set_down(false);
    sleep(LONG).await;
    assert_eq!(world.issue(&node, "new", 1).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn first_claim_calls_the_store_only_for_codes_created_on_demand() {
    let world = World::new();
    let settings = SegmentSettings { auto_create: Some(spec()), ..orders() };
    let node = world.node(settings).await;
    sleep(LONG).await;
    let questions = || node.refills.1.load(Ordering::SeqCst);
    let before = questions();
    assert_eq!(world.issue(&node, "order", 1).await, [1]);
    assert_eq!(questions() - before, 0);
    sleep(LONG).await;
    let before = questions();
    assert_eq!(world.issue(&node, "cold", 1).await, [1]);
    assert_eq!(questions() - before, 3, "the managed codes, how many there are, and a block");
}

#[tokio::test(start_paused = true)]
async fn lowered_code_goes_on_above_all_that_the_process_had() {
    let world = World::new();
    let node = world.node(orders()).await;
    world.issue(&node, "order", 100).await;
    sleep(LONG).await;
    // Like a restored backup.
    world.store.lose_segments();
    world.put_back(1).await;
    world.issue_all_in_hand(&node).await;
    // The world checks that no number comes again.
    world.issue(&node, "order", 1_000).await;
    assert_eq!(node.issuer.status().reason, None);
}

#[tokio::test(start_paused = true)]
async fn vanished_code_continues_once_it_is_back_with_higher_numbers() {
    let world = World::new();
    let node = world.node(orders()).await;
    world.issue(&node, "order", 100).await;
    sleep(LONG).await;
    let held = world.next("order").await;
    world.lose_segments(&node).await;
    let lost = async || {
        for _ in 0..3 {
            let error = node.issuer.next_id("order").await.expect_err("lost");
            assert!(matches!(
                error,
                IssueError::NoLease { reason: UnavailableReason::StoreLost, .. }
            ));
            sleep(LONG).await;
        }
    };
    lost().await;
    world.put_back(held).await;
    let _ = node.issuer.next_id("order").await;
    sleep(LONG).await;
    assert!(world.issue(&node, "order", 10).await[0] >= held);
    assert_eq!(node.issuer.status().reason, None);

    // With lower numbers, other nodes may have issued those in between.
    sleep(LONG).await;
    let held = world.next("order").await;
    world.lose_segments(&node).await;
    lost().await;
    let back = held - 20;
    world.put_back(back).await;
    let token = Token::from_bits(1);
    let record = world.store.read_record("numbers").await.expect("up").expect("the record");
    let epoch = record.history.epoch();
    let reservation = Reservation {
        by: 10,
        step: 10,
        end: held,
        token,
        or_begin_at: None,
        epoch,
        row_epoch: Token::UNUSED,
    };
    let reserved = world.store.reserve("numbers", "order", &reservation).await.expect("up");
    assert_eq!(reserved, Reserved::From(back));
    lost().await;
    assert_eq!(world.next("order").await, back + 10, "looking reserves nothing");
    let unused = UnusedNumbers { from: back, reserved: token, epoch, token: Token::from_bits(2) };
    let given_back = world.store.give_back("numbers", "order", &unused).await;
    assert!(given_back.expect("up"), "looking changes no token");
    CodeManager::new(world.store.clone(), orders()).raise_by("order", 1_000).await.expect("raised");
    lost().await;
}

#[tokio::test(start_paused = true)]
async fn step_adapts_to_the_demand() {
    let world = World::new();
    let wide = SegmentSpec { min_step: 10, max_step: 1_000_000, ..SegmentSpec::default() };
    let node = world.node(SegmentSettings::new("numbers").with_code("order", wide)).await;
    let refills = async |per_tenth: u32| {
        let before = node.refills.0.load(Ordering::SeqCst);
        for _ in 0..6_000 {
            node.issuer.next_ids("order", per_tenth).await.expect("issued");
            sleep(Duration::from_millis(100)).await;
        }
        node.refills.0.load(Ordering::SeqCst) - before
    };
    let settling = refills(10).await;
    let (slow, widening, fast) = (refills(10).await, refills(100).await, refills(100).await);
    assert!((8..=12).contains(&slow), "{settling} {slow} {widening} {fast}");
    assert!((8..=12).contains(&fast), "{settling} {slow} {widening} {fast}");
}

#[tokio::test(start_paused = true)]
async fn namespace_of_another_mode_is_refused() {
    let world = World::new();
    let history = History::first("memory", Token::from_bits(2), NodeTimes::default());
    let record = LayoutRecord::new("unit=millisecond", Token::from_bits(1), 1, history);
    world.store.create_record("numbers", &record).await.expect("up");
    let mut node = world.start(orders());
    let errors = node.keeper.failed().await;
    assert!(
        matches!(errors[..], [KeeperError::Layout(LayoutError::Conflict { .. })]),
        "{errors:?}"
    );
}

/// A node that is not ready gets no requests.
#[tokio::test(start_paused = true)]
async fn vanished_code_is_retried_without_claims() {
    let world = World::new();
    let node = world.node(orders()).await;
    world.issue(&node, "order", 100).await;
    sleep(LONG).await;
    let held = world.next("order").await;
    world.lose_segments(&node).await;
    let _ = node.issuer.next_id("order").await.expect_err("lost");
    assert!(!node.issuer.status().issuing);
    world.put_back(held).await;
    sleep(LONG).await;
    assert!(node.issuer.status().issuing, "{:?}", node.issuer.status());
}

/// Each vanished code waits until it is tried again.
#[tokio::test(start_paused = true)]
async fn vanished_codes_do_not_delay_others() {
    let world = World::new();
    let lost: Vec<String> = (0..100).map(|code| format!("lost{code}")).collect();
    let with = |settings: SegmentSettings, code| settings.with_code(code, spec());
    let node = world.node(lost.iter().fold(orders(), with)).await;
    sleep(LONG).await;
    let held = world.next("order").await;
    world.store.lose_segments();
    world.put_back(held).await;
    for code in &lost {
        world.issue(&node, code, 10).await;
    }
    sleep(Duration::from_secs(1)).await;
    // More numbers than are left in the block.
    world.issue(&node, "order", 100).await;
}
