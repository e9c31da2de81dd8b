use proptest::{prelude::*, test_runner::RngSeed};

use super::*;
use crate::{
    issue::Run,
    layout::{Layout, LayoutSpec, TimeUnit},
    preset::Preset,
};

/// What stands before and after each ID.
const AROUND: [(&str, &str); 5] =
    [("", ""), ("", ","), ("", "\n"), ("\"", "\","), ("\"a-prefix-longer-than-any-digits-", "\",")];
const STEPS: [u64; 12] =
    [1, 2, 3, 32, 100, 101, 9_999, 10_000, 10_001, 65_536, 100_000_000, 1 << 40];

fn id(number: u64) -> Id {
    Id::new(number).expect("63 bits")
}

/// As many IDs of this range as there are.
fn range(first: u64, step: u64, count: u64) -> IdRange {
    let count = count.min((Id::MAX.get() - first) / step + 1);
    let last = first + step * count.saturating_sub(1);
    IdRange { first: id(first), last: id(last), step, count }
}

/// Checks the text of a range that is appended to another text.
fn check(range: &IdRange, (before, after): (&str, &str)) {
    let mut expected = String::from("kept");
    for index in 0..range.count {
        let number = range.first.get() + index * range.step;
        expected.push_str(&format!("{before}{number}{after}"));
    }
    let mut written = b"kept".to_vec();
    write_decimal_range(&mut written, range, before, after);
    assert_eq!(String::from_utf8_lossy(&written), expected, "{range:?}");
}

/// Where the number of digits or of groups changes, and the last ID.
fn edges() -> impl Iterator<Item = u64> {
    (0..19).map(|exponent| 10_u64.pow(exponent)).chain([Id::MAX.get()])
}

#[test]
fn one_id_is_written_as_it_displays() {
    let around = edges().flat_map(|edge| [edge - 1, edge, edge.saturating_add(1)]);
    for number in around.filter(|number| *number <= Id::MAX.get()) {
        let mut written = b"kept".to_vec();
        write_decimal(&mut written, id(number));
        assert_eq!(String::from_utf8_lossy(&written), format!("kept{number}"));
    }
}

#[test]
fn ranges_cross_every_change_of_width_up_to_the_last_id() {
    for edge in edges() {
        for step in STEPS {
            for before_edge in [1, 2, 150] {
                let first = edge.saturating_sub(step.saturating_mul(before_edge));
                check(&range(first, step, 300), AROUND[3]);
            }
        }
    }
}

#[test]
fn no_id_and_one_id_are_ranges_too() {
    for around in AROUND {
        for (number, step) in [(0, 1), (9_999, 1), (Id::MAX.get(), 1), (123_456_789, 1 << 40)] {
            check(&range(number, step, 0), around);
            check(&range(number, step, 1), around);
        }
        check(&IdRange { first: id(12_345), last: id(12_345), step: 0, count: 1 }, around);
    }
}

/// Every preset, and the largest step that a layout has.
fn layouts() -> impl Iterator<Item = Layout> {
    let reserved = LayoutSpec {
        reserved_bits: 5,
        reserved_value: 31,
        ..LayoutSpec::for_unit(TimeUnit::Millisecond)
    };
    let presets = Preset::ALL.into_iter().map(Preset::layout);
    presets.chain([reserved.build().expect("valid")])
}

#[test]
fn runs_over_a_tick_boundary_are_written_as_their_ids() {
    for layout in layouts() {
        let composer = layout.composer(layout.smallest_worker(), 0).expect("in range");
        let boundary = layout.positions_per_tick() * (layout.last_tick() / 2);
        let many = layout.positions_per_tick().min(1_500);
        let run = Run::new(composer, boundary - many, boundary + many);
        let expected: String = run.clone().map(|id| format!("\"{id}\",")).collect();
        let mut written = Vec::new();
        let mut ranges = 0;
        for range in run.ranges() {
            write_decimal_range(&mut written, &range, "\"", "\",");
            ranges += 1;
        }
        assert_eq!(String::from_utf8_lossy(&written), expected, "{}", layout.canonical());
        assert_eq!(ranges, 2, "{}", layout.canonical());
    }
}

/// All magnitudes, not only the large numbers that a uniform choice gives.
fn any_number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 1_u32..64).prop_map(|(number, shift)| number >> shift)
}

fn any_step() -> impl Strategy<Value = u64> {
    prop_oneof![proptest::sample::select(&STEPS), any_number().prop_map(|step| step.max(1))]
}

proptest! {
    // Fixed, so that a run can be repeated; PROPTEST_RNG_SEED sets another.
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        rng_seed: RngSeed::Fixed(20_261_120),
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_range_is_written_as_its_ids_display(
        first in any_number(),
        step in any_step(),
        count in prop_oneof![0_u64..4, 0_u64..3_000],
        around in proptest::sample::select(&AROUND),
    ) {
        check(&range(first, step, count), around);
    }

    #[test]
    fn any_id_is_written_as_it_displays(number in any_number()) {
        let mut written = Vec::new();
        write_decimal(&mut written, id(number));
        prop_assert_eq!(String::from_utf8_lossy(&written), number.to_string());
    }
}
