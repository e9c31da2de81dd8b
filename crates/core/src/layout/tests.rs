use proptest::{prelude::*, test_runner::RngSeed};

use super::*;
use crate::preset::Preset;

/// From treeyh/raindrop's formula, computed outside this code, for the instant [`NOW`].
struct Vector {
    unit: TimeUnit,
    timestamp_bits: u32,
    worker_bits: u32,
    reserved_bits: u32,
    reserved: u64,
    epoch_ms: i64,
    worker: u64,
    lane: u64,
    sequence: u64,
    id: u64,
}

#[rustfmt::skip]
#[expect(clippy::too_many_arguments, reason = "a row of a table")]
const fn vector(
    unit: TimeUnit, timestamp_bits: u32, worker_bits: u32, reserved_bits: u32, reserved: u64,
    epoch_ms: i64, worker: u64, lane: u64, sequence: u64, id: u64,
) -> Vector {
    Vector {
        unit, timestamp_bits, worker_bits, reserved_bits, reserved, epoch_ms, worker, lane, sequence, id,
    }
}

const RAINDROP_VECTORS: [Vector; 9] = [
    vector(TimeUnit::Second, 31, 4, 0, 0, MARCH, 10, 0, 0, 96_207_270_114_754_560),
    vector(TimeUnit::Second, 31, 4, 0, 0, MARCH, 10, 1, 5, 96_207_270_248_972_293),
    vector(TimeUnit::Minute, 26, 4, 0, 0, MARCH, 10, 0, 0, 51_310_582_715_908_096),
    vector(TimeUnit::Millisecond, 41, 4, 0, 0, JANUARY, 10, 0, 0, 115_333_294_188_920_832),
    vector(TimeUnit::Millisecond, 44, 4, 1, 1, JANUARY, 15, 0, 3, 14_416_661_773_778_951),
    vector(TimeUnit::Hour, 19, 10, 1, 1, MARCH, 1023, 1, 7, 109_476_165_164_466_191),
    vector(TimeUnit::Day, 15, 3, 5, 31, MARCH, 7, 0, 1, 73_148_309_572_681_791),
    vector(TimeUnit::Millisecond, 50, 4, 1, 0, JANUARY, 10, 0, 0, 225_260_340_212_736),
    vector(TimeUnit::Second, 40, 4, 1, 0, MARCH, 10, 0, 0, 187_904_824_442_880),
];
const MARCH: i64 = 1_677_600_000_000;
const JANUARY: i64 = 1_672_502_400_000;
const NOW: i64 = 1_700_000_000_123;

fn layout(spec: &LayoutSpec) -> Layout {
    spec.build().expect("a valid layout")
}

#[test]
fn published_ids_of_raindrop_are_composed_and_decoded() {
    for vector in RAINDROP_VECTORS {
        let Vector { worker, lane, sequence, reserved, id, .. } = vector;
        let layout = layout(&LayoutSpec {
            epoch_ms: vector.epoch_ms,
            timestamp_bits: Some(vector.timestamp_bits),
            worker_bits: vector.worker_bits,
            reserved_bits: vector.reserved_bits,
            reserved_value: reserved,
            ..LayoutSpec::for_unit(vector.unit)
        });
        let fields = Fields {
            tick: layout.tick_in_range(NOW).expect("inside the timestamp"),
            data_center: 0,
            worker,
            lane,
            sequence,
            reserved,
        };
        let composed = layout.compose(&fields).expect("every field fits");
        assert_eq!(composed.get(), id);
        assert_eq!(layout.decompose(composed), fields);
        let composer = layout.composer(worker, lane).expect("fits");
        assert_eq!(composer.compose(layout.first_position(fields.tick) + sequence), composed);
    }
}

#[test]
fn ticks_are_floored_apart_from_the_epoch() {
    // The epoch is 16:00 UTC; nine hours later it is the next UTC day.
    let layout = layout(&LayoutSpec {
        epoch_ms: MARCH,
        timestamp_bits: Some(15),
        worker_bits: 3,
        reserved_bits: 5,
        ..LayoutSpec::for_unit(TimeUnit::Day)
    });
    assert_eq!(layout.tick_at(MARCH), 0);
    assert_eq!(layout.tick_at(MARCH + 9 * 3_600_000), 1);
    assert_eq!(layout.tick_at(MARCH - 17 * 3_600_000), -1);
    assert_eq!(layout.start_of_tick_ms(1), MARCH + 8 * 3_600_000);
    let composer = layout.composer(1, 0).expect("fits");
    assert_eq!(composer.compose(layout.first_position(1)).get(), 316_659_348_799_488);
}

#[test]
fn fields_that_do_not_fit_are_refused_and_never_wrapped() {
    let layout = layout(&LayoutSpec {
        data_center_bits: 2,
        min_sequence: 5,
        max_sequence: Some(100),
        ..LayoutSpec::for_unit(TimeUnit::Millisecond)
    });
    let fits = Fields { tick: 1, data_center: 3, worker: 511, lane: 1, sequence: 5, reserved: 0 };
    assert!(layout.compose(&fits).is_ok());
    for (wrong, field) in [
        (Fields { tick: 1 << 41, ..fits }, "tick"),
        (Fields { data_center: 4, ..fits }, "data_center"),
        (Fields { worker: 512, ..fits }, "worker_id"),
        (Fields { lane: 2, ..fits }, "lane"),
        (Fields { sequence: 4, ..fits }, "sequence"),
        (Fields { sequence: 101, ..fits }, "sequence"),
        (Fields { reserved: 1, ..fits }, "reserved"),
    ] {
        assert_eq!(layout.compose(&wrong).expect_err("out of range").field, field);
    }
    let end = layout.valid_until_ms();
    assert_eq!(layout.tick_in_range(end - 1), Some(layout.last_tick()));
    assert_eq!(layout.tick_in_range(end), None);
    assert_eq!(layout.tick_in_range(layout.epoch_ms() - 1), None);
    assert!(layout.tick_at(i64::MIN) < 0 && layout.tick_at(i64::MAX) > 0);
}

#[test]
fn canonical_text_names_every_width_and_the_floored_epoch() {
    assert_eq!(
        layout(&LayoutSpec { epoch_ms: MARCH, ..LayoutSpec::for_unit(TimeUnit::Day) }).canonical(),
        "unit=day epoch=2023-02-28T00:00:00Z timestamp=15 data_center=0 worker=9 rollback=1 \
         sequence=38 reserved=0 min_sequence=0 max_sequence=274877906943"
    );
}

#[test]
fn the_order_stands_in_the_canonical_text_unless_it_is_the_default() {
    let spec = LayoutSpec {
        order: FieldOrder::SequenceWorker,
        worker_bits: 16,
        rollback_bits: 0,
        ..LayoutSpec::for_unit(TimeUnit::TenMilliseconds)
    };
    assert_eq!(
        layout(&spec).canonical(),
        "unit=10ms epoch=2025-01-01T00:00:00Z timestamp=39 data_center=0 worker=16 rollback=0 \
         sequence=8 reserved=0 min_sequence=0 max_sequence=255 order=time-sequence-worker"
    );
}

#[test]
fn the_sequence_may_stand_above_every_constant_field() {
    let layout = layout(&LayoutSpec {
        order: FieldOrder::SequenceWorker,
        data_center_bits: 2,
        data_center: 3,
        worker_bits: 8,
        rollback_bits: 1,
        reserved_bits: 2,
        reserved_value: 1,
        min_sequence: 2,
        max_sequence: Some(5),
        ..LayoutSpec::for_unit(TimeUnit::Second)
    });
    // 31 · 19 · 2 · 8 · 1 · 2 bits
    let id = |tick: u64, sequence: u64| tick << 32 | sequence << 13 | 3 << 11 | 7 << 3 | 1 << 2 | 1;
    let composer = layout.composer(7, 1).expect("fits");
    assert_eq!(composer.step(), 1 << 13);
    let composed: Vec<u64> = (4..10).map(|position| composer.compose(position).get()).collect();
    assert_eq!(composed, [id(1, 2), id(1, 3), id(1, 4), id(1, 5), id(2, 2), id(2, 3)]);
    assert_eq!(
        layout.decompose(composer.compose(9)),
        Fields { tick: 2, data_center: 3, worker: 7, lane: 1, sequence: 3, reserved: 1 }
    );
    let past = layout.backfilled(1, 1).expect("two numbers below the smallest");
    assert_eq!(past.get(), 1 << 32 | 1 << 13 | 3 << 11 | 1);
}

#[test]
fn a_span_of_time_has_the_ids_of_its_ticks() {
    let layout = layout(&LayoutSpec::for_unit(TimeUnit::Second));
    let epoch = layout.epoch_ms();
    let bounds = layout.bounds(epoch + 1_999, epoch + 3_000).expect("in range");
    let ids = |tick| {
        let composer = layout.composer(511, 1).expect("fits");
        let smallest = layout.composer(0, 0).expect("fits").compose(layout.first_position(tick));
        (smallest, composer.compose(layout.first_position(tick + 1) - 1))
    };
    assert_eq!((bounds.from, bounds.until), (ids(1).0, ids(3).0));
    assert!(ids(0).1 < bounds.from && ids(2).1 < bounds.until);
    // Spans that meet share no ID and miss none, also in the middle of a tick.
    let next = layout.bounds(epoch + 3_000, epoch + 3_500).expect("in range");
    assert_eq!((bounds.until, next.from), (next.from, next.until));
}

#[test]
fn spans_without_bounds_are_refused_with_the_reason() {
    let layout = layout(&LayoutSpec::for_unit(TimeUnit::Millisecond));
    let (first, last) = (layout.epoch_ms(), layout.valid_until_ms() - 1);
    assert!(layout.bounds(first, last).is_ok());
    let error = |from_ms, to_ms| layout.bounds(from_ms, to_ms).expect_err("no span").to_string();
    assert_eq!(
        error(first - 1, last),
        "from 2024-12-31T23:59:59.999Z must be 2025-01-01T00:00:00Z to 2094-09-07T15:47:35.551Z, \
         the instants of this layout"
    );
    assert!(error(first, last + 1).starts_with("to 2094-09-07T15:47:35.552Z must be"));
    assert_eq!(
        error(first + 1, first),
        "from 2025-01-01T00:00:00.001Z is after to 2025-01-01T00:00:00.000Z"
    );
    let wrapping = Preset::WestidQr.spec().build().expect("valid");
    assert_eq!(wrapping.bounds(first, last), Err(BoundsError::Wraps));
}

#[test]
fn exact_widths_need_not_fill_63_bits() {
    let exact = LayoutSpec {
        exact: true,
        timestamp_bits: Some(21),
        worker_bits: 1,
        rollback_bits: 0,
        sequence_bits: Some(5),
        ..LayoutSpec::for_unit(TimeUnit::Millisecond)
    };
    assert_eq!(layout(&exact).widths().total(), 27);
    let violations = |spec: LayoutSpec| spec.build().expect_err("too wide").to_string();
    assert_eq!(
        violations(LayoutSpec { sequence_bits: Some(42), ..exact.clone() }),
        "layout.sequence_bits = 42: must be 1 to 41, which the others leave of 63"
    );
    assert_eq!(
        violations(LayoutSpec { worker_bits: 17, timestamp_bits: Some(62), ..exact.clone() }),
        "layout.timestamp_bits = 62: must be 1 to 61; layout.worker_bits = 17: must be 1 to 16"
    );
    assert_eq!(
        violations(LayoutSpec { wraps: true, sequence_bits: Some(16), ..exact }),
        "layout = wrapping, with timestamp 21 and sequence 16 bits: must be at most 46 timestamp \
         and 15 sequence bits where the time wraps"
    );
}

prop_compose! {
    fn any_preset()(index in 0..Preset::ALL.len(), numbers in any::<[u64; 2]>()) -> LayoutSpec {
        let spec = Preset::ALL[index].spec();
        let data_center = numbers[0] & largest(spec.data_center_bits);
        LayoutSpec { data_center, reserved_value: numbers[1] & largest(spec.reserved_bits), ..spec }
    }
}

prop_compose! {
    fn any_spec()(
        unit in 0..TimeUnit::ALL.len(), order in 0..FieldOrder::ALL.len(),
        extra in 0_u32..=14, data_center_bits in 0_u32..=4, worker_bits in 3_u32..=16,
        rollback_bits in 0_u32..=3, reserved_bits in 0_u32..=5, numbers in any::<[u64; 4]>(),
        epoch_ms in -1_000_000_000_000_i64..2_000_000_000_000,
    ) -> LayoutSpec {
        let unit = TimeUnit::ALL[unit];
        let range = unit.timestamp_bits();
        // At the widest the others leave no sequence bit beside the smallest timestamp.
        let reserved_bits = reserved_bits.min(62 - range.start() - worker_bits - rollback_bits);
        let room = 62 - range.start() - worker_bits - rollback_bits - reserved_bits;
        let data_center_bits = data_center_bits.min(room);
        let others = data_center_bits + worker_bits + rollback_bits + reserved_bits;
        let timestamp = (range.start() + extra).min(*range.end()).min(62 - others);
        let top = largest(63 - others - timestamp);
        let max_sequence = numbers[0] % (top + 1);
        LayoutSpec {
            epoch_ms,
            order: FieldOrder::ALL[order],
            timestamp_bits: Some(timestamp),
            data_center_bits, worker_bits, rollback_bits, reserved_bits,
            data_center: numbers[1] & largest(data_center_bits),
            reserved_value: numbers[2] & largest(reserved_bits),
            min_sequence: numbers[3] % (max_sequence + 1),
            max_sequence: Some(max_sequence),
            ..LayoutSpec::for_unit(unit)
        }
    }
}

proptest! {
    // Fixed, so that a run can be repeated; PROPTEST_RNG_SEED sets another.
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        rng_seed: RngSeed::Fixed(20_250_101),
        ..ProptestConfig::default()
    })]

    #[test]
    fn compose_and_decompose_are_inverse(
        spec in prop_oneof![any_spec(), any_preset()], numbers in any::<[u64; 3]>(),
    ) {
        let layout = spec.build().expect("generated inside the ranges");
        let widths = layout.widths();
        let worker = (numbers[0] & largest(widths.worker)).max(layout.smallest_worker());
        let lane = numbers[1] % layout.lanes() as u64;
        let position = numbers[2] % layout.end_position();
        let id = layout.composer(worker, lane).expect("fits").compose(position);
        let fields = layout.decompose(id);
        prop_assert_eq!(fields, Fields {
            // Only where the time wraps is the tick larger than its field.
            tick: if layout.wraps() {
                layout.tick_of(position) % (1 << widths.timestamp)
            } else {
                layout.tick_of(position)
            },
            data_center: spec.data_center,
            worker,
            lane,
            sequence: layout.sequence_of(position),
            reserved: spec.reserved_value,
        });
        prop_assert_eq!(layout.compose(&fields), Ok(id));
        prop_assert!(id.get() >> widths.total() == 0);
        let now_ms = layout.start_of_tick_ms(layout.tick_of(position));
        let parsed = layout.parse(id, now_ms).expect("as many bits");
        prop_assert_eq!((parsed.fields, parsed.unix_ms), (fields, now_ms));
    }

    #[test]
    fn join_and_decompose_are_inverse_for_any_id(spec in any_spec(), number in 0..1_u64 << 63) {
        let layout = spec.build().expect("generated inside the ranges");
        let id = Id::new(number).expect("63 bits");
        prop_assert_eq!(layout.join(&layout.decompose(id)), Ok(id));
    }

    #[test]
    fn later_positions_have_larger_ids(spec in any_spec(), a in any::<u64>(), b in any::<u64>()) {
        let layout = spec.build().expect("generated inside the ranges");
        let composer = layout.composer(0, 0).expect("fits");
        let (a, b) = (a % layout.end_position(), b % layout.end_position());
        prop_assert_eq!(a.cmp(&b), composer.compose(a).cmp(&composer.compose(b)));
    }

    #[test]
    fn workers_and_lanes_share_no_id(
        spec in any_spec(), numbers in any::<[u64; 3]>(), others in any::<[u64; 3]>(),
    ) {
        let layout = spec.build().expect("generated inside the ranges");
        let of = |[worker, lane, position]: [u64; 3]| (
            worker & largest(layout.widths().worker),
            lane % layout.lanes() as u64,
            // Few, so that the other field differs more often.
            position % layout.end_position().min(8),
        );
        let id = |(worker, lane, position)| {
            layout.composer(worker, lane).expect("fits").compose(position)
        };
        let (one, other) = (of(numbers), of(others));
        prop_assert_eq!(one == other, id(one) == id(other));
    }

    #[test]
    fn canonical_text_is_read_back(spec in any_spec()) {
        let layout = spec.build().expect("generated inside the ranges");
        let bare = LayoutSpec { data_center: 0, reserved_value: 0, ..spec }.build();
        prop_assert_eq!(Layout::from_canonical(&layout.canonical()).ok(), bare.ok());
    }

    #[test]
    fn ids_lie_between_the_bounds_of_their_tick(spec in any_spec(), numbers in any::<[u64; 3]>()) {
        let layout = spec.build().expect("generated inside the ranges");
        let worker = numbers[0] & largest(layout.widths().worker);
        let lane = numbers[1] % layout.lanes() as u64;
        let position = numbers[2] % layout.end_position();
        let id = layout.composer(worker, lane).expect("fits").compose(position);
        let tick = layout.tick_of(position);
        prop_assert!(layout.smallest_id(tick) <= id && id <= layout.largest_id(tick));
        if tick > 0 {
            prop_assert!(layout.largest_id(tick - 1) < layout.smallest_id(tick));
        }
    }

    #[test]
    fn an_instant_lies_inside_its_tick(spec in any_spec(), ms in -4_000_000_000_000_i64..40_000_000_000_000) {
        let layout = spec.build().expect("generated inside the ranges");
        if let Some(tick) = layout.tick_in_range(ms) {
            prop_assert!(layout.start_of_tick_ms(tick) <= ms);
            prop_assert!(ms < layout.start_of_tick_ms(tick + 1));
        }
    }
}
