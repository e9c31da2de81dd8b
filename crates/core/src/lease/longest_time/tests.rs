use super::*;
use crate::{
    layout::LayoutSpec,
    lease::{EpochClocks, Token},
};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const NOW: i64 = LayoutSpec::DEFAULT_EPOCH_MS + DAY;
const USUAL: NodeTimes = NodeTimes { reach_ms: 320_000, renew_ms: 30_000 };
const LONG: NodeTimes = NodeTimes { reach_ms: DAY + 20_000, renew_ms: 1_200_000 };

fn first(times: NodeTimes) -> History {
    History::first("a", Token::from_bits(1), times)
}

/// Returns the history of a namespace with a long window, once a node with the usual times leases.
fn disputed() -> History {
    first(LONG).used_by(USUAL, NOW)
}

fn used_ms(history: &History) -> [Option<i64>; 2] {
    [history.reach, history.renew].map(|longest| longest.shorter.map(|shorter| shorter.used_ms))
}

#[test]
fn fleet_of_equal_nodes_records_no_shorter_time() {
    let history = first(USUAL).used_by(USUAL, NOW).used_by(USUAL, NOW + DAY);
    assert_eq!(history, first(USUAL));
    assert_eq!(history.without_unused_times(NOW + 9 * DAY), history);
}

#[test]
fn node_with_shorter_times_records_them_and_the_instant() {
    let history = disputed();
    assert_eq!((history.longest(), used_ms(&history)), (LONG, [Some(NOW); 2]));
    assert_eq!(history.used_by(USUAL, NOW + DAY), history);
    let between = NodeTimes { reach_ms: HOUR, renew_ms: 60_000 };
    let history = history.used_by(between, NOW + 5);
    let shorter = [history.reach, history.renew].map(|it| it.shorter.expect("disputed"));
    assert_eq!(shorter.map(|shorter| shorter.ms), [HOUR, 60_000]);
    assert_eq!(used_ms(&history), [Some(NOW); 2]);
}

#[test]
fn node_that_uses_the_longest_times_confirms_them_each_hour() {
    let history = disputed();
    assert_eq!(history.used_by(LONG, NOW + HOUR - 1), history);
    assert_eq!(used_ms(&history.used_by(LONG, NOW + HOUR)), [Some(NOW + HOUR); 2]);
    // One time is confirmed without the other.
    let renews_seldom = NodeTimes { renew_ms: LONG.renew_ms, ..USUAL };
    let confirmed = history.used_by(renews_seldom, NOW + HOUR);
    assert_eq!(used_ms(&confirmed), [Some(NOW), Some(NOW + HOUR)]);
    // A longer one leaves no doubt.
    let longer = NodeTimes { reach_ms: LONG.reach_ms + 1, ..LONG };
    assert_eq!(history.used_by(longer, NOW).reach, LongestTime::of(LONG.reach_ms + 1));
}

#[test]
fn confirmation_by_a_clock_that_was_ahead_counts_from_now() {
    let ahead = first(LONG).used_by(USUAL, NOW + 9 * DAY);
    assert_eq!(used_ms(&ahead.used_by(USUAL, NOW)), [Some(NOW); 2]);
    assert_eq!(used_ms(&ahead.used_by(LONG, NOW)), [Some(NOW); 2]);
}

#[test]
fn unused_times_fall_a_day_and_themselves_later() {
    let history = disputed();
    let renew_falls = NOW + DAY + LONG.renew_ms;
    assert_eq!(history.without_unused_times(renew_falls - 1), history);
    let fallen = history.without_unused_times(renew_falls);
    assert_eq!((fallen.reach, fallen.renew), (history.reach, LongestTime::of(30_000)));
    assert_eq!(fallen.reached_ms, 0);
    let reach_falls = NOW + DAY + LONG.reach_ms;
    assert_eq!(fallen.without_unused_times(reach_falls - 1), fallen);
    let fallen = fallen.without_unused_times(reach_falls);
    assert_eq!(fallen.longest(), USUAL);
    // A lease that a node takes just before it would have had to confirm its reach.
    assert_eq!(fallen.reached_ms, NOW + HOUR + LONG.reach_ms);
    assert_eq!(fallen.used_by(USUAL, reach_falls), fallen);
}

/// A fail-over may have lost a later confirmation.
#[test]
fn times_are_unused_since_the_present_epoch_at_most() {
    let began = NOW + DAY;
    let next = disputed().next("b", Token::from_bits(2), EpochClocks::of_store(began), USUAL);
    assert_eq!(next.barrier_ms, began + LONG.reach_ms);
    let falls = began + DAY + LONG.reach_ms;
    assert_eq!(next.without_unused_times(falls - 1), next);
    let fallen = next.without_unused_times(falls);
    assert_eq!((fallen.longest(), fallen.reached_ms), (USUAL, began + HOUR + LONG.reach_ms));
}

#[test]
fn text_has_a_shorter_time_only_if_there_is_one() {
    let epoch = Token::from_bits(1);
    let between = NodeTimes { renew_ms: LONG.renew_ms, ..USUAL };
    for history in [first(USUAL), first(LONG).used_by(between, NOW), disputed()] {
        let text = history.text();
        let shorter =
            [history.reach, history.renew].iter().filter(|it| it.shorter.is_some()).count();
        assert_eq!(text.matches("shorter_").count(), shorter, "{text}");
        assert_eq!(History::from_parts("a", epoch, &text), Ok(history), "{text}");
    }
    for broken in [" shorter_reach=5", " shorter_reach=5@", " shorter_renew=5@x", " other=5@6"] {
        let text = first(USUAL).text() + broken;
        assert!(History::from_parts("a", epoch, &text).is_err(), "{text}");
    }
}
