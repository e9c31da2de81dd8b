use std::{sync::atomic::Ordering, time::Duration};

use super::{
    faulty_store::Fault,
    world::{Node, world},
};
use crate::{IssueError, KeeperSettings, Released, UnavailableReason};

fn only_one(settings: &mut KeeperSettings) {
    settings.max_worker = 1;
}

fn only_one_with_cursors_by_code(settings: &mut KeeperSettings) {
    only_one(settings);
    settings.issue.codes_shared = false;
}

fn position(node: &Node, id: raindrop_core::id::Id) -> u64 {
    let layout = node.issuer.layout();
    let fields = layout.decompose(id);
    layout.first_position(fields.tick) + fields.sequence
}

#[tokio::test(start_paused = true)]
async fn clean_stop_frees_the_row_and_lowers_the_mark() {
    let world = world();
    let node = world.node_with(only_one_with_cursors_by_code).await;
    world.pass(Duration::from_secs(5)).await;
    world.issue(&node, "quiet", 3).await;
    let last = world.issue(&node, "busy", 10_000).await[9_999];
    let mark = position(&node, last) + 1;
    assert_eq!(node.stop().await, Released::Done);
    let row = world.row(1).await;
    assert!(row.free);
    assert_eq!(row.marks.iter().collect::<Vec<_>>(), [mark, 0]);
    // The next node is served at once, on the released lane.
    world.pass(Duration::from_millis(50)).await;
    let next = world.node_with(only_one).await;
    assert_eq!((next.worker(), next.lane()), (1, 0));
    world.issue(&next, "busy", 10_000).await;
}

#[tokio::test(start_paused = true)]
async fn stop_before_any_claim_leaves_the_mark_at_the_start() {
    let world = world();
    let first = world.node_with(only_one).await;
    let last = world.issue(&first, "order", 1).await[0];
    let mark = position(&first, last) + 1;
    first.stop().await;
    let idle = world.node_with(only_one).await;
    assert_eq!(idle.stop().await, Released::Done);
    assert_eq!(world.row(1).await.marks[0], mark);
}

#[tokio::test(start_paused = true)]
async fn lowered_mark_covers_evicted_codes() {
    let world = world();
    let node = world
        .node_with(|settings| {
            only_one_with_cursors_by_code(settings);
            settings.issue.codes_max = 2;
        })
        .await;
    world.pass(Duration::from_secs(5)).await;
    let last = world.issue(&node, "evicted", 4_000).await[3_999];
    for code in ["a", "b", "c", "d"] {
        world.pass(Duration::from_millis(50)).await;
        node.clock.step(-1_000);
        // While the rollback is held, no ID is issued beyond the evicted code's position.
        let _ = node.issuer.next_id(code).await;
        node.clock.step(1_000);
    }
    let mark = position(&node, last) + 1;
    node.stop().await;
    assert!(world.row(1).await.marks[0] >= mark);
}

#[tokio::test(start_paused = true)]
async fn stop_under_load_leaves_the_mark_above_every_issued_id() {
    let world = world();
    let node = world.node_with(only_one_with_cursors_by_code).await;
    world.pass(Duration::from_secs(5)).await;
    let handlers: Vec<_> = (0..100)
        .map(|handler| {
            let issuer = node.issuer.clone();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                let code = format!("code-{}", handler % 7);
                loop {
                    match issuer.next_ids(&code, 1 + handler % 5).await {
                        Ok(run) => ids.extend(run),
                        Err(error) => return (code, ids, error),
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    let layout = node.issuer.layout().clone();
    assert_eq!(node.stop().await, Released::Done);
    let mark = world.row(1).await.marks[0];
    let mut total = 0;
    for handler in handlers {
        let (code, ids, error) = handler.await.expect("no panic");
        let reason = UnavailableReason::ShuttingDown;
        let retry_after = Duration::from_secs(1);
        assert_eq!(error, IssueError::NoLease { reason, retry_after });
        for id in world.check(&code, ids) {
            let fields = layout.decompose(id);
            assert!(layout.first_position(fields.tick) + fields.sequence < mark);
            total += 1;
        }
    }
    assert!(total > 1_000, "{total}");
}

#[tokio::test(start_paused = true)]
async fn release_after_lost_reply_is_settled() {
    for fault in [Fault::NeverArrives, Fault::LostReply, Fault::Late] {
        let world = world();
        let node = world.node_with(only_one).await;
        world.issue(&node, "order", 10).await;
        world.store.fail_next(fault);
        assert_eq!(node.stop().await, Released::Done, "{fault:?}");
        let row = world.row(1).await;
        assert!(row.free, "{fault:?}");
        world.store.deliver().await;
        let next = world.node_with(only_one).await;
        assert_eq!(world.row(1).await.lane as u64, next.lane());
        world.issue(&next, "order", 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn stop_releases_a_row_whose_acquire_was_unanswered() {
    for (fault, swaps) in [(Fault::LostReply, 2), (Fault::NeverArrives, 2), (Fault::Late, 2)] {
        let world = world();
        world.store.fail_next(fault);
        let mut settings = world.settings();
        only_one(&mut settings);
        let node = world.start(settings);
        while world.store.swaps.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(node.stop().await, Released::Done, "{fault:?}");
        assert!(world.row(1).await.free, "{fault:?}");
        assert_eq!(world.store.swaps.load(Ordering::SeqCst), swaps, "{fault:?}");
        assert_eq!(world.store.deliver().await, 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stop_after_an_unanswered_rotation_leaves_true_marks() {
    let world = world();
    let node = world.node_with(only_one).await;
    world.pass(Duration::from_secs(5)).await;
    world.issue(&node, "order", 10).await;
    world.store.fail_next(Fault::LostReply);
    let swaps = world.store.swaps.load(Ordering::SeqCst);
    node.clock.step(-60_000);
    let last = world.issue(&node, "order", 1).await[0];
    while world.store.swaps.load(Ordering::SeqCst) == swaps {
        tokio::task::yield_now().await;
    }
    let mark = position(&node, last) + 1;
    assert_eq!(node.stop().await, Released::Done);
    let row = world.row(1).await;
    assert!(row.free);
    assert_eq!(row.marks.iter().collect::<Vec<_>>(), [mark, 0]);
}

#[tokio::test(start_paused = true)]
async fn release_gives_up_at_its_deadline() {
    let world = world();
    let node = world.node().await;
    world.store.set_down(true);
    assert_eq!(node.stop().await, Released::GaveUp);
}

#[tokio::test(start_paused = true)]
async fn release_accepts_the_longest_deadline() {
    let world = world();
    let node = world.node().await;
    assert_eq!(node.keeper.release(Duration::MAX).await, Released::Done);
}

#[tokio::test(start_paused = true)]
async fn release_without_a_row_reports_nothing_held() {
    let world = world();
    world.store.set_down(true);
    let node = world.start(world.settings());
    world.pass(Duration::from_secs(2)).await;
    assert_eq!(node.stop().await, Released::NothingHeld);
    assert_eq!(world.store.swaps.load(Ordering::SeqCst), 0);
}

/// The next lease starts above the mark of all codes, whichever of them shared a cursor.
#[tokio::test(start_paused = true)]
async fn codes_may_share_a_cursor_after_they_did_not_and_back() {
    let world = world();
    for round in 0..6 {
        let node = world
            .node_with(|settings| {
                only_one(settings);
                settings.issue.codes_shared = round % 2 == 1;
                settings.lease.stale_wait = Duration::ZERO;
                settings.prefer_previous = true;
            })
            .await;
        for (code, count) in [("quiet", 3), ("busy", 5_000), ("quiet", 900)] {
            world.issue(&node, code, count).await;
        }
        if round < 3 {
            node.stop().await;
        } else {
            drop(node);
            // The row of the killed process expires.
            world.pass(Duration::from_secs(100)).await;
        }
    }
}
