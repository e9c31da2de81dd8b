use std::time::Duration;

use super::*;
use crate::{
    layout::{LayoutSpec, TimeUnit},
    lease::{EpochClocks, HighWaterMarks, HistoryVerdict, NodeTimes, RowExpiry, RowWrite},
};

const EPOCH: Token = Token::from_bits(7);
const WRITTEN_MS: i64 = 1_000_000;
const TTL_MS: i64 = 90_000;
const LIMIT: u64 = 50;
const CHECK: RowCheck =
    RowCheck { epoch: EPOCH, limit: LIMIT, max_skew_ms: 10_000, is_store_behind: false };

fn row(token: u128, marks: &str) -> Row {
    Row {
        worker: 3,
        token: Token::from_bits(token),
        holder: "somebody".to_owned(),
        lane: 0,
        marks: marks.parse().expect("marks"),
        free: false,
        epoch: EPOCH,
        heartbeat_ms: WRITTEN_MS,
        expires_ms: WRITTEN_MS + TTL_MS,
    }
}

/// Returns a row that is leased up to [`LIMIT`] under token 1.
fn held() -> HeldRow<Purpose> {
    let mut held = HeldRow::new(KnownRow::of(&row(1, "50,9")), 0);
    held.acknowledged(WRITTEN_MS, TTL_MS);
    held
}

fn write(held: &mut HeldRow<Purpose>, token: u128, marks: &str, purpose: Purpose) -> Option<u64> {
    let write = RowWrite {
        token: Token::from_bits(token),
        epoch: EPOCH,
        holder: String::new(),
        lane: 0,
        marks: marks.parse().expect("marks"),
        expiry: RowExpiry::After(Duration::ZERO),
    };
    let acknowledged = held.known_row.sent(write, purpose).acknowledged();
    held.acknowledged(WRITTEN_MS, TTL_MS);
    held.apply(&acknowledged)
}

#[test]
fn last_write_proves_nothing_once_another_process_may_have_leased_beyond_it() {
    for (mark, proves) in [(LIMIT - 1, true), (LIMIT, true), (LIMIT + 1, false)] {
        let mut held = held();
        held.adopt(row(2, &format!("{mark},9")), &CHECK, Some(WRITTEN_MS));
        assert_eq!(held.last_write.is_some(), proves, "{mark}");
        assert_eq!(held.known_row.token(), Token::from_bits(2));
        assert_eq!(held.known_row.marks()[0], mark.max(LIMIT), "what is known is not forgotten");
    }
    // The ttl is 90 s, of which four skews are subtracted: 50 s remain.
    for (after_ms, proves) in [(49_999, true), (50_000, false)] {
        let mut held = held();
        held.adopt(row(2, "50,9"), &CHECK, Some(WRITTEN_MS + after_ms));
        assert_eq!(held.last_write.is_some(), proves, "{after_ms}");
    }
}

#[test]
fn row_that_this_process_wrote_proves_what_it_did_whatever_time_has_passed() {
    let mut held = held();
    assert_eq!(write(&mut held, 2, "60,9", Purpose::Renew { limit: 60 }), Some(60));
    held.adopt(row(1, "50,9"), &CHECK, Some(WRITTEN_MS + 10 * TTL_MS));
    assert!(held.last_write.is_some());
    assert_eq!(held.known_row.marks()[0], 60);
}

#[test]
fn row_that_was_created_again_keeps_the_limit_that_its_holder_knows() {
    let mut held = held();
    held.adopt(Row { heartbeat_ms: 0, ..row(2, "900,900") }, &CHECK, Some(WRITTEN_MS));
    assert!(held.last_write.is_some());
    assert_eq!(held.known_row.marks().to_string(), "50,900");
    let mut late = self::held();
    late.adopt(Row { heartbeat_ms: 0, ..row(2, "900,900") }, &CHECK, Some(WRITTEN_MS + TTL_MS));
    assert_eq!((late.last_write, late.known_row.marks()[0]), (None, 900));
}

#[test]
fn as_many_tokens_are_remembered_as_a_fail_over_can_lose_writes() {
    let mut held = held();
    let oldest = row(1, "50,9");
    for token in 2..=64 {
        write(&mut held, token, "50,9", Purpose::Renew { limit: LIMIT });
    }
    // Token 1 was remembered twice: when the lease began, and when its write was acknowledged.
    assert!(held.is_own(&oldest) && held.is_own(&row(64, "50,9")));
    write(&mut held, 65, "50,9", Purpose::Renew { limit: LIMIT });
    assert!(!held.is_own(&oldest) && held.is_own(&row(2, "50,9")));
}

#[test]
fn row_with_another_token_is_judged_by_its_age() {
    let held = held();
    let found = |ago_ms, marks| Row { heartbeat_ms: WRITTEN_MS - ago_ms, ..row(2, marks) };
    let never = |marks| Row { heartbeat_ms: 0, ..row(2, marks) };
    // The row shows the last acknowledged write again, after a later one that was only visible.
    assert_eq!(held.judge(&row(1, "40,9"), &CHECK), OtherToken::LastWrite);
    assert_eq!(held.judge(&found(10_001, "40,9"), &CHECK), OtherToken::RolledBack);
    // The clocks of two servers may differ by the skew.
    assert_eq!(held.judge(&found(10_000, "40,9"), &CHECK), OtherToken::Taken);
    assert_eq!(held.judge(&found(-1, "40,9"), &CHECK), OtherToken::Taken);
    assert_eq!(held.judge(&never("49,49"), &CHECK), OtherToken::RolledBack);
    assert_eq!(held.judge(&never("50,49"), &CHECK), OtherToken::CreatedAgain);
    // A person set a time that no calendar has. A token of the holder is evidence all the same.
    let odd = Row { heartbeat_ms: -62_135_596_800_000, ..row(2, "40,9") };
    assert_eq!(held.judge(&odd, &CHECK), OtherToken::Taken);
    let mut renewed = self::held();
    write(&mut renewed, 3, "60,9", Purpose::Renew { limit: 60 });
    let own = Row { token: Token::from_bits(1), ..odd };
    assert_eq!(renewed.judge(&own, &CHECK), OtherToken::RolledBack);
    // A server whose clock stepped back wrote the row, but in the epoch that began since.
    let epoch = Token::from_bits(8);
    let later = Row { epoch, ..found(10_001, "40,9") };
    assert_eq!(held.judge(&later, &RowCheck { epoch, ..CHECK }), OtherToken::Taken);
    // The store has acknowledged nothing to a process that resumed its lease.
    let resumed = HeldRow::<Purpose>::new(KnownRow::of(&row(1, "50,9")), 0);
    assert_eq!(resumed.judge(&found(999_999, "40,9"), &CHECK), OtherToken::Taken);
    assert_eq!(resumed.judge(&never("49,49"), &CHECK), OtherToken::RolledBack);
}

#[test]
fn row_of_other_lanes_belongs_to_another_process() {
    let older = Row { heartbeat_ms: WRITTEN_MS - 60_000, ..row(2, "50,9") };
    assert_eq!(held().judge(&older, &CHECK), OtherToken::RolledBack);
    let lanes = Row { marks: "50".parse().expect("marks"), ..older.clone() };
    assert_eq!(held().judge(&lanes, &CHECK), OtherToken::Taken);
    // A store whose clock is behind writes heartbeats that look old.
    let behind = RowCheck { is_store_behind: true, ..CHECK };
    assert_eq!(held().judge(&older, &behind), OtherToken::Taken);
    let created = Row { heartbeat_ms: 0, ..row(2, "0,0") };
    assert_eq!(held().judge(&created, &behind), OtherToken::RolledBack);
}

#[test]
fn renewal_raises_the_lease_that_begins_at_the_barrier_and_not_the_one_in_use() {
    let mut held = held();
    let lease = Lease { lane: 0, start: 100, limit: 120 };
    assert_eq!(write(&mut held, 2, "120,9", Purpose::NewEpoch(lease)), None);
    assert_eq!(write(&mut held, 3, "140,9", Purpose::Renew { limit: 140 }), None);
    assert_eq!(held.at_barrier(), Some(Lease { limit: 140, ..lease }));
    let row = held.end(30);
    assert_eq!((row.lanes.in_use(), row.mark), (0, 100), "nothing was issued from it");
}

#[test]
fn lane_that_arrives_is_left_at_its_start_and_the_one_before_where_it_was_sealed() {
    let lease = Lease { lane: 1, start: 9, limit: 20 };
    let mut ended = held();
    write(&mut ended, 2, "50,20", Purpose::Lease(lease));
    let mut arrived = ended.clone();
    let known: HighWaterMarks = "50,20".parse().expect("marks");
    let row = ended.end(30);
    assert_eq!((row.lanes.in_use(), row.mark), (1, 9));
    assert_eq!(row.lanes.marks_with(&known, 1, row.mark).to_string(), "30,9");
    arrived.arrived(30);
    assert_eq!((arrived.next, arrived.lanes.in_use()), (NextLease::None, 1));
    assert_eq!(arrived.lanes.marks_with(&known, 1, 25).to_string(), "30,25");
}

/// Another process may have held a row that was rolled back, in one of the epochs.
#[test]
fn lease_goes_on_over_several_epochs_where_the_row_shows_its_last_write() {
    let layout = LayoutSpec::for_unit(TimeUnit::Second).build().expect("valid");
    let next = |history: History, bits| {
        let clocks = EpochClocks::of_store(WRITTEN_MS);
        let times = NodeTimes { reach_ms: 320_000, renew_ms: 0 };
        let next = history.next("b", Token::from_bits(bits), clocks, times);
        next.begun_by(HistoryVerdict::OtherServer)
    };
    let present = [8, 9].into_iter().fold(History::first("a", EPOCH, NodeTimes::default()), next);
    for (found, goes_on) in [(2, true), (1, false)] {
        let mut held = held();
        write(&mut held, 2, "60,9", Purpose::Renew { limit: 60 });
        held.adopt(row(found, "60,9"), &CHECK, None);
        held.enter(&present, &layout, CHECK.max_skew_ms);
        assert_eq!(held.known_row.epoch() == present.epoch(), goes_on, "{found}");
    }
}

#[test]
fn lease_that_goes_on_in_another_epoch_forgets_the_lane_that_was_left() {
    let mut held = held();
    held.lanes.moved_to(1, 30);
    let epoch = Token::from_bits(8);
    held.continue_in(epoch);
    assert_eq!((held.known_row.epoch(), held.lanes), (epoch, HeldLanes::on(1)));
    assert_eq!(held.known_row.marks().to_string(), "50,9");
}
