//! 1000 consecutive IDs as a JSON array of strings.

use std::hint::black_box;

use raindrop::core::{
    encoding::{Encoder, Encoding},
    id::Id,
    issue::Run,
};
use raindrop_bench::{
    machine::version_of,
    rounds::{Figures, Rounds, alone},
};

use crate::ours::Ours;

const COUNT: u32 = 1000;

pub(crate) const OURS: &str = "Raindrop";

/// The names of the others: itoa and serde_json.
pub(crate) fn others() -> [String; 2] {
    [
        format!("itoa {}, each ID", version_of("itoa")),
        format!("serde_json {}, a `Vec<String>` of them", version_of("serde_json")),
    ]
}

pub(crate) fn measure(ours: &Ours, mut rounds: Rounds<'_>) -> Figures {
    let claim = ours.cached.claim("written", COUNT).expect("an unthrottled layout");
    let run = claim.ids;
    let ways: [fn(&mut Vec<u8>, Run); 3] = [by_raindrop, by_itoa, by_serde_json];
    let mut expected = Vec::new();
    by_serde_json(&mut expected, run.clone());
    let [itoa, serde_json] = others();
    for (name, way) in [OURS.to_owned(), itoa, serde_json].into_iter().zip(ways) {
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

fn by_raindrop(text: &mut Vec<u8>, run: Run) {
    let encoder = Encoder::new(Encoding::Decimal, false, None).expect("decimal needs nothing");
    let mut written = String::from_utf8(std::mem::take(text)).expect("it is empty");
    written.push('[');
    for id in run {
        written.push('"');
        encoder.encode_into(&mut written, id);
        written.push_str("\",");
    }
    *text = written.into_bytes();
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
