use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::*;
use crate::{
    clock::ManualClock,
    id::Id,
    layout::{LayoutSpec, TimeUnit},
};

const NOW: i64 = 1_763_650_000_000;

fn layout(unit: TimeUnit) -> Layout {
    LayoutSpec::for_unit(unit).build().expect("valid")
}

/// Returns settings that give each code a cursor.
fn separate() -> IssueSettings {
    IssueSettings { codes_shared: false, ..IssueSettings::default() }
}

struct Bench {
    clock: Arc<ManualClock>,
    generator: Generator,
}

impl Bench {
    fn new(unit: TimeUnit, settings: IssueSettings) -> Self {
        let clock = Arc::new(ManualClock::new(NOW));
        let generator = Generator::without_lease(layout(unit), settings, clock.clone());
        let bench = Self { clock, generator };
        bench.lease(0, 0, u64::MAX);
        bench
    }

    fn lease(&self, lane: u64, start: u64, limit: u64) -> Arc<Grant> {
        let layout = self.generator.layout();
        let codes_max = self.generator.settings.codes_max;
        let grant = Grant::new(layout, 7, lane, start, codes_max, Waker::noop().clone());
        let grant = Arc::new(grant.expect("fits"));
        grant.raise_limit(limit.min(layout.end_position()), 0);
        self.generator.replace_grant(Some(grant.clone()));
        grant
    }

    fn ids(&self, code: &str, count: u32) -> Vec<Id> {
        self.generator.claim(code, count).expect("claimed").ids.collect()
    }

    fn tick(&self) -> u64 {
        self.generator.layout().tick_clamped(NOW)
    }

    fn ticks(&self, ids: &[Id]) -> Vec<i64> {
        let layout = self.generator.layout();
        let first = layout.tick_at(NOW);
        ids.iter().map(|id| layout.decompose(*id).tick.cast_signed() - first).collect()
    }
}

#[test]
fn ids_ascend_and_are_distinct_across_claims_ticks_and_threads() {
    let bench = Bench::new(TimeUnit::Millisecond, IssueSettings::default());
    let all: Vec<Vec<Id>> = thread::scope(|scope| {
        let worker = || {
            let mut ids = Vec::new();
            for round in 0..200 {
                ids.extend(bench.ids("order", 1 + round % 7));
                if round % 10 == 0 {
                    bench.clock.step(1);
                }
            }
            ids
        };
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let distinct: HashSet<Id> = all.iter().flatten().copied().collect();
    assert_eq!(distinct.len(), all.iter().map(Vec::len).sum::<usize>());
    assert!(all.iter().all(|ids| ids.is_sorted()));
}

#[test]
fn codes_share_a_cursor_unless_they_have_cursors_of_their_own() {
    let bench = Bench::new(TimeUnit::Millisecond, separate());
    assert_eq!(bench.ids("a", 3), bench.ids("b", 3));
    let bench = Bench::new(TimeUnit::Millisecond, IssueSettings::default());
    let (a, b) = (bench.ids("a", 3), bench.ids("b", 3));
    assert!(a.last() < b.first());
    let mut handles = ["a", "c"].map(|code| bench.generator.handle(code).expect("valid"));
    let c = handles.each_mut().map(|handle| handle.try_next_id().expect("room"));
    assert!(b.last() < c.first() && c[0] < c[1]);
}

#[test]
fn invalid_codes_and_counts_are_refused() {
    let allow = IssueSettings {
        codes_allow: Some(["order".to_owned()].into()),
        ..IssueSettings::default()
    };
    let bench = Bench::new(TimeUnit::Hour, allow);
    let claim = |code: &str, count| bench.generator.claim(code, count).expect_err("refused");
    assert_eq!(claim("bad code", 1), ClaimError::InvalidCode("bad code".into()));
    assert_eq!(claim("", 1), ClaimError::InvalidCode(String::new()));
    assert_eq!(claim("user", 1), ClaimError::UnknownCode("user".into()));
    assert_eq!(claim("order", 0), ClaimError::InvalidCount { count: 0, largest: u32::MAX });
}

#[test]
fn a_small_step_back_is_held_and_reported_once() {
    let bench = Bench::new(TimeUnit::Millisecond, IssueSettings::default());
    bench.ids("order", 1);
    bench.clock.step(-800);
    let first = bench.generator.claim("order", 1).expect("held");
    let second = bench.generator.claim("order", 1).expect("held");
    assert!(first.hold_began && !second.hold_began);
    assert_eq!(bench.ticks(&second.ids.collect::<Vec<_>>()), [0]);
    bench.clock.step(900);
    assert!(!bench.generator.claim("order", 1).expect("caught up").hold_began);
    bench.clock.step(-1);
    assert!(bench.generator.claim("order", 1).expect("held again").hold_began);
}

#[test]
fn forward_jump_beyond_the_limit_leaves_no_trace() {
    let settings = IssueSettings { sequence_spread_bits: 0, ..IssueSettings::default() };
    let bench = Bench::new(TimeUnit::Millisecond, settings);
    let layout = bench.generator.layout();
    let limit = layout.first_position(layout.tick_clamped(NOW + 300_000));
    let grant = bench.lease(0, 0, limit);
    bench.ids("order", 1);
    bench.clock.step(3_600_000);
    assert_eq!(bench.generator.claim("order", 5).expect_err("limit"), ClaimError::LimitReached);
    assert_eq!((grant.take_refused(), grant.take_refused()), (5, 0));
    bench.clock.step(-3_600_000);
    assert_eq!(bench.ticks(&bench.ids("order", 1)), [0]);
    assert!(!grant.is_rolled_back());
}

#[test]
fn beyond_hold_claims_continue_within_hold_and_are_then_refused() {
    let bench = Bench::new(TimeUnit::Millisecond, IssueSettings::default());
    let grant = bench.lease(0, 0, u64::MAX);
    bench.ids("order", 1);
    bench.clock.step(-60_000);
    assert_eq!(bench.ticks(&bench.ids("order", 1)), [0]);
    assert!(grant.is_rolled_back());
    // All that can be held is used up, then refused with the reason.
    bench.ids("order", 4096 * 1000 - 10);
    bench.ids("order", 4096 - 10);
    let refused =
        ClaimError::ClockRollback { behind_ms: 60_000, retry_after: Duration::from_secs(59) };
    assert_eq!(bench.generator.claim("order", 4096).expect_err("used up"), refused);
    grant.refuse_rollback();
    assert_eq!(bench.generator.claim("other", 1).expect_err("no alternative"), refused);
    // Another lane continues at the clock's tick.
    bench.lease(1, 0, u64::MAX);
    grant.seal();
    assert_eq!(bench.ticks(&bench.ids("order", 1)), [-60_000]);
}

#[test]
fn sealed_grant_refuses_claims_and_returns_its_end() {
    let bench = Bench::new(TimeUnit::Second, separate());
    let grant = bench.lease(0, 100, u64::MAX);
    let first = bench.generator.layout().first_position(bench.generator.layout().tick_clamped(NOW));
    bench.ids("a", 5);
    bench.ids("b", 9);
    assert_eq!(grant.codes(), 2);
    let mark = grant.seal();
    assert!((first + 9..first + 9 + 8).contains(&mark), "{mark} {first}");
    assert_eq!(grant.seal(), mark, "sealing again finds the same");
    assert_eq!(bench.generator.claim("a", 1).expect_err("sealed"), ClaimError::NoLease);
    assert_eq!(bench.lease(0, 100, u64::MAX).seal(), 100);
}

#[test]
fn a_stale_reader_of_an_evicted_code_never_repeats_an_id() {
    let settings = IssueSettings { codes_max: 1, ..separate() };
    let bench = Bench::new(TimeUnit::Millisecond, settings);
    let mut seen = HashSet::new();
    assert!(bench.ids("x", 10).into_iter().all(|id| seen.insert(id)));
    bench.clock.step(5);
    bench.ids("y", 1);
    // The clock of a thread that was asleep meanwhile.
    bench.clock.step(-5);
    let retry = bench.generator.claim("x", 1).expect_err("y is in use");
    assert!(matches!(retry, ClaimError::TooManyCodes { max: 1, .. }));
    bench.clock.step(6);
    assert!(bench.ids("x", 10).into_iter().all(|id| seen.insert(id)));
}

#[test]
fn too_many_codes_are_refused_until_the_tick_is_over() {
    let settings = IssueSettings { codes_max: 2, ..separate() };
    let bench = Bench::new(TimeUnit::Minute, settings);
    bench.ids("a", 1);
    bench.ids("b", 1);
    let refused = bench.generator.claim("c", 1).expect_err("full");
    let over = 60_000 - NOW.rem_euclid(60_000).unsigned_abs();
    let retry_after = Duration::from_millis(over);
    assert_eq!(refused, ClaimError::TooManyCodes { max: 2, retry_after });
    bench.clock.step(60_000);
    bench.ids("c", 1);
}

#[test]
fn a_client_has_a_share_of_the_new_codes_of_a_coarse_tick() {
    let settings = || IssueSettings { codes_max: 4, codes_max_per_client: 2, ..separate() };
    let bench = Bench::new(TimeUnit::Minute, settings());
    let identify = |client: u64| move || client;
    let claim = |client: u64, code: &str| {
        bench.generator.claim_for(Some(&identify(client)), code, 1.into()).map(drop)
    };
    assert_eq!([claim(1, "a"), claim(1, "b"), claim(1, "a")], [Ok(()), Ok(()), Ok(())]);
    let over = 60_000 - NOW.rem_euclid(60_000).unsigned_abs();
    let refused = ClaimError::ClientShareUsed { max: 2, retry_after: Duration::from_millis(over) };
    assert_eq!(claim(1, "c"), Err(refused.clone()));
    assert_eq!(claim(1, "b"), Ok(()), "it has a cursor");
    assert_eq!([claim(2, "c"), claim(1, "c")], [Ok(()), Ok(())], "it is no longer new");
    let full = claim(1, "d");
    assert_eq!(full, Err(refused));
    bench.ids("d", 1);
    let full = claim(2, "e").expect_err("four codes are in use");
    assert!(matches!(full, ClaimError::TooManyCodes { max: 4, .. }), "{full}");
    bench.clock.step(60_000);
    assert_eq!([claim(1, "e"), claim(2, "f"), claim(2, "g")], [Ok(()), Ok(()), Ok(())]);
    assert!(claim(2, "h").is_err(), "what did not become a code did not count");

    let quick = Bench::new(TimeUnit::Second, settings());
    let asked = || panic!("nobody is identified where ticks are short");
    for code in ["a", "b", "c"] {
        quick.generator.claim_for(Some(&asked), code, 1.into()).expect("no share");
    }
}

#[test]
fn codes_that_share_a_cursor_are_as_many_as_there_are_names() {
    let settings =
        IssueSettings { codes_max: 1, codes_max_per_client: 0, ..IssueSettings::default() };
    let bench = Bench::new(TimeUnit::Day, settings);
    let asked = || panic!("nobody has a share");
    for code in 0..1_000 {
        bench
            .generator
            .claim_for(Some(&asked), &format!("code-{code}"), 1.into())
            .expect("no code is new");
    }
    assert_eq!(bench.generator.grant().expect("leased").codes(), 1);
    assert!(matches!(bench.generator.claim("a/b", 1), Err(ClaimError::InvalidCode(_))));
}

#[test]
fn a_clock_that_went_back_before_the_first_claim_is_told() {
    let clock = Arc::new(ManualClock::new(NOW));
    let settings = IssueSettings::default();
    let generator =
        Generator::with_worker(layout(TimeUnit::Millisecond), 7, &settings, clock.clone());
    clock.step(-60_000);
    let refused = generator.expect("7 fits").claim("order", 1).expect_err("until it caught up");
    let retry_after = Duration::from_secs(59);
    assert_eq!(refused, ClaimError::ClockRollback { behind_ms: 60_000, retry_after });
}

#[test]
fn clock_outside_the_timestamp_is_refused() {
    let bench = Bench::new(TimeUnit::Millisecond, IssueSettings::default());
    bench.clock.set(0);
    let refused = bench.generator.claim("order", 1).expect_err("before the epoch").to_string();
    assert_eq!(
        refused,
        "the clock reads 1970-01-01T00:00:00.000Z, and the layout's IDs reach from \
         2025-01-01T00:00:00.000Z to 2094-09-07T15:47:35.552Z"
    );
}

#[test]
fn a_worker_without_a_store_holds_small_steps_and_refuses_large_ones() {
    let clock = Arc::new(ManualClock::new(NOW));
    let layout = layout(TimeUnit::Millisecond);
    let settings = IssueSettings::default();
    let generator = Generator::with_worker(layout, 511, &settings, clock.clone()).expect("fits");
    assert!(generator.claim("order", 1).is_ok());
    clock.step(-1_000);
    assert!(generator.claim("order", 1).is_ok());
    clock.step(-1);
    assert!(matches!(generator.claim("order", 1), Err(ClaimError::ClockRollback { .. })));
    let layout = Preset::Raindrop.spec().build().expect("valid");
    assert!(Generator::with_worker(layout, 512, &settings, clock).is_err());
}

use crate::preset::Preset;

#[test]
fn where_the_time_wraps_issuing_goes_on_and_no_id_is_zero() {
    const ROUND: i64 = 1 << 21;
    let layout = Preset::WestidQr.layout();
    // Two ticks before the timestamp is 0 again.
    let start = layout.epoch_ms() + 100 * ROUND - 2;
    let clock = Arc::new(ManualClock::new(start));
    let settings = IssueSettings { borrow_ahead: Duration::from_millis(9), ..Default::default() };
    let generator =
        |worker| Generator::with_worker(layout.clone(), worker, &settings, clock.clone());
    assert_eq!(generator(0).expect_err("it would issue 0").field, "worker_id");
    let generator = generator(1).expect("fits");
    let ids: Vec<u64> =
        generator.claim("scene", 5 * 32).expect("claimed").ids.map(Id::get).collect();
    let distinct: HashSet<u64> = ids.iter().copied().collect();
    assert_eq!(distinct.len(), ids.len());
    assert!(ids.iter().all(|id| (1..1 << 31).contains(id)), "{ids:?}");
    assert!(!ids.is_sorted(), "the claim reaches across the wrap");
    // The clock continues, and so do the IDs, until the round is over.
    clock.step(ROUND / 2);
    let later = generator.claim("scene", 1).expect("claimed").ids.next().expect("one").get();
    assert!(!distinct.contains(&later));
    clock.step(ROUND / 2);
    let round_later = generator.claim("scene", 32).expect("claimed").ids.map(Id::get);
    assert!(round_later.into_iter().all(|id| distinct.contains(&id)), "IDs come back");
}

/// A clock that moves by a tick after its first reading, as for a thread that slept there.
#[derive(Debug)]
struct SleepyClock(ManualClock, AtomicBool);

impl Clock for SleepyClock {
    fn now_ms(&self) -> i64 {
        let reading = self.0.now_ms();
        if !self.1.swap(true, Ordering::SeqCst) {
            self.0.step(1);
        }
        reading
    }

    fn steady(&self) -> Duration {
        self.0.steady()
    }
}

#[test]
fn stale_reading_of_the_clock_is_taken_again() {
    let settings = IssueSettings { max_wait: Duration::ZERO, ..IssueSettings::default() };
    let clock = Arc::new(SleepyClock(ManualClock::new(NOW), AtomicBool::new(true)));
    let layout = layout(TimeUnit::Millisecond);
    let generator = Generator::with_worker(layout, 7, &settings, clock.clone()).expect("fits");
    generator.claim("order", 4096).expect("an idle code");
    clock.1.store(false, Ordering::SeqCst);
    assert!(generator.claim("order", 1).is_ok());
    let mut handle = generator.handle("order").expect("a valid code");
    handle.claim(4095).expect("the rest of the tick");
    clock.1.store(false, Ordering::SeqCst);
    assert!(handle.try_next_id().is_ok());
}

#[test]
fn claim_of_what_it_can_get_reaches_no_further_ahead_than_soon() {
    let settings = IssueSettings { sequence_spread_bits: 0, ..separate() };
    let bench = Bench::new(TimeUnit::Millisecond, settings);
    let up_to = |most| bench.generator.claim_for(None, "order", Count::UpTo(most));
    let first = up_to(1_000_000).expect("claimed");
    assert_eq!((first.ids.len(), first.wait), (10 * 4096, Duration::from_millis(9)));
    // A claim of "up to" always gets at least one ID, and never waits longer than a claim of one.
    let next = up_to(1_000_000).expect("claimed");
    assert_eq!((next.ids.len(), next.wait), (1, Duration::from_millis(10)));
    assert_eq!(bench.generator.claim("order", 1).expect("one").wait, Duration::from_millis(10));
    bench.clock.step(20);
    let few = up_to(7).expect("claimed");
    assert_eq!((few.ids.len(), few.wait), (7, Duration::ZERO));
    let rest = up_to(100_000).expect("claimed");
    assert_eq!(rest.ids.len(), 10 * 4096 - 7);
    assert!(matches!(up_to(0), Err(ClaimError::InvalidCount { count: 0, .. })));
    let largest = bench.generator.largest_claim();
    assert!(matches!(up_to(largest + 1), Err(ClaimError::InvalidCount { .. })));
}

#[test]
fn claim_of_what_it_can_get_ends_at_the_limit() {
    let bench = Bench::new(TimeUnit::Millisecond, separate());
    let first = bench.generator.layout().first_position(bench.tick());
    let grant = bench.lease(0, first, first + 100);
    let up_to = |most| bench.generator.claim_for(None, "order", Count::UpTo(most));
    let counts: Vec<_> = (0..7).map(|_| up_to(1_000_000).expect("claimed").ids.len()).collect();
    assert_eq!(counts, [50, 25, 13, 6, 3, 2, 1], "half of what is left");
    assert_eq!(up_to(1_000_000).map(|claim| claim.ids.len()), Err(ClaimError::LimitReached));
    assert_eq!(grant.take_refused(), 1, "it needs no more than one");
}

/// Who asks for one must not wait for the next second, or minute.
#[test]
fn claim_of_what_it_can_get_leaves_half_of_a_long_tick() {
    for unit in [TimeUnit::Second, TimeUnit::Minute] {
        let bench = Bench::new(unit, separate());
        let tick = usize::try_from(bench.generator.layout().positions_per_tick()).expect("few");
        for left in [tick, tick - tick / 2 - 1] {
            let most = Count::UpTo(bench.generator.largest_claim());
            let claim = bench.generator.claim_for(None, "order", most);
            assert_eq!(claim.expect("claimed").ids.len(), left / 2);
            let one = bench.generator.claim("order", 1).expect("one");
            assert_eq!(one.wait, Duration::ZERO, "{unit:?}");
        }
    }
}

/// Where the limit lies inside a new tick, IDs below it are not passed over to spread them.
#[test]
fn claim_in_a_new_tick_fits_below_a_limit_inside_it() {
    let settings = IssueSettings { sequence_spread_bits: 3, ..separate() };
    let bench = Bench::new(TimeUnit::Second, settings);
    let present = bench.generator.layout().first_position(bench.tick());
    // The code's last ID before that would have low bits from which the new tick continues.
    bench.lease(0, present - 3, present + 100);
    assert_eq!(bench.ids("order", 100).len(), 100);
}
