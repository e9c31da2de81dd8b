use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Wake, Waker},
    thread,
    time::Duration,
};

use super::*;
use crate::{
    clock::{Clock, ManualClock},
    issue::IssueSettings,
    layout::{LayoutSpec, TimeUnit},
    preset::Preset,
};

const NOW: i64 = 1_763_650_000_000;
const PER_TICK: u64 = 4096;

/// A clock whose recent reading moves only when the test sets it.
#[derive(Debug)]
struct LaggingClock {
    now: ManualClock,
    recent: Recent,
}

impl LaggingClock {
    fn catch_up(&self) {
        self.recent.set(self.now.now_ms());
    }
}

impl Clock for LaggingClock {
    fn now_ms(&self) -> i64 {
        self.now.now_ms()
    }

    fn steady(&self) -> Duration {
        self.now.steady()
    }

    fn recent(&self) -> Option<Recent> {
        Some(self.recent.clone())
    }
}

#[derive(Debug, Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Bench {
    clock: Arc<LaggingClock>,
    wake_ups: Arc<WakeCounter>,
    generator: Generator,
}

impl Bench {
    fn new(settings: IssueSettings) -> Self {
        Self::with_unit(TimeUnit::Millisecond, settings)
    }

    fn with_unit(unit: TimeUnit, settings: IssueSettings) -> Self {
        let layout = LayoutSpec::for_unit(unit).build().expect("valid");
        let clock = LaggingClock { now: ManualClock::new(NOW), recent: Recent::new(NOW) };
        let clock = Arc::new(clock);
        let generator = Generator::without_lease(layout, settings, clock.clone());
        let bench = Self { clock, wake_ups: Arc::default(), generator };
        bench.lease(0, bench.present() + 100 * PER_TICK);
        bench
    }

    fn lease(&self, lane: u64, limit: u64) -> Arc<Grant> {
        let waker = Waker::from(Arc::clone(&self.wake_ups));
        let codes_max = self.generator.settings().codes_max;
        let grant = Grant::new(self.generator.layout(), 7, lane, 0, codes_max, waker);
        let grant = Arc::new(grant.expect("fits"));
        grant.raise_limit(limit, self.present());
        self.generator.replace_grant(Some(Arc::clone(&grant)));
        grant
    }

    fn present(&self) -> u64 {
        let layout = self.generator.layout();
        layout.first_position(layout.tick_clamped(self.clock.now_ms()))
    }

    fn handle(&self) -> CodeHandle<&Generator> {
        self.generator.handle("order").expect("valid")
    }

    /// The tick of an ID, from the beginning of the test.
    fn tick(&self, id: Id) -> i64 {
        let layout = self.generator.layout();
        layout.decompose(id).tick.cast_signed() - layout.tick_at(NOW)
    }
}

#[test]
fn handles_and_names_draw_from_one_cursor() {
    let bench = Bench::new(IssueSettings::default());
    let ids: Vec<Vec<Id>> = thread::scope(|scope| {
        let worker = || {
            let mut handle = bench.handle();
            let mut ids = Vec::new();
            for round in 0..900 {
                match round % 3 {
                    0 => ids.extend(handle.claim(1 + round % 5).expect("room").ids),
                    1 => ids.extend(bench.generator.claim("order", 1).expect("room").ids),
                    _ => ids.extend(handle.try_next_id()),
                }
                if round % 100 == 0 {
                    bench.clock.now.step(1);
                    bench.clock.catch_up();
                }
            }
            ids
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(ids.iter().all(|ids| ids.is_sorted()));
    let distinct: HashSet<&Id> = ids.iter().flatten().collect();
    assert_eq!(distinct.len(), ids.iter().map(Vec::len).sum::<usize>());
}

#[test]
fn quick_path_issues_what_claims_by_name_issue() {
    for spread in [0, 3] {
        let settings = IssueSettings { sequence_spread_bits: spread, ..IssueSettings::default() };
        let (quick, named) = (Bench::new(settings.clone()), Bench::new(settings));
        let mut handle = quick.handle();
        for step in [0, 0, 1, 0, 0, 0, 5, 0, 1, 1, 0] {
            for bench in [&quick, &named] {
                bench.clock.now.step(step);
                bench.clock.catch_up();
            }
            let expected = named.generator.claim("order", 1).expect("room").ids.next();
            assert_eq!(handle.try_next_id().ok(), expected);
        }
    }
}

#[test]
fn claims_after_the_first_take_the_quick_path() {
    let bench = Bench::new(IssueSettings::default());
    let mut handle = bench.handle();
    assert_eq!(handle.take_quickly(), None);
    let first = handle.try_next_id().expect("room");
    assert!(handle.take_quickly().is_some_and(|id| id > first));
}

#[test]
fn old_recent_reading_refuses_and_delays_nothing() {
    let bench = Bench::new(IssueSettings::default());
    let mut handle = bench.handle();
    for _ in 0..PER_TICK {
        assert_eq!(handle.try_next_id().map(|id| bench.tick(id)), Ok(0));
    }
    let used_up = ClaimError::SequenceExhausted { retry_after: Duration::from_millis(1) };
    assert_eq!(handle.try_next_id(), Err(used_up));
    // The recent reading stays where it is.
    bench.clock.now.step(3);
    assert_eq!(handle.try_next_id().map(|id| bench.tick(id)), Ok(3));
    let claim = handle.claim(5000).expect("waits");
    assert_eq!(claim.wait, Duration::from_millis(1));
}

#[test]
fn old_recent_reading_is_not_a_rollback() {
    let bench = Bench::new(IssueSettings::default());
    let mut handle = bench.handle();
    let mut other = bench.generator.handle("other").expect("valid");
    other.try_next_id().expect("room");
    bench.clock.now.step(5);
    handle.try_next_id().expect("room");
    let claim = other.claim(1).expect("room");
    assert!(!claim.hold_began && !claim.borrowed);
}

#[test]
fn the_limit_is_not_passed_and_the_keeper_is_woken_half_way() {
    let bench = Bench::new(IssueSettings::default());
    let grant = bench.lease(0, bench.present() + 10);
    // The same limit again changes nothing.
    grant.raise_limit(bench.present() + 10, bench.present());
    let mut handle = bench.handle();
    for taken in 1..=10 {
        handle.try_next_id().expect("room");
        assert_eq!(bench.wake_ups.0.load(Ordering::SeqCst), usize::from(taken > 5), "{taken}");
    }
    assert_eq!(handle.try_next_id(), Err(ClaimError::LimitReached));
    grant.raise_limit(bench.present() + 20, bench.present());
    assert!(handle.try_next_id().is_ok());
}

#[test]
fn claims_by_name_wake_the_keeper_half_way() {
    let bench = Bench::new(IssueSettings::default());
    bench.lease(0, bench.present() + 10);
    for taken in 1..=10 {
        bench.generator.claim("order", 1).expect("room");
        assert_eq!(bench.wake_ups.0.load(Ordering::SeqCst), usize::from(taken > 5), "{taken}");
    }
}

#[test]
fn handle_follows_the_grant_until_there_is_none() {
    let bench = Bench::new(IssueSettings::default());
    let mut handle = bench.handle();
    let lane = |id| bench.generator.layout().decompose(id).lane;
    assert_eq!(handle.try_next_id().map(lane), Ok(0));
    let old = bench.generator.grant().expect("leased");
    let new = bench.lease(1, bench.present() + 100 * PER_TICK);
    old.seal();
    assert_eq!(handle.try_next_id().map(lane), Ok(1));
    new.seal();
    assert_eq!(handle.try_next_id(), Err(ClaimError::NoLease));
    bench.generator.replace_grant(None);
    assert_eq!(handle.clone().claim(1).map(|_| ()), Err(ClaimError::NoLease));
}

#[test]
fn handle_of_an_evicted_code_finds_its_code_again() {
    let bench =
        Bench::new(IssueSettings { codes_shared: false, codes_max: 1, ..IssueSettings::default() });
    let mut handle = bench.handle();
    let first = handle.try_next_id().expect("room");
    let next_tick = || {
        bench.clock.now.step(1);
        bench.clock.catch_up();
    };
    next_tick();
    bench.generator.claim("other", 1).expect("it evicts");
    next_tick();
    assert!(handle.try_next_id().is_ok_and(|id| id > first));
}

#[test]
fn clock_that_went_back_is_noticed() {
    let bench = Bench::new(IssueSettings::default());
    let mut handle = bench.handle();
    handle.try_next_id().expect("room");
    bench.clock.now.step(-2_000);
    bench.clock.catch_up();
    // The present tick has room, so it is issued from, but the keeper hears of it.
    assert!(handle.try_next_id().is_ok());
    assert!(bench.generator.grant().expect("leased").is_rolled_back());
    assert_eq!(bench.wake_ups.0.load(Ordering::SeqCst), 1);
}

#[test]
fn bad_codes_and_counts_are_refused() {
    let bench = Bench::new(IssueSettings::default());
    assert!(matches!(bench.generator.handle("a b"), Err(ClaimError::InvalidCode(_))));
    assert!(matches!(bench.handle().claim(0), Err(ClaimError::InvalidCount { .. })));
}

#[test]
fn old_blocks_are_discarded() {
    let bench = Bench::new(IssueSettings::default());
    let mut blocks = bench.handle().into_blocks(100).with_max_age(Duration::from_millis(2));
    let mut ids: Vec<Id> = (0..50).map(|_| blocks.next_id().expect("room")).collect();
    bench.clock.now.step(2);
    bench.clock.catch_up();
    ids.push(blocks.next_id().expect("room"));
    assert_eq!(bench.tick(ids[50]), 0);
    bench.clock.now.step(1);
    bench.clock.catch_up();
    ids.extend((0..250).map(|_| blocks.next_id().expect("room")));
    assert!(ids[51..].iter().all(|id| bench.tick(*id) == 3));
    assert!(ids.is_sorted());
    assert_eq!(HashSet::<&Id>::from_iter(&ids).len(), ids.len());
}

#[test]
fn blocks_age_by_a_clock_without_a_recent_reading() {
    let layout = Preset::Raindrop.spec().build().expect("valid");
    let clock = Arc::new(ManualClock::new(NOW));
    let settings = IssueSettings::default();
    let generator = Generator::with_worker(layout, 7, &settings, clock.clone()).expect("fits");
    let handle = generator.handle("order").expect("valid");
    let mut blocks = handle.into_blocks(100).with_max_age(Duration::from_millis(2));
    let mut next = || generator.layout().decompose(blocks.next_id().expect("room"));
    let first = next();
    clock.step(2);
    let second = next();
    assert_eq!((second.tick, second.sequence), (first.tick, first.sequence + 1));
    clock.step(1);
    assert_eq!(next().tick, first.tick + 3);
}

#[test]
fn blocks_span_ticks_and_report_exhaustion() {
    let settings =
        IssueSettings { borrow_ahead: Duration::from_millis(1), ..IssueSettings::default() };
    let bench = Bench::new(settings);
    let mut blocks = bench.handle().into_blocks(8192);
    let ids: Vec<Id> = (0..8192).map(|_| blocks.next_id().expect("room")).collect();
    assert!(ids.is_sorted());
    assert_eq!((bench.tick(ids[4095]), bench.tick(ids[4096])), (0, 1));
    assert!(matches!(blocks.next_id(), Err(ClaimError::SequenceExhausted { .. })));
    assert!(matches!(
        bench.handle().into_blocks(0).next_id(),
        Err(ClaimError::InvalidCount { count: 0, .. })
    ));
}

#[test]
fn handle_issues_what_the_name_issues_where_ids_are_not_neighbours() {
    let reserved = LayoutSpec { reserved_bits: 3, ..LayoutSpec::for_unit(TimeUnit::Millisecond) };
    for spec in [reserved, Preset::Sonyflake.spec()] {
        let generator = || {
            let layout = spec.build().expect("valid");
            let (settings, clock) = (IssueSettings::default(), Arc::new(ManualClock::new(NOW)));
            Generator::with_worker(layout, 7, &settings, clock).expect("fits")
        };
        let (by_handle, by_name) = (generator(), generator());
        let mut handle = by_handle.handle("order").expect("valid");
        let ids: Vec<Id> = (0..20).map(|_| handle.try_next_id().expect("room")).collect();
        let expected: Vec<Id> = by_name.claim("order", 20).expect("room").ids.collect();
        assert_eq!(ids, expected);
        let mut blocks = handle.into_blocks(7);
        let ids: Vec<Id> = (0..20).map(|_| blocks.next_id().expect("room")).collect();
        let expected: Vec<Id> = by_name.claim("order", 20).expect("room").ids.collect();
        assert_eq!(ids, expected);
        assert!(ids.iter().all(|id| by_name.layout().decompose(*id).worker == 7));
    }
}

/// Two handles that took IDs in turn until the first one is within a run, and these IDs.
fn rivals(bench: &Bench) -> ([CodeHandle<&Generator>; 2], [Vec<Id>; 2]) {
    let mut handles = [bench.handle(), bench.handle()];
    let mut ids = [Vec::new(), Vec::new()];
    for round in 0..1_000 {
        if round == 100 {
            // A handle sees all sampled positions, or none: that shows when the clock moves.
            bench.clock.now.step(1);
            bench.clock.catch_up();
        }
        for (handle, ids) in handles.iter_mut().zip(&mut ids) {
            ids.push(handle.try_next_id().expect("room"));
        }
        let left = |handle: &CodeHandle<_>| handle.window.run_end - handle.window.next;
        if let Some(within) = handles.iter().position(|handle| left(handle) > LONGEST_RUN / 4) {
            handles.swap(0, within);
            ids.swap(0, within);
            break;
        }
    }
    (handles, ids)
}

fn assert_distinct_and_ascending(ids: &[Vec<Id>]) {
    assert!(ids.iter().all(|ids| ids.is_sorted()));
    let distinct: HashSet<&Id> = ids.iter().flatten().collect();
    assert_eq!(distinct.len(), ids.iter().map(Vec::len).sum::<usize>());
}

#[test]
fn handles_that_share_a_code_take_runs_until_one_is_alone() {
    let bench = Bench::new(IssueSettings::default());
    let ([mut one, _], mut ids) = rivals(&bench);
    for _ in 0..500 {
        ids[0].push(one.try_next_id().expect("room"));
    }
    assert_eq!(one.window.run_length, 1);
    assert_distinct_and_ascending(&ids);
}

#[test]
fn rivals_use_up_a_tick_and_lose_less_than_their_last_runs() {
    let bench = Bench::new(IssueSettings::default());
    let (mut handles, mut ids) = rivals(&bench);
    for (handle, ids) in handles.iter_mut().zip(&mut ids) {
        ids.extend(std::iter::from_fn(|| handle.try_next_id().ok()));
    }
    assert_distinct_and_ascending(&ids);
    let issued = ids.iter().flatten().filter(|id| bench.tick(**id) == 1).count() as u64;
    assert!((PER_TICK - LONGEST_RUN..=PER_TICK).contains(&issued), "{issued}");
    bench.clock.now.step(1);
    bench.clock.catch_up();
    let next = handles[1].try_next_id().expect("room");
    assert_eq!(bench.tick(next), 2);
}

#[test]
fn run_ends_once_others_have_claimed_in_the_next_tick() {
    for by_name in [false, true] {
        let bench = Bench::new(IssueSettings::default());
        let ([mut one, _], _) = rivals(&bench);
        // The clock keeps its recent reading until a claim reads it.
        bench.clock.now.step(1);
        let other = if by_name {
            bench.generator.claim("order", 1).expect("room").ids.next().expect("one")
        } else {
            bench.handle().try_next_id().expect("room")
        };
        let after = one.try_next_id().expect("room");
        assert_eq!((bench.tick(other), bench.tick(after)), (2, 2));
    }
}

#[test]
fn run_ends_with_its_tick() {
    let bench = Bench::new(IssueSettings::default());
    let ([mut one, _], mut ids) = rivals(&bench);
    assert!(one.window.next < one.window.run_end);
    bench.clock.now.step(1);
    bench.clock.catch_up();
    ids[0].push(one.try_next_id().expect("room"));
    assert_eq!(bench.tick(*ids[0].last().expect("one")), 2);
    assert_distinct_and_ascending(&ids);
}

#[test]
fn run_lasts_as_long_as_its_tick() {
    let bench = Bench::with_unit(TimeUnit::Second, IssueSettings::default());
    let ([mut one, _], mut ids) = rivals(&bench);
    let rest = one.window.run_end - one.window.next;
    assert!(rest > 1);
    for _ in 0..rest {
        bench.clock.now.step(1);
        bench.clock.catch_up();
        ids[0].push(one.try_next_id().expect("room"));
    }
    let positions = |id: &Id| bench.generator.layout().decompose(*id).sequence;
    let last = &ids[0][ids[0].len() - 2..];
    assert_eq!(positions(&last[0]) + 1, positions(&last[1]));
    assert_distinct_and_ascending(&ids);
}

#[test]
fn rest_of_a_run_is_not_issued_after_a_batch() {
    let bench = Bench::new(IssueSettings::default());
    let ([mut one, _], mut ids) = rivals(&bench);
    ids[0].extend(one.claim(10).expect("room").ids);
    ids[0].push(one.try_next_id().expect("room"));
    assert_distinct_and_ascending(&ids);
}

#[test]
fn clone_has_no_part_in_a_run() {
    let bench = Bench::new(IssueSettings::default());
    let ([mut one, _], mut ids) = rivals(&bench);
    let mut clone = one.clone();
    ids[1] = vec![clone.try_next_id().expect("room")];
    ids[0].push(one.try_next_id().expect("room"));
    assert_distinct_and_ascending(&ids);
}
