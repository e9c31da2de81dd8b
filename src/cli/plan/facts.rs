//! What follows from a layout: pure arithmetic.

use super::chosen::Chosen;
use crate::core::{
    layout::Layout,
    lease::{HighWaterMarks, Lease},
    preset::Preset,
};

/// How many bits an ID has, the sign bit included.
const ALL_BITS: u32 = 64;
const JS_SAFE_BITS: u32 = 53;

/// A part of the 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Unused,
    Timestamp,
    DataCenter,
    Worker,
    Rollback,
    Sequence,
    Reserved,
}

impl Part {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::Timestamp => "timestamp",
            Self::DataCenter => "data centre",
            Self::Worker => "worker",
            Self::Rollback => "rollback",
            Self::Sequence => "sequence",
            Self::Reserved => "reserved",
        }
    }
}

/// A part with its place, bits counted from 0 at the least significant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) part: Part,
    pub(super) bits: u32,
    pub(super) high: u32,
    pub(super) low: u32,
}

impl Field {
    /// The largest value.
    pub(super) const fn max(self) -> u64 {
        if matches!(self.part, Part::Unused) { 0 } else { (1 << self.bits) - 1 }
    }
}

/// What a crash of one node costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    /// How long the lane that was used rests at most, in milliseconds.
    pub(super) lane_rests_ms: i64,
    /// How many numbers each code loses at most, where ticks are longer than a lease reaches;
    /// shorter ticks lose none but those of the time that passes.
    pub(super) lost: Option<u64>,
}

/// A layout's facts.
#[derive(Debug)]
pub(super) struct Plan {
    /// What the headline calls it.
    pub(super) title: String,
    pub(super) preset: Option<Preset>,
    pub(super) layout: Layout,
    /// Every part with bits, from the most significant.
    pub(super) fields: Vec<Field>,
    pub(super) min_worker: u64,
    pub(super) max_worker: u64,
    pub(super) data_centers: u64,
    pub(super) window_ms: i64,
    /// The last instant of which every ID is below 2^53; `None` when all are.
    pub(super) js_safe_until_ms: Option<i64>,
    pub(super) crash: Crash,
}

impl Plan {
    pub(super) fn of(chosen: &Chosen) -> Self {
        let Chosen { title, preset, layout, min_worker, max_worker, window } = chosen;
        let window_ms = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
        Self {
            title: title.clone(),
            preset: *preset,
            layout: layout.clone(),
            fields: fields(layout),
            min_worker: *min_worker,
            max_worker: *max_worker,
            data_centers: 1 << layout.widths().data_center,
            window_ms,
            js_safe_until_ms: js_safe_until_ms(layout),
            crash: crash(layout, window_ms),
        }
    }

    /// The last instant of an ID; `None` where the time wraps.
    pub(super) fn ends_ms(&self) -> Option<i64> {
        (!self.layout.wraps()).then(|| self.layout.valid_until_ms() - 1)
    }

    /// How many nodes can issue at a time in one data centre.
    pub(super) const fn nodes(&self) -> u64 {
        self.max_worker - self.min_worker + 1
    }

    /// How many IDs of one code a node gives in a second, rounded down.
    pub(super) fn per_second(&self) -> u64 {
        self.in_a_second(1)
    }

    /// How many IDs of one code all nodes of all data centres give in a second, rounded down.
    pub(super) fn per_second_of_cluster(&self) -> u64 {
        self.in_a_second(u128::from(self.nodes()) * u128::from(self.data_centers))
    }

    fn in_a_second(&self, nodes: u128) -> u64 {
        let per_tick = u128::from(self.layout.positions_per_tick()) * nodes;
        let unit_ms = u128::from(self.layout.unit().millis().unsigned_abs());
        u64::try_from(per_tick * 1_000 / unit_ms).unwrap_or(u64::MAX)
    }
}

fn fields(layout: &Layout) -> Vec<Field> {
    let widths = layout.widths();
    let mut next = ALL_BITS;
    let parts = [
        (Part::Unused, ALL_BITS - widths.total()),
        (Part::Timestamp, widths.timestamp),
        (Part::DataCenter, widths.data_center),
        (Part::Worker, widths.worker),
        (Part::Rollback, widths.rollback),
        (Part::Sequence, widths.sequence),
        (Part::Reserved, widths.reserved),
    ];
    let present = parts.into_iter().filter(|(_, bits)| *bits > 0);
    let place = |(part, bits)| {
        let high = next - 1;
        next -= bits;
        Field { part, bits, high, low: next }
    };
    present.map(place).collect()
}

fn js_safe_until_ms(layout: &Layout) -> Option<i64> {
    let widths = layout.widths();
    if widths.total() <= JS_SAFE_BITS {
        return None;
    }
    let below_timestamp = widths.total() - widths.timestamp;
    let unsafe_tick = 1_u64 << JS_SAFE_BITS.saturating_sub(below_timestamp);
    // Where even the first tick has IDs above 2^53, none is safe for all its IDs.
    let unsafe_tick = if below_timestamp > JS_SAFE_BITS { 0 } else { unsafe_tick };
    Some(layout.start_of_tick_ms(unsafe_tick) - 1)
}

/// From the rule of the limit, at the beginning of a tick in which nothing was issued yet, where
/// a slice of what is left is largest.
fn crash(layout: &Layout, window_ms: i64) -> Crash {
    let lost = (layout.unit().millis() > window_ms).then(|| {
        let now_ms = layout.start_of_tick_ms(1);
        let start = layout.first_position(1);
        let marks = HighWaterMarks::all_at(start, layout.lanes());
        Lease::from_mark(layout, &marks, 0, now_ms, window_ms).limit - start
    });
    Crash { lane_rests_ms: window_ms, lost }
}
