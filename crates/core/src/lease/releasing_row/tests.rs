use std::time::Duration;

use super::*;
use crate::lease::{HighWaterMarks, Lease, RowExpiry, RowWrite, Token};

fn row(token: u128, marks: &str) -> Row {
    Row {
        worker: 3,
        token: Token::from_bits(token),
        holder: String::new(),
        lane: 0,
        marks: marks.parse().expect("marks"),
        free: false,
        epoch: Token::UNUSED,
        heartbeat_ms: 1,
        expires_ms: 1,
    }
}

fn write(token: u128, marks: &str) -> RowWrite {
    RowWrite {
        token: Token::from_bits(token),
        epoch: Token::UNUSED,
        holder: String::new(),
        lane: 0,
        marks: marks.parse().expect("marks"),
        expiry: RowExpiry::After(Duration::ZERO),
    }
}

/// Returns what a process knows of row 1 while its write for this purpose, under token 2, has no
/// answer.
fn unanswered(purpose: Purpose, marks: &str) -> KnownRow<Purpose> {
    let mut known_row = KnownRow::of(&row(1, "50,9"));
    known_row.sent(write(2, marks), purpose);
    known_row
}

fn carried(row: &ReleasingRow<Purpose>) -> String {
    let known: HighWaterMarks = "50,20".parse().expect("marks");
    row.lanes.marks_with(&known, row.lanes.in_use(), row.mark).to_string()
}

#[test]
fn release_that_was_refused_is_over_unless_an_earlier_write_was_faster() {
    let mut row =
        ReleasingRow::of_lease(unanswered(Purpose::Release, "30,9"), HeldLanes::on(0), 30);
    row.sent();
    assert!(!row.resolve(Some(&self::row(1, "50,9"))), "it may still arrive");
    row.answered(false);
    let mut again = row.clone();
    assert!(row.resolve(Some(&self::row(1, "50,9"))), "its epoch has ended");
    // The release was sent again, and the store has not answered it.
    again.sent();
    assert!(!again.resolve(Some(&self::row(1, "50,9"))));
    assert!(again.resolve(Some(&self::row(9, "50,9"))) && again.resolve(None));
    assert!(!again.is_released());
}

#[test]
fn release_that_is_acknowledged_or_seen_is_done() {
    let known_row = unanswered(Purpose::Release, "30,9");
    let mut acknowledged = ReleasingRow::of_lease(known_row.clone(), HeldLanes::on(0), 30);
    acknowledged.answered(true);
    assert!(acknowledged.is_released());
    let mut seen = ReleasingRow::of_lease(known_row, HeldLanes::on(0), 30);
    assert!(!seen.is_released());
    assert!(!seen.resolve(Some(&row(2, "30,9"))));
    assert!(seen.is_released());
}

#[test]
fn lane_that_was_taken_late_is_given_back_where_it_began() {
    let lease = Purpose::Lease(Lease { lane: 1, start: 9, limit: 20 });
    let known_row = unanswered(lease, "50,20");
    let mut held = ReleasingRow::of_lease(known_row.clone(), HeldLanes::on(0), 30);
    assert!(!held.resolve(Some(&row(2, "50,20"))));
    assert_eq!(carried(&held), "30,9", "the lane that it was held on is lowered, too");
    // A search knows nothing of the other lane.
    let mut searched = ReleasingRow::of_search(known_row);
    assert_eq!((searched.lanes.in_use(), searched.mark), (0, 50));
    assert!(!searched.resolve(Some(&row(2, "50,20"))));
    assert_eq!(carried(&searched), "50,9");
}

#[test]
fn lease_of_a_new_epoch_is_given_back_where_it_began() {
    let lease = Lease { lane: 0, start: 100, limit: 120 };
    let mut lanes = HeldLanes::on(1);
    lanes.moved_to(0, 4);
    let mut row = ReleasingRow::of_lease(unanswered(Purpose::NewEpoch(lease), "120,9"), lanes, 30);
    assert!(!row.resolve(Some(&self::row(2, "120,9"))));
    assert_eq!(carried(&row), "100,20", "what is known of the other lane ended with the epoch");
}

#[test]
fn renewal_that_is_seen_changes_no_mark() {
    let renewal = Purpose::Renew { limit: 60 };
    let mut row = ReleasingRow::of_lease(unanswered(renewal, "60,9"), HeldLanes::on(0), 30);
    assert!(!row.resolve(Some(&self::row(2, "60,9"))));
    assert_eq!((row.mark, row.is_released()), (30, false));
}
