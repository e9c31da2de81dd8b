//! The consequences of a layout, by arithmetic only.

use serde::Serialize;

use super::layout_table;
use crate::{
    core::{
        encoding::Encoding,
        instant::{format_unix_ms, format_unix_ms_short},
        layout::{FieldKind, Layout},
        lease::{HighWaterMarks, Lease},
        preset::Preset,
    },
    keeper::KeeperSettings,
};

/// How many bits an ID has, the sign bit included.
const ALL_BITS: u32 = 64;
const JS_SAFE_BITS: u32 = 53;

/// The facts of a layout. The serialized fields are a contract, which docs/layouts/plan.md
/// describes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Plan {
    /// The name in the headline.
    #[serde(skip)]
    pub(crate) title: &'static str,
    #[serde(skip)]
    pub(crate) promise: Option<&'static str>,
    #[serde(skip)]
    pub(crate) keeper: KeeperSettings,
    /// The preset that the layout comes from.
    pub(crate) preset: Option<&'static str>,
    time_unit: &'static str,
    pub(crate) epoch: String,
    pub(crate) bits: u32,
    /// The period after which the timestamp starts again; null if it does not wrap.
    pub(crate) wraps_after_ms: Option<i64>,
    /// Every field with bits, from the most significant.
    pub(crate) fields: Vec<Field>,
    min_sequence: u64,
    max_sequence: u64,
    /// The last instant of an ID; null where the time wraps.
    pub(crate) ends: Option<Instant>,
    /// The last instant at which every ID is below 2^53; null if all IDs are.
    pub(crate) js_safe_until: Option<Instant>,
    /// How many bits of each text in `uuid7` and `typeid` are random; null if IDs of this layout
    /// have no UUIDs.
    pub(crate) uuid_random_bits: Option<u32>,
    /// How many nodes of one data centre can issue at the same time.
    pub(crate) nodes: u64,
    pub(crate) data_centers: u64,
    pub(crate) lanes: usize,
    pub(crate) ids_per_tick: u64,
    pub(crate) ids_per_second: Rates,
    pub(crate) crash: Crash,
    /// The `[layout]` table that gives exactly this layout in a configuration file.
    pub(super) toml: String,
}

/// A field of an ID, under its name in answers of `/parse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    Unused,
    Timestamp,
    DataCenter,
    WorkerId,
    Lane,
    Sequence,
    Reserved,
}

/// A field with its place, bits counted from 0 at the least significant.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Field {
    #[serde(rename = "name")]
    pub(crate) part: Part,
    pub(crate) bits: u32,
    pub(crate) high_bit: u32,
    pub(crate) low_bit: u32,
    /// The largest value.
    pub(crate) max: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Instant {
    timestamp: String,
    pub(crate) unix_ms: i64,
}

/// IDs per second, rounded down: of all codes together if they share a sequence, otherwise of one
/// code.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rates {
    pub(crate) node: u64,
    /// IDs per second of all nodes in all data centres.
    pub(crate) cluster: u64,
}

/// The cost of a crash of one node.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Crash {
    /// How long the lane that was in use cannot be leased, at most.
    pub(crate) lane_rests_ms: i64,
    /// How many sequence numbers a tick loses at most, if ticks are longer than a lease; 0 with
    /// shorter ticks.
    pub(crate) numbers_lost: u64,
}

impl Plan {
    pub(crate) fn of(title: &'static str, preset: Option<Preset>, keeper: KeeperSettings) -> Self {
        let layout = &keeper.layout;
        let widths = layout.widths();
        let instant = |unix_ms| Instant { timestamp: format_unix_ms(unix_ms), unix_ms };
        let ends_ms = (!layout.wraps()).then(|| layout.valid_until_ms() - 1);
        let nodes = keeper.max_worker - keeper.min_worker + 1;
        let data_centers = 1 << widths.data_center;
        let per_second = |nodes: u128| {
            let per_tick = u128::from(layout.positions_per_tick()) * nodes;
            let unit_ms = u128::from(layout.unit().millis().unsigned_abs());
            u64::try_from(per_tick * 1_000 / unit_ms).unwrap_or(u64::MAX)
        };
        let window_ms = i64::try_from(keeper.lease.window.as_millis()).unwrap_or(i64::MAX);
        Self {
            title: preset.map_or(title, Preset::name),
            promise: preset.map(Preset::describe),
            preset: preset.map(Preset::name),
            time_unit: layout.unit().name(),
            epoch: format_unix_ms_short(layout.epoch_ms()),
            bits: widths.total(),
            wraps_after_ms: layout.wrap_ms(),
            fields: fields(layout),
            min_sequence: layout.min_sequence(),
            max_sequence: layout.max_sequence(),
            ends: ends_ms.map(instant),
            js_safe_until: js_safe_until_ms(layout).map(instant),
            uuid_random_bits: Encoding::Uuid7.random_bits(layout).ok().flatten(),
            nodes,
            data_centers,
            lanes: layout.lanes(),
            ids_per_tick: layout.positions_per_tick(),
            ids_per_second: Rates {
                node: per_second(1),
                cluster: per_second(u128::from(nodes) * u128::from(data_centers)),
            },
            crash: Crash {
                lane_rests_ms: window_ms,
                numbers_lost: numbers_lost(layout, window_ms),
            },
            toml: layout_table(layout, preset),
            keeper,
        }
    }

    /// Returns the unused bits above the fields, which are 0.
    pub(crate) const fn unused(&self) -> Field {
        let (bits, low_bit) = (ALL_BITS - self.bits, self.bits);
        Field { part: Part::Unused, bits, high_bit: ALL_BITS - 1, low_bit, max: 0 }
    }
}

/// Returns a warning if a node issues less than one ID per millisecond for all codes together.
pub(crate) fn scarce_ids(keeper: &KeeperSettings) -> Option<String> {
    let (per_tick, unit) = (keeper.layout.positions_per_tick(), keeper.layout.unit());
    if !keeper.issue.codes_shared || per_tick >= unit.millis().unsigned_abs() {
        return None;
    }
    Some(format!(
        "a node has {per_tick} IDs in each {unit} for all codes together (codes.shared = true): \
         more sequence bits give it more; codes.shared = false gives each code as many, but IDs of \
         two codes may then be equal"
    ))
}

fn fields(layout: &Layout) -> Vec<Field> {
    let mut above = layout.widths().total();
    let place = |(kind, bits)| {
        let part = match kind {
            FieldKind::Time => Part::Timestamp,
            FieldKind::DataCenter => Part::DataCenter,
            FieldKind::Worker => Part::WorkerId,
            FieldKind::Lane => Part::Lane,
            FieldKind::Sequence => Part::Sequence,
            FieldKind::Reserved => Part::Reserved,
        };
        let high_bit = above - 1;
        above -= bits;
        Field { part, bits, high_bit, low_bit: above, max: (1 << bits) - 1 }
    };
    layout.fields().into_iter().filter(|(_, bits)| *bits > 0).map(place).collect()
}

fn js_safe_until_ms(layout: &Layout) -> Option<i64> {
    let widths = layout.widths();
    if widths.total() <= JS_SAFE_BITS {
        return None;
    }
    // If even the first tick has IDs above 2^53, there is no such instant.
    let below_timestamp = widths.total() - widths.timestamp;
    let unsafe_tick = JS_SAFE_BITS.checked_sub(below_timestamp).map_or(0, |bits| 1 << bits);
    Some(layout.start_of_tick_ms(unsafe_tick) - 1)
}

/// Returns the most sequence numbers that a crash can lose. The limit of a lease is the furthest
/// ahead at the beginning of a tick in which the node has issued nothing yet.
fn numbers_lost(layout: &Layout, window_ms: i64) -> u64 {
    if layout.unit().millis() <= window_ms {
        return 0;
    }
    let now_ms = layout.start_of_tick_ms(1);
    let start = layout.first_position(1);
    let marks = HighWaterMarks::all_at(start, layout.lanes());
    Lease::from_mark(layout, &marks, 0, now_ms, window_ms).limit - start
}
