//! Series of codes, whose members claims create.

use raindrop_core::{
    issue::ClaimError,
    segment::{SegmentSpec, SpecChange},
};
use raindrop_store::SegmentStore;
use tokio::time::sleep;

use super::segments::{LONG, World, spec};
use crate::{CodeKind, CodeManager, IssueError, ManageError, SegmentSettings, UnavailableReason};

/// How many numbers of a member the store may lose.
const GAP: u64 = 50;

fn strict() -> SegmentSpec {
    SegmentSpec { strict: true, failover_gap: Some(GAP), start: 7, ..SegmentSpec::default() }
}

fn invoices() -> SegmentSettings {
    SegmentSettings::new("numbers").with_series("invoice", strict())
}

fn managing(world: &World, settings: SegmentSettings) -> CodeManager {
    CodeManager::new(world.store.clone(), settings)
}

fn is_unknown(error: &IssueError) -> bool {
    matches!(error, IssueError::Refused(ClaimError::UnknownCode(_)))
}

#[tokio::test(start_paused = true)]
async fn members_have_the_settings_of_their_series() {
    let world = World::new();
    let tens = SegmentSpec { increment: 10, ..spec() };
    let settings = || invoices().with_series("tens", tens).with_code("invoice:own", spec());
    let (one, two) = (world.node(settings()).await, world.node(settings()).await);
    assert_eq!(world.issue(&one, "invoice:paris", 1).await, [7]);
    assert_eq!(world.issue(&two, "invoice:paris", 2).await, [8, 9]);
    assert_eq!(world.issue(&one, "invoice:paris", 1).await, [10]);
    assert_eq!(world.issue(&two, "invoice:Paris", 1).await, [7], "each has its own numbers");
    assert_eq!(world.issue(&two, "tens:2025", 2).await, [10, 20]);
    assert_eq!(world.issue(&one, "invoice:own", 1).await, [1], "its own settings come first");
    let before = world.store.count_segments("numbers").await.expect("up");
    for code in ["invoice", "invoice:saint-denis", "invoice:a:b", "tens:a.b", "other:paris"] {
        let error = one.issuer.next_id(code).await.expect_err(code);
        assert!(is_unknown(&error), "{code}: {error}");
    }
    for code in ["invoice:*", "invoice:"] {
        assert!(one.issuer.next_id(code).await.is_err(), "{code}");
    }
    assert_eq!(world.store.count_segments("numbers").await.expect("up"), before);
    // What a claim would get is known before the member is.
    assert_eq!(one.issuer.form_and_order("invoice:rome"), (None, true));
    assert_eq!(one.issuer.spec("invoice:rome"), Some(strict()));
    assert_eq!(one.issuer.spec("other:rome"), None);
    assert_eq!(one.issuer.series().collect::<Vec<_>>(), ["invoice:*", "tens:*"]);
}

/// A node of another configuration must not create members with other settings.
#[tokio::test(start_paused = true)]
async fn node_without_the_series_serves_none_of_its_members() {
    let world = World::new();
    let (with, without) =
        (world.node(invoices()).await, world.node(SegmentSettings::new("numbers")).await);
    assert!(is_unknown(&without.issuer.next_id("invoice:paris").await.expect_err("unknown")));
    assert_eq!(world.issue(&with, "invoice:paris", 1).await, [7]);
    assert!(is_unknown(&without.issuer.next_id("invoice:paris").await.expect_err("unknown")));
}

#[tokio::test(start_paused = true)]
async fn made_up_members_end_at_the_bounds_of_codes() {
    let world = World::new();
    let settings = || SegmentSettings { codes_max: 3, codes_max_per_client: 2, ..invoices() };
    let (node, other) = (world.node(settings()).await, world.node(settings()).await);
    let claim = async |client: u64, code: String| {
        let client = move || client;
        node.issuer.next_ids_for(Some(&client), &code, 1.into()).await.map(drop)
    };
    let mut refused = 0;
    for index in 0..100 {
        match claim(1, format!("invoice:x{index}")).await {
            Ok(()) => {}
            Err(IssueError::Refused(ClaimError::ClientShareUsed { max: 2, .. })) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((refused, world.store.count_segments("numbers").await.expect("up")), (98, 2));
    claim(2, "invoice:y".into()).await.expect("another client has its own share");
    for index in 0..100 {
        let error = claim(3, format!("invoice:z{index}")).await.expect_err("three are there");
        let IssueError::Refused(ClaimError::TooManyCodes { max: 3, .. }) = error else {
            panic!("{error}")
        };
    }
    let error = other.issuer.next_id("invoice:z").await.expect_err("three are there");
    assert!(matches!(error, IssueError::Refused(ClaimError::TooManyCodes { .. })), "{error}");
    assert_eq!(world.store.count_segments("numbers").await.expect("up"), 3);
    assert_eq!(node.issuer.status().codes, 3, "refused names take no memory");
    claim(3, "invoice:y".into()).await.expect("it exists");
}

/// The fail-over lost the row of a member whose numbers were issued.
#[tokio::test(start_paused = true)]
async fn member_whose_row_was_lost_begins_above_the_gap() {
    let world = World::new();
    let node = world.node(invoices()).await;
    world.issue(&node, "invoice:first", 1).await;
    sleep(LONG).await;
    let held = world.store.snapshot();
    assert_eq!(world.issue(&node, "invoice:paris", 3).await, [7, 8, 9]);
    world.store.fail_over("b", held);
    let other = world.node(invoices()).await;
    assert_eq!(world.issue(&other, "invoice:paris", 1).await, [7 + GAP]);
    assert_eq!(world.issue(&other, "invoice:new", 1).await, [7 + GAP], "a new one, too");
    sleep(4 * LONG).await;
    assert_eq!(world.issue(&node, "invoice:paris", 1).await, [8 + GAP]);
}

/// No other node asks for the member, whose row only this one could create.
#[tokio::test(start_paused = true)]
async fn node_that_used_a_member_creates_its_lost_row_above_the_gap() {
    let world = World::new();
    let settings = || invoices().with_series("plain", SegmentSpec { strict: false, ..strict() });
    let node = world.node(settings()).await;
    sleep(LONG).await;
    let held = world.store.snapshot();
    for code in ["invoice:paris", "plain:paris"] {
        assert_eq!(world.issue(&node, code, 3).await, [7, 8, 9]);
    }
    sleep(LONG).await;
    world.store.fail_over("b", held);
    // Longer than a poll interval, and the pause after it.
    sleep(5 * LONG).await;
    for code in ["invoice:paris", "plain:paris"] {
        // The first claim may be the one that finds the row lost.
        let _ = node.issuer.next_id(code).await;
        sleep(2 * LONG).await;
        let first = world.issue(&node, code, 1).await[0];
        assert!(first >= 7 + GAP, "{code} {first}");
    }
    assert!(node.issuer.status().issuing);
}

#[tokio::test(start_paused = true)]
async fn raise_of_a_member_after_a_fail_over_skips_the_gap_of_its_series() {
    let world = World::new();
    let node = world.node(invoices()).await;
    world.issue(&node, "invoice:paris", 1).await;
    world.store.fail_over("b", world.store.snapshot());
    let manager = managing(&world, invoices());
    assert_eq!(manager.raise_by("invoice:paris", 1).await.expect("raised"), 8 + GAP);
}

#[tokio::test(start_paused = true)]
async fn managed_member_has_its_own_settings() {
    let world = World::new();
    // It was managed before there was a series.
    let without = managing(&world, SegmentSettings::new("numbers"));
    without.prepare().await.expect("prepared");
    let tens = SpecChange { increment: Some(10), ..SpecChange::default() };
    without.put("invoice:old", &tens, true).await.expect("created");
    let (node, manager) = (world.node(invoices()).await, managing(&world, invoices()));
    assert_eq!(world.issue(&node, "invoice:old", 1).await, [10]);
    let kind = async |code: &str| {
        let view = manager.get(code).await.expect("up").expect("there");
        (view.kind, view.spec.expect("its settings"))
    };
    world.issue(&node, "invoice:paris", 1).await;
    assert_eq!(kind("invoice:paris").await, (CodeKind::Automatic, strict()));
    // Its order and its numbers are those of the series, because any node may have created it.
    for code in ["invoice:paris", "invoice:new"] {
        let plain = SpecChange { strict: Some(false), ..SpecChange::default() };
        let error = manager.put(code, &plain, true).await.expect_err("plain");
        assert!(matches!(error, ManageError::FixedOrder { is_strict: true, .. }), "{error}");
        let error = manager.put(code, &tens, true).await.expect_err("tens");
        assert!(matches!(error, ManageError::FixedProgression { .. }), "{error}");
    }
    let later = SpecChange { start: Some(100), ..SpecChange::default() };
    manager.put("invoice:new", &later, true).await.expect("created");
    let expected = SegmentSpec { start: 100, ..strict() };
    assert_eq!(kind("invoice:new").await, (CodeKind::Managed, expected));
    assert_eq!(world.issue(&node, "invoice:new", 1).await, [100]);
    manager.patch("invoice:paris", &later).await.expect("managed");
    node.issuer.refresh().await.expect("up");
    assert_eq!(world.issue(&node, "invoice:paris", 1).await, [100]);
    manager.retire("invoice:paris").await.expect("retired");
    node.issuer.refresh().await.expect("up");
    let error = node.issuer.next_id("invoice:paris").await.expect_err("retired");
    assert!(matches!(error, IssueError::Refused(ClaimError::RetiredCode(_))), "{error}");
}

/// Without a fail-over, a missing row shows that somebody deleted it.
#[tokio::test(start_paused = true)]
async fn member_whose_row_was_deleted_is_not_created_again() {
    let world = World::new();
    let node = world.node(invoices()).await;
    world.issue(&node, "invoice:paris", 3).await;
    world.store.lose_segments();
    for _ in 0..3 {
        let error = node.issuer.next_id("invoice:paris").await.expect_err("lost");
        let IssueError::NoLease { reason: UnavailableReason::StoreLost, .. } = error else {
            panic!("{error}")
        };
        sleep(LONG).await;
    }
    assert_eq!(world.store.count_segments("numbers").await.expect("up"), 0);
}
