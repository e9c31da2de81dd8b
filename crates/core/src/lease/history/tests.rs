use std::time::Duration;

use super::*;
use crate::{
    layout::{LayoutSpec, TimeUnit},
    lease::{HighWaterMarks, StoreReading},
};

const FIRST: Token = Token::from_bits(1);
const SECOND: Token = Token::from_bits(2);
const THIRD: Token = Token::from_bits(3);
/// A time at which every layout has ticks.
const NOW_MS: i64 = LayoutSpec::DEFAULT_EPOCH_MS + 1_000_000;

fn times(reach_ms: i64) -> NodeTimes {
    NodeTimes { reach_ms, renew_ms: 0 }
}

fn known(token: Token, ordinal: u64) -> Option<Epoch> {
    Some(Epoch { token, ordinal })
}

fn first() -> History {
    History::first("a", FIRST, times(320_000))
}

#[test]
fn only_the_recorded_server_continues_a_history() {
    let history = first();
    assert_eq!(history.judge(Some("a"), None), HistoryVerdict::Continued);
    assert_eq!(history.judge(Some("b"), None), HistoryVerdict::OtherServer);
    assert_eq!(history.judge(None, known(FIRST, 1)), HistoryVerdict::Continued);
}

#[test]
fn identity_is_recorded_by_the_first_process_that_compares_it() {
    let unidentified = History::first("", FIRST, times(320_000));
    for server in [Some("a"), Some("b"), None] {
        assert_eq!(unidentified.judge(server, None), HistoryVerdict::Continued);
    }
    assert_eq!(unidentified.continued(None, times(0), None), unidentified);
    assert_eq!(unidentified.continued(Some("a"), times(0), None), first());
    assert_eq!(first().continued(Some("b"), times(0), None), first());
}

#[test]
fn longest_reach_is_recorded() {
    assert_eq!(first().continued(Some("a"), times(319_999), None), first());
    assert_eq!(first().continued(None, times(320_001), None).reach.ms, 320_001);
}

#[test]
fn history_that_a_store_lost_is_gone_on_from() {
    let after = |history: &History, epoch, since_ms| {
        history.next("a", epoch, EpochClocks::of_store(since_ms), times(400_000))
    };
    let second = after(&first(), SECOND, NOW_MS);
    let third = after(&second, THIRD, NOW_MS + 1);
    let next = after(&first().or_known(Some(&third)), Token::from_bits(4), NOW_MS + 2);
    assert!(next.epochs().skip(1).eq([THIRD, SECOND, FIRST]), "{next:?}");
    assert_eq!((next.missed(FIRST), next.reach.ms), (3, 400_000));
    assert_eq!(next.ordinal, 4);
    // This history lost no epoch of `known`, whatever the clock showed; or the process knows none.
    let later = after(&second, THIRD, NOW_MS - 1);
    assert_eq!(later.or_known(Some(&second)), later);
    assert_eq!((first().or_known(None), second.or_known(Some(&first()))), (first(), second));
}

#[test]
fn epoch_after_two_lines_of_epochs_follows_both() {
    let after = |history: &History, bits, store_ms| {
        let clocks = EpochClocks::of_store(store_ms);
        history.next("a", Token::from_bits(bits), clocks, times(400_000))
    };
    // Another process began an epoch on the store after that was rolled back.
    let fork = after(&first(), 12, NOW_MS + 9);
    let lost = after(&after(&first(), 2, NOW_MS), 3, NOW_MS + 1);
    for (shown, known) in [(&fork, &lost), (&lost, &fork)] {
        let next = after(&shown.or_known(Some(known)), 4, NOW_MS - 20);
        let mut before: Vec<u128> = next.epochs().skip(1).map(Token::bits).collect();
        before[1..3].sort_unstable();
        assert_eq!((next.ordinal, before), (4, vec![3, 2, 12, 1]));
        assert_eq!(next.barrier_ms, NOW_MS + 9 + 400_000, "none is lowered");
        for process in [&fork, &lost] {
            assert_eq!(
                next.judge(Some("a"), Some(process.present_epoch())),
                HistoryVerdict::Continued
            );
        }
    }
    // A state file has one epoch only.
    let saved = History::of_saved_epoch(lost.present_epoch());
    let next = after(&fork.or_known(Some(&saved)), 4, NOW_MS);
    assert_eq!((next.ordinal, next.ordinal_of(THIRD)), (4, Some(3)));
    assert_eq!(next.barrier_ms, NOW_MS + 9 + 400_000);
}

#[test]
fn epoch_that_the_record_forgot_is_no_evidence() {
    let begin = |history: &History, bits| {
        history.next("a", Token::from_bits(bits), EpochClocks::of_store(NOW_MS), times(0))
    };
    let begun_to = |last| (2..=last).fold(first(), |history, bits| begin(&history, bits));
    let verdict = |history: &History, token: u128, ordinal| {
        history.judge(Some("a"), known(Token::from_bits(token), ordinal))
    };
    // The record remembers every epoch so far, so the store lost what it does not have.
    assert_eq!(verdict(&begun_to(8), 1, 1), HistoryVerdict::Continued);
    assert_eq!(verdict(&begun_to(8), 77, 1), HistoryVerdict::RolledBack);
    // The record remembers epochs 2 to 9, and forgot the first.
    assert_eq!(verdict(&begun_to(9), 1, 1), HistoryVerdict::Continued);
    assert_eq!(verdict(&begun_to(9), 2, 2), HistoryVerdict::Continued);
    assert_eq!(verdict(&begun_to(9), 77, 2), HistoryVerdict::RolledBack);
    assert_eq!(verdict(&begun_to(9), 77, 1), HistoryVerdict::Continued);
    assert_eq!(verdict(&begun_to(9), 10, 10), HistoryVerdict::RolledBack);
}

#[test]
fn longest_time_between_renewals_is_that_of_the_present_epoch() {
    let own = |renew_ms| NodeTimes { reach_ms: 0, renew_ms };
    let history = first().continued(None, own(60_000), None).continued(None, own(30_000), None);
    assert_eq!(history.longest(), NodeTimes { reach_ms: 320_000, renew_ms: 60_000 });
    let next = history.next("b", SECOND, EpochClocks::of_store(NOW_MS), own(30_000));
    assert_eq!(next.longest(), NodeTimes { reach_ms: 320_000, renew_ms: 30_000 });
}

#[test]
fn store_that_lost_a_known_epoch_went_back() {
    let second = first().next("b", SECOND, EpochClocks::of_store(NOW_MS), times(0));
    assert_eq!(second.judge(Some("b"), known(FIRST, 1)), HistoryVerdict::Continued);
    assert_eq!(first().judge(Some("a"), known(SECOND, 2)), HistoryVerdict::RolledBack);
    // Another process began an epoch on the server after that was rolled back.
    let fork = first().next("a", THIRD, EpochClocks::of_store(NOW_MS), times(0));
    assert_eq!(fork.judge(Some("a"), known(SECOND, 2)), HistoryVerdict::RolledBack);
}

#[test]
fn barrier_is_beyond_the_longest_reach_and_never_lowered() {
    let second = first().next("b", SECOND, EpochClocks::of_store(NOW_MS), times(20_000));
    assert_eq!((second.barrier_ms, second.reach.ms), (NOW_MS + 320_000, 320_000));
    let third = second.next("c", THIRD, EpochClocks::of_store(NOW_MS - 5_000), times(400_000));
    assert_eq!((third.barrier_ms, third.reach.ms), (NOW_MS + 395_000, 400_000));
    assert!(third.epochs().eq([THIRD, SECOND, FIRST]), "{third:?}");
    assert_eq!(
        third.next("c", FIRST, EpochClocks::of_store(0), times(0)).barrier_ms,
        third.barrier_ms
    );
}

#[test]
fn barrier_is_set_once_the_clocks_agree() {
    let reading = |ahead_ms| StoreReading {
        sent_ms: NOW_MS + ahead_ms,
        store_ms: NOW_MS,
        received_ms: NOW_MS + ahead_ms + 5,
    };
    let clocks = |ahead_ms| reading(ahead_ms).epoch_clocks(Duration::from_secs(300));
    assert_eq!(clocks(299_999).later_ms, Some(NOW_MS + 300_004));
    assert_eq!(clocks(-300_004).later_ms, Some(NOW_MS));
    assert_eq!([clocks(300_000).later_ms, clocks(-300_005).later_ms], [None, None]);
    let pending = first().next("b", SECOND, clocks(28_800_000), times(0));
    assert_eq!((pending.barrier_ms, pending.lacks_barrier()), (0, true));
    assert!(pending.has_failed_over());
    let set = pending.next("b", THIRD, clocks(20), times(0));
    assert_eq!((set.barrier_ms, set.barrier_state), (NOW_MS + 320_025, BarrierState::SetLater));
    // No lease began in the pending epoch, so a lease of either epoch before `set` may continue.
    let written = |epoch| LastWrite { token: THIRD, epoch, store_ms: NOW_MS, ttl_ms: 90_000 };
    for (epoch, goes_on) in [(FIRST, true), (SECOND, true), (THIRD, false)] {
        assert_eq!(set.is_unbroken(&written(epoch), true, 10_000), goes_on, "{epoch}");
    }
    let next = set.next("b", Token::from_bits(4), clocks(20), times(0));
    assert!(!next.is_unbroken(&written(SECOND), true, 10_000));
}

#[test]
fn reach_of_a_clock_that_was_ahead_passes_by_itself() {
    let layout = LayoutSpec::for_unit(TimeUnit::Millisecond).build().expect("valid");
    let until_ms = NOW_MS + 36_000_000;
    let ahead = first().continued(None, times(320_000), Some(until_ms));
    assert_eq!((ahead.reach.ms, ahead.reached_ms), (320_000, until_ms + 80_000));
    assert_eq!(ahead.continued(None, times(320_000), Some(until_ms + 80_000)), ahead);
    let barrier_ms =
        |now_ms| ahead.next("b", SECOND, EpochClocks::of_store(now_ms), times(0)).barrier_ms;
    assert_eq!(barrier_ms(NOW_MS), until_ms + 80_000);
    assert_eq!(barrier_ms(until_ms + 1), until_ms + 320_001);
    let beyond_ms = |now_ms| {
        let beyond = ahead.beyond(&layout, now_ms);
        layout.start_of_tick_ms(layout.tick_of(beyond))
    };
    assert_eq!(beyond_ms(NOW_MS), until_ms + 80_001);
    assert_eq!(beyond_ms(until_ms + 1), until_ms + 320_002);
}

#[test]
fn no_lease_of_an_earlier_epoch_goes_on_after_a_raise() {
    let clocks = EpochClocks::of_store(NOW_MS);
    let raised = first().raised("a", [SECOND, THIRD], clocks, times(0));
    assert_eq!((raised.epoch(), raised.barrier_ms), (THIRD, NOW_MS + 320_000));
    let last = LastWrite { token: SECOND, epoch: FIRST, store_ms: NOW_MS, ttl_ms: 90_000 };
    assert!(!raised.is_unbroken(&last, true, 10_000));
    assert_eq!(raised.judge(Some("a"), known(FIRST, 1)), HistoryVerdict::Continued);
}

#[test]
fn rows_of_another_epoch_begin_at_the_barrier_on_every_lane() {
    let layout = LayoutSpec::for_unit(TimeUnit::Millisecond).build().expect("valid");
    let second = first().next("b", SECOND, EpochClocks::of_store(NOW_MS), times(0));
    let barrier = second.barrier(&layout);
    assert_eq!(barrier, layout.first_position(layout.tick_clamped(second.barrier_ms) + 1));
    let marks = HighWaterMarks::all_at(7, 2).with(1, barrier + 9);
    assert_eq!(second.marks(&layout, SECOND, &marks), marks);
    assert_eq!(second.marks(&layout, FIRST, &marks), marks.with(0, barrier));
    assert_eq!(first().marks(&layout, Token::UNUSED, &marks), marks);
}

#[test]
fn lease_is_unbroken_while_nobody_can_have_taken_its_row() {
    let second = first().next("b", SECOND, EpochClocks::of_store(NOW_MS), times(0));
    let token = Token::from_bits(9);
    let written =
        |epoch, ms_ago| LastWrite { token, epoch, store_ms: NOW_MS - ms_ago, ttl_ms: 90_000 };
    assert!(second.is_unbroken(&written(FIRST, 49_999), true, 10_000));
    assert!(!second.is_unbroken(&written(FIRST, 50_000), true, 10_000));
    assert!(second.is_unbroken(&written(FIRST, -10_000), true, 10_000));
    assert!(!second.is_unbroken(&written(FIRST, -10_001), true, 10_000));
    // Between the write and this epoch there was a fail-over that no process saw, or one more than
    // this process saw.
    assert!(!second.is_unbroken(&written(THIRD, 0), true, 10_000));
    assert!(!second.next("c", THIRD, EpochClocks::of_store(NOW_MS), times(0)).is_unbroken(
        &written(FIRST, 0),
        true,
        10_000
    ));
    // The ttl is four skews: the row may expire as soon as the old server's clock steps.
    let short = LastWrite { ttl_ms: 40_000, ..written(FIRST, 0) };
    assert!(!second.is_unbroken(&short, true, 10_000));
}

/// The next epoch, which begins at `NOW_MS` because of this verdict.
fn begin(history: &History, bits: u128, verdict: HistoryVerdict) -> History {
    let clocks = EpochClocks::of_store(NOW_MS);
    history.next("b", Token::from_bits(bits), clocks, times(0)).begun_by(verdict)
}

/// A server that continues the history of another one.
fn restarted(history: History, bits: u128) -> History {
    begin(&history, bits, HistoryVerdict::OtherServer)
}

#[test]
fn lease_is_unbroken_over_epochs_that_lost_none() {
    let written = |ms_ago| LastWrite {
        token: Token::from_bits(9),
        epoch: FIRST,
        store_ms: NOW_MS - ms_ago,
        ttl_ms: 90_000,
    };
    let third = restarted(restarted(first(), 2), 3);
    assert_eq!((third.ordinal, third.missed(FIRST)), (5, 2));
    assert!(third.is_unbroken(&written(49_999), true, 10_000));
    assert!(!third.is_unbroken(&written(50_000), true, 10_000), "the row may have expired");
    assert!(!third.is_unbroken(&written(0), false, 10_000), "the row was rolled back");
    // Clocks that agree again lose nothing either.
    let again = begin(&third, 4, HistoryVerdict::Continued);
    assert!(again.is_unbroken(&written(0), true, 10_000));
    // The record remembers eight epochs.
    let eighth = (4..=8).fold(third, restarted);
    assert!(eighth.is_unbroken(&written(0), true, 10_000));
    assert!(!restarted(eighth, 9).is_unbroken(&written(0), true, 10_000));
}

#[test]
fn lease_is_broken_by_an_epoch_of_another_reason() {
    let second = restarted(first(), 2);
    let written =
        |epoch| LastWrite { token: Token::from_bits(9), epoch, store_ms: NOW_MS, ttl_ms: 90_000 };
    let clocks = EpochClocks::of_store(NOW_MS);
    let raised = second.raised("b", [THIRD, Token::from_bits(4)], clocks, times(0));
    // Of a version that does not record why.
    let untold = second.next("b", THIRD, clocks, times(0));
    for history in [begin(&second, 3, HistoryVerdict::RolledBack), raised, untold] {
        let next = restarted(history.clone(), 5);
        for broken in [&history, &next] {
            assert!(!broken.is_unbroken(&written(FIRST), true, 10_000), "{broken:?}");
        }
        assert!(!next.is_unbroken(&written(SECOND), true, 10_000), "{next:?}");
        assert!(next.is_unbroken(&written(history.epoch()), true, 10_000), "{next:?}");
    }
}

/// Each process began an epoch on the server that it saw, and the third one knows of both.
#[test]
fn lease_is_broken_where_two_lines_of_epochs_meet() {
    let (shown, lost) = (restarted(first(), 2), restarted(first(), 3));
    let both = begin(&shown.or_known(Some(&lost)), 4, HistoryVerdict::RolledBack);
    let next = restarted(both, 5);
    for epoch in [FIRST, SECOND, THIRD] {
        let written =
            LastWrite { token: Token::from_bits(9), epoch, store_ms: NOW_MS, ttl_ms: 90_000 };
        assert!(!next.is_unbroken(&written, true, 10_000), "{epoch}");
    }
}

#[test]
fn histories_are_written_and_read_exactly() {
    let third = first().next("b", SECOND, EpochClocks::of_store(NOW_MS), times(0)).next(
        "c d",
        THIRD,
        EpochClocks::of_store(NOW_MS),
        times(0),
    );
    for history in [History::first("", FIRST, times(0)), first(), third] {
        let read = History::from_parts(&history.identity, history.epoch(), &history.text());
        assert_eq!(read, Ok(history));
    }
    let read = "ordinal=7 since=1 barrier=2 state=pending reach=3 renew=4 reached=5 before=";
    assert!(History::from_parts("a", FIRST, read).is_ok_and(|history| history.lacks_barrier()));
    for text in [
        "",
        "ordinal=7",
        "ordinal=7 since=1",
        &read.replace("pending", "true"),
        &format!("{read}x"),
        &format!("{read}00:x"),
    ] {
        assert_eq!(History::from_parts("a", FIRST, text), Err(InvalidHistory), "{text:?}");
    }
}

#[test]
fn epochs_since_a_write_are_counted() {
    let third = first().next("b", SECOND, EpochClocks::of_store(NOW_MS), times(0)).next(
        "c",
        THIRD,
        EpochClocks::of_store(NOW_MS),
        times(0),
    );
    let missed = [THIRD, SECOND, FIRST, Token::UNUSED].map(|epoch| third.missed(epoch));
    assert_eq!(missed, [0, 1, 2, 2]);
    assert_eq!((first().missed(Token::UNUSED), first().missed(SECOND)), (0, REMEMBERED as u64));
    let many = (2..9).fold(first(), |history, bits| {
        history.next("a", Token::from_bits(bits), EpochClocks::of_store(NOW_MS), times(0))
    });
    assert_eq!((many.missed(FIRST), many.missed(Token::UNUSED)), (7, 7));
    let more = many.next("a", Token::from_bits(9), EpochClocks::of_store(NOW_MS), times(0));
    assert_eq!(more.missed(FIRST), REMEMBERED as u64);
    assert_eq!(more.missed(Token::UNUSED), REMEMBERED as u64);
}

#[test]
fn record_remembers_a_bounded_number_of_epochs() {
    let many = (2..20).fold(first(), |history, bits| {
        history.next("a", Token::from_bits(bits), EpochClocks::of_store(NOW_MS), times(0))
    });
    assert_eq!(many.epochs().count(), REMEMBERED);
    assert_eq!(many.epoch(), Token::from_bits(19));
}
