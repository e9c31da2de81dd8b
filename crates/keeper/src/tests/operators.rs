//! Operators that work while nodes run, and while other operators do.

use std::{sync::Arc, time::Duration};

use raindrop_core::{
    clock::ManualClock,
    layout::{LayoutSpec, TimeUnit},
    lease::Row,
};
use raindrop_store::Store;

use super::{
    faulty_store::Fault,
    world::{NOW, World, second},
};
use crate::{
    KeeperError, KeeperSettings, LayoutError, Operator, OperatorError, RelayoutOutcome,
    UnavailableReason, WorkerRelease, lease::task::loss,
};

const MINUTE_MS: i64 = 60_000;
const WINDOW: Duration = Duration::from_mins(5);

fn spec() -> LayoutSpec {
    LayoutSpec { worker_bits: 3, ..LayoutSpec::for_unit(TimeUnit::Millisecond) }
}

pub(super) fn world() -> World {
    World::new(spec())
}

/// Returns settings with other lanes, fewer workers, and an epoch that is earlier by `earlier_ms`.
pub(super) fn larger_by(world: &World, earlier_ms: i64) -> KeeperSettings {
    let spec = LayoutSpec {
        epoch_ms: LayoutSpec::DEFAULT_EPOCH_MS - earlier_ms,
        rollback_bits: 2,
        ..spec()
    };
    let layout = spec.build().expect("valid");
    KeeperSettings { max_worker: layout.largest_worker(), layout, ..world.settings() }
}

#[tokio::test(start_paused = true)]
async fn released_row_is_leased_above_its_former_holders_limit() {
    let world = world();
    let holder = world.start(world.only(3));
    holder.issuer.leased().await;
    let mut operator = world.operator(world.settings());
    let limit = world.row(3).await.marks[0];
    assert!(matches!(operator.release(3).await, Ok(WorkerRelease::Released(_))));
    assert!(matches!(operator.release(3).await, Ok(WorkerRelease::AlreadyFree(_))));
    assert!(world.row(3).await.marks[0] > limit, "nobody leases the lane where its holder may");
    let next = world.start(world.only(3));
    next.issuer.leased().await;
    world.issue(&holder, "order", 100).await;
    world.issue(&next, "order", 100).await;
    world.pass(second(11)).await;
    world.issue(&next, "order", 100).await;
    assert!(holder.issuer.next_id("order").await.is_err(), "the range is used up");

    let error = operator.release(8).await.expect_err("no such worker");
    assert_eq!(error.to_string(), "worker 8: must be 0 to 7");
}

#[tokio::test(start_paused = true)]
async fn a_lost_row_tells_who_wrote_it() {
    let world = world();
    let holder = world.start(world.only(3));
    holder.issuer.leased().await;
    let held = world.row(3).await;
    let unused = Row { heartbeat_ms: 0, ..held.clone() };
    world.operator(world.settings()).release(3).await.expect("up");
    let released = world.row(3).await;
    let own = world.settings().holder;
    for (row, own, reason) in [
        (&released, own.as_str(), "an operator or another process released"),
        (&held, &own, "a process with the same holder took the row"),
        (&held, "another", "another process took the row"),
        (&unused, &own, "the store lost the row"),
    ] {
        assert!(loss(row, own).starts_with(reason), "{row:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn operator_release_after_lost_reply_is_settled_by_its_tokens() {
    for fault in [Fault::LostReply, Fault::Late, Fault::NeverArrives] {
        let world = world();
        let _holder = world.start(world.only(3));
        world.pass(second(1)).await;
        world.store.fail_next(fault);
        let freed = world.operator(world.settings()).release(3).await.expect("settled");
        assert!(matches!(freed, WorkerRelease::Released(_)), "{fault:?}");
        assert!(world.row(3).await.free);
        // The delayed write comes too late.
        assert_eq!(world.store.deliver().await, 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn row_renewed_during_a_release_is_not_written() {
    let world = world();
    let node = world.start(world.only(3));
    node.issuer.leased().await;
    world.store.fail_next(Fault::Late);
    world.until_swap().await;
    // The delayed renewal arrives just before the operator's write.
    world.store.fail_next(Fault::AfterLate);
    let error = world.operator(world.settings()).release(3).await.expect_err("changed");
    let OperatorError::RowChanged { now } = &error else { panic!("{error}") };
    assert!(!now.free && error.to_string().contains("held by the same for all"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn raise_begins_beyond_every_lease() {
    let world = world();
    let node = world.node().await;
    let ids = world.issue(&node, "order", 100).await;
    world.pass(second(5)).await;
    let mut operator = world.operator(world.settings());
    let due_ms = operator.raise(WINDOW).await.expect("up");
    let beyond_ms = NOW + 5_000 + 320_000;
    assert!((beyond_ms..beyond_ms + 1_000).contains(&due_ms), "{}", due_ms - NOW);
    // The node issues up to its limit, and leases again when the barrier comes due.
    world.issue(&node, "order", 100).await;
    world.pass(second(340)).await;
    let later = world.issue(&node, "order", 100).await;
    assert!(later[0] > ids[99]);
    operator.raise(WINDOW).await.expect("it may be repeated");

    let error = world.operator(larger_by(&world, 0)).raise(WINDOW).await.expect_err("refused");
    assert!(matches!(error, OperatorError::Layout(LayoutError::Conflict { .. })), "{error}");
}

#[tokio::test(start_paused = true)]
async fn raise_of_an_empty_store_is_beyond_every_lease() {
    let world = world();
    world.operator(world.settings()).raise(WINDOW).await.expect("up");
    assert_eq!(world.recorded_layout().await, world.settings().layout.canonical());
    let node = world.start(world.settings());
    world.pass(second(310)).await;
    assert!(node.status().lease.is_none(), "nothing is due yet");
    world.pass(second(20)).await;
    world.issue(&node, "order", 10).await;
}

#[tokio::test(start_paused = true)]
async fn raise_and_relayout_refuse_disagreeing_clocks() {
    let world = world();
    world.node().await;
    let before = world.recorded_layout().await;
    let clock = Arc::new(ManualClock::new(NOW + 60_000));
    let settings = larger_by(&world, 86_400_000);
    let mut operator = crate::Operator::new(settings, world.store.clone(), clock.clone());
    let error = operator.relayout().await.expect_err("refused");
    assert!(error.to_string().contains("60000 ms ahead of the store's"), "{error}");
    let mut operator = crate::Operator::new(world.settings(), world.store.clone(), clock);
    assert!(matches!(
        operator.raise(WINDOW).await,
        Err(OperatorError::ClocksDisagree { ahead_ms: 60_000, .. })
    ));
    assert_eq!(world.recorded_layout().await, before);
}

#[tokio::test(start_paused = true)]
async fn relayout_succeeds_under_a_live_node() {
    let world = world();
    let old = world.node().await;
    world.pass(second(4)).await;
    let before = world.issue(&old, "order", 100).await;
    let settings = larger_by(&world, 86_400_000);
    let mut operator = world.operator(settings.clone());
    let RelayoutOutcome::Moved(moved) = operator.relayout().await.expect("allowed") else {
        panic!("moved")
    };
    assert!(moved.largest_old.expect("marks") < moved.smallest_new && !moved.resumed);
    let record = world.store.read_record("default").await.expect("up").expect("a record");
    assert_eq!(
        (record.canonical, record.complete),
        (settings.layout.canonical(), vec!["0/0".into()])
    );
    assert_eq!(operator.relayout().await.expect("up"), RelayoutOutcome::NothingToDo);

    let new = world.start(settings);
    new.issuer.leased().await;
    for _ in 0..3 {
        let new = world.issue(&new, "order", 100).await;
        let old = world.issue(&old, "order", 100).await;
        assert!(
            before[99] < old[0] && old[99] < moved.smallest_new && moved.smallest_new <= new[0]
        );
        world.pass(second(1)).await;
    }
    world.pass(second(330)).await;
    assert_eq!(old.status().reason, Some(UnavailableReason::StoreLost));
    assert!(old.issuer.next_id("order").await.is_err(), "the old node stopped at its limit");
    world.issue(&new, "order", 100).await;
}

#[tokio::test(start_paused = true)]
async fn relayout_to_smaller_ids_is_refused_without_a_write() {
    let world = world();
    let node = world.node().await;
    world.pass(second(4)).await;
    let before = world.recorded_layout().await;
    let mut operator = world.operator(larger_by(&world, 0));
    let error = operator.relayout().await.expect_err("refused");
    let OperatorError::IdsTooSmall { largest_old, smallest_new, from_ms } = &error else {
        panic!("{error}")
    };
    let text = error.to_string();
    for id in [largest_old, smallest_new] {
        assert!(text.contains(&id.to_string()), "{text}");
    }
    // The renewed lease reaches five minutes ahead.
    let from_ms = from_ms.expect("some time");
    assert!((NOW + 290_000..NOW + 310_000).contains(&from_ms), "{from_ms}");
    assert_eq!(world.recorded_layout().await, before);
    world.pass(second(60)).await;
    world.issue(&node, "order", 10).await;
    assert_eq!(node.status().reason, None, "nobody noticed");
    // A clean stop lowers the marks.
    node.stop().await;
    world.pass(second(1)).await;
    operator.relayout().await.expect("allowed");
}

/// A renewal that was sent before the move arrives in the middle of it.
#[tokio::test(start_paused = true)]
async fn marks_raised_during_fencing_are_judged() {
    let world = world();
    let node = world.node().await;
    let before = world.recorded_layout().await;
    world.store.fail_next(Fault::Late);
    world.until_swap().await;
    // Larger than the first lease reaches, and smaller than a renewed one reaches.
    let mut operator = world.operator(larger_by(&world, MINUTE_MS));
    world.store.fail_next(Fault::AfterLate);
    let error = operator.relayout().await.expect_err("refused");
    assert!(matches!(error, OperatorError::IdsTooSmall { .. }), "{error}");
    assert_eq!(world.recorded_layout().await, before, "taken back");
    drop(node);
}

#[tokio::test(start_paused = true)]
async fn interrupted_relayout_keeps_nodes_out_until_finished() {
    let world = world();
    let node = world.node().await;
    let settings = larger_by(&world, 86_400_000);
    // The lists are for judging, fencing, the fenced rows and converting.
    for (skip, converting) in [(1, false), (3, true)] {
        let mut operator = world.operator(settings.clone());
        let _go_on = world.store.pause_list(skip);
        let cut_short = tokio::time::timeout(second(60), operator.relayout()).await;
        assert!(cut_short.is_err(), "it waits");
        assert!(world.recorded_layout().await.starts_with("relayout "));
        for settings in [world.settings(), settings.clone()] {
            let error = world.start(settings).keeper.failed().await;
            assert!(matches!(error, KeeperError::Layout(LayoutError::Moving { .. })), "{error}");
            assert!(error.to_string().contains("raindrop workers relayout"), "{error}");
        }
        // The move can be reverted before rows have new marks, and not afterwards.
        let taken_back = world.operator(world.settings()).relayout().await;
        if converting {
            assert!(matches!(taken_back, Err(OperatorError::Layout(LayoutError::Moving { .. }))));
        } else {
            assert!(matches!(taken_back, Ok(RelayoutOutcome::Reverted { .. })));
            assert_eq!(world.recorded_layout().await, world.settings().layout.canonical());
        }
    }
    let Ok(RelayoutOutcome::Moved(moved)) = world.operator(settings.clone()).relayout().await
    else {
        panic!("finished")
    };
    assert!(moved.resumed);
    let new = world.start(settings);
    new.issuer.leased().await;
    world.issue(&new, "order", 10).await;
    drop(node);
}

/// An operator that slept while another one finished its work must not undo later writes of nodes.
#[tokio::test(start_paused = true)]
async fn operator_paused_until_after_the_move_changes_nothing() {
    let world = world();
    drop(world.node().await);
    let settings = larger_by(&world, 86_400_000);
    let mut asleep = world.operator(settings.clone());
    let go_on = world.store.pause_list(3);
    let asleep = tokio::spawn(async move { asleep.relayout().await });
    world.pass(second(1)).await;
    let clock = world.store_clock.clone();
    let mut awake = Operator::new(settings.clone(), world.store.clone(), clock);
    assert!(matches!(awake.relayout().await, Ok(RelayoutOutcome::Moved(moved)) if moved.resumed));
    let node = world.start(settings);
    node.issuer.leased().await;
    world.issue(&node, "order", 10).await;
    let rows = world.store.list_rows().await.expect("up");
    go_on.notify_one();
    let error = asleep.await.expect("no panic").expect_err("too late");
    assert!(matches!(error, OperatorError::RecordChanged { .. }), "{error}");
    assert_eq!(world.store.list_rows().await.expect("up"), rows);
}

/// Rows that are read after another operator's move are in other units, so they do not show whether
/// this move is allowed.
#[tokio::test(start_paused = true)]
async fn operator_asleep_while_it_judges_says_that_the_record_changed() {
    for is_preview in [true, false] {
        let world = world();
        drop(world.node().await);
        let settings = larger_by(&world, 86_400_000);
        let mut asleep = world.operator(settings.clone());
        let go_on = world.store.pause_list(0);
        let asleep = tokio::spawn(async move {
            if is_preview {
                asleep.preview_relayout().await.map(drop)
            } else {
                asleep.relayout().await.map(drop)
            }
        });
        world.pass(second(1)).await;
        let clock = world.store_clock.clone();
        let mut awake = Operator::new(settings, world.store.clone(), clock);
        assert!(matches!(awake.relayout().await, Ok(RelayoutOutcome::Moved(_))));
        go_on.notify_one();
        let error = asleep.await.expect("no panic").expect_err("too late");
        assert!(matches!(error, OperatorError::RecordChanged { .. }), "{error}");
    }
}

/// Two operators move the namespace to different layouts. The slower one must not take the other's
/// rows for rows of the old layout: their units differ.
#[tokio::test(start_paused = true)]
async fn operator_asleep_during_another_move_writes_none_of_its_rows() {
    let world = world();
    // Only one row exists, and the epoch has a barrier.
    let node = world.start(world.only(3));
    node.issuer.leased().await;
    node.stop().await;
    world.operator(world.settings()).raise(WINDOW).await.expect("up");
    let mut asleep = world.operator(larger_by(&world, 86_400_000));
    // The lists are for judging and fencing.
    let go_on = world.store.pause_list(1);
    let asleep = tokio::spawn(async move { asleep.relayout().await });
    world.pass(second(1)).await;
    let coarse = LayoutSpec {
        worker_bits: 3,
        epoch_ms: LayoutSpec::DEFAULT_EPOCH_MS - 172_800_000,
        ..LayoutSpec::for_unit(TimeUnit::Second)
    };
    let layout = coarse.build().expect("valid");
    let settings = KeeperSettings { layout, ..world.settings() };
    let clock = world.store_clock.clone();
    let mut awake = Operator::new(settings, world.store.clone(), clock);
    let moved = awake.relayout().await;
    assert!(matches!(moved, Ok(RelayoutOutcome::Moved(_))), "{moved:?}");
    let rows = world.store.list_rows().await.expect("up");
    assert_eq!(rows.len(), 8);
    go_on.notify_one();
    let error = asleep.await.expect("no panic").expect_err("too late");
    assert!(matches!(error, OperatorError::RecordChanged { .. }), "{error}");
    assert_eq!(world.store.list_rows().await.expect("up"), rows);
}
