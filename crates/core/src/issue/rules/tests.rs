use super::*;
use crate::layout::{LayoutSpec, TimeUnit};

const NOW: i64 = 1_763_650_000_000;
const NEVER: i64 = i64::MIN;
const UNLIMITED: u64 = u64::MAX;

fn rules(spec: &LayoutSpec, settings: &IssueSettings) -> Rules {
    Rules::new(spec.build().expect("valid"), settings)
}

fn unspread() -> IssueSettings {
    IssueSettings { sequence_spread_bits: 0, ..IssueSettings::default() }
}

fn in_milliseconds() -> Rules {
    rules(&LayoutSpec::for_unit(TimeUnit::Millisecond), &unspread())
}

fn at(rules: &Rules, now_ms: i64) -> ClaimTime {
    rules.claim_time(now_ms, NEVER, false).expect("inside the timestamp")
}

#[test]
fn an_idle_code_starts_at_the_present_tick_and_is_answered_at_once() {
    let rules = in_milliseconds();
    let time = at(&rules, NOW);
    let plan = rules.plan(&time, 0, 4096, UNLIMITED).expect("fits the tick");
    assert_eq!((plan.first, plan.end), (time.first, time.first + 4096));
    assert_eq!((plan.wait, plan.borrowed), (Duration::ZERO, false));
    assert_eq!(rules.layout.tick_of(plan.first), rules.layout.tick_clamped(NOW));
}

#[test]
fn claim_beyond_the_tick_waits_until_its_last_tick_is_due() {
    let rules = in_milliseconds();
    let time = at(&rules, NOW);
    let plan = |next, count| rules.plan(&time, next, count, UNLIMITED);
    assert_eq!(plan(time.first, 4097).expect("waits").wait, Duration::from_millis(1));
    assert_eq!(plan(0, 10_000).expect("waits").wait, Duration::from_millis(2));
    let last = plan(time.first + 4096 * 1000, 4096).expect("just within max_wait");
    assert_eq!(last.wait, Duration::from_secs(1));
    assert_eq!(
        plan(time.first + 4096 * 1000, 4097),
        Err(Refusal::Exhausted { retry_after: Duration::from_millis(1) })
    );
    assert_eq!(
        plan(time.first + 4096 * 6000, 1),
        Err(Refusal::Exhausted { retry_after: Duration::from_secs(5) })
    );
}

#[test]
fn borrowing_answers_at_once_from_ticks_ahead() {
    let settings = IssueSettings { borrow_ahead: Duration::from_millis(2), ..unspread() };
    let rules = rules(&LayoutSpec::for_unit(TimeUnit::Millisecond), &settings);
    let time = at(&rules, NOW);
    let plan = |count| rules.plan(&time, 0, count, UNLIMITED).expect("fits");
    assert!(!plan(4096).borrowed);
    assert!(plan(4097).borrowed && plan(4096 * 3).borrowed);
    assert_eq!(plan(4096 * 3).wait, Duration::ZERO);
    assert!(!plan(4096 * 3 + 1).borrowed);
    assert_eq!(plan(4096 * 3 + 1).wait, Duration::from_millis(3));
}

/// As `raindrop workers raise` leaves it, before its instant.
#[test]
fn lease_that_begins_later_issues_no_earlier_timestamp_but_borrowing_answers_before_it() {
    let borrows = IssueSettings { borrow_ahead: Duration::from_millis(2), ..unspread() };
    let answer = |settings: &IssueSettings, early_ms: i64| {
        let rules = rules(&LayoutSpec::for_unit(TimeUnit::Millisecond), settings);
        let start = at(&rules, NOW).first;
        let plan = rules.plan(&at(&rules, NOW - early_ms), start, 1, UNLIMITED).expect("soon");
        assert_eq!(plan.first, start);
        plan.wait
    };
    assert_eq!(answer(&unspread(), 2), Duration::from_millis(2));
    assert_eq!(answer(&borrows, 2), Duration::ZERO);
    assert_eq!(answer(&borrows, 3), Duration::from_millis(3));
}

#[test]
fn the_limit_is_never_passed() {
    let rules = in_milliseconds();
    let time = at(&rules, NOW);
    let plan = |limit| rules.plan(&time, 0, 10, limit);
    assert!(plan(time.first + 10).is_ok());
    assert_eq!(plan(time.first + 9), Err(Refusal::Limit { needed: 10 }));
    assert_eq!(plan(0), Err(Refusal::Limit { needed: 10 }));
}

#[test]
fn clock_within_hold_is_held_at_its_highest_reading() {
    let rules = in_milliseconds();
    let time = rules.claim_time(NOW - 1_000, NOW, false).expect("held");
    assert!(time.held && time.rolled_back_ms.is_none());
    assert_eq!(time.first, at(&rules, NOW).first);
    // While holding, ticks up to `hold` ahead are answered at once.
    let plan = rules.plan(&time, time.first, 4096 * 1001, UNLIMITED).expect("held");
    assert!(plan.borrowed && plan.wait.is_zero());
    assert!(rules.plan(&time, time.first, 4096 * 1001 + 1, UNLIMITED).is_err());
}

#[test]
fn beyond_hold_claims_continue_until_rollback_is_refused() {
    let rules = in_milliseconds();
    let time = rules.claim_time(NOW - 1_001, NOW, false).expect("rides on");
    assert_eq!((time.held, time.rolled_back_ms), (true, Some(1_001)));
    assert_eq!(
        rules.claim_time(NOW - 1_500, NOW, true),
        Err(ClaimTimeError::RolledBack {
            behind_ms: 1_500,
            retry_after: Duration::from_millis(500)
        })
    );
    assert!(rules.claim_time(NOW - 1_000, NOW, true).is_ok());
    let waits = IssueSettings { rollback: RollbackPolicy::Wait, ..unspread() };
    let rules = super::tests::rules(&LayoutSpec::for_unit(TimeUnit::Millisecond), &waits);
    assert!(rules.claim_time(NOW - 1_001, NOW, false).is_err());
    assert!(rules.claim_time(NOW - 1_000, NOW, false).is_ok());
}

#[test]
fn the_clock_must_lie_inside_the_timestamp() {
    let rules = in_milliseconds();
    let epoch = rules.layout.epoch_ms();
    let end = rules.layout.valid_until_ms();
    assert_eq!(rules.claim_time(epoch - 1, NEVER, false), Err(ClaimTimeError::OutOfRange));
    assert_eq!(rules.claim_time(end, NEVER, false), Err(ClaimTimeError::OutOfRange));
    let last = rules.claim_time(end - 1, NEVER, false).expect("the last tick");
    assert!(rules.plan(&last, last.first, 4096, UNLIMITED).is_ok());
    assert!(rules.plan(&last, last.first, 4097, UNLIMITED).is_err());
}

#[test]
fn new_tick_continues_the_low_sequence_bits() {
    let spec = LayoutSpec {
        min_sequence: 5,
        max_sequence: Some(100),
        ..LayoutSpec::for_unit(TimeUnit::Millisecond)
    };
    let rules = rules(&spec, &IssueSettings::default());
    let mut next = 0;
    let mut low_bits = Vec::new();
    for ms in 0..16 {
        let time = at(&rules, NOW + ms);
        let plan = rules.plan(&time, next, 1, UNLIMITED).expect("fits");
        let sequence = rules.layout.sequence_of(plan.first);
        assert!((5..5 + 8).contains(&sequence), "the smallest that matches: {sequence}");
        low_bits.push(sequence % 8);
        next = plan.end;
    }
    assert_eq!(low_bits, [5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4]);
}

#[test]
fn spreading_never_pushes_a_claim_out_of_its_tick_nor_costs_a_full_one() {
    let rules = rules(&LayoutSpec::for_unit(TimeUnit::Millisecond), &IssueSettings::default());
    let time = at(&rules, NOW);
    let last = time.first - 4096 + 2;
    let plan = |next, count| rules.plan(&time, next, count, UNLIMITED).expect("fits");
    assert_eq!(plan(last, 1).first, time.first + 2);
    assert_eq!(plan(last, 4094).first, time.first + 2);
    assert_eq!(plan(last, 4095).first, time.first);
    assert_eq!(plan(time.first, 1).first, time.first);
}

#[test]
fn code_at_the_start_of_a_tick_continues_there() {
    let spec = LayoutSpec { max_sequence: Some(98), ..LayoutSpec::for_unit(TimeUnit::Millisecond) };
    let rules = rules(&spec, &IssueSettings::default());
    let time = at(&rules, NOW);
    let plan = rules.plan(&time, time.first, 1, UNLIMITED).expect("fits");
    assert_eq!(plan.first, time.first);
}

#[test]
fn the_spread_leaves_at_least_three_bits_of_the_sequence() {
    let spec = LayoutSpec {
        timestamp_bits: Some(55),
        worker_bits: 3,
        rollback_bits: 0,
        ..LayoutSpec::for_unit(TimeUnit::Millisecond)
    };
    let settings = IssueSettings { sequence_spread_bits: 20, ..IssueSettings::default() };
    assert_eq!(rules(&spec, &settings).spread_mask, 0b11);
    let narrow = LayoutSpec { worker_bits: 7, ..spec.clone() };
    assert_eq!(rules(&narrow, &settings).spread_mask, 0);
    let above = LayoutSpec { order: FieldOrder::SequenceWorker, ..spec };
    assert_eq!(rules(&above, &settings).spread_mask, 0);
}

#[test]
fn largest_claim_is_what_fits_on_an_idle_code_within_the_wait() {
    let seconds = LayoutSpec { timestamp_bits: Some(41), ..LayoutSpec::for_unit(TimeUnit::Second) };
    let seconds = rules(&seconds, &unspread());
    assert_eq!(seconds.largest_claim(), 8192);
    assert!(seconds.plan(&at(&seconds, NOW), 0, 8192, UNLIMITED).is_ok());
    assert!(seconds.plan(&at(&seconds, NOW + 999), 0, 8192, UNLIMITED).is_ok());
    assert!(seconds.plan(&at(&seconds, NOW), 0, 8193, UNLIMITED).is_err());
    assert_eq!(in_milliseconds().largest_claim(), 4096 * 1001);
}
