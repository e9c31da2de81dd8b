//! Rows with a value that cannot be read, while an epoch begins, the record is gone, or a clock is
//! ahead.

use std::time::Duration;

use raindrop_core::layout::{LayoutSpec, TimeUnit};

use super::{
    faulty_store::Fault,
    world::{World, second, world},
};
use crate::{
    KeeperSettings, LeaseOperation, LeaseOutcome, UnavailableReason, state_file::MemoryDisk,
};

const WINDOW: Duration = Duration::from_mins(5);

/// Only a read tells what the row is in the new epoch, so the holder leaves it.
#[tokio::test(start_paused = true)]
async fn holder_of_a_damaged_row_leases_another_one_in_a_new_epoch() {
    // With `Some`, the holder has read the row in the new epoch, and its write got no answer.
    for lost in [None, Some(Fault::NeverArrives), Some(Fault::LostReply)] {
        let world = world();
        let node = world.node().await;
        world.pass(second(40)).await;
        let worker = node.worker();
        if lost.is_none() {
            world.store.damage_value(worker);
        }
        world.operator(world.settings()).raise(WINDOW).await.expect("up");
        if let Some(fault) = lost {
            world.store.fail_next(fault);
            world.until_swap().await;
            world.store.damage_value(worker);
        }
        world.pass(second(400)).await;
        world.issue(&node, "order", 1).await;
        assert_ne!(node.worker(), worker, "{lost:?}");
        assert_eq!(node.status().reason, None, "{lost:?}");
        assert!(world.store.damaged(worker).is_some(), "no process writes the row");
    }
}

/// The other holder, which finds its row as it wrote it, writes the record again.
#[tokio::test(start_paused = true)]
async fn holder_of_a_damaged_row_leases_another_one_after_the_record_was_lost() {
    let world = world();
    let (node, other) = (world.node().await, world.node().await);
    world.pass(second(40)).await;
    let worker = node.worker();
    world.store.damage_value(worker);
    world.store.lose_record("default");
    world.pass(second(800)).await;
    for node in [&node, &other] {
        world.issue(node, "order", 1).await;
        assert_eq!(node.status().reason, None);
    }
    assert_ne!(node.worker(), worker);
}

/// A clock that is ahead is reported and timed out whatever the row says. The lease ends, unless the
/// clock is right before a window has passed: then the first write repairs the row.
#[tokio::test(start_paused = true)]
async fn clock_ahead_is_timed_out_although_the_row_is_damaged() {
    for (is_local, stale_wait) in [(false, second(45)), (false, Duration::ZERO), (true, second(45))]
    {
        let spec = LayoutSpec::for_unit(TimeUnit::Millisecond);
        let world = if is_local { World::with_local_clock(spec) } else { World::new(spec) };
        let mut settings = world.settings();
        settings.lease.stale_wait = stale_wait;
        let node = world.start(settings);
        node.issuer.leased().await;
        world.pass(second(40)).await;
        let worker = node.worker();
        world.store.damage_value(worker);
        node.clock.step(60_000);
        for _ in 0..5 {
            world.pass(second(40)).await;
            let reason = node.status().reason;
            assert!(matches!(reason, Some(UnavailableReason::ClockAhead(60_000))), "{reason:?}");
        }
        assert_eq!(node.worker(), worker);
        world.pass(second(150)).await;
        if !is_local {
            // It searches, and the store's clock says that its own is still ahead.
            assert!(node.events.count(LeaseOperation::Acquire, LeaseOutcome::ClockAhead) > 0);
            node.clock.step(-60_000);
            world.pass(second(100)).await;
        }
        world.issue(&node, "order", 1).await;
        assert_ne!(node.worker(), worker);
        assert_eq!(node.status().reason, None);
    }
}

/// As while the row can be read: a holder that has written nothing for long waits, and says so.
#[tokio::test(start_paused = true)]
async fn holder_of_a_damaged_row_waits_for_other_holders_and_repairs_it() {
    let world = world();
    let node = world.start(world.only(5));
    node.issuer.leased().await;
    world.pass(second(40)).await;
    world.store.set_down(true);
    world.pass(second(120)).await;
    world.store.damage_value(5);
    world.store.set_down(false);
    world.pass(second(15)).await;
    let reason = node.status().reason;
    assert!(matches!(reason, Some(UnavailableReason::StaleStore { .. })), "{reason:?}");
    world.pass(second(60)).await;
    world.issue(&node, "order", 1).await;
    assert_eq!((node.status().reason, world.store.damaged(5)), (None, None));
    assert_eq!(node.events.count(LeaseOperation::Acquire, LeaseOutcome::Done), 1);
}

/// A refused swap says only that the row has another token or that an epoch began.
#[tokio::test(start_paused = true)]
async fn holder_whose_swap_of_a_damaged_row_is_refused_leases_another_one() {
    let world = world();
    let node = world.node().await;
    world.pass(second(40)).await;
    let worker = node.worker();
    world.store.damage_value(worker);
    world.store.fail_next(Fault::Refused);
    for _ in 0..3 {
        world.pass(second(40)).await;
        world.issue(&node, "order", 1).await;
        assert_ne!(node.worker(), worker);
        assert_eq!(node.status().reason, None);
    }
}

/// A late write of a row whose token a person changed is refused, as by every store.
#[tokio::test(start_paused = true)]
async fn late_write_does_not_repair_a_token() {
    let world = world();
    let node = world.start(KeeperSettings { max_worker: 6, ..world.only(5) });
    node.issuer.leased().await;
    world.pass(second(40)).await;
    let worker = node.worker();
    world.store.fail_next(Fault::Late);
    world.until_swap().await;
    world.store.damage(Some(worker));
    assert_eq!(world.store.deliver().await, 0);
    world.pass(second(40)).await;
    world.issue(&node, "order", 1).await;
    assert_ne!(node.worker(), worker);
    assert_eq!(world.store.damaged(worker), Some("token"));
}

/// The holder of the damaged row is the only process that remembers, so a backup that was restored
/// meanwhile shows nothing else: rows of crashed nodes would be leased at their old marks.
#[tokio::test(start_paused = true)]
async fn holder_of_a_damaged_row_begins_an_epoch_in_a_stale_store() {
    for (is_token, has_file, is_restored) in [
        (true, false, true),
        (false, false, true),
        (true, true, true),
        (true, false, false),
        (true, true, false),
    ] {
        let (world, disk) = (world(), MemoryDisk::default());
        let settings = || {
            let state_file = has_file.then(|| disk.open());
            KeeperSettings { state_file, ..world.only(5) }
        };
        let node = world.start(settings());
        let crashed = world.node().await;
        world.pass(second(65)).await;
        let backup = world.store.backup();
        world.pass(second(90)).await;
        drop(crashed);
        if is_restored {
            world.store.put_back(backup);
        }
        if is_token {
            world.store.damage(Some(5));
        } else {
            world.store.damage_value(5);
        }
        let before = world.epoch().await;
        let node = if has_file {
            disk.kill();
            drop(node);
            world.start(settings())
        } else {
            node
        };
        world.pass(second(35)).await;
        let case = format!("{is_token} {has_file} {is_restored}");
        assert_eq!(world.epoch().await != before, is_restored, "{case}");
        assert!(node.status().reason.is_some(), "{case}");
        let epoch = world.epoch().await;
        world.pass(second(200)).await;
        assert_eq!(world.epoch().await, epoch, "one is enough");
    }
}
