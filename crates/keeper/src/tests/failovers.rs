//! Fail-overs to a server without the last writes.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use raindrop_core::{
    clock::Clock,
    layout::{LayoutSpec, TimeUnit},
    lease::{BarrierState, EpochClocks, NodeTimes, Token},
};
use raindrop_store::{Call, Intercept, LayoutRecord, MemoryStore, Reply, Store as _, StoreError};

use super::{
    faulty_store::{Fault, FaultyStore},
    world::{Node, World, second, world},
};
use crate::{
    IssueError, KeeperSettings, LeaseOperation, LeaseOutcome, RelayoutOutcome, RollbackAction,
    UnavailableReason,
};

/// The farthest that leases can reach beyond the store's clock: the window and two skews.
const REACH: Duration = Duration::from_secs(5 * 60 + 20);

impl World {
    /// Fails over to a server that has lost everything after `held`.
    pub(super) fn fail_over(&self, identity: &str, held: raindrop_store::Snapshot) {
        self.store.fail_over(identity, held);
    }

    /// Issues on a node every second for this time. Returns the longest time without an ID.
    pub(super) async fn issue_for(&self, node: &Node, duration: Duration) -> Duration {
        let (mut gap, mut longest) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..duration.as_secs() {
            self.pass(second(1)).await;
            match node.issuer.next_ids("order", 3).await {
                Ok(ids) => {
                    self.check("order", ids.collect());
                    gap = Duration::ZERO;
                }
                Err(_) => gap += second(1),
            }
            longest = longest.max(gap);
        }
        longest
    }
}

#[tokio::test(start_paused = true)]
async fn holder_goes_on_when_nobody_can_have_taken_its_row() {
    let world = world();
    let node = world.node().await;
    world.issue_for(&node, second(60)).await;
    let (worker, held) = (node.worker(), world.store.snapshot());
    world.until_swap().await;
    // The fail-over loses the renewal.
    world.fail_over("b", held);
    assert_eq!(world.issue_for(&node, second(600)).await, Duration::ZERO);
    assert_eq!((node.worker(), node.status().reason), (worker, None));
    assert_eq!(node.events.epochs(), 1);
    assert_eq!(world.row(worker).await.epoch, world.epoch().await);
}

#[tokio::test(start_paused = true)]
async fn lost_lease_of_another_process_is_not_issued_from_again() {
    // With one lane, the next lease starts at the mark.
    let world =
        World::new(LayoutSpec { rollback_bits: 0, ..LayoutSpec::for_unit(TimeUnit::Millisecond) });
    let held = {
        let first = world.start(world.only(3));
        first.issuer.leased().await;
        world.issue(&first, "order", 10).await;
        first.stop().await;
        world.store.snapshot()
    };
    let lost = world.start(world.only(3));
    lost.issuer.leased().await;
    world.issue_for(&lost, second(5)).await;
    world.fail_over("b", held);
    // The holder is paused. Its successor learns when to retry.
    let next = world.start(world.only(3));
    world.pass(second(2)).await;
    let Some(UnavailableReason::FailedOver { due_ms }) = next.status().reason else {
        panic!("{:?}", next.status().reason)
    };
    let expected_ms = world.now_ms() + i64::try_from(REACH.as_millis()).expect("small");
    assert!((expected_ms - 3_000..=expected_ms).contains(&due_ms), "{}", due_ms - expected_ms);
    let IssueError::NoLease { retry_after, .. } =
        next.issuer.next_id("order").await.expect_err("not due")
    else {
        panic!("refused for another reason")
    };
    assert!((second(316)..=REACH).contains(&retry_after), "{retry_after:?}");
    // The holder stops as soon as it reads its row. One of both leases the row at the barrier.
    world.pass(second(31)).await;
    assert_eq!(lost.status().lease, None);
    world.pass(second(300)).await;
    let leased = [&lost, &next].into_iter().filter(|node| node.status().lease.is_some());
    for node in leased.collect::<Vec<_>>() {
        world.issue(node, "order", 100).await;
    }
    assert!(lost.status().lease.is_some() != next.status().lease.is_some());
}

#[tokio::test(start_paused = true)]
async fn no_rows_are_created_while_none_could_be_leased() {
    let world = world();
    let settings = || KeeperSettings { rows_at_once: 2, ..world.settings() };
    world.start(settings()).issuer.leased().await;
    let rows = world.store.list_rows().await.expect("up").len();
    let held = world.store.snapshot();
    world.fail_over("b", held);
    // The new server still has the first lease, and every row starts at the barrier.
    let next = world.start(settings());
    world.pass(second(60)).await;
    assert!(next.status().lease.is_none());
    assert_eq!(world.store.list_rows().await.expect("up").len(), rows);
    world.pass(REACH).await;
    world.issue(&next, "order", 10).await;
}

/// The record was written after the rows, and the fail-over came in between.
#[tokio::test(start_paused = true)]
async fn rows_whose_record_was_lost_are_recorded_again() {
    let world = world();
    world.node().await.stop().await;
    let recorded = world.store.read_record("default").await.expect("up").expect("there");
    let token = Token::from_bits(1);
    let unrecorded = LayoutRecord { token, complete: Vec::new(), ..recorded.clone() };
    let swapped = world.store.swap_record("default", recorded.token, &unrecorded).await;
    assert!(swapped.expect("up"));
    let held = world.store.snapshot();
    assert!(world.store.swap_record("default", token, &recorded).await.expect("up"));
    let nodes = [world.node().await, world.node().await];
    world.fail_over("b", held);
    world.pass(REACH + second(120)).await;
    for node in &nodes {
        world.issue(node, "order", 10).await;
    }
    let record = world.store.read_record("default").await.expect("up").expect("there");
    assert_eq!(record.complete, recorded.complete);
}

#[tokio::test(start_paused = true)]
async fn holder_of_a_row_that_may_have_been_taken_begins_anew_at_the_barrier() {
    let world = world();
    let node = world.node().await;
    world.issue_for(&node, second(60)).await;
    let (worker, held) = (node.worker(), world.store.snapshot());
    // Longer than a ttl minus the margin for the clocks.
    world.store.set_down(true);
    assert_eq!(world.issue_for(&node, second(70)).await, Duration::ZERO);
    world.fail_over("b", held);
    world.store.set_down(false);
    // The outage, the time since the last renewal before it, and twice the skew.
    let gap = world.issue_for(&node, second(600)).await;
    assert!((second(80)..=second(130)).contains(&gap), "{gap:?}");
    assert_eq!((node.worker(), node.status().reason), (worker, None));
    assert_eq!(node.events.count(LeaseOperation::Acquire, LeaseOutcome::Done), 1);
}

/// No claims come, so none wakes the keeper.
#[tokio::test(start_paused = true)]
async fn lease_is_used_as_soon_as_its_barrier_comes_due() {
    let world = world();
    let node = world.node().await;
    world.issue_for(&node, second(60)).await;
    let held = world.store.snapshot();
    world.store.set_down(true);
    world.pass(second(70)).await;
    world.fail_over("b", held);
    world.store.set_down(false);
    world.pass(second(35)).await;
    let record = world.store.read_record("default").await.expect("up").expect("there");
    while world.now_ms() < record.history.barrier_ms - 2_000 {
        world.pass(Duration::from_millis(50)).await;
    }
    assert!(!node.status().is_issuing(), "the lease before has ended");
    world.pass(Duration::from_millis(2_050)).await;
    assert!(node.status().is_issuing());
    assert_eq!(node.status().reason, None);
}

/// The ttl had not ended. But an operator may have released the row, and another process may have
/// taken it after all earlier leases had ended.
#[tokio::test(start_paused = true)]
async fn long_ttl_proves_nothing_of_a_row_that_may_have_been_released() {
    let world = world();
    let node = world.node_with(|settings| settings.lease.ttl = second(400)).await;
    world.issue_for(&node, second(60)).await;
    let held = world.store.snapshot();
    world.store.set_down(true);
    assert_eq!(world.issue_for(&node, second(200)).await, Duration::ZERO);
    world.fail_over("b", held);
    world.store.set_down(false);
    assert!(world.issue_for(&node, second(600)).await > second(80));
}

/// The new server has the last write, but never acknowledged it.
#[tokio::test(start_paused = true)]
async fn lease_whose_last_write_is_visible_goes_on_in_place() {
    let world = world();
    let node = world.node().await;
    world.issue_for(&node, second(60)).await;
    world.store.fail_next(Fault::LostReply);
    world.until_swap().await;
    world.fail_over("b", world.store.snapshot());
    assert_eq!(world.issue_for(&node, second(600)).await, Duration::ZERO);
    assert_eq!((node.status().reason, node.events.epochs()), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn fail_back_is_another_epoch() {
    let world = world();
    let node = world.node().await;
    world.issue_for(&node, second(40)).await;
    world.fail_over("b", world.store.snapshot());
    world.issue_for(&node, second(40)).await;
    let between = world.epoch().await;
    world.fail_over("memory", world.store.snapshot());
    assert_eq!(world.issue_for(&node, second(400)).await, Duration::ZERO);
    assert_ne!(world.epoch().await, between);
    assert_eq!(node.events.epochs(), 2);
}

#[tokio::test(start_paused = true)]
async fn write_that_was_prepared_before_a_fail_over_is_refused_after_the_fail_back() {
    let world = world();
    let node = world.node().await;
    world.issue_for(&node, second(40)).await;
    world.store.fail_next(Fault::Late);
    world.until_swap().await;
    world.fail_over("b", world.store.snapshot());
    world.issue_for(&node, second(40)).await;
    world.fail_over("memory", world.store.snapshot());
    assert_eq!(world.store.deliver().await, 0);
    world.issue_for(&node, second(400)).await;
}

#[tokio::test(start_paused = true)]
async fn store_that_went_back_under_its_identity_is_noticed_by_a_holder() {
    let world = world();
    let node = world.node().await;
    world.issue_for(&node, second(10)).await;
    let held = world.store.snapshot();
    world.until_swap().await;
    world.fail_over("memory", held);
    world.until_swap().await;
    world.pass(second(2)).await;
    assert_eq!(node.events.epochs(), 1);
    assert_eq!(world.issue_for(&node, second(400)).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn servers_that_take_turns_are_an_error() {
    let world = world();
    let node = world.node().await;
    let mut reasons = Vec::new();
    for _ in 0..3 {
        for identity in ["b", "memory"] {
            world.fail_over(identity, world.store.snapshot());
            world.pass(second(31)).await;
            reasons.extend(node.status().reason.map(|reason| reason.to_string()));
        }
    }
    assert!(node.events.epochs() <= 4, "{} epochs", node.events.epochs());
    let named = |reason: &String| reason.contains("store.failover = \"lossless\"");
    assert!(reasons.iter().any(named), "{reasons:?}");
    world.fail_over("b", world.store.snapshot());
    world.pass(second(700)).await;
    assert_eq!(node.status().reason, None, "they no longer take turns");
    world.issue(&node, "order", 10).await;
}

/// Each process stays with its own server, and sees the epochs of the other servers only in the
/// record.
#[tokio::test(start_paused = true)]
async fn servers_that_take_turns_are_an_error_for_a_process_that_sees_one_of_them() {
    let world = world();
    let node = world.node().await;
    let mut reasons = Vec::new();
    for token in 1..=4 {
        world.fail_over("b", world.store.snapshot());
        let record = world.store.read_record("default").await.expect("up").expect("there");
        let (token, now_ms) = (Token::from_bits(token), world.now_ms());
        let history =
            record.history.next("b", token, EpochClocks::of_store(now_ms), NodeTimes::default());
        let changed = LayoutRecord { token, history, ..record.clone() };
        assert!(world.store.swap_record("default", record.token, &changed).await.expect("up"));
        world.fail_over("memory", world.store.snapshot());
        world.pass(second(31)).await;
        reasons.extend(node.status().reason.map(|reason| reason.to_string()));
    }
    assert!(node.events.epochs() <= 2, "{} epochs", node.events.epochs());
    let named = |reason: &String| {
        reason.contains("several servers accept writes in turn (\"memory\" and \"b\")")
    };
    assert!(reasons.iter().any(named), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn server_that_keeps_losing_writes_is_an_error() {
    let world = world();
    let node = world.node().await;
    let mut reasons = Vec::new();
    for _ in 0..6 {
        let held = world.store.snapshot();
        world.until_swap().await;
        world.fail_over("memory", held);
        world.pass(second(31)).await;
        reasons.extend(node.status().reason.map(|reason| reason.to_string()));
    }
    let named = |reason: &String| reason.contains("keeps losing acknowledged writes");
    assert!(reasons.iter().any(named), "{reasons:?}");
}

/// The fail-over loses the move, and the lease that another process began after it.
#[tokio::test(start_paused = true)]
async fn row_that_a_reverted_move_fenced_is_not_leased_while_its_holder_may_go_on() {
    let spec = LayoutSpec { rollback_bits: 0, ..LayoutSpec::for_unit(TimeUnit::Millisecond) };
    let world = World::new(spec.clone());
    let mut settings = world.only(3);
    settings.issue.max_wait = second(10);
    let holder = world.start(settings.clone());
    holder.issuer.leased().await;
    world.issue(&holder, "order", 10).await;
    let held = world.store.snapshot();
    let earlier = LayoutSpec { epoch_ms: spec.epoch_ms - 86_400_000, ..spec };
    let layout = earlier.build().expect("valid");
    let mut operator = world.operator(KeeperSettings { layout, ..world.settings() });
    // The lists are for judging, fencing and the fenced rows.
    let _go_on = world.store.pause_list(2);
    let cut_short = tokio::time::timeout(Duration::ZERO, operator.relayout()).await;
    assert!(cut_short.is_err(), "it waits");
    let reverted = world.operator(world.settings()).relayout().await.expect("up");
    assert!(matches!(reverted, RelayoutOutcome::Reverted { .. }));
    let other = world.start(settings);
    world.pass(second(1)).await;
    world.store.set_down(true);
    world.pass(second(11)).await;
    world.fail_over("b", held);
    world.store.set_down(false);
    for _ in 0..20 {
        world.pass(second(1)).await;
        for node in [&other, &holder].into_iter().filter(|node| node.status().lease.is_some()) {
            if let Ok(ids) = node.issuer.next_ids("order", 3).await {
                world.check("order", ids.collect());
            }
        }
    }
    assert_eq!(other.status().lease, None);
    world.issue(&holder, "order", 10).await;
}

#[tokio::test(start_paused = true)]
async fn row_that_the_new_server_never_had_is_created_again() {
    let world = world();
    let node = world.start(world.only(3));
    node.issuer.leased().await;
    world.issue_for(&node, second(60)).await;
    world.fail_over("b", world.store.snapshot());
    world.store.lose_row(&world.scope(), 3);
    let gap = world.issue_for(&node, second(900)).await;
    assert!(gap < second(60), "{gap:?}");
    assert_eq!((node.worker(), node.status().reason), (3, None));
}

#[tokio::test(start_paused = true)]
async fn store_whose_reads_contradict_its_swaps_is_reported() {
    let world = world();
    let node = world.node().await;
    world.issue_for(&node, second(20)).await;
    world.store.decide(Some(Box::new(|_| Some(Fault::Refused))));
    world.pass(second(20)).await;
    let reason = node.status().reason.map(|reason| reason.to_string()).unwrap_or_default();
    assert!(reason.contains("reads contradict"), "{reason}");
    world.store.decide(None);
    world.pass(second(60)).await;
    assert_eq!(node.status().reason, None);
    world.issue(&node, "order", 10).await;
}

/// Runs three nodes that issue for some time before and after something happens to the store.
/// Returns the longest time without an ID on any of them.
async fn longest_silence(
    world: &World,
    happens: impl AsyncFnOnce(&[Node]),
    begins: u64,
) -> Duration {
    let nodes = [world.node().await, world.node().await, world.node().await];
    let issue_for = async |duration: Duration| {
        let mut silent = [Duration::ZERO; 3];
        let mut longest = Duration::ZERO;
        for _ in 0..duration.as_secs() {
            world.pass(second(1)).await;
            for (node, silent) in nodes.iter().zip(&mut silent) {
                match node.issuer.next_ids("order", 3).await {
                    Ok(ids) => {
                        world.check("order", ids.collect());
                        *silent = Duration::ZERO;
                    }
                    Err(_) => *silent += second(1),
                }
                longest = longest.max(*silent);
            }
        }
        longest
    };
    assert_eq!(issue_for(second(100)).await, Duration::ZERO);
    happens(&nodes).await;
    let longest = issue_for(second(700)).await;
    for node in &nodes {
        assert_eq!(node.status().reason, None);
    }
    let epochs: u64 = nodes.iter().map(|node| node.events.epochs()).sum();
    assert_eq!(epochs, begins);
    longest
}

#[tokio::test(start_paused = true)]
async fn store_that_is_restored_in_place_stops_no_node() {
    let world = world();
    let restored = async |_: &[Node]| {
        let held = world.store.snapshot();
        world.pass(second(60)).await;
        world.fail_over("memory", held);
    };
    assert_eq!(longest_silence(&world, restored, 1).await, Duration::ZERO);
}

/// Back to before any process leased a row.
#[tokio::test(start_paused = true)]
async fn store_that_is_restored_to_its_beginning_stops_no_node() {
    let world = world();
    world.node().await.stop().await;
    let begin = world.store.snapshot();
    let restored = async |_: &[Node]| world.fail_over("memory", begin);
    assert_eq!(longest_silence(&world, restored, 1).await, Duration::ZERO);
}

/// The nodes know none of the epochs that the record has then.
#[tokio::test(start_paused = true)]
async fn backup_without_the_present_epoch_stops_no_node() {
    let world = world();
    world.node().await.stop().await;
    let before = world.store.snapshot();
    let restored = async |nodes: &[Node]| {
        for server in ["b", "c"] {
            world.fail_over(server, world.store.snapshot());
            for node in nodes {
                world.issue_for(node, second(40)).await;
            }
        }
        world.fail_over("c", before);
    };
    assert_eq!(longest_silence(&world, restored, 3).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn emptied_store_stops_no_node() {
    let world = world();
    let empty = world.store.snapshot();
    let emptied = async |_: &[Node]| world.fail_over("memory", empty);
    assert_eq!(longest_silence(&world, emptied, 1).await, Duration::ZERO);
    assert!(world.store.read_record("default").await.expect("up").is_some());
}

#[tokio::test(start_paused = true)]
async fn record_that_is_deleted_is_written_again() {
    let world = world();
    let deleted = async |_: &[Node]| world.store.lose_record("default");
    assert_eq!(longest_silence(&world, deleted, 1).await, Duration::ZERO);
    let record = world.store.read_record("default").await.expect("up").expect("there");
    assert!(record.since_tick > 0, "past ticks are closed");
}

/// A store in which another process changes each new record before its creator reads it.
#[derive(Debug)]
struct Eager(Arc<FaultyStore>);

#[async_trait]
impl Intercept for Eager {
    fn memory(&self) -> &MemoryStore {
        self.0.memory()
    }

    async fn answer(&self, call: Call) -> Result<Reply, StoreError> {
        let is_create = matches!(call, Call::CreateRecord(..));
        let reply = self.0.answer(call).await?;
        if !is_create {
            return Ok(reply);
        }
        let stored = *reply.downcast::<LayoutRecord>().expect("a record");
        let changed = LayoutRecord { token: Token::from_bits(99), ..stored.clone() };
        self.0.swap_record("default", stored.token, &changed).await?;
        Ok(Box::new(changed))
    }
}

#[tokio::test(start_paused = true)]
async fn record_that_is_written_again_and_changed_at_once_counts_as_an_epoch() {
    let world = world();
    let node = world.start_by(world.settings(), Arc::new(Eager(world.store.clone())));
    world.pass(second(60)).await;
    world.store.lose_record("default");
    world.pass(second(60)).await;
    assert_eq!((node.events.epochs(), node.status().reason), (1, None));
}

#[tokio::test(start_paused = true)]
async fn rows_that_are_deleted_are_created_again_without_an_epoch() {
    for all in [false, true] {
        let world = world();
        let deleted = async |nodes: &[Node]| {
            for node in &nodes[..if all { 3 } else { 1 }] {
                world.store.lose_row(&world.scope(), node.worker());
            }
        };
        assert_eq!(longest_silence(&world, deleted, 0).await, Duration::ZERO);
    }
}

/// Another process may have leased the row meanwhile, in this epoch or in a later one.
#[tokio::test(start_paused = true)]
async fn row_that_was_created_again_long_after_the_last_write_is_leased_anew() {
    for fails_over in [false, true] {
        let world = world();
        let node = world.start(world.only(3));
        node.issuer.leased().await;
        world.issue_for(&node, second(60)).await;
        let limit = node.issuer.state.generator.grant().expect("leased").acknowledged();
        world.store.set_down(true);
        if fails_over {
            let held = world.store.snapshot();
            world.fail_over("b", held);
        }
        world.issue_for(&node, second(120)).await;
        world.store.lose_row(&world.scope(), 3);
        world.store.set_down(false);
        world.pass(second(31)).await;
        // The node uses up its present range.
        let grant = node.issuer.state.generator.grant().expect("in use");
        assert_eq!(grant.acknowledged(), limit);
        assert!(world.issue_for(&node, second(900)).await < second(360));
        assert_eq!(node.worker(), 3);
    }
}

/// The keeper cannot know which process held the row before it was created again.
#[tokio::test(start_paused = true)]
async fn row_that_was_created_again_and_not_leased_anew_is_not_released() {
    let world = world();
    let node = world.start(world.only(3));
    node.issuer.leased().await;
    world.issue_for(&node, second(60)).await;
    world.store.set_down(true);
    world.issue_for(&node, second(120)).await;
    world.store.lose_row(&world.scope(), 3);
    world.store.set_down(false);
    // The node cannot lease the row again.
    node.clock.step(200_000);
    world.pass(second(31)).await;
    let created = world.row(3).await;
    assert!(created.was_never_written());
    node.stop().await;
    assert_eq!(world.row(3).await, created, "its marks are not lowered");
}

/// The clock of the new server is 8 h ahead. Present leases are used up. Once the clock is
/// corrected, new leases begin as after any fail-over.
#[tokio::test(start_paused = true)]
async fn clock_of_a_new_server_that_is_hours_wrong_sets_no_barrier() {
    for wrong_ms in [28_800_000, -28_800_000] {
        let world = world();
        let node = world.node().await;
        world.issue_for(&node, second(60)).await;
        world.fail_over("b", world.store.snapshot());
        world.store_clock.step(wrong_ms);
        assert!(world.issue_for(&node, second(240)).await < second(3));
        let reason = node.status().reason;
        let Some(UnavailableReason::ClocksDiffer(ahead_ms)) = reason else { panic!("{reason:?}") };
        assert!((ahead_ms + wrong_ms).abs() < 1_000, "{ahead_ms}");
        let late = world.start(world.settings());
        late.clock.step(-wrong_ms);
        world.pass(second(60)).await;
        let reason = late.status().reason;
        assert!(matches!(reason, Some(UnavailableReason::ClocksDiffer(_))), "{reason:?}");
        world.store_clock.step(-wrong_ms);
        for node in [&node, &late] {
            let silent = world.issue_for(node, second(400)).await;
            assert!(silent < second(370), "{silent:?}");
            assert_eq!(node.status().reason, None);
        }
        let record = world.store.read_record("default").await.expect("up").expect("there");
        assert!(!record.history.lacks_barrier());
        assert_eq!(record.history.reach.ms, 320_000);
    }
}

/// Returns a node that keeps issuing on a store that lost a renewal and whose clock is an hour
/// behind, so that the epoch that begins has no barrier.
async fn node_without_a_barrier(world: &World) -> Node {
    let node = world.node().await;
    world.issue_for(&node, second(60)).await;
    // Both nodes' clocks are wrong, or the store's has been wrong for long.
    world.store_clock.step(-3_600_000);
    world.issue_for(&node, second(60)).await;
    let held = world.store.snapshot();
    world.until_swap().await;
    world.fail_over("memory", held);
    node
}

/// A holder whose row no process can have taken continues in place while the barrier is pending.
#[tokio::test(start_paused = true)]
async fn unbroken_lease_goes_on_in_an_epoch_without_a_barrier() {
    let world = world();
    let node = node_without_a_barrier(&world).await;
    assert_eq!(world.issue_for(&node, second(900)).await, Duration::ZERO);
    assert_eq!((node.status().reason, node.events.epochs()), (None, 1));
    let late = world.start(world.settings());
    late.clock.step(3_600_000);
    world.pass(second(60)).await;
    let reason = late.status().reason;
    assert!(matches!(reason, Some(UnavailableReason::ClocksDiffer(_))), "{reason:?}");
    // The step proves nothing about the row, so the node uses up its present range.
    world.store_clock.step(3_600_000);
    assert!(world.issue_for(&node, second(900)).await < second(140));
    world.issue(&late, "order", 10).await;
}

/// The keeper cannot know how far another process leased the other lanes.
#[tokio::test(start_paused = true)]
async fn no_other_lane_is_leased_in_an_epoch_without_a_barrier() {
    let world = world();
    let node = node_without_a_barrier(&world).await;
    assert_eq!(world.issue_for(&node, second(60)).await, Duration::ZERO);
    let record = world.store.read_record("default").await.expect("up").expect("there");
    assert!(record.history.lacks_barrier());
    let lane = node.lane();
    node.clock.step(-20_000);
    assert!(world.issue_for(&node, second(40)).await > second(10));
    assert_eq!(node.lane(), lane);
    assert!(!node.events.rollbacks().contains(&RollbackAction::Rotated));
}

/// The first node to notice has a wrong clock, so the epoch gets its barrier only later.
#[tokio::test(start_paused = true)]
async fn node_with_a_wrong_clock_silences_no_other_node() {
    let world = world();
    let (node, other) = (world.node().await, world.node().await);
    let often = |settings: &mut KeeperSettings| settings.lease.renew = second(1);
    let wrong = world.node_with(often).await;
    // Between two renewals of the other nodes, so that this one finds the fail-over first.
    world.pass(second(40)).await;
    wrong.clock.step(-3_600_000);
    world.until_swap().await;
    world.fail_over("b", world.store.snapshot());
    let record = async || world.store.read_record("default").await.expect("up").expect("there");
    while !record().await.history.lacks_barrier() {
        world.pass(Duration::from_millis(50)).await;
    }
    for _ in 0..400 {
        for node in [&node, &other] {
            assert_eq!(world.issue_for(node, second(1)).await, Duration::ZERO);
        }
    }
    assert_eq!(record().await.history.barrier_state, BarrierState::SetLater);
    assert_eq!((node.status().reason, other.status().reason), (None, None));
}

/// If a clock was hours behind, how far leases reach is recorded as an instant that passes.
#[tokio::test(start_paused = true)]
async fn reach_by_a_wrong_clock_of_the_store_is_an_instant() {
    let world = world();
    let node = world.node().await;
    world.issue_for(&node, second(40)).await;
    world.store_clock.step(-36_000_000);
    let behind_ms = world.store_clock.now_ms();
    assert_eq!(world.issue_for(&node, second(100)).await, Duration::ZERO);
    let history = async || {
        let record = world.store.read_record("default").await.expect("up").expect("there");
        record.history
    };
    let registered = history().await;
    assert_eq!(registered.reach.ms, 320_000);
    let reaches_ms = node.clock.now_ms() + 300_000;
    assert!(registered.reached_ms >= reaches_ms, "{}", registered.reached_ms - reaches_ms);
    assert!(registered.reached_ms < reaches_ms + 120_000);
    assert!(registered.reached_ms > behind_ms + 36_000_000);
    // Not every renewal writes the record.
    let (mut known, mut changes) = (registered, 0);
    for _ in 0..24 {
        assert_eq!(world.issue_for(&node, second(10)).await, Duration::ZERO);
        let registered = history().await;
        changes += u32::from(registered != known);
        known = registered;
    }
    assert!((2..=4).contains(&changes), "{changes}");
    world.store_clock.step(36_000_000);
    world.issue_for(&node, second(700)).await;
    let held = world.store.snapshot();
    world.fail_over("b", held);
    world.issue_for(&node, second(60)).await;
    let barrier_ms = history().await.barrier_ms;
    assert!((barrier_ms - world.now_ms()) <= 320_000, "{}", barrier_ms - world.now_ms());
}
