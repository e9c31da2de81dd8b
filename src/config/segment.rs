//! The `segment` section: how a code's numbers are reserved.

use std::time::Duration;

use super::reader::Reader;
use crate::core::segment::SegmentSpec;

/// The settings of the `segment` section.
#[derive(Debug)]
pub(super) struct SegmentConfig {
    /// What a code is unless its entry says otherwise.
    pub(super) spec: SegmentSpec,
    pub(super) target_duration: Duration,
    pub(super) auto_create: bool,
}

pub(super) fn read(reader: &mut Reader) -> SegmentConfig {
    let steps = 1..=SegmentSpec::LARGEST;
    let min_step = reader.number("segment.min_step", steps.clone());
    let max_step: u64 = reader.number("segment.max_step", steps);
    let in_order = min_step <= max_step;
    reader.relate("segment.max_step", "segment.min_step", in_order, "at least");
    let max_step = max_step.max(min_step);
    let target = Duration::from_secs(1)..=Duration::from_hours(24);
    SegmentConfig {
        spec: SegmentSpec { min_step, max_step, ..SegmentSpec::default() },
        target_duration: reader.duration("segment.target_duration", target),
        auto_create: reader.boolean("segment.auto_create"),
    }
}
