//! The plan for programs. Its keys are documented in docs/layouts.md and stay.

use serde::Serialize;

use super::facts::{Part, Plan};
use crate::core::{
    instant::{format_unix_ms, format_unix_ms_short},
    preset::Preset,
};

#[derive(Serialize)]
struct Document {
    preset: Option<&'static str>,
    time_unit: &'static str,
    epoch: String,
    bits: u32,
    wraps_after_ms: Option<i64>,
    fields: Vec<Field>,
    min_sequence: u64,
    max_sequence: u64,
    ends: Option<Instant>,
    js_safe_until: Option<Instant>,
    nodes: u64,
    data_centers: u64,
    lanes: usize,
    ids_per_tick: u64,
    ids_per_second: Rates,
    crash: Crash,
}

#[derive(Serialize)]
struct Field {
    name: &'static str,
    bits: u32,
    high_bit: u32,
    low_bit: u32,
    max: u64,
}

#[derive(Serialize)]
struct Instant {
    timestamp: String,
    unix_ms: i64,
}

#[derive(Serialize)]
struct Rates {
    code_and_node: u64,
    code_and_cluster: u64,
}

#[derive(Serialize)]
struct Crash {
    lane_rests_ms: i64,
    numbers_lost: u64,
}

pub(super) fn render(plan: &Plan) -> String {
    let layout = &plan.layout;
    let instant = |unix_ms| Instant { timestamp: format_unix_ms(unix_ms), unix_ms };
    let used = plan.fields.iter().filter(|field| field.part != Part::Unused);
    let field = |field: &super::facts::Field| Field {
        name: key(field.part),
        bits: field.bits,
        high_bit: field.high,
        low_bit: field.low,
        max: field.max(),
    };
    let document = Document {
        preset: plan.preset.map(Preset::name),
        time_unit: layout.unit().name(),
        epoch: format_unix_ms_short(layout.epoch_ms()),
        bits: layout.widths().total(),
        wraps_after_ms: layout.wrap_ms(),
        fields: used.map(field).collect(),
        min_sequence: layout.min_sequence(),
        max_sequence: layout.max_sequence(),
        ends: plan.ends_ms().map(instant),
        js_safe_until: plan.js_safe_until_ms.map(instant),
        nodes: plan.nodes(),
        data_centers: plan.data_centers,
        lanes: layout.lanes(),
        ids_per_tick: layout.positions_per_tick(),
        ids_per_second: Rates {
            code_and_node: plan.per_second(),
            code_and_cluster: plan.per_second_of_cluster(),
        },
        crash: Crash {
            lane_rests_ms: plan.crash.lane_rests_ms,
            numbers_lost: plan.crash.lost.unwrap_or(0),
        },
    };
    serde_json::to_string_pretty(&document).expect("texts and numbers are always JSON") + "\n"
}

/// The field's name in answers of `/parse`.
const fn key(part: Part) -> &'static str {
    match part {
        Part::Unused => "unused",
        Part::Timestamp => "timestamp",
        Part::DataCenter => "data_center",
        Part::Worker => "worker_id",
        Part::Rollback => "lane",
        Part::Sequence => "sequence",
        Part::Reserved => "reserved",
    }
}
