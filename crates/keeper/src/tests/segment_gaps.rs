//! Codes with gaps of their own, over a store that fails over.

use raindrop_core::segment::{SegmentSpec, SpecChange};
use raindrop_store::{ManagedCode, SegmentStore};
use tokio::time::sleep;

use super::segments::{LONG, World, spec};
use crate::{CodeManager, ManageError, SegmentSettings, support::random::fresh_token};

/// The gap of codes without one of their own.
const GAP: u64 = 5_000;

fn with_gap(gap: u64) -> SegmentSpec {
    SegmentSpec { failover_gap: Some(gap), ..spec() }
}

fn settings() -> SegmentSettings {
    SegmentSettings { failover_gap: Some(GAP), defaults: spec(), ..SegmentSettings::new("numbers") }
}

fn gap(gap: u64) -> SpecChange {
    SpecChange { failover_gap: Some(gap), ..SpecChange::default() }
}

fn max(max: u64) -> SpecChange {
    SpecChange { max: Some(max), ..SpecChange::default() }
}

impl World {
    fn managing(&self) -> CodeManager {
        CodeManager::new(self.store.clone(), settings())
    }

    /// Lets another server take the place of the store, and loses nothing.
    fn fail_over(&self, identity: &str) {
        self.store.fail_over(identity, self.store.snapshot());
    }
}

#[tokio::test(start_paused = true)]
async fn each_code_skips_its_own_gap() {
    let world = World::new();
    let settings = settings()
        .with_code("order", spec())
        .with_code("none", with_gap(0))
        .with_code("few", with_gap(7));
    let node = world.node(settings).await;
    for code in ["order", "none", "few"] {
        world.issue(&node, code, 1).await;
    }
    sleep(LONG).await;
    let mut expected = Vec::new();
    for (code, gap) in [("order", GAP), ("none", 0), ("few", 7)] {
        expected.push((code, world.next(code).await + gap));
    }
    world.fail_over("b");
    // Longer than a poll interval: the node gives up what it has in hand.
    sleep(4 * LONG).await;
    for (code, first) in expected {
        assert_eq!(world.issue(&node, code, 1).await, [first], "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn gap_of_a_managed_code_is_in_effect_after_a_poll() {
    let world = World::new();
    let manager = world.managing();
    manager.prepare().await.expect("prepared");
    manager.put("order", &gap(0), true).await.expect("created");
    let node = world.node(settings()).await;
    world.issue(&node, "order", 1).await;
    manager.patch("order", &gap(20)).await.expect("changed");
    sleep(4 * LONG).await;
    let next = world.next("order").await;
    world.fail_over("b");
    sleep(4 * LONG).await;
    assert_eq!(world.issue(&node, "order", 1).await, [next + 20]);
}

#[tokio::test(start_paused = true)]
async fn raise_after_a_fail_over_skips_the_gap_of_the_code() {
    let world = World::new();
    let manager = world.managing();
    manager.prepare().await.expect("prepared");
    for (code, change, least) in
        [("none", gap(0), 5), ("few", gap(100), 100), ("general", SpecChange::default(), GAP)]
    {
        manager.put(code, &change, true).await.expect("created");
        let before = world.next(code).await;
        world.fail_over(code);
        let raised = manager.raise_by(code, 5).await.expect("raised");
        assert_eq!(raised, before + least, "{code}");
        assert_eq!(manager.raise_by(code, 5).await.expect("raised"), raised + 5, "{code}");
    }
}

/// A newer version may have given the code a larger gap.
#[tokio::test(start_paused = true)]
async fn code_with_unreadable_settings_is_not_raised_after_a_fail_over() {
    let world = World::new();
    let manager = world.managing();
    manager.prepare().await.expect("prepared");
    manager.put("order", &gap(100), true).await.expect("created");
    let managed = world.store.managed_code("numbers", "order").await.expect("up").expect("managed");
    let newer = ManagedCode {
        settings: format!("{} colour=7", managed.settings),
        token: fresh_token(),
        ..managed.clone()
    };
    let is_written = world.store.write_managed_code("numbers", Some(managed.token), &newer).await;
    assert!(is_written.expect("up"));
    assert_eq!(manager.raise_by("order", 5).await.expect("nothing can be lost"), 6);
    world.fail_over("b");
    let error = manager.raise_by("order", 5).await.expect_err("its gap is unknown");
    assert!(matches!(error, ManageError::Unreadable { .. }), "{error}");
    assert_eq!(world.next("order").await, 6);
}

#[tokio::test(start_paused = true)]
async fn smaller_gap_is_for_later_fail_overs() {
    let world = World::new();
    let manager = world.managing();
    manager.prepare().await.expect("prepared");
    manager.put("order", &gap(300), true).await.expect("created");
    world.fail_over("b");
    manager.patch("order", &gap(20)).await.expect("changed");
    assert_eq!(world.next("order").await, 301, "of the fail-over before the change");
    world.fail_over("c");
    // A larger one is also for the fail-over before the change.
    manager.patch("order", &gap(1_000)).await.expect("changed");
    assert_eq!(world.next("order").await, 1_301);
    world.fail_over("d");
    let node = world.node(settings()).await;
    assert_eq!(world.issue(&node, "order", 1).await, [2_301]);
}

#[tokio::test(start_paused = true)]
async fn code_that_its_gap_uses_up_is_saved_by_a_smaller_one() {
    let world = World::new();
    let manager = world.managing();
    manager.prepare().await.expect("prepared");
    let short = SpecChange { max_step: Some(20), min_step: Some(10), ..max(999) };
    manager.put("order", &short, true).await.expect("created");
    let node = world.node(settings()).await;
    world.issue(&node, "order", 1).await;
    sleep(LONG).await;
    let next = world.next("order").await;
    world.fail_over("b");
    sleep(4 * LONG).await;
    node.issuer.next_id("order").await.expect_err("skipped");
    // A change of another setting does not end the code.
    let steps = SpecChange { max_step: Some(30), ..SpecChange::default() };
    manager.patch("order", &steps).await.expect("changed");
    assert_eq!(world.next("order").await, next);
    let later = SpecChange { start: Some(500), ..SpecChange::default() };
    let error = manager.patch("order", &later).await.expect_err("no number is left").to_string();
    assert!(error.contains("start = 500") && error.contains("lower failover_gap"), "{error}");
    assert_eq!(world.next("order").await, next);
    manager.patch("order", &gap(50)).await.expect("changed");
    assert_eq!(world.next("order").await, next + 50);
    sleep(4 * LONG).await;
    assert_eq!(world.issue(&node, "order", 1).await, [next + 50]);
}

#[tokio::test(start_paused = true)]
async fn new_code_skips_its_own_gap_and_one_in_use_the_gap_of_before() {
    let world = World::new();
    let on_demand = SegmentSettings { auto_create: Some(spec()), ..settings() };
    let node = world.node(on_demand.clone()).await;
    world.issue(&node, "used", 1).await;
    sleep(LONG).await;
    let next = world.next("used").await;
    world.fail_over("b");
    let manager = CodeManager::new(world.store.clone(), settings());
    manager.put("new", &gap(0), true).await.expect("created");
    assert_eq!(world.next("new").await, 1);
    let manager = CodeManager::new(world.store.clone(), on_demand);
    manager.put("used", &gap(0), true).await.expect("managed");
    assert_eq!(world.next("used").await, next + GAP);
}

/// A node created the code on demand, and the fail-over lost its row.
#[tokio::test(start_paused = true)]
async fn code_whose_row_was_lost_skips_the_gap_of_codes_on_demand() {
    let world = World::new();
    let on_demand = SegmentSettings { auto_create: Some(spec()), ..settings() };
    let node = world.node(on_demand.clone()).await;
    sleep(LONG).await;
    let held = world.store.snapshot();
    let issued = world.issue(&node, "order", 5).await;
    drop(node);
    world.store.fail_over("b", held);
    let manager = CodeManager::new(world.store.clone(), on_demand);
    manager.put("order", &gap(0), true).await.expect("created");
    assert_eq!((issued[0], world.next("order").await), (1, 1 + GAP));
}

/// After a fail-over, numbers up to the gap may be issued and lost.
#[tokio::test(start_paused = true)]
async fn largest_number_below_the_gap_is_refused_after_a_fail_over() {
    let world = World::new();
    let manager = CodeManager::new(world.store.clone(), settings());
    manager.put("order", &SpecChange::default(), true).await.expect("created");
    let node = world.node(settings()).await;
    world.issue(&node, "order", 1).await;
    drop(node);
    world.fail_over("b");
    let next = world.next("order").await;
    for failover_gap in [None, Some(1)] {
        let change =
            SpecChange { max: Some(next + GAP - 1), failover_gap, ..SpecChange::default() };
        let error = manager.patch("order", &change).await.expect_err("lowered").to_string();
        assert!(error.contains(&format!("at least {}", next + GAP)), "{error}");
    }
    let change =
        SpecChange { max: Some(next + GAP), failover_gap: Some(1), ..SpecChange::default() };
    manager.patch("order", &change).await.expect("changed");
    assert_eq!(world.next("order").await, next + GAP);
}

/// The store is rolled back in place after another code took the place of one on demand.
#[tokio::test(start_paused = true)]
async fn code_that_takes_the_place_of_another_knows_its_last_block() {
    let world = World::new();
    let on_demand = SegmentSettings {
        auto_create: Some(SegmentSpec { failover_gap: Some(0), ..spec() }),
        ..settings()
    };
    let node = world.node(on_demand.clone()).await;
    let manager = CodeManager::new(world.store.clone(), on_demand);
    world.issue(&node, "order", 1).await;
    sleep(LONG).await;
    let tens = SpecChange { increment: Some(10), ..gap(0) };
    manager.put("order", &tens, true).await.expect("managed");
    let held = world.store.snapshot();
    let last = *world.issue(&node, "order", 1_000).await.last().expect("some");
    node.issuer.refresh().await.expect("up");
    world.store.fail_over("memory", held);
    let next = world.issue(&node, "order", 1).await[0];
    assert!(next > last && next % 10 == 0, "{next} after {last}");
}
