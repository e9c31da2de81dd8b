//! 1000 consecutive IDs as a JSON array of strings.

use std::hint::black_box;

use raindrop::core::{
    encoding::{write_decimal, write_decimal_range},
    id::Id,
    issue::Run,
};
use raindrop_bench::{
    machine::version_of,
    rounds::{Figures, Rounds, alone},
};

use crate::ours::Ours;

const COUNT: u32 = 1000;

pub(crate) const OURS: &str = "Raindrop, as a range";
const OURS_EACH: &str = "Raindrop, each ID by itself";
const COPY: &str = "copying the finished text";

/// The names of the others: itoa and serde_json.
pub(crate) fn others() -> [String; 2] {
    [
        format!("itoa {}, each ID", version_of("itoa")),
        format!("serde_json {}, a `Vec<String>` of them", version_of("serde_json")),
    ]
}

type Way = Box<dyn Fn(&mut Vec<u8>, Run)>;

/// Every name, in the order of the report.
pub(crate) fn names() -> [String; 5] {
    let [itoa, serde_json] = others();
    [COPY.to_owned(), OURS.to_owned(), OURS_EACH.to_owned(), itoa, serde_json]
}

pub(crate) fn measure(ours: &Ours, mut rounds: Rounds<'_>) -> Figures {
    // Of the default layout: 18 digits until 2034.
    let run = ours.capped.claim("written", COUNT).expect("an idle code").ids;
    let mut expected = Vec::new();
    by_serde_json(&mut expected, run.clone());

    let copy = {
        let expected = expected.clone();
        move |text: &mut Vec<u8>, _: Run| text.extend_from_slice(black_box(&expected))
    };
    let ways: [Way; 5] = [
        Box::new(copy),
        Box::new(by_range),
        Box::new(by_each),
        Box::new(by_itoa),
        Box::new(by_serde_json),
    ];
    for (name, way) in names().into_iter().zip(ways) {
        let (mut text, run) = (Vec::with_capacity(expected.len()), run.clone());
        way(&mut text, run.clone());
        assert_eq!(text, expected, "{name} writes the same");
        let mut write = alone(move || {
            text.clear();
            way(&mut text, black_box(run.clone()));
            black_box(&text).len()
        });
        let count = u64::from(COUNT);
        rounds.add(name, move |times| {
            let writes = times.div_ceil(count);
            write(writes).scaled(times, writes * count)
        });
    }
    rounds.run()
}

fn by_range(text: &mut Vec<u8>, run: Run) {
    text.push(b'[');
    for range in run.ranges() {
        write_decimal_range(text, &range, "\"", "\",");
    }
    close(text);
}

fn by_each(text: &mut Vec<u8>, run: Run) {
    text.push(b'[');
    for id in run {
        text.push(b'"');
        write_decimal(text, id);
        text.extend_from_slice(b"\",");
    }
    close(text);
}

fn by_itoa(text: &mut Vec<u8>, run: Run) {
    let mut digits = itoa::Buffer::new();
    text.push(b'[');
    for id in run {
        text.push(b'"');
        text.extend_from_slice(digits.format(id.get()).as_bytes());
        text.extend_from_slice(b"\",");
    }
    close(text);
}

fn by_serde_json(text: &mut Vec<u8>, run: Run) {
    let ids: Vec<String> = run.map(|id: Id| id.get().to_string()).collect();
    serde_json::to_writer(text, &ids).expect("a vector takes it");
}

/// Makes the last comma the end of the array.
fn close(text: &mut [u8]) {
    *text.last_mut().expect("1000 IDs and a comma") = b']';
}
