//! Writes of an operator whose outcome is unknown, and the rows that an operator leaves alone.

use std::{sync::Arc, time::Duration};

use raindrop_core::{
    clock::ManualClock,
    layout::{LayoutSpec, TimeUnit},
    lease::{HighWaterMarks, Relayout, RelayoutStage, Token},
};
use raindrop_store::{ListedRow, NewRows, Scope, Store};
use rand::{SeedableRng, rngs::StdRng};
use tokio::time::{Instant, timeout};

use super::{
    faulty_store::Fault,
    world::{NOW, World, second},
};
use crate::{KeeperSettings, Operator, OperatorError, RelayoutOutcome, WorkerRelease};

const WINDOW: Duration = Duration::from_mins(5);
const DAY_MS: i64 = 86_400_000;

fn spec() -> LayoutSpec {
    LayoutSpec { worker_bits: 3, ..LayoutSpec::for_unit(TimeUnit::Millisecond) }
}

/// Returns settings of a layout whose epoch is earlier by `earlier_ms`, so that its IDs are larger.
fn larger_by(world: &World, earlier_ms: i64) -> KeeperSettings {
    let spec = LayoutSpec { epoch_ms: LayoutSpec::DEFAULT_EPOCH_MS - earlier_ms, ..spec() };
    KeeperSettings { layout: spec.build().expect("valid"), ..world.settings() }
}

async fn rows(world: &World) -> Vec<ListedRow> {
    world.store.list_rows().await.expect("up")
}

/// Adds rows that the namespace's layout does not use.
async fn add_rows(world: &World, scope: &Scope, lanes: usize) {
    let record = world.store.read_record(&scope.namespace).await.expect("up").expect("a record");
    let new = NewRows {
        marks: HighWaterMarks::all_at(7, lanes),
        seed: Token::from_bits(1),
        record: record.token,
        until_ms: i64::MAX,
    };
    assert!(world.store.create_rows(scope, &new).await.expect("up"));
}

#[tokio::test(start_paused = true)]
async fn record_write_with_unknown_outcome_is_settled_by_its_token() {
    for fault in [Fault::LostReply, Fault::Late, Fault::NeverArrives] {
        let world = World::new(spec());
        drop(world.node().await);
        world.store.fail_next_record(fault);
        let settings = larger_by(&world, DAY_MS);
        let moved = world.operator(settings.clone()).relayout().await;
        assert!(matches!(moved, Ok(RelayoutOutcome::Moved(_))), "{fault:?}: {moved:?}");
        assert_eq!(world.recorded_layout().await, settings.layout.canonical());
        assert_eq!(world.store.deliver_records().await, 0, "{fault:?}: it comes too late");
    }
}

#[tokio::test(start_paused = true)]
async fn record_that_another_operator_wrote_is_not_overwritten() {
    let world = World::new(spec());
    drop(world.node().await);
    let (one, other) = (larger_by(&world, DAY_MS), larger_by(&world, 2 * DAY_MS));
    world.store.fail_next_record(Fault::Late);
    let mut cut_short = world.operator(one.clone());
    let waits = timeout(Duration::from_millis(50), cut_short.relayout()).await;
    assert!(waits.is_err(), "{waits:?}");
    // The first operator's write arrives just before the other's.
    world.store.fail_next_record(Fault::AfterLate);
    let random = Box::new(StdRng::seed_from_u64(8));
    let (store, clock) = (world.store.clone(), world.store_clock.clone());
    let mut operator = Operator::with_random(other, store, clock, random);
    let error = operator.relayout().await.expect_err("somebody else moves it");
    assert!(matches!(error, OperatorError::RecordChanged { found: Some(_), .. }), "{error}");
    let moving = world.recorded_layout().await;
    assert!(
        moving.starts_with("relayout ") && moving.contains(&one.layout.canonical()),
        "{moving}"
    );
}

#[tokio::test(start_paused = true)]
async fn pauses_between_tries_are_doubled() {
    let longest = Duration::from_millis(100 + 200 + 400 + 800);
    // With jitter, like every pause.
    let expected = longest / 2..=longest;
    let world = World::new(spec());
    let holder = world.start(world.only(3));
    holder.issuer.leased().await;
    drop(holder);
    let began = Instant::now();
    (0..4).for_each(|_| world.store.fail_next(Fault::NeverArrives));
    world.operator(world.settings()).release(3).await.expect("released");
    assert!(expected.contains(&began.elapsed()), "{:?}", began.elapsed());
    let began = Instant::now();
    (0..4).for_each(|_| world.store.fail_next_record(Fault::NeverArrives));
    world.operator(larger_by(&world, DAY_MS)).relayout().await.expect("moved");
    assert!(expected.contains(&began.elapsed()), "{:?}", began.elapsed());
}

/// The store refuses later writes of a holder, and no lease continues in place.
#[tokio::test(start_paused = true)]
async fn raise_is_one_write_after_which_no_lease_goes_on_in_place() {
    let world = World::new(spec());
    let node = world.node().await;
    world.pass(second(5)).await;
    let before = rows(&world).await;
    let limit = node.issuer.state.generator.grant().expect("leased").acknowledged();
    world.operator(world.settings()).raise(WINDOW).await.expect("raised");
    assert_eq!(rows(&world).await, before);
    world.pass(second(60)).await;
    // The node used up its range, and leased the row again.
    let grant = node.issuer.state.generator.grant().expect("in use");
    assert_eq!(grant.acknowledged(), limit);
    let (row, layout) = (world.row(node.worker()).await, world.settings().layout);
    let due_ms = layout.start_of_tick_ms(layout.tick_of(row.marks.iter().min().expect("lanes")));
    assert!(due_ms >= NOW + 5_000 + 320_000, "{row:?}");
}

#[tokio::test(start_paused = true)]
async fn raise_covers_every_reserved_value() {
    let world = World::new(LayoutSpec { reserved_bits: 1, ..spec() });
    world.node().await.stop().await;
    let one = LayoutSpec { reserved_bits: 1, reserved_value: 1, ..spec() };
    let layout = one.build().expect("valid");
    let due_ms = world.operator(world.settings()).raise(WINDOW).await.expect("raised");
    let one = world.start(KeeperSettings { layout, ..world.settings() });
    let wait_ms = u64::try_from(due_ms - world.now_ms()).expect("ahead");
    // A claim may wait for a second.
    world.pass(Duration::from_millis(wait_ms - 1_500)).await;
    assert_eq!(one.status().lease, None);
    world.pass(second(7)).await;
    one.issuer.leased().await;
}

#[tokio::test(start_paused = true)]
async fn row_with_other_lanes_is_not_converted() {
    let world = World::new(spec());
    world.record("default", &world.settings().layout.canonical(), &[]).await;
    add_rows(&world, &Scope { min_worker: 0, ..world.scope() }, 1).await;
    let before = rows(&world).await;
    let error = world.operator(larger_by(&world, DAY_MS)).relayout().await.expect_err("one lane");
    assert!(matches!(error, OperatorError::OtherLanes { worker: 0, .. }), "{error}");
    assert_eq!(rows(&world).await, before);
}

#[tokio::test(start_paused = true)]
async fn clock_ahead_by_the_tolerated_skew_may_raise() {
    let world = World::new(spec());
    drop(world.node().await);
    let raise = async |ahead_ms| {
        let clock = Arc::new(ManualClock::new(NOW + ahead_ms));
        let random = Box::new(StdRng::seed_from_u64(8));
        let mut operator =
            Operator::with_random(world.settings(), world.store.clone(), clock, random);
        operator.raise(WINDOW).await
    };
    raise(10_000).await.expect("tolerated");
    let error = raise(10_001).await.expect_err("beyond");
    assert!(matches!(error, OperatorError::ClocksDisagree { ahead_ms: 10_001, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn rows_without_a_record_are_not_raised() {
    let world = World::new(spec());
    drop(world.node().await);
    world.store.lose_record("default");
    let before = rows(&world).await;
    let error = world.operator(world.settings()).raise(WINDOW).await.expect_err("no record");
    assert!(matches!(error, OperatorError::NoRecord { .. }), "{error}");
    assert_eq!(rows(&world).await, before);
    assert_eq!(world.store.read_record("default").await.expect("up"), None);
}

/// A person wrote this record of a move by hand.
#[tokio::test(start_paused = true)]
async fn move_beyond_the_end_of_the_layout_is_not_finished() {
    let world = World::new(spec());
    let settings = larger_by(&world, DAY_MS);
    let last_tick = settings.layout.last_tick();
    let (from, to) = (world.settings().layout.canonical(), settings.layout.canonical());
    for (tick, is_finished) in [(last_tick + 1, false), (last_tick + 2, false), (last_tick, true)] {
        let stage = RelayoutStage::Converting { tick };
        let moving = Relayout { stage, from: from.clone(), to: to.clone() }.to_string();
        world.store.lose_record("default");
        world.record("default", &moving, &[]).await;
        let moved = world.operator(settings.clone()).relayout().await;
        assert_eq!(moved.is_ok(), is_finished, "{moved:?}");
        assert_eq!(world.recorded_layout().await, if is_finished { &to } else { &moving }.clone());
    }
}

/// IDs for a past time may have been issued up to now, which no mark shows.
#[tokio::test(start_paused = true)]
async fn move_is_above_the_ids_of_past_times() {
    for (min_sequence, is_allowed) in [(0, true), (5, false)] {
        let spec = |earlier_ms| LayoutSpec {
            epoch_ms: LayoutSpec::DEFAULT_EPOCH_MS - earlier_ms,
            min_sequence,
            ..spec()
        };
        let world = World::new(spec(0));
        world.node().await.stop().await;
        world.pass(second(400)).await;
        // Every mark is past. The new layout's IDs are those of 5 s later, which is within the
        // skew.
        let layout = spec(5_000).build().expect("valid");
        let settings = KeeperSettings { layout, ..world.settings() };
        let moved = world.operator(settings).relayout().await;
        match moved {
            Ok(RelayoutOutcome::Moved(_)) => assert!(is_allowed),
            Err(OperatorError::IdsTooSmall { .. }) => assert!(!is_allowed),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_worker_of_the_layout_can_be_released() {
    let world = World::new(spec());
    let holder = world.start(world.only(7));
    holder.issuer.leased().await;
    let mut operator = world.operator(world.settings());
    assert!(matches!(operator.release(7).await, Ok(WorkerRelease::Released(_))));
    let error = operator.release(8).await.expect_err("no such worker");
    assert!(matches!(error, OperatorError::WorkerOutOfRange { largest: 7, .. }), "{error}");
}
