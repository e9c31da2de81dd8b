//! IDs for a past time, over a memory store.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use raindrop_core::{
    clock::ManualClock,
    id::Id,
    issue::ClaimError,
    layout::{LayoutSpec, TimeUnit},
    lease::{EpochClocks, NodeTimes, Token},
    preset::Preset,
};
use raindrop_store::{LayoutRecord, MemoryStore, Store};
use rand::{SeedableRng, rngs::StdRng};

use super::{
    faulty_store::{Fault, FaultyStore},
    world::{NOW, World, second},
};
use crate::{
    Backfill, BackfillError, IssueError, Issuer, Keeper, KeeperSettings, LeaseOperation,
    LeaseOutcome, NoObserver, Operator, RelayoutOutcome, UnavailableReason,
};

fn yitter() -> World {
    World::new(Preset::Yitter.spec())
}

/// Returns settings that open every past tick.
fn opened(world: &World) -> KeeperSettings {
    let settings = world.settings();
    KeeperSettings { backfill_from_ms: Some(settings.layout.epoch_ms()), ..settings }
}

/// Returns the backfill of a process that has this issuer.
fn backfill(world: &World, issuer: &Issuer, settings: KeeperSettings) -> Backfill {
    Backfill::new(settings, world.store.clone(), issuer)
}

/// Two nodes, and one after a restart, share the numbers of one millisecond.
#[tokio::test(start_paused = true)]
async fn ids_of_a_past_tick_are_shared_among_all_nodes() {
    let world = yitter();
    let node = world.node().await;
    let other_node = world.node().await;
    let one = backfill(&world, &node.issuer, opened(&world));
    let two = backfill(&world, &other_node.issuer, opened(&world));
    let at_ms = NOW - 86_400_000;
    let mut ids: Vec<Id> = one.ids("order", 2, at_ms).await.expect("two of five");
    ids.extend(two.ids("order", 2, at_ms).await.expect("four of five"));
    let restarted_node = world.node().await;
    let restarted = backfill(&world, &restarted_node.issuer, opened(&world));
    let error = restarted.ids("order", 2, at_ms).await.expect_err("one is left");
    assert!(matches!(error, BackfillError::UsedUp { left: 1, of: 5, .. }), "{error}");
    ids.extend(restarted.ids("order", 1, at_ms).await.expect("the fifth"));
    let error = one.ids("order", 1, at_ms).await.expect_err("none is left");
    assert!(matches!(error, BackfillError::UsedUp { left: 0, .. }), "{error}");

    let layout = world.settings().layout;
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 5);
    for id in &ids {
        assert_eq!(layout.start_of_tick_ms(layout.decompose(*id).tick), at_ms);
        assert!(layout.decompose(*id).sequence < layout.min_sequence());
    }
    // Another tick has its own numbers. Another code has them only if codes do not share.
    one.ids("order", 5, at_ms + 1).await.expect("five");
    let error = one.ids("user", 1, at_ms).await.expect_err("none is left").to_string();
    assert!(error.ends_with("has 0 of 5 IDs left"), "{error}");
    let other = yitter();
    let mut settings = opened(&other);
    settings.issue.codes_shared = false;
    let node_by_code = other.node().await;
    let by_code = backfill(&other, &node_by_code.issuer, settings);
    for code in ["order", "user"] {
        by_code.ids(code, 5, at_ms).await.expect("five");
    }
    let error = by_code.ids("user", 1, at_ms).await.expect_err("none is left").to_string();
    assert!(error.ends_with("IDs left for code \"user\""), "{error}");
    world.issue(&node, "order", 100).await;
}

#[tokio::test(start_paused = true)]
async fn only_past_ticks_inside_the_layout_have_backfill_ids() {
    let world = yitter();
    let node = world.node().await;
    let backfill = backfill(&world, &node.issuer, opened(&world));
    let epoch_ms = world.settings().layout.epoch_ms();
    for at_ms in [NOW, NOW + 1, epoch_ms - 1, i64::MIN, i64::MAX] {
        let error = backfill.ids("order", 1, at_ms).await.expect_err("not past");
        assert!(matches!(error, BackfillError::OutOfRange { .. }), "{error}");
        assert!(!error.to_string().contains("layout.backfill_from"), "{error}");
    }
    for at_ms in [NOW - 1, epoch_ms] {
        backfill.ids("order", 1, at_ms).await.expect("past");
    }
    let error = backfill.ids("order", 6, NOW - 2).await.expect_err("five");
    assert!(matches!(error, BackfillError::UsedUp { left: 5, of: 5, .. }), "{error}");
    let error = backfill.ids("a b", 1, NOW - 2).await.expect_err("no code");
    assert!(matches!(error, BackfillError::Refused(ClaimError::InvalidCode(_))), "{error}");
}

#[tokio::test(start_paused = true)]
async fn layout_without_reserved_sequence_has_no_backfill_ids() {
    let world = World::new(LayoutSpec::for_unit(TimeUnit::Millisecond));
    let node = world.node().await;
    let error = backfill(&world, &node.issuer, opened(&world)).ids("order", 1, NOW - 1).await;
    let error = error.expect_err("none are reserved");
    assert!(matches!(error, BackfillError::NotReserved { .. }), "{error}");
    assert!(error.to_string().contains("raindrop workers relayout"), "{error}");
}

/// The numbers of each code and the shared numbers of all codes are the same IDs.
#[tokio::test(start_paused = true)]
async fn backfill_counted_differently_is_refused() {
    let world = yitter();
    let node = world.node().await;
    let issuer = &node.issuer;
    let mut by_code = opened(&world);
    by_code.issue.codes_shared = false;
    // A refused request was not counted in any way.
    let refused = backfill(&world, issuer, by_code.clone()).ids("order", 1, NOW + 1).await;
    assert!(matches!(refused, Err(BackfillError::OutOfRange { .. })));
    backfill(&world, issuer, opened(&world)).ids("order", 2, NOW - 1).await.expect("two");
    let error =
        backfill(&world, issuer, by_code).ids("order", 1, NOW - 1).await.expect_err("other");
    assert!(matches!(error, BackfillError::CountedOtherwise { .. }), "{error}");
    for part in ["codes.shared=false", "codes.shared=true", "table=memory"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    backfill(&world, issuer, opened(&world)).ids("order", 3, NOW - 1).await.expect("three");
}

#[tokio::test(start_paused = true)]
async fn lost_reply_of_a_backfill_loses_ids_and_repeats_none() {
    let world = yitter();
    let node = world.node().await;
    let backfill = backfill(&world, &node.issuer, opened(&world));
    let at_ms = NOW - 1;
    let first = backfill.ids("order", 1, at_ms).await.expect("one");
    world.store.fail_next(Fault::LostReply);
    let error = backfill.ids("order", 1, at_ms).await.expect_err("lost");
    assert!(matches!(error, BackfillError::Store(_)), "{error}");
    let rest = backfill.ids("order", 3, at_ms).await.expect("three");
    assert!(!rest.contains(&first[0]));
    assert!(backfill.ids("order", 1, at_ms).await.is_err());
}

/// Another system may have issued equal IDs until the namespace began.
#[tokio::test(start_paused = true)]
async fn ticks_before_the_first_start_need_backfill_from() {
    let world = yitter();
    let node = world.node().await;
    let closed = backfill(&world, &node.issuer, world.settings());
    for at_ms in [NOW - 86_400_000, NOW - 1, NOW, NOW + 10_000] {
        world.store_clock.set(NOW + 20_000);
        let error = closed.ids("order", 1, at_ms).await.expect_err("before the first start");
        assert!(matches!(error, BackfillError::OutOfRange { .. }), "{error}");
        assert!(error.to_string().contains("layout.backfill_from"), "{error}");
    }
    // The skew is allowed for.
    closed.ids("order", 5, NOW + 10_001).await.expect("five");
    let from_ms = NOW - 3_600_000;
    let open = KeeperSettings { backfill_from_ms: Some(from_ms), ..world.settings() };
    let open = backfill(&world, &node.issuer, open);
    open.ids("order", 5, from_ms).await.expect("five");
    let error = open.ids("order", 5, from_ms - 1).await.expect_err("not opened");
    assert!(matches!(error, BackfillError::OutOfRange { .. }), "{error}");
}

/// The old layout may have issued equal IDs for the same instants, so these ticks are closed.
#[tokio::test(start_paused = true)]
async fn relayout_closes_earlier_ticks() {
    let world = yitter();
    let node = world.node().await;
    let stopped = node.issuer.clone();
    backfill(&world, &stopped, opened(&world)).ids("order", 5, NOW - 1).await.expect("five");
    node.stop().await;
    world.pass(Duration::from_secs(20)).await;
    let spec = LayoutSpec {
        min_sequence: 10,
        timestamp_bits: Some(48),
        sequence_bits: Some(9),
        ..Preset::Yitter.spec()
    };
    let wider = KeeperSettings::new(spec.build().expect("valid"), "the same for all");
    let mut operator = Operator::with_random(
        wider.clone(),
        world.store.clone(),
        world.store_clock.clone(),
        Box::new(StdRng::seed_from_u64(7)),
    );
    let moved = operator.relayout().await.expect("allowed");
    assert!(matches!(moved, RelayoutOutcome::Moved(_)), "{moved:?}");
    let old = backfill(&world, &stopped, opened(&world)).ids("order", 1, NOW).await;
    assert!(matches!(old, Err(BackfillError::RecordChanged { .. })));
    let wide_node = world.start(wider.clone());
    let new = backfill(&world, &wide_node.issuer, wider);
    let before = new.ids("order", 1, NOW).await.expect_err("before the move");
    assert!(matches!(before, BackfillError::OutOfRange { .. }), "{before}");
    assert!(!before.to_string().contains("layout.backfill_from"), "{before}");
    let since_ms = NOW + 20_000;
    world.pass(Duration::from_secs(1)).await;
    new.ids("order", 10, since_ms).await.expect("ten");
}

#[tokio::test(start_paused = true)]
async fn raise_after_a_restore_closes_earlier_ticks() {
    let world = yitter();
    let node = world.node().await;
    node.stop().await;
    let next = world.start(world.settings());
    let mut operator = Operator::with_random(
        world.settings(),
        world.store.clone(),
        world.store_clock.clone(),
        Box::new(StdRng::seed_from_u64(7)),
    );
    operator.raise(Duration::from_secs(300)).await.expect("raised");
    let backfill = backfill(&world, &next.issuer, opened(&world));
    world.pass(Duration::from_secs(1)).await;
    let before = backfill.ids("order", 1, NOW).await.expect_err("before the backup");
    assert!(matches!(before, BackfillError::OutOfRange { .. }), "{before}");
    assert!(!before.to_string().contains("layout.backfill_from"), "{before}");
    world.pass(Duration::from_secs(400)).await;
    backfill.ids("order", 5, NOW + 390_000).await.expect("five");
}

/// Tick numbers of the old layout mean nothing in the new one.
#[tokio::test(start_paused = true)]
async fn relayout_to_a_coarser_unit_opens_later_ticks() {
    let fine = LayoutSpec { min_sequence: 5, ..LayoutSpec::for_unit(TimeUnit::Millisecond) };
    let world = World::new(fine);
    drop(world.node().await);
    world.pass(second(400)).await;
    let coarse = LayoutSpec { min_sequence: 5, ..LayoutSpec::for_unit(TimeUnit::Second) };
    let mut settings = world.settings();
    settings.layout = coarse.build().expect("valid");
    let moved = world.operator(settings.clone()).relayout().await;
    assert!(matches!(moved, Ok(RelayoutOutcome::Moved(_))), "{moved:?}");
    let node = world.start(settings.clone());
    world.pass(second(60)).await;
    backfill(&world, &node.issuer, settings)
        .ids("order", 1, NOW + 430_000)
        .await
        .expect("after the move, and past");
}

/// A node with a lease, whose store takes a second for each answer.
struct SlowNode {
    clock: Arc<ManualClock>,
    store: Arc<FaultyStore>,
    settings: KeeperSettings,
    issuer: Issuer,
    _keeper: Keeper,
}

impl SlowNode {
    async fn start() -> Self {
        let clock = Arc::new(ManualClock::new(NOW));
        let memory = MemoryStore::with_own_clock(clock.clone());
        let store = Arc::new(FaultyStore::new(memory).with_latency(second(1)));
        let layout = Preset::Yitter.spec().build().expect("valid");
        let mut settings = KeeperSettings::new(layout, "the same for all");
        settings.backfill_from_ms = Some(settings.layout.epoch_ms());
        let random = Box::new(StdRng::seed_from_u64(1));
        let events = Arc::new(NoObserver);
        let (_keeper, issuer) =
            Keeper::start_with(settings.clone(), store.clone(), clock.clone(), events, random);
        issuer.leased().await;
        Self { clock, store, settings, issuer, _keeper }
    }

    fn backfill(&self) -> Backfill {
        Backfill::new(self.settings.clone(), self.store.clone(), &self.issuer)
    }
}

/// A request for a past time sleeps while the store is restored and `raise` runs.
#[tokio::test(start_paused = true)]
async fn tick_closed_during_a_backfill_issues_nothing() {
    let node = SlowNode::start().await;
    let SlowNode { store, .. } = &node;
    let at_ms = NOW - 86_400_000;
    let sleeper = node.backfill();
    sleeper.ids("order", 1, at_ms - 1).await.expect("it is prepared");
    let backup = store.backup();
    let before = node.backfill().ids("order", 5, at_ms).await.expect("five before the restore");
    let live = store.backup();
    store.put_back(backup);
    let SlowNode { settings, clock, .. } = &node;
    let random = Box::new(StdRng::seed_from_u64(2));
    let mut operator =
        Operator::with_random(settings.clone(), store.clone(), clock.clone(), random);
    // The store is slow, but the machine's clock stays within the skew of the store's.
    operator.raise(second(300)).await.expect("raised");
    let raised = store.backup();
    store.put_back(live);
    let asked = tokio::spawn(async move { sleeper.ids("order", 5, at_ms).await });
    // The request has read clock and record, and sleeps until the store was restored and raised.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    store.put_back(raised);
    let after = asked.await.expect("no panic");
    assert!(after.map_or(true, |ids| ids.iter().all(|id| !before.contains(id))), "issued twice");
}

#[tokio::test(start_paused = true)]
async fn codes_that_are_not_allowed_have_no_past() {
    let world = yitter();
    let node = world.node().await;
    let mut settings = opened(&world);
    settings.issue.codes_allow = Some(["order".to_owned()].into());
    let backfill = backfill(&world, &node.issuer, settings);
    assert_eq!(backfill.namespace(), "default");
    backfill.ids("order", 1, NOW - 1).await.expect("allowed");
    let error = backfill.ids("user", 1, NOW - 1).await.expect_err("not allowed");
    assert!(matches!(error, BackfillError::Refused(ClaimError::UnknownCode(_))), "{error}");
}

/// Which IDs of these ticks the lost writes had reserved is unknown.
#[tokio::test(start_paused = true)]
async fn ticks_before_a_fail_over_are_closed() {
    let world = yitter();
    let node = world.node().await;
    let at_ms = NOW - 86_400_000;
    let one = backfill(&world, &node.issuer, opened(&world));
    let two = backfill(&world, &node.issuer, opened(&world));
    two.ids("user", 1, at_ms).await.expect("one");
    let held = world.store.snapshot();
    one.ids("order", 2, at_ms).await.expect("two of five");
    world.store.fail_over("b", held);
    // No node has noticed the fail-over yet. The first of these calls begins the epoch.
    for backfill in [&two, &one, &self::backfill(&world, &node.issuer, opened(&world))] {
        for code in ["order", "user", "new"] {
            let error = backfill.ids(code, 1, at_ms).await.expect_err("closed");
            let BackfillError::OutOfRange { can_be_opened: false, .. } = error else {
                panic!("{error}")
            };
        }
    }
    let record = world.store.read_record("default").await.expect("up").expect("the record");
    assert_eq!((record.history.identity.as_str(), record.history.epochs().count()), ("b", 2));
    // The barrier is five minutes and two skews ahead.
    world.pass(second(400)).await;
    let open_ms = world.now_ms() - 10_000;
    two.ids("order", 5, open_ms).await.expect("five");
    let error = one.ids("order", 1, open_ms).await.expect_err("none is left");
    assert!(matches!(error, BackfillError::UsedUp { left: 0, .. }), "{error}");
    world.issue(&node, "order", 100).await;
}

/// Both nodes have written since the backup, and neither has read its row since the restore.
#[tokio::test(start_paused = true)]
async fn counters_of_a_backup_issue_nothing_before_a_holder_looks() {
    let world = yitter();
    let (one, two) = (world.node().await, world.node().await);
    let nodes = [&one, &two].map(|node| backfill(&world, &node.issuer, opened(&world)));
    let at_ms = NOW - 86_400_000;
    nodes[0].ids("order", 1, at_ms).await.expect("one");
    nodes[1].ids("order", 1, at_ms - 1).await.expect("one");
    world.pass(second(5)).await;
    let backup = world.store.backup();
    world.pass(second(65)).await;
    let before = nodes[0].ids("order", 4, at_ms).await.expect("four");
    assert_eq!(before.len(), 4);
    world.store.put_back(backup);
    let error = nodes[1].ids("order", 2, at_ms).await.expect_err("the row is an older one");
    assert!(matches!(error, BackfillError::Unconfirmed { .. }), "{error}");
    assert_eq!(one.events.epochs() + two.events.epochs(), 0);
    // The doubt makes the keeper read its row long before its next renewal is due.
    world.pass(second(1)).await;
    assert_eq!(one.events.epochs() + two.events.epochs(), 1);
    for backfill in &nodes {
        let error = backfill.ids("order", 1, at_ms).await.expect_err("closed");
        let BackfillError::OutOfRange { can_be_opened: false, .. } = error else {
            panic!("{error}")
        };
    }
    // No other node had IDs beyond the barrier.
    world.pass(second(400)).await;
    let open_ms = world.now_ms() - 10_000;
    nodes[0].ids("order", 5, open_ms).await.expect("five");
}

/// The reservation is sent before a holder notices the restore, and answered after the holder began
/// an epoch.
#[tokio::test(start_paused = true)]
async fn reservation_of_an_epoch_that_ended_issues_nothing() {
    let world = yitter();
    let (one, two) = (world.node().await, world.node().await);
    let nodes = [&one, &two].map(|node| backfill(&world, &node.issuer, opened(&world)));
    let at_ms = NOW - 86_400_000;
    nodes[1].ids("order", 1, at_ms - 1).await.expect("one");
    world.pass(second(5)).await;
    let backup = world.store.backup();
    world.pass(second(65)).await;
    nodes[0].ids("order", 5, at_ms).await.expect("five");
    world.store.put_back(backup);
    // The node reads its row repeatedly while the keepers read theirs.
    let asked = nodes[1].ids("order", 5, at_ms);
    let passes = async {
        two.issuer.state.doubt();
        world.pass(second(1)).await;
    };
    let (asked, ()) = tokio::join!(asked, passes);
    assert_eq!(one.events.epochs() + two.events.epochs(), 1);
    let error = asked.expect_err("the first five were issued before");
    let is_refused = matches!(
        error,
        BackfillError::Unconfirmed { .. }
            | BackfillError::EpochEnded { .. }
            | BackfillError::OutOfRange { can_be_opened: false, .. }
    );
    assert!(is_refused, "{error}");
}

#[tokio::test(start_paused = true)]
async fn process_without_a_lease_reserves_nothing_for_a_past_time() {
    let world = yitter();
    let stopped = world.node().await;
    let issuer = stopped.issuer.clone();
    stopped.stop().await;
    let error = backfill(&world, &issuer, opened(&world)).ids("order", 2, NOW - 1).await;
    let error = error.expect_err("it holds no lease");
    let BackfillError::NoLease(IssueError::NoLease { reason, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!(reason, UnavailableReason::ShuttingDown);
    let node = world.start(world.settings());
    let late = backfill(&world, &node.issuer, opened(&world));
    let error = late.ids("order", 2, NOW - 1).await.expect_err("it holds no lease yet");
    assert!(matches!(error, BackfillError::NoLease(_)), "{error}");
    node.issuer.leased().await;
    late.ids("order", 5, NOW - 1).await.expect("no number was reserved in vain");
}

/// A holder whose clock is ahead writes nothing.
#[tokio::test(start_paused = true)]
async fn last_write_of_more_than_one_and_a_half_renewals_reserves_nothing() {
    let world = yitter();
    let (node, other) = (world.node().await, world.node().await);
    let late = backfill(&world, &node.issuer, opened(&world));
    world.pass(second(31)).await;
    world.until_swap().await;
    node.clock.step(60_000);
    world.pass(second(40)).await;
    late.ids("order", 1, NOW - 1).await.expect("the last write is younger");
    world.pass(second(35)).await;
    let error = late.ids("order", 1, NOW - 2).await.expect_err("it is older");
    let BackfillError::NoLease(IssueError::NoLease { reason, .. }) = error else {
        panic!("{error}")
    };
    assert!(matches!(reason, UnavailableReason::ClockAhead(_)), "{reason}");
    let all = backfill(&world, &other.issuer, opened(&world)).ids("order", 5, NOW - 2).await;
    all.expect("no number was reserved in vain");
}

/// A machine was suspended, and a client asks before the keeper has run again.
#[tokio::test(start_paused = true)]
async fn process_that_slept_reserves_nothing_before_its_keeper_renewed() {
    let world = yitter();
    let node = world.node().await;
    let late = backfill(&world, &node.issuer, opened(&world));
    late.ids("order", 1, NOW - 1).await.expect("one");
    world.pass(second(5)).await;
    world.store_clock.advance(second(60));
    node.clock.advance(second(60));
    let error = late.ids("order", 5, NOW - 2).await.expect_err("the last write is too old");
    let BackfillError::NotRenewed { worker, longest, .. } = error else { panic!("{error}") };
    assert_eq!((worker, longest), (node.worker(), second(45)));
}

/// An epoch begins after the row has confirmed the reservation, and closes no tick.
#[tokio::test(start_paused = true)]
async fn epoch_that_begins_after_the_confirmation_issues_nothing() {
    let node = SlowNode::start().await;
    let (store, backfill) = (&node.store, node.backfill());
    let at_ms = NOW - 86_400_000;
    backfill.ids("order", 1, at_ms - 1).await.expect("it is prepared");
    let record = store.read_record("default").await.expect("up").expect("the record");
    let history = record.history.next(
        &record.history.identity,
        Token::from_bits(77),
        EpochClocks::of_store(NOW),
        NodeTimes::default(),
    );
    let next = LayoutRecord { token: Token::from_bits(78), history, ..record.clone() };
    let begins = async {
        // Time for the clock, the record, the reservation and half of the row's answer.
        tokio::time::sleep(Duration::from_millis(2_600)).await;
        store.swap_record("default", record.token, &next).await.expect("up")
    };
    let (asked, began) = tokio::join!(backfill.ids("order", 5, at_ms), begins);
    assert!(began);
    let error = asked.expect_err("reserved in an epoch that ended");
    assert!(matches!(error, BackfillError::EpochEnded { .. }), "{error}");
}

/// The store fails when the keeper reads its row because of a doubt.
#[tokio::test(start_paused = true)]
async fn doubt_outlasts_a_look_that_fails() {
    let world = yitter();
    let node = world.node().await;
    world.pass(second(5)).await;
    let renewed = || node.events.count(LeaseOperation::Renew, LeaseOutcome::Done);
    let before = renewed();
    world.store.set_down(true);
    node.issuer.state.doubt();
    world.pass(Duration::from_millis(100)).await;
    assert!(world.store.unanswered.load(Ordering::SeqCst) > 0);
    world.store.set_down(false);
    // Its next renewal would be due after half a minute.
    world.pass(second(6)).await;
    assert_eq!(renewed(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn renewals_beside_a_backfill_are_no_doubt() {
    let clock = Arc::new(ManualClock::new(NOW));
    let memory = MemoryStore::with_own_clock(clock.clone());
    let store = Arc::new(FaultyStore::new(memory).with_latency(Duration::from_millis(300)));
    let mut settings =
        KeeperSettings::new(Preset::Yitter.spec().build().expect("valid"), "the same for all");
    settings.backfill_from_ms = Some(settings.layout.epoch_ms());
    settings.lease.renew = second(1);
    let (_keeper, issuer) = Keeper::start_with(
        settings.clone(),
        store.clone(),
        clock.clone(),
        Arc::new(NoObserver),
        Box::new(StdRng::seed_from_u64(1)),
    );
    issuer.leased().await;
    let backfill = Backfill::new(settings, store, &issuer);
    for ago in 1..30 {
        backfill.ids("order", 1, NOW - ago).await.expect("confirmed");
    }
}
