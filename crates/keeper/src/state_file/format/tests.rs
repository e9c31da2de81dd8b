use raindrop_core::lease::{Epoch, Token};

use super::*;

fn content(local_mark: u64) -> Content {
    let lease = SavedLease {
        worker: 5,
        epoch: Epoch { token: Token::from_bits(8), ordinal: 3 },
        lane: 1,
        token: Token::from_bits(u128::MAX - 7),
        marks: "12,9007199254740993".parse().expect("marks"),
        local_mark,
    };
    let layout = "unit=millisecond epoch=2025-01-01T00:00:00Z".to_owned();
    let entry = Entry { layout, reserved_key: "0:0".to_owned(), lease };
    let facts = [("boot", "b-1"), ("store", "mysql://u@h/d?ssl-mode=REQUIRED table t")];
    let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Content {
        place: Place { facts: facts.into() },
        entries: [("default".to_owned(), entry.clone()), ("orders".to_owned(), entry)].into(),
    }
}

fn put(file: &mut [u8], at: u64, bytes: &[u8]) {
    let at = usize::try_from(at).expect("small");
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Returns a file that was written this many times.
fn written(times: u64) -> Vec<u8> {
    let mut file = empty_file();
    for number in 1..=times {
        let bytes = encode(number, &content(number)).expect("it fits");
        slots_for(number).into_iter().for_each(|at| put(&mut file, at, &bytes));
    }
    file
}

/// Returns the local mark in a file.
fn local_mark(file: &[u8]) -> Option<u64> {
    match decode(file) {
        Found::Content { content, .. } => Some(content.entries["default"].lease.local_mark),
        Found::Nothing => Some(0),
        _ => None,
    }
}

#[test]
fn content_is_read_as_it_was_written() {
    let (number, content) = (3, content(3));
    assert_eq!(decode(&written(3)), Found::Content { number, content });
    assert_eq!(decode(&empty_file()), Found::Nothing);
    let (number, content) = (1, Content::default());
    let mut file = empty_file();
    put(&mut file, slots_for(1)[0], &encode(number, &content).expect("it fits"));
    assert_eq!(decode(&file), Found::Content { number, content });
}

/// Whatever else is lost, the file never falls behind the last write that ended.
#[test]
fn write_that_is_cut_short_anywhere_leaves_the_content_before_or_the_new_one() {
    for before in 0..4 {
        let (mut file, bytes) = (written(before), encode(before + 1, &content(before + 1)));
        let bytes = bytes.expect("it fits");
        for at in slots_for(before + 1) {
            for cut in 0..=bytes.len() {
                let mut torn = file.clone();
                put(&mut torn, at, &bytes[..cut]);
                let found = local_mark(&torn).expect("readable");
                assert!((before..=before + 1).contains(&found), "{found} after {before} cut {cut}");
            }
            put(&mut file, at, &bytes);
        }
        assert_eq!(local_mark(&file), Some(before + 1));
    }
}

#[test]
fn slot_that_became_unreadable_never_brings_an_older_content_back() {
    for times in 1..4 {
        for at in slots_for(0) {
            let mut file = written(times);
            put(&mut file, at, &[0xff; 100]);
            assert_eq!(local_mark(&file), Some(times));
        }
        let mut file = written(times);
        slots_for(0).into_iter().for_each(|at| put(&mut file, at + 60, b"x"));
        assert!(matches!(decode(&file), Found::Unreadable(_)));
    }
}

#[test]
fn every_changed_byte_of_a_slot_is_noticed() {
    let bytes = encode(1, &content(1)).expect("it fits");
    for index in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        let read = decode_slot(&changed);
        assert!(read.is_none(), "byte {index}: {read:?}");
    }
}

#[test]
fn other_files_are_told_apart() {
    let mut version_2 = written(1);
    version_2[..22].copy_from_slice(b"raindrop state file 2\n");
    assert!(matches!(decode(&version_2), Found::Unreadable(_)));
    for foreign in [&b"#!/bin/sh\n"[..], b"raindrop.db", b"\0\0x", b"SQLite format 3\0"] {
        assert_eq!(decode(foreign), Found::Foreign, "{foreign:?}");
    }
    // A process was killed while it created the file.
    for cut in 0..=MAGIC.len() {
        let mut file = MAGIC.as_bytes()[..cut].to_vec();
        assert_eq!(decode(&file), Found::Nothing, "{cut}");
        file.resize(5_000, 0);
        assert_eq!(decode(&file), Found::Nothing, "{cut} and zeros");
    }
}

#[test]
fn values_with_control_characters_add_no_lines() {
    let mut content = Content::default();
    let host = "a\nnamespace b".to_owned();
    content.place.facts.insert("host".to_owned(), host);
    let read = decode_slot(&encode(1, &content).expect("it fits")).expect("readable");
    assert_eq!(read.1.place.facts["host"], "a namespace b");
    assert!(read.1.entries.is_empty());
}

#[test]
fn content_that_does_not_fit_is_refused() {
    let mut large = content(1);
    let entry = large.entries["default"].clone();
    large.entries.extend((0..1_000).map(|number| (format!("n{number}"), entry.clone())));
    assert_eq!(encode(1, &large), None);
}
