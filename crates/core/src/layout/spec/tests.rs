use super::*;

fn keys(spec: &LayoutSpec) -> Vec<String> {
    spec.build().expect_err("violations").0.iter().map(ToString::to_string).collect()
}

#[test]
fn every_violation_is_reported_at_once() {
    let spec = LayoutSpec {
        timestamp_bits: Some(40),
        data_center_bits: 11,
        worker_bits: 2,
        rollback_bits: 4,
        reserved_bits: 6,
        ..LayoutSpec::for_unit(TimeUnit::Millisecond)
    };
    assert_eq!(
        keys(&spec),
        [
            "layout.timestamp_bits = 40: must be 41 to 55 with time_unit millisecond",
            "layout.data_center_bits = 11: must be 0 to 10",
            "layout.worker_bits = 2: must be 3 to 16",
            "layout.rollback_bits = 4: must be 0 to 3",
            "layout.reserved_bits = 6: must be 0 to 5",
        ]
    );
    let spec = LayoutSpec {
        data_center: 1,
        rollback_initial: 2,
        reserved_bits: 1,
        reserved_value: 2,
        min_sequence: 100,
        max_sequence: Some(99),
        ..LayoutSpec::for_unit(TimeUnit::Millisecond)
    };
    assert_eq!(
        keys(&spec),
        [
            "layout.data_center = 1: must be 0 to 0 (0 bits)",
            "layout.rollback_initial = 2: must be 0 to 1 (1 bits)",
            "layout.reserved_value = 2: must be 0 to 1 (1 bits)",
            "layout.min_sequence = 100: must be 0 to 99 (at most max_sequence)",
        ]
    );
}

#[test]
fn the_sequence_keeps_at_least_one_bit() {
    let mut spec = LayoutSpec {
        timestamp_bits: Some(52),
        worker_bits: 10,
        rollback_bits: 0,
        ..LayoutSpec::for_unit(TimeUnit::Millisecond)
    };
    assert_eq!(spec.build().expect("62 bits beside the sequence").widths().sequence, 1);
    spec.timestamp_bits = Some(53);
    assert_eq!(
        keys(&spec),
        ["layout = timestamp 53 + data centre 0 + worker 10 + rollback 0 + reserved 0 = 63 bits: \
          must be at most 62 bits, so that the sequence has at least 1 of 63"]
    );
}

#[test]
fn units_have_the_ranges_of_raindrop() {
    for (unit, low, high) in [
        (TimeUnit::Millisecond, 41, 55),
        (TimeUnit::TenMilliseconds, 39, 55),
        (TimeUnit::Second, 31, 55),
        (TimeUnit::Minute, 25, 50),
        (TimeUnit::Hour, 19, 45),
        (TimeUnit::Day, 15, 40),
    ] {
        let spec = |bits| LayoutSpec {
            timestamp_bits: bits,
            worker_bits: 3,
            ..LayoutSpec::for_unit(unit)
        };
        assert_eq!(spec(None).build().expect("default").widths().timestamp, low);
        assert!(spec(Some(low)).build().is_ok() && spec(Some(high)).build().is_ok());
        assert!(spec(Some(low - 1)).build().is_err() && spec(Some(high + 1)).build().is_err());
    }
}
