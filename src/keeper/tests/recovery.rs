//! What a node makes of a store and a clock that are not what they were.

use std::{sync::Arc, time::Duration};

use rand::{SeedableRng, rngs::StdRng};

use super::{
    faulty::Fault,
    world::{NOW, World},
};
use crate::{
    core::layout::{LayoutSpec, TimeUnit},
    keeper::{Backfill, KeeperSettings, NoObserver, Relaid, Released, RollbackAction},
};

fn world() -> World {
    World::new(LayoutSpec::for_unit(TimeUnit::Millisecond))
}

fn second(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn hang_the_log(world: &World) {
    (0..100).for_each(|_| world.store.fail_next(Fault::LostReply));
}

/// A spare that waits for a row saw that others hold rows.
#[tokio::test(start_paused = true)]
async fn waiting_spare_does_not_recreate_an_emptied_namespace() {
    let world = world();
    let holder = world.start(world.only(0));
    holder.issuer.leased().await;
    let spare = world.start(world.only(0));
    world.pass(second(40)).await;
    for worker in 0..512 {
        world.store.lose_row(&world.scope(), worker);
    }
    world.store.lose_record("default");
    for _ in 0..400 {
        world.pass(Duration::from_millis(50)).await;
        for node in [&holder, &spare] {
            if let Ok(ids) = node.issuer.next_ids("order", 1000).await {
                world.check("order", ids.collect());
            }
        }
    }
}

/// A rotation whose reply was lost is not followed by a change of worker.
#[tokio::test(start_paused = true)]
async fn settled_rotation_is_enough() {
    let world = world();
    let node = world.node().await;
    world.pass(second(5)).await;
    let (lane, worker) = (node.lane(), node.worker());
    world.issue(&node, "order", 10).await;
    world.store.fail_next(Fault::LostReply);
    node.clock.step(-5_000);
    let _ = node.issuer.next_id("order").await;
    world.pass(second(4)).await;
    assert_ne!(node.lane(), lane);
    assert_eq!(node.events.rollbacks().last(), Some(&RollbackAction::Rotated));
    assert_eq!(node.worker(), worker);
}

/// Even where no other worker is to be had.
#[tokio::test(start_paused = true)]
async fn settled_rotation_is_not_reported_as_refused() {
    let world = world();
    let node = world.start(world.only(5));
    node.issuer.leased().await;
    world.pass(second(5)).await;
    let lane = node.lane();
    world.issue(&node, "order", 10).await;
    world.store.fail_next(Fault::LostReply);
    node.clock.step(-5_000);
    let _ = node.issuer.next_id("order").await;
    world.pass(second(4)).await;
    assert_ne!(node.lane(), lane);
    assert!(!node.events.rollbacks().contains(&RollbackAction::Refused));
}

/// A row that was deleted, and added again by a node that knew that others may have used it.
#[tokio::test(start_paused = true)]
async fn row_that_was_added_again_does_not_silence_its_holder() {
    let world = world();
    let node = world.node().await;
    world.pass(second(40)).await;
    let worker = node.worker();
    world.store.lose_row(&world.scope(), worker);
    let other = world.node().await;
    world.pass(second(400)).await;
    world.issue(&other, "order", 1).await;
    world.issue(&node, "order", 1).await;
}

/// Ticks of the old layout mean nothing in the new one.
#[tokio::test(start_paused = true)]
async fn move_to_a_coarser_unit_opens_later_ticks() {
    let fine = LayoutSpec { min_sequence: 5, ..LayoutSpec::for_unit(TimeUnit::Millisecond) };
    let world = World::new(fine.clone());
    let node = world.node().await;
    drop(node);
    world.pass(second(400)).await;
    let coarse = LayoutSpec { min_sequence: 5, ..LayoutSpec::for_unit(TimeUnit::Second) };
    let mut settings = world.settings();
    settings.layout = coarse.build().expect("valid");
    let moved = world.operator(settings.clone()).relayout().await;
    assert!(matches!(moved, Ok(Relaid::Moved(_))), "{moved:?}");
    world.pass(second(60)).await;
    let random = Box::new(StdRng::seed_from_u64(1));
    let settings = KeeperSettings { ..settings };
    let backfill =
        Backfill::with_random(settings, world.store.clone(), Arc::new(NoObserver), random);
    backfill.ids("order", 1, NOW + 430_000).await.expect("after the move, and past");
}

/// The rotation and its repetition were both visible.
#[tokio::test(start_paused = true)]
async fn release_after_a_rotation_that_was_seen_twice_has_true_marks() {
    let world = world();
    let node = world.start(world.only(5));
    node.issuer.leased().await;
    world.pass(second(10)).await;
    let lane = usize::try_from(node.lane()).expect("few");
    world.issue(&node, "order", 10).await;
    hang_the_log(&world);
    node.clock.step(-5_000);
    let _ = node.issuer.next_id("order").await;
    world.pass(second(3)).await;
    world.store.forgive();
    world.store.fail_next(Fault::LostReply);
    assert_eq!(node.stop().await, Released::Done);
    let row = world.row(5).await;
    let layout = world.settings().layout;
    let ahead = layout.start_of_tick_ms(layout.tick_of(row.marks[lane])) - NOW;
    assert!(ahead < 60_000, "the mark of the lane that was left is {ahead} ms after the start");
}

/// As a move to another layout that is taken back.
#[tokio::test(start_paused = true)]
async fn spare_outlives_a_foreign_reading_of_the_record() {
    use crate::store::Store;
    let world = world();
    let holder = world.start(world.only(0));
    holder.issuer.leased().await;
    let mut spare = world.start(world.only(0));
    world.pass(second(10)).await;
    let record = world.store.read_record("default").await.expect("up").expect("a record");
    let mut foreign = record.clone();
    foreign.words = "another layout".into();
    assert!(world.store.swap_record("default", record.token, &foreign).await.expect("up"));
    world.pass(second(12)).await;
    assert!(world.store.swap_record("default", record.token, &record).await.expect("up"));
    world.pass(second(20)).await;
    let failed = tokio::time::timeout(second(5), spare.keeper.failed()).await;
    assert!(failed.is_err());
}

/// A request for a past time that slept through a restore and its `raise`.
#[tokio::test(start_paused = true)]
async fn past_tick_that_was_closed_meanwhile_is_not_handed_out() {
    use super::faulty::FaultyStore;
    use crate::{
        core::{clock::ManualClock, preset::Preset},
        keeper::Operator,
        store::MemoryStore,
    };
    let clock = Arc::new(ManualClock::new(NOW));
    let memory = MemoryStore::with_own_clock(clock.clone());
    // Every answer takes a second.
    let store = Arc::new(FaultyStore::new(memory).with_latency(second(1)));
    let layout = Preset::Yitter.spec().build().expect("valid");
    let mut settings = KeeperSettings::new(layout, "the same for all");
    settings.backfill_from_ms = Some(settings.layout.epoch_ms());
    let random = |seed| Box::new(StdRng::seed_from_u64(seed));
    let (_keeper, issuer) = crate::keeper::Keeper::start_with(
        settings.clone(),
        store.clone(),
        clock.clone(),
        Arc::new(NoObserver),
        random(1),
    );
    issuer.leased().await;
    let backfill = |seed| {
        Arc::new(Backfill::with_random(
            settings.clone(),
            store.clone(),
            Arc::new(NoObserver),
            random(seed),
        ))
    };
    let at_ms = NOW - 86_400_000;
    let sleeper = backfill(2);
    sleeper.ids("order", 1, at_ms - 1).await.expect("it is prepared");
    let backup = store.backup();
    let before = backfill(3).ids("order", 5, at_ms).await.expect("five before the restore");
    let live = store.backup();
    store.put_back(backup);
    let mut operator =
        Operator::with_random(settings.clone(), store.clone(), clock.clone(), random(4));
    // As slow as the store is, a machine's clock is within the skew of the store's.
    operator.raise(second(300)).await.expect("raised");
    let raised = store.backup();
    store.put_back(live);
    let asked = tokio::spawn(async move { sleeper.ids("order", 5, at_ms).await });
    // It has looked at clock and record, and sleeps until the store was restored and raised.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    store.put_back(raised);
    let after = asked.await.expect("no panic");
    assert!(after.map_or(true, |ids| ids.iter().all(|id| !before.contains(id))), "issued twice");
}

/// As an earlier version wrote it.
#[tokio::test(start_paused = true)]
async fn past_ticks_are_closed_where_the_record_has_no_first_tick() {
    use crate::{
        core::{lease::Token, preset::Preset},
        store::{LayoutRecord, Store},
    };
    let world = World::new(Preset::Yitter.spec());
    let settings = world.settings();
    // As migration 0003, or a node of the earlier version, leaves it.
    let mut record = LayoutRecord::new(settings.layout.words(), Token::UNUSED, 0);
    record.complete = vec![settings.layout.reserved_key()];
    world.store.create_record("default", &record).await.expect("up");
    let random = Box::new(StdRng::seed_from_u64(1));
    let backfill =
        Backfill::with_random(settings, world.store.clone(), Arc::new(NoObserver), random);
    let ids = backfill.ids("order", 1, NOW - 86_400_000).await;
    assert!(ids.is_err(), "{ids:?}");
}
