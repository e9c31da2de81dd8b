//! Writes a file of vectors; see ../README.md.

use std::{
    env, fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use yit_id_generator::{DefaultIdGenerator, IdGeneratorOptions};

/// Milliseconds after the epoch.
const OFFSETS: [i64; 10] = [
    3,
    1_000,
    86_400_000,
    1 << 31,
    (1 << 35) + 5,
    (1 << 38) - 2,
    1 << 39,
    500_000_000_000,
    1 << 40,
    1_130_000_000_001,
];

fn main() {
    let folder = env::args().nth(1).expect("a folder");
    let mut rows = Vec::new();
    for (offset, worker) in OFFSETS.into_iter().zip((0..=63).rev().step_by(7)) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        let mut options = IdGeneratorOptions::New(worker);
        let (epoch, bits) = (options.BaseTime, options.SeqBitLength);
        options.BaseTime = i64::try_from(now).expect("63 bits") - offset;
        let shift = bits + options.WorkerIdBitLength;
        let mut generator = DefaultIdGenerator::Default();
        generator.Worker.SetOptions(options);
        for _ in 0..4 {
            let id = generator.Worker.NextId();
            rows.push(format!(
                r#"    {{"id": "{id}", "unix_ms": {}, "data_center": 0, "worker": {}, "sequence": {}}}"#,
                (id >> shift) + epoch,
                id >> bits & ((1 << (shift - bits)) - 1),
                id & ((1 << bits) - 1),
            ));
        }
    }
    let file = format!(
        r#"{{
  "library": "yit_id_generator",
  "version": "1.0.4",
  "layout": "yitter",
  "fields": "the options' own BaseTime and bit lengths",
  "ids": [
{}
  ]
}}
"#,
        rows.join(",\n")
    );
    fs::write(Path::new(&folder).join("yitter-rust.json"), file).expect("written");
}
