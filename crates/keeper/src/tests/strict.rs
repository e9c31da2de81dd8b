//! Strict codes over a faulty memory store, under paused time.

use std::time::Duration;

use raindrop_core::segment::{Numbers, SegmentSpec};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::{
    faulty_store::Fault,
    segments::{LONG, Node, World},
};
use crate::{GivenBack, IssueError, SegmentSettings, UnavailableReason};

/// Longer than the pause after a failed write.
const PAUSE: Duration = Duration::from_millis(500);

fn strict() -> SegmentSettings {
    let spec = SegmentSpec { strict: true, ..SegmentSpec::default() };
    SegmentSettings::new("numbers").with_code("order", spec)
}

/// Begins a claim, which joins the queue at once.
async fn begin(node: &Node, count: u32) -> JoinHandle<Result<Numbers, IssueError>> {
    let issuer = node.issuer.clone();
    let claim = tokio::spawn(async move { issuer.next_ids("order", count).await });
    tokio::task::yield_now().await;
    claim
}

async fn numbers(claim: JoinHandle<Result<Numbers, IssueError>>) -> Vec<u64> {
    let numbers = claim.await.expect("no panic").expect("issued");
    numbers.map(|id| id.get()).collect()
}

#[tokio::test(start_paused = true)]
async fn numbers_ascend_without_a_gap_over_all_nodes() {
    let world = World::new();
    let (one, two) = (world.node(strict()).await, world.node(strict()).await);
    assert_eq!(world.issue(&one, "order", 1).await, [1]);
    assert_eq!(world.issue(&two, "order", 2).await, [2, 3]);
    assert_eq!(world.issue(&one, "order", 1).await, [4]);
    sleep(LONG).await;
    let status = one.issuer.status();
    assert_eq!((status.remaining, status.reason), (0, None), "no numbers in hand");
    assert!(status.issuing);
    assert_eq!(one.issuer.handle("order").expect("a code").try_next_id(), None);
    assert_eq!(one.keeper.release(LONG).await, GivenBack { returned: 0, lost: 0 });
    let three = world.node(strict()).await;
    assert_eq!(world.issue(&three, "order", 1).await, [5]);
}

#[tokio::test(start_paused = true)]
async fn one_write_serves_all_claims_that_wait_in_their_order() {
    let world = World::with_latency(Duration::from_millis(50));
    let node = world.node(strict()).await;
    world.issue(&node, "order", 1).await;
    let before = node.questions();
    let mut claims = Vec::new();
    for count in [1, 3, 1, 2, 1] {
        claims.push(begin(&node, count).await);
    }
    let mut issued = Vec::new();
    for claim in claims {
        issued.push(numbers(claim).await);
    }
    assert_eq!(issued, [vec![2], vec![3, 4, 5], vec![6], vec![7, 8], vec![9]]);
    assert!(node.questions() - before <= 2, "{}", node.questions() - before);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_takes_no_number() {
    let world = World::with_latency(Duration::from_millis(50));
    let node = world.node(strict()).await;
    world.issue(&node, "order", 1).await;
    let first = begin(&node, 1).await;
    // Gives up before the write of its number.
    let waiting = begin(&node, 5).await;
    let second = begin(&node, 1).await;
    waiting.abort();
    assert_eq!((numbers(first).await, numbers(second).await), (vec![2], vec![3]));
    // Gives up during the write. The number is undone when nobody else has written.
    let during = begin(&node, 4).await;
    sleep(Duration::from_millis(10)).await;
    during.abort();
    sleep(LONG).await;
    assert_eq!(world.issue(&node, "order", 1).await, [4]);
}

#[tokio::test(start_paused = true)]
async fn write_without_an_answer_is_undone() {
    let world = World::new();
    let node = world.node(strict()).await;
    world.issue(&node, "order", 1).await;
    world.store.fail_next(Fault::LostReply);
    assert_eq!(world.issue(&node, "order", 3).await, [2, 3, 4]);
    world.store.fail_next(Fault::NeverArrives);
    assert_eq!(world.issue(&node, "order", 1).await, [5]);
    // The first undo arrives late, and the second one before it.
    world.store.fail_next(Fault::Late);
    world.store.fail_next(Fault::LostReply);
    assert_eq!(world.issue(&node, "order", 2).await, [6, 7]);
    assert_eq!(world.store.deliver().await, 0, "another token stands there");
    assert_eq!(world.issue(&node, "order", 1).await, [8]);
}

#[tokio::test(start_paused = true)]
async fn numbers_below_another_write_are_a_gap() {
    let world = World::new();
    let (one, two) = (world.node(strict()).await, world.node(strict()).await);
    world.issue(&one, "order", 1).await;
    world.store.fail_next(Fault::LostReply);
    let claim = begin(&one, 2).await;
    sleep(Duration::from_millis(10)).await;
    assert_eq!(world.issue(&two, "order", 1).await, [4]);
    assert_eq!(numbers(claim).await, [5, 6]);
}

#[tokio::test(start_paused = true)]
async fn claims_without_the_store_fail_and_take_no_number() {
    let world = World::new();
    let node = world.node(strict()).await;
    world.issue(&node, "order", 1).await;
    world.store.set_down(true);
    for waits in [true, false] {
        let began = Instant::now();
        let error = node.issuer.next_id("order").await.expect_err("no store");
        let IssueError::NoLease { reason, .. } = error else { panic!("{error}") };
        assert!(matches!(reason, UnavailableReason::StoreUnavailable(_)), "{reason}");
        assert_eq!(began.elapsed() >= Duration::from_secs(1), waits, "{:?}", began.elapsed());
        assert!(!node.issuer.status().issuing);
    }
    sleep(LONG).await;
    world.store.set_down(false);
    // Without a claim that waits, the node finds out as soon as one has failed.
    let _ = node.issuer.next_id("order").await;
    sleep(LONG).await;
    let next = world.issue(&node, "order", 1).await;
    assert_eq!(next, [2]);
    assert!(node.issuer.status().issuing);
}

#[tokio::test(start_paused = true)]
async fn stop_undoes_a_write_without_an_answer() {
    let world = World::new();
    let node = world.node(strict()).await;
    world.issue(&node, "order", 1).await;
    world.store.fail_next(Fault::LostReply);
    let claim = begin(&node, 7).await;
    tokio::task::yield_now().await;
    claim.abort();
    node.keeper.release(LONG).await;
    sleep(PAUSE).await;
    let other = world.node(strict()).await;
    assert_eq!(world.issue(&other, "order", 1).await, [2]);
}

#[tokio::test(start_paused = true)]
async fn last_numbers_go_to_the_claims_that_they_suffice_for() {
    let world = World::with_latency(Duration::from_millis(50));
    let spec = SegmentSpec { strict: true, max: 7, increment: 2, ..SegmentSpec::default() };
    let node = world.node(SegmentSettings::new("numbers").with_code("order", spec)).await;
    let [one, two, three] = [begin(&node, 2).await, begin(&node, 5).await, begin(&node, 1).await];
    assert_eq!(numbers(one).await, [2, 4]);
    let error = two.await.expect("no panic").expect_err("too many");
    assert!(matches!(error, IssueError::Refused(_)), "{error}");
    assert_eq!(numbers(three).await, [6]);
    let error = node.issuer.next_id("order").await.expect_err("used up");
    assert!(matches!(error, IssueError::Refused(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn numbers_go_on_behind_the_gap_after_a_fail_over() {
    let world = World::new();
    let node = world.node(SegmentSettings { failover_gap: Some(10), ..strict() }).await;
    let held = world.store.snapshot();
    world.issue(&node, "order", 3).await;
    world.store.fail_over("second", held);
    let after = world.issue(&node, "order", 1).await;
    assert!(after[0] > 10, "{after:?}");
    assert_eq!(node.issuer.status().reason, None);
}
