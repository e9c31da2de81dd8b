use super::*;
use crate::lease::RowExpiry;

fn row(token: u128, mark: u64) -> Row {
    Row {
        worker: 7,
        token: Token::from_bits(token),
        holder: "same".into(),
        lane: 0,
        marks: HighWaterMarks::all_at(mark, 1),
        free: false,
        epoch: Token::UNUSED,
        heartbeat_ms: 1,
        expires_ms: 0,
    }
}

fn write(token: u128, mark: u64) -> RowWrite {
    RowWrite {
        token: Token::from_bits(token),
        epoch: Token::UNUSED,
        holder: "same".into(),
        lane: 0,
        marks: HighWaterMarks::all_at(mark, 1),
        expiry: RowExpiry::Released,
    }
}

#[test]
fn acknowledged_write_becomes_the_new_base() {
    let mut known_row: KnownRow<&str> = KnownRow::of(&row(1, 10));
    assert_eq!(*known_row.sent(write(2, 20), "renew").acknowledged().intent(), "renew");
    assert_eq!(known_row.token(), Token::from_bits(2));
    assert_eq!(known_row.marks()[0], 20);
    assert!(!known_row.is_unresolved());
    assert_eq!(known_row.visible(), None);
}

#[test]
fn unchanged_row_keeps_its_writes_unresolved() {
    let mut known_row: KnownRow<&str> = KnownRow::of(&row(1, 10));
    known_row.sent(write(2, 20), "first");
    assert_eq!(known_row.resolve(Some(&row(1, 10))), Resolution::Unchanged);
    assert_eq!((known_row.token(), known_row.is_unresolved()), (Token::from_bits(1), true));
    assert_eq!(known_row.visible(), None);
    known_row.sent(write(3, 30), "second");
    // The first write arrived late, so the store refused the second.
    assert_eq!(known_row.resolve(Some(&row(2, 20))), Resolution::Visible);
    assert_eq!(known_row.visible().map(|attempt| attempt.intent), Some("first"));
    assert_eq!((known_row.token(), known_row.marks()[0]), (Token::from_bits(2), 20));
    assert!(!known_row.is_unresolved());
}

#[test]
fn visible_write_counts_only_after_a_later_acknowledgement() {
    let mut known_row: KnownRow<&str> = KnownRow::of(&row(1, 10));
    known_row.sent(write(2, 20), "renew");
    assert_eq!(known_row.resolve(Some(&row(2, 20))), Resolution::Visible);
    known_row.sent(write(3, 20), "renew");
    // The outcome of token 3 is unknown; the row shows token 2, which was visible before.
    assert_eq!(known_row.resolve(Some(&row(2, 20))), Resolution::Unchanged);
    assert!(known_row.visible().is_some());
    known_row.sent(write(4, 20), "renew").acknowledged();
    assert_eq!(known_row.token(), Token::from_bits(4));
    assert_eq!(known_row.visible(), None);
}

#[test]
fn row_that_fell_back_behind_a_visible_write_is_lost() {
    let mut known_row: KnownRow<&str> = KnownRow::of(&row(1, 10));
    known_row.sent(write(2, 20), "renew");
    assert_eq!(known_row.resolve(Some(&row(2, 20))), Resolution::Visible);
    known_row.sent(write(3, 20), "renew");
    assert_eq!(known_row.resolve(Some(&row(1, 10))), Resolution::Lost);
}

#[test]
fn another_token_means_the_row_is_lost_whatever_the_holder_says() {
    let mut known_row: KnownRow<&str> = KnownRow::of(&row(1, 10));
    known_row.sent(write(2, 20), "renew");
    assert_eq!(known_row.resolve(Some(&row(9, 10))), Resolution::Lost);
    assert_eq!(known_row.resolve(None), Resolution::Vanished);
}

#[test]
fn row_that_went_back_lowers_no_mark_that_is_known() {
    let mut known_row: KnownRow<&str> = KnownRow::of(&row(1, 10));
    known_row.sent(write(2, 20), "renew");
    assert_eq!(known_row.resolve(Some(&row(9, 15))), Resolution::Lost);
    known_row.adopt(&row(9, 15));
    assert_eq!((known_row.token(), known_row.marks()[0]), (Token::from_bits(9), 15));
    assert!(!known_row.is_unresolved());
    known_row.adopt(&row(8, 12));
    assert_eq!((known_row.token(), known_row.marks()[0]), (Token::from_bits(8), 15));
}
