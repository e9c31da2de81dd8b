//! Codes that operators manage while nodes run, over a memory store, under paused time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use raindrop_core::{
    clock::ManualClock,
    issue::ClaimError,
    segment::{CodeSettings, SegmentSpec, SpecChange, TextForm},
};
use raindrop_store::{
    Call, Intercept, ManagedCode, MemoryStore, NewSegment, Reply, SegmentStore, StoreError,
};
use tokio::{task::JoinSet, time::sleep};

use super::segments::{LONG, World, orders, spec};
use crate::{
    CodeKind, CodeManager, IssueError, ManageError, NoObserver, SegmentIssuer, SegmentKeeper,
    SegmentSettings, UnavailableReason,
};

/// Longer than a poll interval.
const POLLED: Duration = Duration::from_secs(31);

/// Returns a namespace without a code.
fn empty() -> SegmentSettings {
    SegmentSettings::new("numbers")
}

fn on_demand() -> SegmentSettings {
    SegmentSettings { auto_create: Some(spec()), ..empty() }
}

/// Returns a change to every setting of a specification.
fn all(spec: SegmentSpec) -> SpecChange {
    SpecChange {
        start: Some(spec.start),
        increment: Some(spec.increment),
        remainder: Some(spec.remainder),
        max: Some(spec.max),
        text: spec.text,
        failover_gap: spec.failover_gap,
        strict: spec.strict.then_some(true),
        min_step: Some(spec.min_step).filter(|_| !spec.strict),
        max_step: Some(spec.max_step).filter(|_| !spec.strict),
        ..SpecChange::default()
    }
}

fn steps(min_step: Option<u64>, max_step: u64) -> SpecChange {
    SpecChange { min_step, max_step: Some(max_step), ..SpecChange::default() }
}

fn max(max: u64) -> SpecChange {
    SpecChange { max: Some(max), ..SpecChange::default() }
}

impl World {
    fn manager(&self, settings: SegmentSettings) -> CodeManager {
        CodeManager::new(self.store.clone(), settings)
    }
}

fn refused(error: &IssueError) -> Option<&ClaimError> {
    match error {
        IssueError::Refused(refused) => Some(refused),
        IssueError::NoLease { .. } => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_created_code_is_issued_by_every_node_at_once() {
    let world = World::new();
    let nodes = [world.node(empty()).await, world.node(empty()).await];
    let manager = world.manager(empty());
    let from_100 = SegmentSpec { start: 100, ..spec() };
    assert!(manager.put("order", &all(from_100), true).await.expect("created"));
    assert_eq!(world.issue(&nodes[0], "order", 3).await, [100, 101, 102]);
    assert!(world.issue(&nodes[1], "order", 3).await[0] >= 110);
    assert!(!manager.put("order", &all(from_100), false).await.expect("repeated"));
    let exists = manager.put("order", &all(from_100), true).await.expect_err("exists");
    assert!(matches!(exists, ManageError::Exists(_)), "{exists}");
    // A node that starts later knows the code at once.
    let late = world.node(empty()).await;
    assert_eq!(late.issuer.status().codes, 1);
    assert!(world.issue(&late, "order", 1).await[0] >= 120);
}

#[tokio::test(start_paused = true)]
async fn many_claims_of_unknown_codes_ask_the_store_once_a_second() {
    let world = World::new();
    let node = world.node(empty()).await;
    let before = node.questions();
    for _ in 0..100 {
        let error = node.issuer.next_id("other").await.expect_err("unknown");
        assert_eq!(refused(&error), Some(&ClaimError::UnknownCode("other".into())));
    }
    assert_eq!(node.questions() - before, 1);
    sleep(Duration::from_secs(1)).await;
    node.issuer.next_id("other").await.expect_err("unknown");
    assert_eq!(node.questions() - before, 2);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_code_may_exist_while_the_store_is_away() {
    let world = World::new();
    let node = world.node(empty()).await;
    world.store.set_down(true);
    for _ in 0..3 {
        let error = node.issuer.next_id("order").await.expect_err("nobody knows");
        let IssueError::NoLease { reason, .. } = error else { panic!("{error}") };
        assert!(matches!(reason, UnavailableReason::StoreUnavailable(_)), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn changed_settings_reach_nodes_within_a_poll_interval() {
    let world = World::new();
    let node = world.node(empty()).await;
    let manager = world.manager(empty());
    let small = SegmentSpec { max: 25, ..spec() };
    manager.put("order", &all(small), true).await.expect("created");
    world.issue(&node, "order", 25).await;
    let error = node.issuer.next_id("order").await.expect_err("used up");
    assert!(matches!(refused(&error), Some(ClaimError::SequenceExhausted { .. })), "{error}");
    manager.patch("order", &max(1_000)).await.expect("widened");
    sleep(POLLED).await;
    assert_eq!(world.issue(&node, "order", 2).await, [26, 27]);
    // Blocks have the size of the present settings.
    manager.patch("order", &steps(Some(100), 100)).await.expect("set");
    sleep(POLLED).await;
    let next = world.next("order").await;
    world.issue_all_in_hand(&node).await;
    world.issue(&node, "order", 1).await;
    assert_eq!(world.next("order").await, next + 100);
}

#[tokio::test(start_paused = true)]
async fn a_retired_code_issues_nothing_on_any_node() {
    let world = World::new();
    let nodes = [world.node(on_demand()).await, world.node(on_demand()).await];
    world.issue(&nodes[0], "order", 3).await;
    let manager = world.manager(on_demand());
    manager.retire("order").await.expect("retired");
    manager.retire("order").await.expect("it may be repeated");
    // This node has no numbers left, and the store has none, even before the node knows of it.
    nodes[1].issuer.next_id("order").await.expect_err("nothing left");
    sleep(POLLED).await;
    for node in &nodes {
        let error = node.issuer.next_id("order").await.expect_err("retired");
        assert_eq!(refused(&error), Some(&ClaimError::RetiredCode("order".into())), "{error}");
        let status = node.issuer.status();
        assert!(status.issuing && status.reason.is_none(), "it is no trouble: {status:?}");
    }
    for error in [
        manager.put("order", &all(spec()), false).await.expect_err("for good"),
        manager.patch("order", &max(5)).await.expect_err("for good"),
    ] {
        assert!(matches!(error, ManageError::Retired(_)), "{error}");
    }
    // A clean stop gives nothing back, and a node that starts later knows of the retirement.
    let [first, second] = nodes;
    assert_eq!(first.keeper.release(LONG).await.returned, 0);
    drop(second);
    assert_eq!(world.next("order").await, SegmentSpec::LARGEST_NUMBER + 1);
    let late = world.node(on_demand()).await;
    let error = late.issuer.next_id("order").await.expect_err("retired");
    assert_eq!(refused(&error), Some(&ClaimError::RetiredCode("order".into())));
}

#[tokio::test(start_paused = true)]
async fn a_retirement_wins_over_a_block_that_is_on_its_way() {
    let world = World::with_latency(Duration::from_secs(1));
    let node = world.node(on_demand()).await;
    let claim = tokio::spawn({
        let issuer = node.issuer.clone();
        async move { issuer.next_id("order").await }
    });
    sleep(Duration::from_millis(2_500)).await;
    let text = CodeSettings { spec: spec(), is_retired: true }.to_string();
    node.issuer.apply(&[managed("order", &text)]);
    claim.await.expect("no panic").expect_err("nothing was in hand");
    sleep(LONG).await;
    let error = node.issuer.next_id("order").await.expect_err("retired");
    assert_eq!(refused(&error), Some(&ClaimError::RetiredCode("order".into())), "{error}");
}

/// The client sent its request before the node knew the settings. It may have asked for a range of
/// plain numbers, for example, which a code with a form refuses.
#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_gets_no_number_by_settings_that_came_meanwhile() {
    let text = SegmentSpec { text: Some(invoices("INV-{n:06}")), ..spec() };
    let text = CodeSettings { spec: text, is_retired: false }.to_string();
    let newer = format!("{text} colour=7");
    for (settings, expected) in
        [(&text, UnavailableReason::Starting), (&newer, UnavailableReason::UnreadableSettings)]
    {
        let world = World::with_latency(Duration::from_secs(1));
        let node = world.node(SegmentSettings { max_wait: LONG, ..on_demand() }).await;
        let claim = tokio::spawn({
            let issuer = node.issuer.clone();
            async move { issuer.next_id("invoice").await }
        });
        sleep(Duration::from_millis(2_500)).await;
        let handles = ["invoice", "queued"].map(|code| node.issuer.handle(code).expect("a code"));
        assert_eq!(handles[1].clone().try_next_id(), None, "its refill has not begun");
        node.issuer.apply(&[managed("invoice", settings), managed("queued", settings)]);
        let error = claim.await.expect("no panic").expect_err("its block was on its way");
        let IssueError::NoLease { reason, .. } = error else { panic!("{error}") };
        assert_eq!(reason, expected);
        sleep(LONG).await;
        for handle in &handles {
            let error = handle.next_ids(1).await.expect_err("of a code that has no numbers");
            let IssueError::NoLease { reason, .. } = error else { panic!("{error}") };
            assert_eq!(reason, expected, "though a block came");
        }
        let stored = world.store.list_segments().await.expect("up");
        assert!(stored.iter().all(|segment| segment.code != "queued"), "{stored:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_automatic_code_that_becomes_managed_goes_on_where_it_stands() {
    let world = World::new();
    let node = world.node(on_demand()).await;
    world.issue(&node, "order", 3).await;
    let manager = world.manager(on_demand());
    let missing =
        manager.patch("other", &SpecChange::default()).await.expect_err("nobody asked for it");
    assert!(matches!(missing, ManageError::NotManaged(_)), "{missing}");
    manager.patch("order", &steps(None, 1_001)).await.expect("managed now");
    let managed = world.store.list_managed_codes("numbers").await.expect("up");
    assert!(managed[0].settings.contains("max_step=1001 "), "{managed:?}");
    assert!(!manager.put("order", &all(spec()), false).await.expect("managed already"));
    sleep(POLLED).await;
    assert_eq!(world.issue(&node, "order", 10).await, (4..14).collect::<Vec<_>>());
    // A larger start leaves a gap, and the next number never falls.
    let from_500 = SegmentSpec { start: 500, ..spec() };
    assert!(!manager.put("order", &all(from_500), false).await.expect("raised"));
    world.issue_all_in_hand(&node).await;
    assert_eq!(world.issue(&node, "order", 1).await, [500]);
    let next = world.next("order").await;
    manager.put("order", &all(spec()), false).await.expect("an earlier start changes nothing");
    assert_eq!(world.next("order").await, next);
}

#[tokio::test(start_paused = true)]
async fn an_increment_that_nodes_do_not_have_replaces_their_blocks() {
    let world = World::new();
    let node = world.node(on_demand()).await;
    world.issue(&node, "order", 3).await;
    let manager = world.manager(on_demand());
    let odd = SegmentSpec { increment: 2, remainder: 1, ..spec() };
    manager.put("order", &all(odd), true).await.expect("nobody managed it");
    sleep(POLLED).await;
    let numbers = world.issue(&node, "order", 3).await;
    assert_eq!(numbers, [numbers[0], numbers[0] + 2, numbers[0] + 4]);
    assert!(numbers[0] > 10 && numbers[0] % 2 == 1, "{numbers:?}");
    for error in [
        manager.put("order", &all(spec()), false).await.expect_err("fixed"),
        manager
            .patch("order", &SpecChange { remainder: Some(0), ..SpecChange::default() })
            .await
            .expect_err("fixed"),
    ] {
        assert!(matches!(error, ManageError::FixedProgression { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_changed_is_refused_and_nothing_is_written() {
    let world = World::new();
    let node = world.node(orders()).await;
    world.issue(&node, "order", 3).await;
    let store = &world.store;
    let manager = world.manager(SegmentSettings { codes_max: 1, ..orders() });
    let configured = manager.put("order", &all(spec()), false).await.expect_err("configured");
    assert!(matches!(configured, ManageError::Configured(_)), "{configured}");
    let configured = manager.retire("order").await.expect_err("configured");
    assert!(matches!(configured, ManageError::Configured(_)), "{configured}");
    let invalid = manager.put("a b", &all(spec()), false).await.expect_err("no code");
    assert!(matches!(invalid, ManageError::InvalidCode(_)), "{invalid}");
    let bad = SegmentSpec { min_step: 0, increment: 2, remainder: 2, ..spec() };
    let text = manager.put("user", &all(bad), false).await.expect_err("bad").to_string();
    assert!(text.contains("min_step") && text.contains("remainder"), "{text}");
    for missing in [
        manager.patch("user", &SpecChange::default()).await.expect_err("not managed"),
        manager.retire("user").await.expect_err("not there"),
    ] {
        assert!(matches!(missing, ManageError::NotManaged(_)), "{missing}");
    }
    assert!(store.list_managed_codes("numbers").await.expect("up").is_empty());
    assert_eq!(store.list_segments().await.expect("up").len(), 1);

    manager.put("user", &all(SegmentSpec { start: 50, ..spec() }), true).await.expect("created");
    let many = manager.put("third", &all(spec()), true).await.expect_err("codes.max");
    assert!(matches!(many, ManageError::TooMany(1)), "{many}");
    let low = manager.patch("user", &max(48)).await.expect_err("start is above");
    assert!(matches!(low, ManageError::Invalid(_)), "{low}");
    manager.raise_to("user", 1_000).await.expect("raised");
    let low = manager.patch("user", &max(998)).await.expect_err("next is above");
    assert!(low.to_string().contains("at least 999"), "{low}");
    manager.patch("user", &max(999)).await.expect("all are issued");
    assert_eq!(manager.raise_to("user", 5).await.expect("nothing to do"), 1_000);
    let listed = manager.list("", 9).await.expect("up");
    let seen: Vec<_> = listed.iter().map(|it| (&*it.listed.code, it.kind, it.left())).collect();
    let left = Some(SegmentSpec::LARGEST_NUMBER + 1 - listed[0].listed.next);
    assert_eq!(seen, [("order", CodeKind::Configured, left), ("user", CodeKind::Managed, Some(0))]);
}

#[tokio::test(start_paused = true)]
async fn a_code_whose_next_number_vanished_does_not_begin_again() {
    let world = World::new();
    let node = world.node(empty()).await;
    let manager = world.manager(empty());
    manager.put("order", &all(spec()), true).await.expect("created");
    world.issue(&node, "order", 3).await;
    world.store.lose_segments();
    let vanished = manager.put("order", &all(spec()), false).await.expect_err("vanished");
    assert!(matches!(vanished, ManageError::Vanished(_)), "{vanished}");
    let late = world.node(empty()).await;
    let error = late.issuer.next_id("order").await.expect_err("vanished");
    let lost = matches!(error, IssueError::NoLease { reason: UnavailableReason::StoreLost, .. });
    assert!(lost, "{error}");
    assert!(world.store.list_segments().await.expect("up").is_empty());
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_be_read_change_nothing() {
    let world = World::new();
    let node = world.node(empty()).await;
    let (store, manager) = (&world.store, world.manager(empty()));
    manager.put("order", &all(spec()), true).await.expect("created");
    world.issue(&node, "order", 3).await;
    let managed_now = store.list_managed_codes("numbers").await.expect("up").remove(0);
    let newer = managed("order", &format!("{} colour=7", managed_now.settings));
    assert!(
        store.write_managed_code("numbers", Some(managed_now.token), &newer).await.expect("up")
    );
    sleep(POLLED).await;
    assert_eq!(world.issue(&node, "order", 2).await, [4, 5]);
    let unreadable = manager.patch("order", &SpecChange::default()).await.expect_err("newer");
    assert!(matches!(unreadable, ManageError::Unreadable { .. }), "{unreadable}");
}

/// A newer version created the code, with settings that a node of an older version cannot read.
/// That node must not create the code on demand with its own default settings.
#[tokio::test(start_paused = true)]
async fn a_new_code_with_settings_that_cannot_be_read_is_not_issued() {
    let world = World::new();
    let newer = world.node(on_demand()).await;
    let text = SegmentSpec { text: Some(invoices("INV-{n:06}")), ..spec() };
    let manager = world.manager(on_demand());
    manager.put("invoice", &all(text), true).await.expect("created");
    assert_eq!(world.issue(&newer, "invoice", 2).await, [1, 2]);
    let known = world.store.list_managed_codes("numbers").await.expect("up").remove(0);
    let unknown = managed("invoice", &format!("{} colour=7", known.settings));
    assert!(
        world.store.write_managed_code("numbers", Some(known.token), &unknown).await.expect("up")
    );
    for settings in [empty(), on_demand()] {
        let older = world.node(settings).await;
        let error = older.issuer.next_id("invoice").await.expect_err("of a newer version");
        let IssueError::NoLease { reason, .. } = error else { panic!("{error}") };
        assert_eq!(reason, UnavailableReason::UnreadableSettings);
        assert_eq!(older.issuer.text_form("invoice"), None);
    }
    let next = world.next("invoice").await;
    sleep(POLLED).await;
    assert_eq!(world.next("invoice").await, next, "no older node reserved");
}

fn invoices(form: &str) -> TextForm {
    form.parse().expect("a form")
}

#[tokio::test(start_paused = true)]
async fn every_node_knows_the_form_of_a_code_before_its_first_number() {
    let world = World::new();
    let nodes = [world.node(empty()).await, world.node(empty()).await];
    let manager = world.manager(empty());
    let with = |form| SegmentSpec { text: Some(invoices(form)), ..spec() };
    manager.put("invoice", &all(with("INV-{n:03}")), true).await.expect("created");
    for node in &nodes {
        assert_eq!(node.issuer.text_form("invoice"), None, "not known yet");
        assert!(node.issuer.learn("invoice").await.expect("the store answers"));
        assert!(!node.issuer.learn("invoice").await.expect("known"));
        assert_eq!(node.issuer.text_form("invoice"), Some(invoices("INV-{n:03}")));
    }
    let view = manager.get("invoice").await.expect("up").expect("created");
    assert_eq!(view.next_text().as_deref(), Some("INV-001"));
    manager.put("invoice", &all(with("INV-{n:05}")), false).await.expect("more zeros");
    sleep(POLLED).await;
    assert_eq!(nodes[0].issuer.text_form("invoice"), Some(invoices("INV-{n:05}")));
}

#[tokio::test(start_paused = true)]
async fn a_form_stays_but_for_its_padding() {
    let world = World::new();
    let node = world.node(on_demand()).await;
    let manager = world.manager(on_demand());
    let with = |form| SegmentSpec { text: Some(invoices(form)), ..spec() };
    let change = |form| SpecChange { text: Some(invoices(form)), ..SpecChange::default() };
    // The row of an interrupted creation is no code in use.
    let new = NewSegment { code: "invoice".into(), first: 1 };
    world.store.create_segments("numbers", &[new]).await.expect("up");
    manager.put("invoice", &all(with("INV-{n:03}")), true).await.expect("created");
    world.issue(&node, "order", 1).await;
    manager.put("plain", &all(spec()), true).await.expect("created");
    for (refused, kept) in [
        (manager.patch("invoice", &change("INV-{n:02}")).await, "stay INV-{n:03},"),
        (manager.patch("invoice", &change("R-{n:03}")).await, "stay INV-{n:03},"),
        (manager.put("invoice", &all(spec()), false).await.map(drop), "stay INV-{n:03},"),
        (manager.patch("plain", &change("{n:03}")).await, "stay plain,"),
        (manager.put("plain", &all(with("{n}")), false).await.map(drop), "stay plain,"),
        // Clients created this one on demand.
        (manager.put("order", &all(with("{n}")), false).await.map(drop), "stay plain,"),
        (manager.patch("order", &change("{n}")).await, "stay plain,"),
    ] {
        let error = refused.expect_err(kept);
        assert!(matches!(error, ManageError::FixedText { .. }), "{error}");
        assert!(error.to_string().contains(kept), "{error}");
    }
    manager.patch("invoice", &max(500)).await.expect("another setting");
    manager.patch("invoice", &change("INV-{n:04}")).await.expect("more zeros");
    let spec = manager.get("invoice").await.expect("up").expect("created").spec.expect("settings");
    assert_eq!((spec.text, spec.max), (Some(invoices("INV-{n:04}")), 500));
}

#[tokio::test(start_paused = true)]
async fn the_configuration_wins_over_the_store() {
    let world = World::new();
    let manager = world.manager(empty());
    manager.prepare().await.expect("prepared");
    manager
        .put("order", &all(SegmentSpec { min_step: 77, ..spec() }), true)
        .await
        .expect("created");
    manager.retire("order").await.expect("retired");
    let node = world.node(orders()).await;
    let error = node.issuer.next_id("order").await.expect_err("nothing left");
    assert!(matches!(refused(&error), Some(ClaimError::SequenceExhausted { .. })), "{error}");
}

#[tokio::test(start_paused = true)]
async fn operators_who_change_a_code_at_once_lose_no_change_and_no_number() {
    let world = Arc::new(World::new());
    let node = world.node(on_demand()).await;
    world.issue(&node, "order", 1).await;
    let mut tasks = JoinSet::new();
    for writer in 0..6_u64 {
        let world = Arc::clone(&world);
        tasks.spawn(async move {
            let manager = world.manager(on_demand());
            manager.put("order", &all(spec()), false).await.expect("put");
            manager.raise_to("order", 1_000 * (writer + 1)).await.expect("raised");
            manager.patch("order", &steps(None, 1_001 + writer)).await.expect("patched");
        });
    }
    for _ in 0..200 {
        world.issue(&node, "order", 7).await;
        tokio::task::yield_now().await;
    }
    tasks.join_all().await;
    world.issue_all_in_hand(&node).await;
    assert!(world.issue(&node, "order", 1).await[0] >= 6_000);
}

fn managed(code: &str, settings: &str) -> ManagedCode {
    let token = raindrop_core::lease::Token::UNUSED;
    ManagedCode { code: code.into(), settings: settings.into(), token }
}

/// A store whose lists lack every managed code but `listed`, as Kubernetes' do when labels were
/// removed.
#[derive(Debug)]
struct Hiding(MemoryStore);

impl Hiding {
    /// Returns such a store, in which these codes are managed with these settings.
    async fn with(codes: &[(&str, String)]) -> Arc<Self> {
        let store = Arc::new(Self(MemoryStore::new(Arc::new(ManualClock::new(0)))));
        CodeManager::new(store.clone(), on_demand()).prepare().await.expect("up");
        for (code, settings) in codes {
            let new = managed(code, settings);
            assert!(store.write_managed_code("numbers", None, &new).await.expect("up"));
        }
        store
    }

    /// Starts a node that creates codes on demand.
    async fn node(self: &Arc<Self>) -> (SegmentKeeper, SegmentIssuer) {
        let node = vec![(on_demand(), Arc::new(NoObserver) as _)];
        let (keeper, mut issuers) = SegmentKeeper::start(node, self.clone());
        let issuer = issuers.pop().expect("one namespace has one issuer");
        issuer.prepared().await;
        (keeper, issuer)
    }
}

#[async_trait]
impl Intercept for Hiding {
    fn memory(&self) -> &MemoryStore {
        &self.0
    }

    fn hides_codes(&self) -> bool {
        true
    }

    async fn answer(&self, call: Call) -> Result<Reply, StoreError> {
        match call {
            Call::ListManagedCodes(namespace) => {
                let mut codes = self.0.list_managed_codes(&namespace).await?;
                codes.retain(|code| code.code == "listed");
                Ok(Box::new(codes))
            }
            Call::ManagedCode(_, code) if code == "listed" => {
                Err(StoreError::Unavailable("no claim needs to ask".into()))
            }
            _ => call.run(&self.0).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn codes_of_a_newer_version_that_lists_lack_are_not_created_on_demand() {
    let newer = format!("{} colour=7", CodeSettings { spec: spec(), is_retired: false });
    let store = Hiding::with(&[("listed", newer.clone()), ("hidden", newer)]).await;
    let (_keeper, issuer) = store.node().await;
    // The read of a code by its name says nothing about the others.
    issuer.next_id("new").await.expect("nobody manages it");
    for code in ["listed", "hidden", "hidden"] {
        let error = issuer.next_id(code).await.expect_err(code);
        let IssueError::NoLease { reason, .. } = error else { panic!("{code}: {error}") };
        assert_eq!(reason, UnavailableReason::UnreadableSettings, "{code}");
    }
    assert_eq!(issuer.status().codes, 1, "of those, none stays in the table");
    let stored = store.list_segments().await.expect("up");
    let stored: Vec<_> = stored.iter().map(|segment| segment.code.as_str()).collect();
    assert_eq!(stored, ["new"]);
}

#[tokio::test(start_paused = true)]
async fn code_with_a_form_that_lists_lack_issues_no_plain_numbers() {
    let text = SegmentSpec { text: Some(invoices("INV-{n:06}")), ..spec() };
    let settings = CodeSettings { spec: text, is_retired: false }.to_string();
    let store = Hiding::with(&[("invoice", settings)]).await;
    let new = NewSegment { code: "invoice".into(), first: 1 };
    store.create_segments("numbers", &[new]).await.expect("up");
    let (_keeper, issuer) = store.node().await;
    assert!(issuer.learn("invoice").await.expect("up"));
    assert_eq!(issuer.text_form("invoice"), None, "lists lack it");
    let error = issuer.next_ids("invoice", 2).await.expect_err("asked for without a form");
    let IssueError::NoLease { reason, .. } = error else { panic!("{error}") };
    assert_eq!(reason, UnavailableReason::Starting);
    assert_eq!(issuer.text_form("invoice"), text.text);
    let numbers = issuer.next_ids("invoice", 2).await.expect("issued");
    assert_eq!(numbers.map(|id| id.get()).collect::<Vec<_>>(), [1, 2]);
}

/// A node that created the code on demand would issue numbers by the default settings, which have
/// another increment.
#[tokio::test(start_paused = true)]
async fn managed_code_that_lists_lack_is_not_created_anew_on_demand() {
    let store = Hiding::with(&[]).await;
    let manager = CodeManager::new(store.clone(), on_demand());
    let odd = SegmentSpec { increment: 2, remainder: 1, ..spec() };
    let short = SegmentSpec { max: 3, min_step: 1, ..spec() };
    for (code, spec) in [("odd", odd), ("short", short), ("retired", spec())] {
        manager.put(code, &all(spec), true).await.expect("created");
    }
    manager.retire("retired").await.expect("retired");
    let (_keeper, issuer) = store.node().await;
    let issue = async |code: &str, count| {
        let numbers = issuer.next_ids(code, count).await?;
        Ok::<Vec<u64>, IssueError>(numbers.map(|id| id.get()).collect())
    };

    let error = issue("odd", 3).await.expect_err("another code takes its place");
    let IssueError::NoLease { reason: UnavailableReason::Starting, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(issue("odd", 3).await.expect("issued"), [1, 3, 5]);
    assert_eq!(issue("short", 3).await.expect("issued"), [1, 2, 3]);
    let error = issue("short", 1).await.expect_err("it has three numbers");
    let is_used_up = matches!(refused(&error), Some(ClaimError::SequenceExhausted { .. }));
    assert!(is_used_up, "{error}");
    let error = issue("retired", 1).await.expect_err("retired");
    assert_eq!(refused(&error), Some(&ClaimError::RetiredCode("retired".into())));
    // The node creates a code that has no settings in the store.
    assert_eq!(issue("new", 2).await.expect("issued"), [1, 2]);
}

/// A store that fails one call, which it either leaves undone or carries out first.
#[derive(Debug)]
struct CutShort {
    memory: MemoryStore,
    calls: AtomicUsize,
    fails_at: usize,
    takes_place: bool,
}

#[async_trait]
impl Intercept for CutShort {
    fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    async fn answer(&self, call: Call) -> Result<Reply, StoreError> {
        let fails = self.calls.fetch_add(1, Ordering::SeqCst) == self.fails_at;
        if fails && !self.takes_place {
            return Err(StoreError::Unavailable("planned by the test".into()));
        }
        let reply = call.run(&self.memory).await?;
        if fails {
            return Err(StoreError::Unavailable("planned by the test".into()));
        }
        Ok(reply)
    }
}

#[tokio::test(start_paused = true)]
async fn operations_that_are_cut_short_anywhere_can_be_repeated() {
    let from_100 = SegmentSpec { start: 100, ..spec() };
    for takes_place in [false, true] {
        let mut cuts = 0;
        for fails_at in 0.. {
            let memory = MemoryStore::new(Arc::new(ManualClock::new(0)));
            let calls = AtomicUsize::new(0);
            let store = Arc::new(CutShort { memory, calls, fails_at, takes_place });
            let manager = CodeManager::new(store.clone(), on_demand());
            while manager.prepare().await.is_err() {
                cuts += 1;
            }
            let mut highest = 0;
            // Each interrupted operation is repeated once, and no next number ever falls.
            for step in 0..3 {
                for attempt in 0..2 {
                    let done = match step {
                        0 => manager.put("order", &all(from_100), false).await.map(drop),
                        1 => manager.patch("order", &steps(None, 500)).await,
                        _ => manager.retire("order").await,
                    };
                    let listed = store.memory.list_segments().await.expect("up");
                    let next = listed.first().map_or(0, |listed| listed.next);
                    assert!(next >= highest, "{next} after {highest}");
                    highest = next;
                    match done {
                        Ok(()) => break,
                        Err(ManageError::Store(_)) if attempt == 0 => cuts += 1,
                        Err(error) => panic!("step {step}, call {fails_at}: {error}"),
                    }
                }
                let text =
                    &store.memory.list_managed_codes("numbers").await.expect("up")[0].settings;
                let settings = CodeSettings::parse(text).expect("readable");
                assert_eq!(settings.is_retired, step == 2);
                assert_eq!(settings.spec.max_step == 500, step > 0);
            }
            assert_eq!(highest, SegmentSpec::LARGEST_NUMBER + 1);
            if fails_at > store.calls.load(Ordering::SeqCst) {
                break;
            }
        }
        assert!(cuts > 10, "{cuts}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_becomes_strict_while_it_is_in_use_nor_stops_being_so() {
    let world = World::new();
    let node = world.node(on_demand()).await;
    let manager = world.manager(on_demand());
    let strict = SegmentSpec { strict: true, failover_gap: Some(0), ..spec() };
    let change = |strict| SpecChange {
        strict: Some(strict),
        failover_gap: Some(0),
        ..SpecChange::default()
    };
    manager.put("invoice", &all(strict), true).await.expect("created");
    assert_eq!(world.issue(&node, "invoice", 2).await, [1, 2]);
    assert_eq!(node.issuer.in_hand("invoice"), 0);
    manager.put("plain", &all(spec()), true).await.expect("created");
    world.issue(&node, "order", 1).await;
    for (refused, kept) in [
        (manager.patch("invoice", &change(false)).await, "strict stays true,"),
        (manager.put("invoice", &all(spec()), false).await.map(drop), "strict stays true,"),
        (manager.patch("plain", &change(true)).await, "strict stays false,"),
        // Clients created this one on demand.
        (manager.put("order", &all(strict), false).await.map(drop), "strict stays false,"),
        (manager.patch("order", &change(true)).await, "strict stays false,"),
    ] {
        let error = refused.expect_err(kept);
        assert!(matches!(error, ManageError::FixedOrder { .. }), "{error}");
        assert!(error.to_string().contains(kept), "{error}");
    }
    manager.patch("invoice", &max(500)).await.expect("another setting");
    let spec = manager.get("invoice").await.expect("up").expect("created").spec.expect("settings");
    assert_eq!((spec.strict, spec.max), (true, 500));
    sleep(POLLED).await;
    assert_eq!(world.issue(&node, "invoice", 1).await, [3]);
}
