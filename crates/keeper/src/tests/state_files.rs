//! Leases that a state file saves for the next process.

use std::{sync::atomic::Ordering, time::Duration};

use raindrop_core::{
    layout::{LayoutSpec, TimeUnit},
    lease::{RowExpiry, RowWrite, Token},
};
use raindrop_store::Store as _;

use super::{
    faulty_store::Fault,
    world::{Node, World, second, world},
};
use crate::{
    KeeperSettings, LeaseOperation, LeaseOutcome, Released, UnavailableReason,
    state_file::MemoryDisk,
};

/// Starts a process on the disk, and waits until it has found its lease.
async fn start(world: &World, disk: &MemoryDisk, worker: Option<u64>) -> Node {
    let settings = worker.map_or_else(|| world.settings(), |worker| world.only(worker));
    start_with(world, disk, settings).await
}

async fn start_with(world: &World, disk: &MemoryDisk, mut settings: KeeperSettings) -> Node {
    settings.state_file = Some(disk.open());
    let node = world.start(settings);
    world.pass(Duration::from_millis(100)).await;
    node
}

/// Kills a process, so that nothing of it continues.
fn kill(node: Node, disk: &MemoryDisk) {
    disk.kill();
    drop(node);
}

fn resumed(node: &Node, outcome: LeaseOutcome) -> usize {
    node.events.count(LeaseOperation::Resume, outcome)
}

#[tokio::test(start_paused = true)]
async fn killed_process_is_resumed_while_the_store_is_away_and_renews_when_it_is_back() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    assert_eq!(resumed(&node, LeaseOutcome::NoneFree), 1);
    world.pass(second(60)).await;
    world.issue(&node, "order", 100).await;
    let (worker, lane) = (node.worker(), node.lane());
    assert!(node.reach_ms() > 250_000, "what is reported reaches as far as the lease");
    world.store.set_down(true);
    kill(node, &disk);

    let node = start(&world, &disk, None).await;
    assert_eq!(resumed(&node, LeaseOutcome::Done), 1);
    assert_eq!((node.worker(), node.lane()), (worker, lane));
    world.pass(second(3)).await;
    for _ in 0..100 {
        world.issue(&node, "order", 100).await;
        world.pass(second(1)).await;
    }
    assert!(matches!(node.status().reason, Some(UnavailableReason::StoreUnavailable(_))));
    world.store.set_down(false);
    world.pass(second(60)).await;
    assert!(node.events.count(LeaseOperation::Renew, LeaseOutcome::Done) > 0);
    assert_eq!(node.events.count(LeaseOperation::Acquire, LeaseOutcome::Done), 0);
    assert_eq!((node.worker(), node.lane(), node.status().reason.clone()), (worker, lane, None));
    world.issue(&node, "order", 100).await;
    assert_eq!(node.stop().await, Released::Done);
    assert!(world.row(worker).await.free);
}

/// The id of a store is compared when the store is prepared, and the lease may be of another one.
#[tokio::test(start_paused = true)]
async fn resumed_process_writes_nothing_to_a_store_that_refuses_it() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    let worker = node.worker();
    world.store.refuse_preparation(true);
    kill(node, &disk);

    let node = start(&world, &disk, None).await;
    assert_eq!(resumed(&node, LeaseOutcome::Done), 1);
    let token = world.row(worker).await.token;
    world.pass(second(3)).await;
    world.issue(&node, "order", 100).await;
    world.pass(second(120)).await;
    assert_eq!(world.row(worker).await.token, token);
    let reason = node.status().reason;
    assert!(matches!(reason, Some(UnavailableReason::StoreUnavailable(_))), "{reason:?}");
    world.issue(&node, "order", 100).await;
    world.store.refuse_preparation(false);
    world.pass(second(60)).await;
    assert!(node.events.count(LeaseOperation::Renew, LeaseOutcome::Done) > 0);
    assert_eq!((node.worker(), node.status().reason.clone()), (worker, None));
}

#[tokio::test(start_paused = true)]
async fn process_that_is_killed_again_and_again_issues_each_time() {
    let (world, disk) = (world(), MemoryDisk::default());
    let mut node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    world.store.set_down(true);
    for _ in 0..20 {
        world.issue(&node, "order", 50).await;
        kill(node, &disk);
        node = start(&world, &disk, None).await;
        world.pass(second(3)).await;
    }
    world.issue(&node, "order", 50).await;
    // A crash loop without claims uses nothing up.
    for _ in 0..50 {
        kill(node, &disk);
        node = start(&world, &disk, None).await;
    }
    world.pass(second(3)).await;
    world.issue(&node, "order", 50).await;
}

#[tokio::test(start_paused = true)]
async fn clean_stop_with_the_store_away_leaves_no_gap() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    let before = world.issue(&node, "order", 1).await;
    world.store.set_down(true);
    assert_eq!(node.stop().await, Released::Kept);
    let node = start(&world, &disk, None).await;
    // At once: a process that was killed would have to wait for its local mark.
    let after = world.issue(&node, "order", 1).await;
    let ms = |id: &raindrop_core::id::Id| {
        node.issuer.layout().start_of_tick_ms(node.issuer.layout().decompose(*id).tick)
    };
    assert!(ms(&after[0]) - ms(&before[0]) < 500);
}

#[tokio::test(start_paused = true)]
async fn stop_leaves_half_of_its_time_to_the_state_file() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    world.store.set_down(true);
    // Too short for every attempt at the store.
    let deadline = Duration::from_millis(250);
    assert_eq!(node.keeper.release(deadline).await, Released::Kept);
}

#[tokio::test(start_paused = true)]
async fn stop_during_a_write_of_the_local_mark_is_clean() {
    for (is_down, released) in [(false, Released::Done), (true, Released::Kept)] {
        for moment in 0..15 {
            let (world, disk) = (world(), MemoryDisk::default());
            let node = start(&world, &disk, None).await;
            disk.set_latency(Duration::from_millis(200));
            world.pass(second(5) + Duration::from_millis(100) * moment).await;
            world.store.set_down(is_down);
            assert_eq!(node.stop().await, released, "{moment}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn clean_stop_releases_the_row_and_empties_the_file() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.issue(&node, "order", 10).await;
    assert_eq!(node.stop().await, Released::Done);
    world.store.set_down(true);
    let node = start(&world, &disk, None).await;
    assert_eq!(resumed(&node, LeaseOutcome::NoneFree), 1);
    assert!(!node.status().is_issuing());
}

/// The row has another token, so the node uses up its range while it leases another row.
#[tokio::test(start_paused = true)]
async fn resumed_lease_whose_row_was_taken_is_used_up_and_another_one_acquired() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    let worker = node.worker();
    world.pass(second(60)).await;
    kill(node, &disk);
    world.pass(second(100)).await;
    let mut only = world.only(worker);
    only.lease.stale_wait = Duration::ZERO;
    let taker = world.start(only);
    taker.issuer.leased().await;
    world.pass(second(10)).await;
    world.issue(&taker, "order", 100).await;
    world.store.set_down(true);
    let node = start(&world, &disk, None).await;
    assert_eq!((resumed(&node, LeaseOutcome::Done), node.worker()), (1, worker));
    for _ in 0..30 {
        world.issue(&node, "order", 100).await;
        world.issue(&taker, "order", 100).await;
        world.pass(second(1)).await;
    }
    world.store.set_down(false);
    world.pass(second(10)).await;
    assert_ne!(node.worker(), worker);
    world.issue(&node, "order", 100).await;
    world.issue(&taker, "order", 100).await;
}

#[tokio::test(start_paused = true)]
async fn rotated_lease_is_resumed_on_its_lane() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, Some(5)).await;
    world.pass(second(10)).await;
    world.issue(&node, "order", 10).await;
    let lane = node.lane();
    node.clock.step(-5_000);
    world.issue(&node, "order", 1).await;
    world.pass(second(10)).await;
    assert_eq!(node.lane(), 1 - lane);
    world.issue(&node, "order", 10).await;
    world.store.set_down(true);
    kill(node, &disk);
    let node = start(&world, &disk, Some(5)).await;
    assert_eq!((resumed(&node, LeaseOutcome::Done), node.lane()), (1, 1 - lane));
}

/// A resumed lease has no reading under which both clocks agreed, so the store's clock counts.
#[tokio::test(start_paused = true)]
async fn rotation_of_a_resumed_lease_does_not_make_a_clock_trusted_that_is_ahead() {
    let (world, disk) = (world(), MemoryDisk::default());
    let settings = || {
        let mut settings = world.only(5);
        settings.lease.stale_wait = Duration::ZERO;
        settings
    };
    let node = start_with(&world, &disk, settings()).await;
    world.pass(second(60)).await;
    world.issue(&node, "order", 10).await;
    let lane = node.lane();
    world.store.set_down(true);
    kill(node, &disk);
    let node = start_with(&world, &disk, settings()).await;
    assert_eq!(resumed(&node, LeaseOutcome::Done), 1);
    world.pass(second(3)).await;
    node.clock.step(120_000);
    // The local mark has to follow.
    let _: Result<_, _> = node.issuer.next_ids("order", 1).await;
    world.pass(second(2)).await;
    world.issue(&node, "order", 10).await;
    node.clock.step(-60_000);
    let _: Result<_, _> = node.issuer.next_ids("order", 1).await;
    world.store.set_down(false);
    world.pass(second(15)).await;
    assert_eq!(node.lane(), 1 - lane);
    for _ in 0..3 {
        world.pass(second(31)).await;
        let reason = node.status().reason;
        assert!(matches!(reason, Some(UnavailableReason::ClockAhead(60_000))), "{reason:?}");
        let layout = node.issuer.layout();
        let mark = world.row(5).await.marks.iter().max().expect("two lanes");
        let ahead_ms = layout.start_of_tick_ms(layout.tick_of(mark)) - world.now_ms();
        assert!(ahead_ms <= 310_000, "{ahead_ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn resumed_process_issues_although_the_store_shows_nothing() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    kill(node, &disk);
    world.store.wipe(true);
    let node = start(&world, &disk, None).await;
    world.pass(second(30)).await;
    assert!(node.status().reason.is_some());
    world.issue(&node, "order", 10).await;
    world.store.wipe(false);
    world.pass(second(60)).await;
    assert_eq!(node.status().reason, None);
    assert!(node.events.count(LeaseOperation::Renew, LeaseOutcome::Done) > 0);
}

/// The store was rolled back while the process was down, and other processes had waited for it.
#[tokio::test(start_paused = true)]
async fn row_that_was_taken_meanwhile_is_not_resumed() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, Some(5)).await;
    let backup = world.store.snapshot();
    world.pass(second(60)).await;
    world.issue(&node, "order", 100).await;
    kill(node, &disk);
    world.fail_over("memory", backup);
    world.pass(second(100)).await;
    let mut only = world.only(5);
    only.lease.stale_wait = Duration::ZERO;
    let taker = world.start(only);
    taker.issuer.leased().await;
    let node = start(&world, &disk, None).await;
    assert_eq!(resumed(&node, LeaseOutcome::Refused), 1);
    world.pass(second(30)).await;
    assert_eq!(node.events.epochs(), 1, "its row had a mark below its limit");
}

/// A process that resumed a lost lease would issue beside the next holder.
#[tokio::test(start_paused = true)]
async fn lost_lease_is_not_resumed() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, Some(5)).await;
    world.pass(second(60)).await;
    let row = world.row(5).await;
    let taken = RowWrite {
        token: Token::from_bits(77),
        epoch: row.epoch,
        holder: "another".to_owned(),
        lane: row.lane,
        marks: row.marks,
        expiry: RowExpiry::After(second(90)),
    };
    assert!(world.store.swap_row(&world.scope(), 5, row.token, &taken).await.expect("up"));
    world.pass(second(31)).await;
    assert_eq!(node.status().lease, None);
    kill(node, &disk);
    // No store tells the node of the other process.
    world.store.set_down(true);
    let node = start(&world, &disk, Some(5)).await;
    assert_eq!(resumed(&node, LeaseOutcome::Done), 0);
}

/// No process can have written such a token, so the row is lost as one that another process took.
/// If another value cannot be read, the token decides.
#[tokio::test(start_paused = true)]
async fn lease_whose_token_in_the_row_cannot_be_read_is_not_resumed() {
    for is_token in [true, false] {
        let (world, disk) = (world(), MemoryDisk::default());
        let node = start(&world, &disk, Some(5)).await;
        world.pass(second(60)).await;
        kill(node, &disk);
        if is_token {
            world.store.damage(Some(5));
        } else {
            world.store.damage_value(5);
        }
        let node = start(&world, &disk, Some(5)).await;
        assert_eq!(resumed(&node, LeaseOutcome::Refused), usize::from(is_token));
        assert_eq!(node.status().lease.is_some(), !is_token);
        world.pass(second(5)).await;
        let repaired = world.store.damaged(5).is_none();
        assert_eq!(repaired, !is_token, "the first renewal repairs the row");
        kill(node, &disk);
        // The file no longer has a lost lease, whatever the store says.
        world.store.set_down(true);
        let node = start(&world, &disk, Some(5)).await;
        assert_eq!(resumed(&node, LeaseOutcome::Done), usize::from(!is_token));
    }
}

/// On Kubernetes, a read of a row reads the record, too. A damaged one says nothing about the row.
#[tokio::test(start_paused = true)]
async fn lease_is_resumed_although_the_token_of_the_record_cannot_be_read() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, Some(5)).await;
    world.pass(second(60)).await;
    kill(node, &disk);
    world.store.damage_record();
    let node = start(&world, &disk, Some(5)).await;
    assert_eq!(resumed(&node, LeaseOutcome::Done), 1);
    world.pass(second(40)).await;
    world.issue(&node, "order", 1).await;
    world.store.damage(None);
    world.pass(second(100)).await;
    world.issue(&node, "order", 1).await;
    assert_eq!(node.status().reason, None);
    assert_eq!(node.events.count(LeaseOperation::Acquire, LeaseOutcome::Done), 0);
}

/// A saved lease whose row another person damaged ends when an epoch begins, and not before.
#[tokio::test(start_paused = true)]
async fn lease_whose_damaged_row_is_of_an_earlier_epoch_ends() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    let worker = node.worker();
    kill(node, &disk);
    world.store.damage_value(worker);
    world.operator(world.settings()).raise(second(300)).await.expect("up");
    let node = start(&world, &disk, None).await;
    world.pass(second(400)).await;
    world.issue(&node, "order", 1).await;
    assert_ne!(node.worker(), worker);
    assert_eq!(node.status().reason, None);
}

/// As any process does that starts. Its own lease is used up before the new one begins.
#[tokio::test(start_paused = true)]
async fn resumed_process_adds_its_lost_row_beyond_its_lease() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    let worker = node.worker();
    let limit = node.issuer.state.generator.grant().expect("leased").acknowledged();
    kill(node, &disk);
    world.store.lose_row(&world.scope(), worker);
    let node = start(&world, &disk, None).await;
    assert_eq!(resumed(&node, LeaseOutcome::Done), 1);
    world.pass(second(10)).await;
    assert!(world.row(worker).await.marks.iter().all(|mark| mark >= limit));
    let grant = node.issuer.state.generator.grant().expect("in use");
    assert_eq!((node.worker(), grant.acknowledged()), (worker, limit));
    world.issue(&node, "order", 10).await;
}

#[tokio::test(start_paused = true)]
async fn limit_never_passes_what_the_file_has() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    world.issue(&node, "order", 10).await;
    let limit = || node.issuer.state.generator.grant().expect("leased").limit();
    disk.set_hanging(true);
    let before = limit();
    world.pass(second(4)).await;
    assert_eq!(limit(), before);
    let layout = node.issuer.layout();
    let reach_ms = layout.start_of_tick_ms(layout.tick_of(before)) - world.now_ms();
    assert!(reach_ms < 0, "{reach_ms}");
    assert!(node.issuer.next_ids("order", 1).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn claims_that_wait_for_the_file_ask_the_store_nothing() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    world.issue(&node, "order", 10).await;
    world.until_swap().await;
    world.pass(second(1)).await;
    disk.set_hanging(true);
    world.store.set_down(true);
    let refused = async {
        while node.issuer.next_id("order").await.is_ok() {
            world.pass(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(second(4), refused).await.expect("the file's limit is reached");
    assert_eq!(world.store.unanswered.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn file_is_not_written_more_often_while_the_store_is_away() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    let writes = async || {
        let before = disk.writes();
        world.pass(second(60)).await;
        disk.writes() - before
    };
    let answered = writes().await;
    world.store.set_down(true);
    assert!(writes().await <= answered);
    world.issue(&node, "order", 10).await;
}

/// The failure is reported, and does not last: the node acquires another lease, which is not saved.
#[tokio::test(start_paused = true)]
async fn disk_that_fails_or_hangs_costs_the_row_and_not_the_service() {
    for hangs in [false, true] {
        let (world, disk) = (world(), MemoryDisk::default());
        let node = start(&world, &disk, None).await;
        world.pass(second(60)).await;
        let worker = node.worker();
        world.issue(&node, "order", 10).await;
        disk.set_hanging(hangs);
        disk.set_failing(!hangs);
        world.pass(second(12)).await;
        assert_eq!(node.events.count(LeaseOperation::Keep, LeaseOutcome::Unknown), 1);
        assert_ne!(node.worker(), worker, "what the file may still have is not used beyond it");
        assert!(!world.row(worker).await.free, "nor released");
        world.issue(&node, "order", 10).await;
        let (writes, other) = (disk.writes(), node.worker());
        world.pass(second(120)).await;
        world.issue(&node, "order", 10).await;
        assert_eq!(disk.writes(), writes);
        kill(node, &disk);
        // The file still has the old lease, whose remaining range no process used.
        disk.set_failing(false);
        disk.set_hanging(false);
        // The row may have a later token, of a renewal that the file did not get.
        let node = start(&world, &disk, None).await;
        let ended = [LeaseOutcome::Done, LeaseOutcome::Refused];
        assert_eq!(ended.map(|outcome| resumed(&node, outcome)).iter().sum::<usize>(), 1);
        world.pass(second(10)).await;
        assert_ne!(node.worker(), other);
        world.issue(&node, "order", 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn disk_that_fails_at_the_start_costs_nothing() {
    let (world, disk) = (world(), MemoryDisk::default());
    disk.set_failing(true);
    let node = start(&world, &disk, None).await;
    world.pass(second(5)).await;
    world.issue(&node, "order", 10).await;
    assert_eq!(node.events.count(LeaseOperation::Keep, LeaseOutcome::Unknown), 1);
    assert_eq!(node.stop().await, Released::Done);
}

/// Before the node removes the lease from the file, it asks the store whether the lease can be
/// released.
#[tokio::test(start_paused = true)]
async fn stop_whose_release_is_lost_leaves_nothing_to_resume() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.issue(&node, "order", 10).await;
    (0..100).for_each(|_| world.store.fail_next(Fault::Late));
    assert_eq!(node.stop().await, Released::GaveUp);
    let node = start(&world, &disk, None).await;
    assert_eq!(resumed(&node, LeaseOutcome::NoneFree), 1);
}

#[tokio::test(start_paused = true)]
async fn clock_that_went_back_between_two_processes_is_refused() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    world.issue(&node, "order", 10).await;
    kill(node, &disk);
    world.store_clock.step(-60_000);
    let node = start(&world, &disk, None).await;
    assert_eq!(resumed(&node, LeaseOutcome::Refused), 1);
    // The store's clock went back, too, so the store looks like a restored one.
    world.pass(second(50)).await;
    world.issue(&node, "order", 10).await;
}

/// All codes have the mark of a day in common, so a crash leaves out a slice of the day.
#[tokio::test(start_paused = true)]
async fn long_tick_is_resumed_above_what_was_issued() {
    let spec = LayoutSpec { worker_bits: 3, ..LayoutSpec::for_unit(TimeUnit::Day) };
    let (world, disk) = (World::new(spec), MemoryDisk::default());
    let mut node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    world.store.set_down(true);
    for round in 0..10 {
        world.issue(&node, "order", 1_000).await;
        world.issue(&node, "user", 10).await;
        kill(node, &disk);
        // Whether codes share a cursor may change while the lease is in the file.
        let mut settings = world.settings();
        settings.issue.codes_shared = round % 2 == 1;
        node = start_with(&world, &disk, settings).await;
        assert_eq!(resumed(&node, LeaseOutcome::Done), 1);
    }
}

/// Neither the lease before nor the new one is lost with the bytes that the disk had not written.
#[tokio::test(start_paused = true)]
async fn power_lost_at_any_moment_of_a_write_leaves_a_lease_that_can_be_resumed() {
    let (world, disk) = (world(), MemoryDisk::default());
    disk.set_latency(Duration::from_millis(40));
    let mut node = start(&world, &disk, None).await;
    world.pass(second(60)).await;
    world.store.set_down(true);
    for moment in 0..24 {
        world.issue(&node, "order", 50).await;
        world.pass(Duration::from_millis(50 * moment)).await;
        disk.lose_power();
        drop(node);
        node = start(&world, &disk, None).await;
        world.pass(second(3)).await;
        assert_eq!(resumed(&node, LeaseOutcome::Done), 1, "after {moment}");
    }
    world.issue(&node, "order", 50).await;
}

/// Returns the time from a row's last heartbeat to its next one.
async fn until_next_heartbeat_ms(world: &World, worker: u64) -> i64 {
    let before_ms = world.row(worker).await.heartbeat_ms;
    world.until_swap().await;
    world.row(worker).await.heartbeat_ms - before_ms
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_their_interval_on_a_slow_disk() {
    let (world, disk) = (world(), MemoryDisk::default());
    // A write has six parts.
    disk.set_latency(Duration::from_millis(400));
    let _node = start(&world, &disk, Some(5)).await;
    let first_ms = until_next_heartbeat_ms(&world, 5).await;
    assert!((3_000..3_100).contains(&first_ms), "{first_ms}");
    for _ in 0..3 {
        let next_ms = until_next_heartbeat_ms(&world, 5).await;
        assert!((27_000..30_100).contains(&next_ms), "{next_ms}");
    }
}
