use super::*;
use crate::{
    layout::{FieldOrder, LayoutSpec, TimeUnit},
    preset::Preset,
};

const NOW: i64 = 1_763_650_000_000;

fn preset(preset: Preset) -> Layout {
    preset.spec().build().expect("valid")
}

fn marks_at(layout: &Layout, ms: i64) -> HighWaterMarks {
    HighWaterMarks::all_at(0, 2).with(1, layout.first_position(layout.tick_clamped(ms)) + 1)
}

#[test]
fn relayout_to_larger_ids_is_allowed_and_to_smaller_ones_refused() {
    let (narrow, wide) = (preset(Preset::JsSafe), preset(Preset::Raindrop));
    let largest = largest_id_allowed(&narrow, [&marks_at(&narrow, NOW + 300_000)]);
    let tick = wide.tick_clamped(NOW);
    let smallest_new = wide.smallest_id(tick);
    let verdict = judge_relayout(&wide, NOW, largest);
    assert_eq!(verdict, RelayoutVerdict::Allowed { tick, smallest_new });
    assert!(largest.is_some_and(|largest| largest < smallest_new));

    let largest = largest_id_allowed(&wide, [&marks_at(&wide, NOW)]);
    let RelayoutVerdict::TooSmall { smallest_new, from_ms: Some(from_ms) } =
        judge_relayout(&narrow, NOW, largest)
    else {
        panic!("too small")
    };
    assert!(largest.is_some_and(|largest| smallest_new < largest));
    let at = |ms| judge_relayout(&narrow, ms, largest);
    assert!(matches!(at(from_ms), RelayoutVerdict::Allowed { .. }));
    assert!(matches!(at(from_ms - 1), RelayoutVerdict::TooSmall { .. }));
}

#[test]
fn a_mark_beyond_the_end_of_time_allows_every_id() {
    for layout in Preset::ALL.map(preset) {
        let largest = largest_id_allowed(&layout, [&HighWaterMarks::all_at(i64::MAX as u64, 1)]);
        assert_eq!(largest.map(|id| id.get() + 1), Some(1 << layout.widths().total()));
    }
}

#[test]
fn layouts_of_one_size_follow_each_other_once_the_marks_are_past() {
    let old = preset(Preset::Raindrop);
    let spec = LayoutSpec::for_unit(TimeUnit::Millisecond);
    let narrower = LayoutSpec { worker_bits: 8, ..spec.clone() };
    let reordered = LayoutSpec { order: FieldOrder::SequenceWorker, ..spec };
    for spec in [narrower, reordered] {
        let new = spec.build().expect("valid");
        assert_ne!(new.canonical(), old.canonical());
        let largest = largest_id_allowed(&old, [&marks_at(&old, NOW + 300_000)]);
        let at = |ms| judge_relayout(&new, ms, largest);
        let expected = Some(NOW + 300_001);
        assert!(
            matches!(at(NOW), RelayoutVerdict::TooSmall { from_ms, .. } if from_ms == expected)
        );
        assert!(matches!(at(NOW + 300_000), RelayoutVerdict::TooSmall { .. }));
        assert!(matches!(at(NOW + 300_001), RelayoutVerdict::Allowed { .. }));
    }
}

#[test]
fn zero_marks_allow_no_id_and_untouched_marks_the_ids_below_them() {
    let layout = preset(Preset::Raindrop);
    assert_eq!(largest_id_allowed(&layout, []), None);
    assert_eq!(largest_id_allowed(&layout, [&HighWaterMarks::all_at(0, 2)]), None);
    let verdict = judge_relayout(&layout, NOW, None);
    assert!(matches!(verdict, RelayoutVerdict::Allowed { .. }));
    let tick = layout.tick_clamped(NOW);
    let untouched = HighWaterMarks::all_at(layout.first_position(tick), 2);
    let below = layout.smallest_id(tick).get() - 1;
    assert_eq!(largest_id_allowed(&layout, [&untouched]).map(Id::get), Some(below));
}

#[test]
fn layout_whose_timestamp_cannot_hold_now_is_refused() {
    let layout = preset(Preset::Raindrop);
    for ms in [layout.epoch_ms() - 1, layout.valid_until_ms()] {
        assert_eq!(judge_relayout(&layout, ms, None), RelayoutVerdict::OutOfRange);
    }
    // No ID is above the largest one.
    let verdict = judge_relayout(&layout, NOW, Some(Id::MAX));
    assert!(matches!(verdict, RelayoutVerdict::TooSmall { from_ms: None, .. }));
}

#[test]
fn relayout_to_a_wrapping_layout_is_refused() {
    let (wrapping, wide) = (preset(Preset::WestidQr), preset(Preset::Raindrop));
    let old = HighWaterMarks::all_at(wrapping.first_position(wrapping.tick_clamped(NOW)), 1);
    let largest = largest_id_allowed(&wrapping, [&old]);
    assert_eq!(largest.map(Id::get), Some((1 << 31) - 1));
    assert!(matches!(judge_relayout(&wide, NOW, largest), RelayoutVerdict::Allowed { .. }));
    let verdict = judge_relayout(&wrapping, NOW, largest);
    assert!(matches!(verdict, RelayoutVerdict::TooSmall { from_ms: None, .. }));
}

#[test]
fn relayout_records_round_trip() {
    let (from, to) = (preset(Preset::JsSafe).canonical(), preset(Preset::Raindrop).canonical());
    for stage in [RelayoutStage::Fencing, RelayoutStage::Converting { tick: 7 }] {
        let relayout = Relayout { stage, from: from.clone(), to: to.clone() };
        let text = relayout.to_string();
        assert!(text.len() <= 1_000, "it fits the column: {text}");
        assert_eq!(Recorded::read(&text), Ok(Recorded::Moving(relayout)));
        for other in
            [text.replace("from=", "from=0"), text.replace("stage=", "at="), format!("{text} ")]
        {
            assert!(Recorded::read(&other).is_err(), "{other}");
        }
    }
    assert_eq!(Recorded::read(&to), Ok(Recorded::Settled(to)));
}
