use std::{ops::RangeInclusive, sync::atomic::Ordering, time::Duration};

use raindrop_core::{
    issue::ClaimError,
    layout::{LayoutSpec, TimeUnit},
    lease::{HighWaterMarks, RowExpiry, RowWrite, Token},
};
use raindrop_store::{NewRows, Scope, Store, StoreError};
use tokio::time::Instant;

use super::world::{NOW, Node, World, second};
use crate::{
    IssueError, KeeperError, KeeperSettings, LayoutError, LeaseOperation, LeaseOutcome,
    UnavailableReason,
};

fn milliseconds() -> LayoutSpec {
    LayoutSpec::for_unit(TimeUnit::Millisecond)
}

#[tokio::test(start_paused = true)]
async fn first_renewal_extends_the_lease_to_the_window() {
    let world = World::new(milliseconds());
    let node = world.node().await;
    assert_eq!((node.status().workers_held, node.status().workers_free), (1, 510));
    world.issue(&node, "order", 10).await;
    assert!((10_000..10_100).contains(&node.reach_ms()), "{}", node.reach_ms());
    world.pass(second(4)).await;
    assert!((295_000..300_100).contains(&node.reach_ms()), "{}", node.reach_ms());
    assert_eq!(node.events.count(LeaseOperation::Renew, LeaseOutcome::Done), 1);
    world.pass(second(300)).await;
    assert!(node.reach_ms() >= 270_000 - 1_000, "{}", node.reach_ms());
    assert_eq!(node.events.count(LeaseOperation::Renew, LeaseOutcome::Done), 11);
    let row = world.row(node.worker()).await;
    assert!(!row.free && row.holder == "the same for all");
    let status = node.status();
    assert_eq!((status.workers_held, status.workers_free, status.reason), (1, 510, None));
}

#[tokio::test(start_paused = true)]
async fn nodes_with_the_same_holder_get_distinct_workers() {
    let world = World::new(milliseconds());
    let mut nodes = Vec::new();
    for _ in 0..50 {
        nodes.push(world.start(world.settings()));
    }
    let mut workers = Vec::new();
    for node in &nodes {
        node.issuer.leased().await;
        workers.push(node.worker());
        world.issue(node, "order", 100).await;
    }
    workers.sort_unstable();
    workers.dedup();
    assert_eq!(workers.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn node_whose_row_was_taken_stops_and_leases_another() {
    let spec = LayoutSpec { rollback_bits: 0, ..milliseconds() };
    let world = World::new(spec);
    let change = |settings: &mut crate::KeeperSettings| settings.max_worker = 2;
    let paused = world.node_with(change).await;
    world.pass(second(5)).await;
    let other = world.node_with(change).await;
    // The first node is paused. Its row expires, and a node that waited for it takes it.
    let row = world.row(paused.worker()).await;
    let mut write = raindrop_core::lease::RowWrite {
        token: raindrop_core::lease::Token::from_bits(77),
        epoch: world.epoch().await,
        holder: row.holder.clone(),
        lane: 0,
        marks: row.marks.with(0, row.marks[0] + 4_096_000_000),
        expiry: raindrop_core::lease::RowExpiry::After(second(90)),
    };
    let scope = raindrop_store::Scope::new("default", paused.issuer.layout(), 1, 2);
    assert!(world.store.swap_row(&scope, row.worker, row.token, &write).await.expect("up"));
    // The former holder stops as soon as it reads its row.
    world.pass(second(31)).await;
    paused.issuer.next_id("order").await.expect_err("no lease");
    assert!(matches!(paused.status().reason, Some(UnavailableReason::NoFreeWorker { .. })));
    // When the other node stops, the former holder leases its row.
    let worker = other.worker();
    other.stop().await;
    world.pass(second(10)).await;
    assert_eq!((paused.worker(), paused.status().reason.clone()), (worker, None));
    world.issue(&paused, "order", 50).await;
    write.token = raindrop_core::lease::Token::from_bits(78);
    assert!(
        world
            .store
            .swap_row(&scope, row.worker, raindrop_core::lease::Token::from_bits(77), &write)
            .await
            .expect("the row that was taken was left alone")
    );
}

#[tokio::test(start_paused = true)]
async fn node_waits_while_every_worker_is_held() {
    let world = World::new(LayoutSpec { worker_bits: 3, ..milliseconds() });
    let mut nodes = Vec::new();
    for _ in 0..7 {
        nodes.push(world.node().await);
    }
    let eighth = world.start(world.settings());
    world.pass(second(1)).await;
    let refused = eighth.issuer.next_id("order").await.expect_err("all workers are held");
    let IssueError::NoLease { reason: UnavailableReason::NoFreeWorker { due_ms }, .. } = refused
    else {
        panic!("{refused:?}")
    };
    let due_in_ms = due_ms - world.now_ms();
    assert!((80_000..=91_000).contains(&due_in_ms), "{due_in_ms}");
    let freed = nodes[3].worker();
    nodes.remove(3).stop().await;
    world.pass(second(6)).await;
    assert_eq!(eighth.worker(), freed);
    world.issue(&eighth, "order", 10).await;
}

#[tokio::test(start_paused = true)]
async fn row_of_a_crashed_node_is_leased_after_the_ttl_on_a_past_lane() {
    let world = World::new(milliseconds());
    let only = |settings: &mut crate::KeeperSettings| settings.max_worker = 1;
    let crashed = world.node_with(only).await;
    world.pass(second(5)).await;
    world.issue(&crashed, "order", 4096).await;
    drop(crashed);
    let next = world.start({
        let mut settings = world.settings();
        only(&mut settings);
        settings
    });
    world.pass(second(80)).await;
    assert!(!next.status().is_issuing());
    world.pass(second(15)).await;
    assert_eq!((next.worker(), next.lane()), (1, 1));
    world.issue(&next, "order", 4096).await;
}

#[tokio::test(start_paused = true)]
async fn prefer_previous_takes_the_former_row() {
    let world = World::new(milliseconds());
    let prefer = |settings: &mut crate::KeeperSettings| {
        settings.prefer_previous = true;
        settings.holder = "node-a".into();
    };
    let first = world.node_with(prefer).await;
    let worker = first.worker();
    world.issue(&first, "order", 1).await;
    first.stop().await;
    for _ in 0..5 {
        let again = world.node_with(prefer).await;
        assert_eq!(again.worker(), worker);
        world.issue(&again, "order", 1).await;
        again.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn node_with_another_layout_does_not_join() {
    let world = World::new(milliseconds());
    world.node().await;
    let mut settings = world.settings();
    settings.layout =
        LayoutSpec { timestamp_bits: Some(42), ..milliseconds() }.build().expect("valid");
    let mut other = world.start(settings);
    let KeeperError::Layout(LayoutError::Conflict { ours, recorded, .. }) =
        other.keeper.failed().await
    else {
        panic!("a conflict")
    };
    assert!(ours.contains("timestamp=42") && recorded.contains("timestamp=41"));
}

#[tokio::test(start_paused = true)]
async fn nodes_with_separate_ranges_lease_at_once() {
    let world = World::new(milliseconds());
    for worker in [1, 2, 300] {
        let node = world.start(world.only(worker));
        world.pass(second(1)).await;
        assert_eq!(node.worker(), worker);
        world.issue(&node, "order", 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn rows_added_later_begin_beyond_every_lease() {
    let world = World::new(milliseconds());
    let layout = world.settings().layout;
    let words = layout.canonical();
    // A record that claims that all rows exist, while none does.
    world.record("default", &words, &["0/0"]).await;
    let node = world.start(world.settings());
    world.pass(second(2)).await;
    assert!(matches!(node.status().reason, Some(UnavailableReason::NoFreeWorker { .. })));
    let mark = world.row(3).await.marks[0];
    assert!(layout.start_of_tick_ms(layout.tick_of(mark)) > super::world::NOW + 310_000);
    // The decision to add the rows is valid for 10 s.
    world.pass(second(335)).await;
    world.issue(&node, "order", 1).await;
}

/// The only row has a mark in 2099, set while a clock showed that year.
#[tokio::test(start_paused = true)]
async fn retry_after_is_at_most_an_hour() {
    let world = World::new(milliseconds());
    let settings = world.only(1);
    let layout = settings.layout.clone();
    let mark = layout.first_position(layout.tick_clamped(4_070_908_800_000));
    let scope = raindrop_store::Scope::new("default", &layout, 1, 1);
    let marks = raindrop_core::lease::HighWaterMarks::all_at(mark, 2);
    world.record("default", &layout.canonical(), &[]).await;
    let token = raindrop_core::lease::Token::from_bits;
    let (seed, until_ms) = (token(2), i64::MAX);
    let new = raindrop_store::NewRows { marks, seed, record: token(1), until_ms };
    assert!(world.store.create_rows(&scope, &new).await.expect("up"));
    let node = world.start(settings);
    world.pass(second(5)).await;
    let refused = node.issuer.next_id("order").await.expect_err("the row comes due in 2099");
    let IssueError::NoLease { reason, retry_after } = refused else { panic!("{refused:?}") };
    let due_ms = layout.start_of_tick_ms(layout.tick_of(mark));
    assert_eq!(reason, UnavailableReason::NoFreeWorker { due_ms });
    assert_eq!(retry_after, Duration::from_hours(1));
}

#[tokio::test(start_paused = true)]
async fn contradictory_settings_fail_the_keeper() {
    let world = World::new(milliseconds());
    let mut settings = world.settings();
    settings.max_worker = 512;
    settings.min_worker = 600;
    settings.lease.renew = Duration::MAX;
    let failed = world.start(settings).keeper.failed().await.to_string();
    for key in ["worker.max_id", "worker.min_id", "lease.ttl"] {
        assert!(failed.contains(key), "{failed}");
    }
}

#[tokio::test(start_paused = true)]
async fn claim_refused_by_the_limit_wakes_the_keeper_and_succeeds() {
    // An hour has 2^9 positions: a lease covers a sixteenth of what is left.
    let spec = LayoutSpec {
        timestamp_bits: Some(45),
        worker_bits: 8,
        ..LayoutSpec::for_unit(TimeUnit::Hour)
    };
    let world = World::new(spec);
    let node = world.node().await;
    assert_eq!(node.issuer.layout().positions_per_tick(), 512);
    world.store.decide(Some(Box::new(|_| None)));
    let began = Instant::now();
    let mut issued = 0;
    while issued < 500 {
        issued += world.issue(&node, "order", 50).await.len();
    }
    // Claims do not make the keeper write without a pause.
    assert!(began.elapsed() >= Duration::from_millis(100), "{:?}", began.elapsed());
    // Claims beyond the last wake-up position would gain nothing.
    world.pass(second(1)).await;
    world.store.decide(None);
    let written = world.store.acknowledged.lock().expect("unpoisoned").clone();
    let marks: Vec<u64> = written.iter().map(|(_, write)| write.marks[write.lane]).collect();
    assert!(marks.is_sorted_by(|one, other| one < other), "a useless write: {marks:?}");
    assert!(node.events.count(LeaseOperation::Renew, LeaseOutcome::Done) >= 5);
    // The rest of the hour has fewer than 50 positions.
    let refused = node.issuer.next_ids("order", 50).await.expect_err("the hour is used up");
    assert!(
        matches!(
            refused,
            IssueError::Refused(ClaimError::SequenceExhausted { .. }) | IssueError::NoLease { .. }
        ),
        "{refused:?}"
    );
    world.pass(second(3_600)).await;
    world.issue(&node, "order", 50).await;
}

#[tokio::test(start_paused = true)]
async fn twenty_restarts_within_a_day_tick_keep_serving() {
    let world = World::new(LayoutSpec { worker_bits: 3, ..LayoutSpec::for_unit(TimeUnit::Day) });
    for restart in 0..20 {
        let node = world
            .node_with(|settings| {
                settings.max_worker = 1;
                settings.lease.stale_wait = Duration::ZERO;
            })
            .await;
        world.issue(&node, "order", 1_000).await;
        if restart % 2 == 0 {
            drop(node);
            world.pass(second(91)).await;
        } else {
            node.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn handles_share_the_lease_and_report_their_ids() {
    let world = World::new(milliseconds());
    let node = world.node().await;
    let mut handle = node.issuer.handle("order").expect("a valid code");
    let by_name = node.issuer.next_ids("order", 3).await.expect("leased");
    let mut ids: Vec<_> = by_name.collect();
    ids.extend((0..10).filter_map(|_| handle.try_next_id()));
    ids.extend(handle.next_ids(5000).await.expect("waits for the next millisecond"));
    let mut blocks = handle.clone().into_blocks(100);
    world.pass(Duration::from_millis(50)).await;
    ids.extend((0..150).map(|_| blocks.next_id().expect("leased")));
    assert!(ids.is_sorted_by(|one, other| one < other));
    drop((handle, blocks));
    assert_eq!(node.events.issued().iter().sum::<u64>(), ids.len() as u64);
    assert_eq!(ids.len(), 3 + 10 + 5000 + 150);
    assert!(matches!(
        node.issuer.handle("no code"),
        Err(IssueError::Refused(ClaimError::InvalidCode(_)))
    ));
}

#[tokio::test(start_paused = true)]
async fn handle_waits_for_a_lease_and_ends_with_it() {
    let world = World::new(milliseconds());
    let node = world.start(world.settings());
    let mut handle = node.issuer.handle("order").expect("a valid code");
    assert_eq!(handle.try_next_id(), None);
    assert_eq!(handle.next_ids(1).await.map(|ids| ids.len()), Ok(1));
    node.keeper.release(second(1)).await;
    assert_eq!(handle.try_next_id(), None);
    assert!(matches!(
        handle.next_ids(1).await,
        Err(IssueError::NoLease { reason: UnavailableReason::ShuttingDown, .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn row_with_other_lanes_is_skipped() {
    let world = World::new(milliseconds());
    let layout = world.settings().layout;
    world.record("default", &layout.canonical(), &[]).await;
    let new = NewRows {
        marks: HighWaterMarks::all_at(0, 1),
        seed: Token::from_bits(2),
        record: Token::from_bits(1),
        until_ms: NOW + 1_000,
    };
    assert!(
        world.store.create_rows(&Scope::new("default", &layout, 1, 1), &new).await.expect("up")
    );
    let node = world.start(world.only(1));
    world.pass(second(1)).await;
    assert_eq!(world.store.swaps.load(Ordering::SeqCst), 0);
    assert!(matches!(node.status().reason, Some(UnavailableReason::NoFreeWorker { .. })));
    assert_eq!(node.events.panics(), 0);
}

#[tokio::test(start_paused = true)]
async fn rows_without_a_record_fail_a_starting_keeper() {
    let world = World::new(milliseconds());
    let _node = world.node().await;
    world.store.wipe(true);
    let mut other = world.start(world.settings());
    let failed = tokio::time::timeout(second(60), other.keeper.failed()).await;
    assert!(matches!(failed, Ok(KeeperError::Store(StoreError::Unusable(_)))), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn process_that_seeks_a_row_creates_what_was_lost_beyond_every_lease() {
    let world = World::new(milliseconds());
    let two = |settings: &mut crate::KeeperSettings| settings.max_worker = 2;
    let (node, other) = (world.node_with(two).await, world.node_with(two).await);
    let row = world.row(node.worker()).await;
    let taken = RowWrite {
        token: Token::from_bits(77),
        epoch: world.epoch().await,
        holder: row.holder.clone(),
        lane: row.lane,
        marks: row.marks.clone(),
        expiry: RowExpiry::After(second(90)),
    };
    let swapped = world.store.swap_row(&world.scope(), row.worker, row.token, &taken).await;
    assert!(swapped.expect("up"));
    let lost = other.worker();
    world.store.lose_row(&world.scope(), lost);
    let limit = other.issuer.state.generator.grant().expect("leased").acknowledged();
    world.pass(second(60)).await;
    assert!(matches!(node.status().reason, Some(UnavailableReason::NoFreeWorker { .. })));
    // The row's holder continues with it.
    assert_eq!((other.worker(), other.status().reason), (lost, None));
    assert!(world.row(lost).await.marks.iter().all(|mark| mark > limit));
    world.issue(&other, "order", 100).await;
}

/// Creates the rows of these workers, all with this mark.
async fn create_rows(world: &World, workers: RangeInclusive<u64>, mark: u64) {
    let layout = world.settings().layout;
    let new = NewRows {
        marks: HighWaterMarks::all_at(mark, 2),
        seed: Token::from_bits(1_000),
        record: Token::from_bits(1),
        until_ms: i64::MAX,
    };
    let scope = Scope::new("default", &layout, *workers.start(), *workers.end());
    assert!(world.store.create_rows(&scope, &new).await.expect("up"));
}

/// A wrong clock left marks in 2099 on the rows that a search reads first.
#[tokio::test(start_paused = true)]
async fn row_behind_many_with_marks_ahead_is_found() {
    let world = World::new(milliseconds());
    let layout = world.settings().layout;
    let ahead = layout.first_position(layout.tick_clamped(4_070_908_800_000));
    world.record("default", &layout.canonical(), &[]).await;
    create_rows(&world, 1..=100, ahead).await;
    create_rows(&world, 101..=101, 0).await;
    let node = world.start(KeeperSettings { max_worker: 101, ..world.settings() });
    world.pass(second(1)).await;
    assert_eq!(node.status().lease.map(|lease| lease.worker), Some(101));
}

/// If a first lease may be on any row, two stores used by mistake collide less often.
#[tokio::test(start_paused = true)]
async fn first_leases_spread_over_all_rows() {
    let world = World::new(milliseconds());
    let mut nodes = Vec::new();
    for _ in 0..8 {
        nodes.push(world.node().await);
    }
    let workers: Vec<u64> = nodes.iter().map(Node::worker).collect();
    assert!(workers.iter().any(|worker| *worker > 256), "{workers:?}");
}
