//! Results that issuers return and report to observers.

use std::time::Duration;

use raindrop_core::{
    issue::ClaimError,
    layout::{LayoutSpec, TimeUnit},
};
use tokio::time::Instant;

use super::world::{NOW, World, second, world};
use crate::{
    Exhaustion, IssueError, KeeperTask, StoreFailure, UnavailableReason, support::tasks::TaskHandle,
};

/// Returns a world with ten IDs in a millisecond.
fn narrow() -> World {
    World::new(LayoutSpec { max_sequence: Some(9), ..LayoutSpec::for_unit(TimeUnit::Millisecond) })
}

#[tokio::test(start_paused = true)]
async fn claim_beyond_the_present_tick_waits_and_is_reported() {
    let world = narrow();
    let node = world.node().await;
    let exhaustions = || node.events.exhaustions.lock().expect("unpoisoned").clone();
    let began = Instant::now();
    world.issue(&node, "order", 5).await;
    assert_eq!((began.elapsed(), exhaustions()), (Duration::ZERO, vec![]));
    world.issue(&node, "order", 25).await;
    assert_eq!(exhaustions(), [Exhaustion::Waited]);
    assert!(began.elapsed() >= Duration::from_millis(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn refusal_that_no_lease_changes_is_told_at_once() {
    let world = narrow();
    let node = world.node().await;
    let began = Instant::now();
    let refused = node.issuer.next_ids("order", u32::MAX).await.expect_err("too many");
    assert!(matches!(refused, IssueError::Refused(ClaimError::InvalidCount { .. })), "{refused}");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn caller_is_told_when_a_worker_may_come_free() {
    let world = world();
    let _holder = world.start(world.only(5));
    world.pass(second(1)).await;
    let spare = world.start(world.only(5));
    world.pass(second(5)).await;
    let refused = spare.issuer.next_id("order").await.expect_err("the row is held");
    let IssueError::NoLease {
        reason: UnavailableReason::NoFreeWorker { due_ms }, retry_after, ..
    } = refused
    else {
        panic!("{refused:?}")
    };
    assert!(retry_after > second(60), "{retry_after:?}");
    let due = Duration::from_millis((due_ms - world.now_ms()).unsigned_abs());
    assert_eq!(retry_after, due);
}

#[tokio::test(start_paused = true)]
async fn handle_that_issued_nothing_reports_nothing() {
    let world = world();
    let node = world.node().await;
    let mut handle = node.issuer.handle("order").expect("a valid code");
    drop(handle.clone());
    handle.try_next_id().expect("leased");
    drop(handle);
    assert_eq!(node.events.issued(), [1]);
}

#[tokio::test(start_paused = true)]
async fn issuer_names_its_namespace() {
    let world = world();
    let node = world.node().await;
    assert_eq!(node.issuer.namespace(), "default");
}

#[tokio::test(start_paused = true)]
async fn status_tells_of_the_start_and_counts_the_cursors_in_use() {
    let world = world();
    for (codes_shared, cursors) in [(true, 1), (false, 2)] {
        let mut settings = world.settings();
        settings.issue.codes_shared = codes_shared;
        let node = world.start(settings);
        assert_eq!(node.status().reason, Some(UnavailableReason::Starting));
        node.issuer.leased().await;
        for code in ["order", "user", "order"] {
            world.issue(&node, code, 1).await;
        }
        assert_eq!(node.status().codes, cursors);
    }
}

#[test]
fn tasks_have_names() {
    assert_eq!(KeeperTask::ALL.map(KeeperTask::name), ["lease", "segment", "refill"]);
}

#[tokio::test(start_paused = true)]
async fn task_has_at_most_a_year_to_stop() {
    let task: TaskHandle<(), Instant> =
        TaskHandle::start(|stop, _| async { stop.await.expect("a deadline") });
    let deadline = task.stop(Duration::MAX).await.expect("it stops");
    assert_eq!(deadline - Instant::now(), Duration::from_hours(365 * 24));
}

/// An hour has 512 IDs, of which the first lease covers a sixteenth.
#[tokio::test(start_paused = true)]
async fn lease_whose_last_position_was_issued_has_no_range() {
    let world = World::new(LayoutSpec {
        timestamp_bits: Some(45),
        worker_bits: 8,
        ..LayoutSpec::for_unit(TimeUnit::Hour)
    });
    let node = world.node().await;
    world.store.set_down(true);
    let hour_ms = 3_600_000;
    let lease = node.status().lease.expect("leased");
    assert_eq!(lease.valid_until_ms, (NOW / hour_ms + 1) * hour_ms);
    for left in (0..32).rev() {
        assert!(node.status().is_issuing());
        world.issue(&node, "order", 1).await;
        assert_eq!(node.status().is_issuing(), left > 0, "{left}");
    }
    let refused = node.issuer.next_id("order").await.expect_err("used up");
    assert!(matches!(refused, IssueError::NoLease { .. }), "{refused}");
}

fn stale_store(reserved_key: &str) -> UnavailableReason {
    let reserved_key = reserved_key.to_owned();
    let worker = Ok(400);
    UnavailableReason::StaleStore { worker, reserved_key, renewed_ms: NOW, due_ms: NOW + 1 }
}

fn unreadable_row() -> UnavailableReason {
    let (worker, reserved_key) = (Err("table workers, row 0/0".to_owned()), "0/0".to_owned());
    UnavailableReason::StaleStore { worker, reserved_key, renewed_ms: NOW, due_ms: NOW + 1 }
}

#[test]
fn reasons_have_texts() {
    let texts = [
        (UnavailableReason::Starting, "starting"),
        (UnavailableReason::NoFreeWorker { due_ms: NOW }, "at 2025-11-20T14:46:40Z, or once"),
        (stale_store("0/0"), "2025-11-20T14:46:40.000Z, when worker id 400 was:"),
        (stale_store("2/3"), "worker id 400 with layout.reserved_bits 2 and reserved_value 3 was:"),
        (unreadable_row(), "when a row that cannot be read (table workers, row 0/0) was:"),
        (
            UnavailableReason::StoreUnavailable(StoreFailure::of_kind("down")),
            "the store is unavailable: down",
        ),
        (UnavailableReason::StoreLost, "repair the store"),
        (UnavailableReason::ClockAhead(250), "250 ms ahead"),
        (UnavailableReason::ClockWentBack, "the clock went back"),
        (UnavailableReason::ClockOutOfRange, "before the layout's epoch"),
        (UnavailableReason::LimitReached, "used up"),
        (UnavailableReason::NumbersUsedUp, "no numbers left"),
        (UnavailableReason::NumbersSkipped, "failover_gap"),
        (UnavailableReason::UnreadableSettings, "of a newer version"),
        (UnavailableReason::ShuttingDown, "shutting down"),
    ];
    for (reason, part) in texts {
        assert!(reason.to_string().contains(part), "{reason}");
    }
}
