//! 1000 consecutive IDs as a JSON array of strings.

use std::hint::black_box;

use raindrop_bench::{
    machine::version_of,
    rounds::{Figures, Pace, Rounds, one_thread, per_item},
};
use raindrop_core::{
    encoding::{write_decimal, write_decimal_range},
    id::Id,
    issue::Run,
};

use crate::embedded::Embedded;

const COUNT: u32 = 1000;

pub(crate) const EACH: &str = "Raindrop, each ID";
/// The least that texts of their own cost: three changes of the buffer for each.
const SAME: &str = "always the same digits, each";
pub(crate) const RANGE: &str = "Raindrop, as a range";

pub(crate) fn itoa() -> String {
    format!("itoa {}, each ID", version_of("itoa"))
}

pub(crate) fn serde_json() -> String {
    format!("serde_json {}, as a `Vec<String>`", version_of("serde_json"))
}

type Write = Box<dyn Fn(&mut Vec<u8>, Run)>;

pub(crate) fn measure(embedded: &Embedded, pace: Pace) -> Figures {
    // With the default layout: 18 digits until 2034.
    let run = embedded.default_layout.claim("written", COUNT).expect("an idle code").ids;
    let mut expected = Vec::new();
    write_by_serde_json(&mut expected, run.clone());

    let finished = expected.clone();
    let copy = move |text: &mut Vec<u8>, _: Run| text.extend_from_slice(black_box(&finished));
    let writers: [(String, Write); 6] = [
        ("copy of the finished text".to_owned(), Box::new(copy)),
        (RANGE.to_owned(), Box::new(write_range)),
        (SAME.to_owned(), Box::new(write_same)),
        (EACH.to_owned(), Box::new(write_each)),
        (itoa(), Box::new(write_by_itoa)),
        (serde_json(), Box::new(write_by_serde_json)),
    ];
    let mut rounds = Rounds::new(pace);
    for (name, write) in writers {
        let (mut text, run) = (Vec::with_capacity(expected.len()), run.clone());
        write(&mut text, run.clone());
        assert!(text == expected || name == SAME, "{name} writes the same");
        let write = one_thread(move || {
            text.clear();
            write(&mut text, black_box(run.clone()));
            black_box(&text).len()
        });
        rounds.add(name, per_item(u64::from(COUNT), write));
    }
    rounds.run()
}

fn write_range(text: &mut Vec<u8>, run: Run) {
    text.push(b'[');
    for range in run.ranges() {
        write_decimal_range(text, &range, "\"", "\",");
    }
    close(text);
}

fn write_each(text: &mut Vec<u8>, run: Run) {
    write_ids(text, run, write_decimal);
}

fn write_same(text: &mut Vec<u8>, run: Run) {
    let digits: [u8; 18] = black_box(*b"249679838552547328");
    write_ids(text, run, |text, _| text.extend_from_slice(&digits));
}

fn write_by_itoa(text: &mut Vec<u8>, run: Run) {
    let mut digits = itoa::Buffer::new();
    write_ids(text, run, |text, id| text.extend_from_slice(digits.format(id.get()).as_bytes()));
}

fn write_ids(text: &mut Vec<u8>, run: Run, mut write: impl FnMut(&mut Vec<u8>, Id)) {
    text.push(b'[');
    for id in run {
        text.push(b'"');
        write(text, id);
        text.extend_from_slice(b"\",");
    }
    close(text);
}

fn write_by_serde_json(text: &mut Vec<u8>, run: Run) {
    let ids: Vec<String> = run.map(|id: Id| id.get().to_string()).collect();
    serde_json::to_writer(text, &ids).expect("a vector can be written");
}

/// Replaces the last comma by the end of the array.
fn close(text: &mut [u8]) {
    *text.last_mut().expect("1000 IDs and a comma") = b']';
}
