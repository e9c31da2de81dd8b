//! Every layout against IDs that other libraries made: see `tests/vectors/make/README.md`.

use std::{fs, path::Path};

use serde_json::Value;

use super::*;
use crate::{id::Id, layout::Fields};

/// Every file and the layout that reads it.
const FILES: [(&str, &str); 19] = [
    ("bwmarrin", "bwmarrin"),
    ("cosid", "cosid"),
    ("hutool", "twitter"),
    ("hypersistence-tsid", "tsid"),
    ("katsubushi", "time:41,worker:10,sequence:12"),
    ("leaf", "leaf"),
    ("mybatis-plus", "twitter"),
    ("seata", "seata"),
    ("simple-flakeid", "yitter-js"),
    ("snowflake-id", "time:41,worker:10,sequence:12"),
    ("sonyflake-v2", "sonyflake-v2"),
    ("sonyflake", "sonyflake"),
    ("tsid-creator", "tsid"),
    ("uid-generator-default", "baidu-uid-default"),
    ("uid-generator", "baidu-uid"),
    ("westid", "westid"),
    ("yitter-go", "yitter"),
    ("yitter-java", "yitter"),
    ("yitter-rust", "yitter"),
];
const FEWEST_IDS: usize = 30;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} is no text in {value}"))
}

#[test]
fn vectors_of_other_libraries_have_their_fields() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    for (name, layout) in FILES {
        let content = fs::read_to_string(folder.join(format!("{name}.json"))).expect(name);
        let file: Value = serde_json::from_str(&content).expect(name);
        assert_eq!(text(&file, "layout"), layout, "{name}");
        let vectors = file["ids"].as_array().expect(name);
        assert!(vectors.len() >= FEWEST_IDS, "{name} has only {} IDs", vectors.len());
        let epoch_ms = file.get("epoch_ms").map(|ms| ms.as_i64().expect("an instant"));
        let layout = NamedLayout::find(layout, epoch_ms, &[]).expect(layout);
        for vector in vectors {
            check(name, &layout, vector);
        }
    }
}

fn check(name: &str, layout: &NamedLayout, vector: &Value) {
    let id = Id::new(text(vector, "id").parse().expect("a number")).expect("63 bits");
    let unix_ms = vector["unix_ms"].as_i64().expect("an instant");
    let field = |key: &str| vector[key].as_u64().unwrap_or_else(|| panic!("{key} in {vector}"));
    let parsed = layout.parse(id, unix_ms).expect("fits");
    let mut fields = Fields {
        tick: parsed.fields.tick,
        data_center: field("data_center"),
        worker: field("worker"),
        sequence: field("sequence"),
        ..Fields::default()
    };
    if let Some(layout) = layout.layout() {
        // UidGenerator's worker id is wider than a preset's: its high bits are the data centre.
        let bits = layout.widths().worker;
        fields.data_center += fields.worker >> bits;
        fields.worker &= (1 << bits) - 1;
    }
    assert_eq!((parsed.unix_ms, parsed.fields), (unix_ms, fields), "{name} {id:?}");
    if let Some(layout) = layout.layout() {
        let tick = layout.tick_in_range(unix_ms).expect("inside the timestamp");
        assert_eq!(layout.join(&Fields { tick, ..fields }), Ok(id), "{name} {id:?}");
    }
}

#[test]
fn every_vector_file_is_compared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    let paths =
        fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let files = paths.filter(|path| path.is_file()).map(|path| {
        path.file_name().and_then(|name| name.to_str()).expect("an ASCII name").to_owned()
    });
    let mut files: Vec<_> = files.collect();
    files.sort_unstable();
    assert_eq!(files, FILES.map(|(name, _)| format!("{name}.json")));
}
