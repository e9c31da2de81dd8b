//! Each preset against IDs that its system issued or published.

use super::{foreign::ForeignLayout, *};
use crate::{encoding::Encoding, id::Id, instant::parse_unix_ms, layout::Fields};

/// When this table was made, 2026-11-20.
const PUBLISHED_MS: i64 = 1_795_132_800_000;

/// An ID and its fields: (ID, Unix ms, data centre, worker, lane, sequence).
type Vector = (u64, i64, u64, u64, u64, u64);

const NOW: i64 = 1_700_000_000_000;

/// Composes where the sequence is one that the layout issues, and parses always.
fn check(name: &str, layout: &Layout, vectors: &[Vector]) {
    for &(number, unix_ms, data_center, worker, lane, sequence) in vectors {
        let id = Id::new(number).expect("63 bits");
        let tick = layout.tick_in_range(unix_ms).expect("inside the timestamp");
        let fields = Fields { tick, data_center, worker, lane, sequence, reserved: 0 };
        assert_eq!(layout.join(&fields), Ok(id), "{name}");
        let issued = (layout.min_sequence()..=layout.max_sequence()).contains(&sequence);
        assert_eq!(layout.compose(&fields).ok(), issued.then_some(id), "{name} {number}");
        let parsed = layout.parse(id, unix_ms).expect("fits");
        assert_eq!(parsed.unix_ms, unix_ms, "{name} {number}");
        let mask = (1 << layout.widths().timestamp) - 1;
        assert_eq!(parsed.fields, Fields { tick: tick & mask, ..fields }, "{name} {number}");
    }
}

fn check_preset(preset: Preset, vectors: &[Vector]) {
    check(preset.name(), &preset.layout(), vectors);
}

#[test]
fn every_preset_is_listed_in_order() {
    for (index, preset) in Preset::ALL.into_iter().enumerate() {
        assert_eq!(preset as usize, index);
        assert_eq!(Preset::by_name(preset.name()), Some(preset));
        assert!(preset.describe().ends_with('.'));
    }
    assert_eq!(Preset::by_name("Raindrop"), None);
}

#[test]
fn presets_have_their_published_widths() {
    let canonical = |unit_and_epoch: &str, widths: [u32; 5], sequences: &str| {
        let [timestamp, data_center, worker, rollback, sequence] = widths;
        format!(
            "unit=millisecond epoch={unit_and_epoch} timestamp={timestamp} \
             data_center={data_center} worker={worker} rollback={rollback} sequence={sequence} \
             reserved=0 {sequences}"
        )
    };
    let full = "min_sequence=0 max_sequence=4095";
    let yitter = "min_sequence=5 max_sequence=63";
    #[rustfmt::skip]
    let presets = [
        (Preset::Raindrop, "2025-01-01T00:00:00Z", [41, 0, 9, 1, 12], full),
        (Preset::JsSafe, "2025-01-01T00:00:00Z", [50, 0, 5, 1, 7], "min_sequence=0 max_sequence=127"),
        (Preset::Twitter, "2010-11-04T01:42:54.657Z", [41, 5, 5, 0, 12], full),
        (Preset::Lingdu, "2017-12-20T16:00:00Z", [38, 0, 15, 0, 10], "min_sequence=0 max_sequence=1023"),
        (Preset::Westid, "2017-03-24T09:04:43.706Z", [41, 0, 10, 0, 12], full),
        (
            Preset::WestidQr, "2017-03-24T09:04:43.706Z", [21, 0, 5, 0, 5],
            "min_sequence=0 max_sequence=31 wraps=true",
        ),
        (Preset::Yitter, "2020-02-19T18:20:02Z", [51, 0, 6, 0, 6], yitter),
        (Preset::YitterCsharp, "2020-02-20T02:20:02.02Z", [51, 0, 6, 0, 6], yitter),
        (Preset::YitterJs, "2020-01-01T00:00:00Z", [51, 0, 6, 0, 6], yitter),
        (Preset::Node, "2020-01-31T16:00:00Z", [41, 3, 5, 2, 12], full),
        (Preset::AdncClassic, "2019-12-31T16:00:00Z", [41, 5, 5, 0, 12], full),
    ];
    for (preset, epoch, widths, sequences) in presets {
        assert_eq!(preset.layout().canonical(), canonical(epoch, widths, sequences));
    }
    #[rustfmt::skip]
    let others = [
        (Preset::Sonyflake, "unit=10ms epoch=2014-09-01T00:00:00Z timestamp=39 data_center=0 worker=16 rollback=0 sequence=8 reserved=0 min_sequence=0 max_sequence=255 order=time-sequence-worker"),
        (Preset::SonyflakeV2, "unit=10ms epoch=2025-01-01T00:00:00Z timestamp=39 data_center=0 worker=16 rollback=0 sequence=8 reserved=0 min_sequence=0 max_sequence=255 order=time-sequence-worker"),
        (Preset::BaiduUid, "unit=second epoch=2016-09-19T16:00:00Z timestamp=29 data_center=5 worker=16 rollback=0 sequence=13 reserved=0 min_sequence=0 max_sequence=8191"),
        (Preset::BaiduUidDefault, "unit=second epoch=2016-05-19T16:00:00Z timestamp=28 data_center=6 worker=16 rollback=0 sequence=13 reserved=0 min_sequence=0 max_sequence=8191"),
    ];
    for (preset, canonical) in others {
        assert_eq!(preset.layout().canonical(), canonical);
    }
    assert_eq!(presets.len() + others.len(), Preset::ALL.len());
}

#[test]
fn js_safe_stays_below_2_to_the_53_until_november_2059() {
    let layout = Preset::JsSafe.layout();
    let largest_before = |date: &str| {
        let tick = layout.tick_in_range(parse_unix_ms(date).expect("a date")).expect("fits");
        let composer = layout.composer(layout.largest_worker(), 1).expect("fits");
        composer.compose(layout.first_position(tick) - 1)
    };
    assert!(largest_before("2059-11-04T00:00:00Z") <= Id::MAX_JS_SAFE);
    assert!(largest_before("2059-11-05T00:00:00Z") > Id::MAX_JS_SAFE);
}

#[test]
fn published_ids_of_yitter_are_composed_and_decoded() {
    const EPOCH: i64 = 1_582_136_402_000;
    // The README's IDs by how long a system runs; the last is labelled 1000 years and has a worker
    // that the default never has.
    check_preset(
        Preset::Yitter,
        &[
            (129_053_495_681_099, EPOCH + 31_507_201_094, 0, 1, 0, 11),
            (387_750_301_904_971, EPOCH + 94_665_601_051, 0, 1, 0, 11),
            (646_093_214_093_387, EPOCH + 157_737_601_097, 0, 1, 0, 11),
            (1_292_658_282_840_139, EPOCH + 315_590_401_084, 0, 1, 0, 11),
            (9_007_199_254_740_992, EPOCH + 2_199_023_255_552, 0, 0, 0, 0),
            (165_399_880_288_699_493, EPOCH + 40_380_830_148_608, 0, 17, 0, 37),
            // Traces of the library's drift algorithm; with sequences 1 to 4, a clock went back.
            (4_096_069, EPOCH + 1_000, 0, 1, 0, 5),
            (4_096_127, EPOCH + 1_000, 0, 1, 0, 63),
            (4_100_165, EPOCH + 1_001, 0, 1, 0, 5),
            (12_288_069, EPOCH + 3_000, 0, 1, 0, 5),
            (12_292_165, EPOCH + 3_001, 0, 1, 0, 5),
            (4_091_969, EPOCH + 999, 0, 1, 0, 1),
            (4_087_873, EPOCH + 998, 0, 1, 0, 1),
            (4_083_777, EPOCH + 997, 0, 1, 0, 1),
            (4_096_071, EPOCH + 1_000, 0, 1, 0, 7),
            (4_096_066, EPOCH + 1_000, 0, 1, 0, 2),
            (4_091_970, EPOCH + 999, 0, 1, 0, 2),
        ],
    );
}

#[test]
fn published_ids_of_yitter_in_csharp_are_composed_and_decoded() {
    let at = |text: &str| parse_unix_ms(text).expect("an instant");
    check_preset(
        Preset::YitterCsharp,
        &[
            (184_971_260_575_813, at("2021-07-26T18:30:01.184Z"), 0, 1, 0, 5),
            (294_807_880_151_109, at("2022-06-02T03:16:22.135Z"), 0, 1, 0, 5),
            (294_807_939_739_726, 1_582_165_202_020 + 71_974_594_663, 0, 1, 0, 14),
            (151_599_672_553_541, at("2021-04-23T11:20:40.827Z"), 0, 1, 0, 5),
        ],
    );
}

#[test]
fn published_ids_of_yitter_in_typescript_are_composed_and_decoded() {
    const EPOCH: i64 = 1_577_836_800_000;
    assert_eq!(parse_unix_ms("2021-10-25T05:27:49.282Z"), Some(EPOCH + 57_302_869_282));
    check_preset(
        Preset::YitterJs,
        &[
            (234_712_552_579_141, EPOCH + 57_302_869_282, 0, 1, 0, 5),
            (234_712_552_587_336, EPOCH + 57_302_869_284, 0, 1, 0, 8),
        ],
    );
    let wider = |sequence_bits: u32, vectors: &[Vector]| {
        let timestamp_bits = Some(57 - sequence_bits);
        let spec = LayoutSpec { timestamp_bits, ..Preset::YitterJs.spec() };
        check("yitter-js, wider", &spec.build().expect("valid"), vectors);
    };
    wider(
        11,
        &[
            (7_510_958_933_018_629, EPOCH + 57_304_069_008, 0, 1, 0, 5),
            (7_510_958_933_280_775, EPOCH + 57_304_069_010, 0, 1, 0, 7),
        ],
    );
    wider(
        12,
        &[
            (15_021_931_987_734_533, EPOCH + 57_304_122_878, 0, 1, 0, 5),
            (15_021_931_988_520_965, EPOCH + 57_304_122_881, 0, 1, 0, 5),
        ],
    );
    wider(
        13,
        &[
            (30_043_877_337_997_317, EPOCH + 57_304_148_365, 0, 1, 0, 5),
            (30_043_877_339_045_896, EPOCH + 57_304_148_367, 0, 1, 0, 8),
        ],
    );
}

#[test]
fn published_ids_of_westid_are_composed_and_decoded() {
    let published = parse_unix_ms("2017-03-28T06:48:57.735Z").expect("an instant");
    assert_eq!(published, WESTID_EPOCH_MS + 337_454_029);
    check_preset(
        Preset::Westid,
        &[
            (1_415_384_785_396_004, published, 0, 426, 0, 292),
            (4_194_304, WESTID_EPOCH_MS + 1, 0, 0, 0, 0),
            (4_194_305, WESTID_EPOCH_MS + 1, 0, 0, 0, 1),
            (4_194_306, WESTID_EPOCH_MS + 1, 0, 0, 0, 2),
        ],
    );
}

#[test]
fn qr_scenes_of_westid_wrap_and_cursors_continue() {
    const ROUND: i64 = 1 << 21;
    check_preset(
        Preset::WestidQr,
        &[
            (0, WESTID_EPOCH_MS, 0, 0, 0, 0),
            (1_056, WESTID_EPOCH_MS + 1, 0, 1, 0, 0),
            (32, WESTID_EPOCH_MS + ROUND, 0, 1, 0, 0),
            (1_465_194_880, NOW, 0, 12, 0, 0),
            (1_465_195_519, NOW, 0, 31, 0, 31),
        ],
    );
    let layout = Preset::WestidQr.layout();
    assert_eq!((layout.widths().total(), layout.wrap_ms()), (31, Some(ROUND)));
    // Cursors continue where the ID starts again.
    let composer = layout.composer(12, 0).expect("fits");
    let tick = layout.tick_in_range(NOW).expect("fits");
    assert_eq!(composer.compose(layout.first_position(tick)).get(), 1_465_194_880);
    let round_later = layout.first_position(tick + (1 << 21));
    assert_eq!(composer.compose(round_later).get(), 1_465_194_880);
    // WeChat forbids scene 0.
    assert_eq!(
        layout.composer(0, 0).expect_err("it would issue 0").to_string(),
        "worker_id 0 is outside 1 to 31"
    );
}

#[test]
fn a_wrapping_id_is_of_the_latest_instant_that_clocks_allow() {
    const ROUND: i64 = 1 << 21;
    let layout = Preset::WestidQr.layout();
    let id = Id::new(1_465_194_880).expect("63 bits");
    let at = |now_ms| layout.parse(id, now_ms).expect("fits").unix_ms;
    assert_eq!(at(NOW + ROUND - 10_001), NOW);
    assert_eq!(at(NOW + ROUND - 10_000), NOW + ROUND);
    assert_eq!(at(NOW - 10_000), NOW);
    assert_eq!(at(NOW - 10_001), NOW - ROUND);
    assert!(layout.parse(id, NOW).expect("fits").wraps);
    let error = layout.parse(Id::new(1 << 31).expect("63 bits"), NOW).expect_err("32 bits");
    assert_eq!(
        error.to_string(),
        "2147483648 has more than the 31 bits of this layout, whose IDs are at most 2147483647"
    );
}

#[test]
fn lingdus_vectors_and_its_end() {
    let last = 1_788_663_506_943;
    assert_eq!(format_unix_ms(last), "2026-09-06T02:58:26.943Z");
    check_preset(
        Preset::Lingdu,
        &[
            (2_892_875_222_220_800_000, 1_600_000_000_000, 0, 0, 0, 0),
            (2_892_875_222_233_441_347, 1_600_000_000_000, 0, 12_345, 0, 67),
            (9_223_372_036_854_775_807, last, 0, 32_767, 0, 1_023),
        ],
    );
    assert_eq!(Preset::Lingdu.layout().valid_until_ms(), last + 1);
}

#[test]
fn presets_past_their_end_need_an_epoch() {
    for preset in Preset::ALL {
        let is_over = preset.layout().valid_until_ms() < PUBLISHED_MS;
        assert_eq!(preset.check_own_epoch().is_err(), is_over, "{}", preset.name());
    }
    assert_eq!(
        Preset::Lingdu.check_own_epoch().expect_err("over").to_string(),
        "layout.preset = lingdu: must be used with another layout.epoch: from its own, \
         2017-12-20T16:00:00Z, the timestamp ran out, and the last instant was \
         2026-09-06T02:58:26.943Z; old IDs can still be parsed"
    );
}

#[test]
fn published_ids_of_sonyflake_are_composed_and_decoded() {
    let at = |text: &str| parse_unix_ms(text).expect("an instant");
    // The library's example server prints {"id":133591991580950539,"machine-id":11,"msb":0,
    // "sequence":5,"time":7962703203}; the other IDs have sequence 0.
    check_preset(
        Preset::Sonyflake,
        &[
            (133_591_991_580_950_539, at("2017-03-10T14:37:12.030Z"), 0, 11, 0, 5),
            (257_532_141_091_473_317, at("2019-07-13T15:11:57.880Z"), 0, 51_109, 0, 0),
        ],
    );
    // The source's formula gives this ID for these fields.
    check_preset(
        Preset::SonyflakeV2,
        &[(21_963_749_921_769_381, at("2025-06-01T12:30:15.120Z"), 0, 51_109, 0, 5)],
    );
    // An instant inside a tick of 10 ms is the start of the tick.
    let layout = Preset::Sonyflake.layout();
    let inside = layout.tick_in_range(at("2017-03-10T14:37:12.039Z"));
    assert_eq!(inside, Some(7_962_703_203));
}

#[test]
fn published_ids_of_uid_generator_are_composed_and_decoded() {
    let at = |text: &str| parse_unix_ms(text).expect("an instant");
    // README: {"UID":"180363646902239241","parsed":{"timestamp":"2017-01-19 12:15:46",
    // "workerId":"4","sequence":"9"}}
    let readme = (180_363_646_902_239_241, at("2017-01-19T04:15:46Z"), 0, 4, 0, 9);
    check_preset(Preset::BaiduUid, &[readme]);
    // The source's formula gives this ID for worker 2 000 001 = 30 · 65 536 + 33 921.
    let wide = (4_373_857_271_676_936_201, at("2020-06-01T00:00:00Z"), 30, 33_921, 0, 9);
    check_preset(Preset::BaiduUidDefault, &[wide]);
}

#[test]
fn published_ids_of_node_are_composed_and_decoded() {
    check_preset(
        Preset::Node,
        &[
            (501_276_370_534_957_056, NOW, 1, 2, 0, 0),
            (501_276_370_534_961_152, NOW, 1, 2, 1, 0),
            (501_276_370_538_594_303, NOW, 7, 31, 3, 4_095),
        ],
    );
}

#[test]
fn published_ids_of_adnc_classic_are_composed_and_decoded() {
    check_preset(Preset::AdncClassic, &[(512_510_394_368_135_168, NOW, 1, 1, 0, 0)]);
    let epoch_ms = 1_420_041_600_000;
    let relucent = LayoutSpec { epoch_ms, ..Preset::Twitter.spec() }.build().expect("valid");
    check("twitter's widths", &relucent, &[(1_174_230_636_953_739_267, NOW, 1, 2, 0, 3)]);
}

#[test]
fn names_are_unique_and_found() {
    let names: Vec<_> = NamedLayout::names().collect();
    assert_eq!(names.len(), 24);
    for (index, name) in names.iter().enumerate() {
        assert_eq!(NamedLayout::find(name, None, &[]).expect("known").name(), *name);
        assert!(!names[..index].contains(name));
    }
    assert!(NamedLayout::find("Discord", None, &[]).is_err());
}

#[test]
fn the_documentation_lists_every_name_with_its_widths_and_epoch() {
    let documented = include_str!("../../../../docs/layouts.md");
    for preset in Preset::ALL {
        let layout = preset.layout();
        let w = layout.widths();
        let (name, epoch) = (preset.name(), format_unix_ms_short(layout.epoch_ms()));
        let widths = [w.timestamp, w.data_center, w.worker, w.rollback, w.sequence, w.reserved];
        let widths = widths.map(|bits| bits.to_string()).join(" · ");
        let row = format!("| `{name}` | {widths} | {epoch} |");
        assert!(documented.contains(&row), "{row}");
    }
    for layout in ForeignLayout::built_in() {
        let row =
            documented.lines().find(|line| line.starts_with(&format!("| `{}` |", layout.name)));
        let row = row.unwrap_or_else(|| panic!("{} is missing", layout.name));
        let description = row.split('`').nth(3).expect("a description in its own column");
        assert_eq!(description.parse(), Ok(layout.description), "{row}");
        assert!(row.ends_with(&format!("| {} |", format_unix_ms_short(layout.epoch_ms))), "{row}");
    }
    for encoding in Encoding::ALL {
        assert!(documented.contains(&format!("| `{encoding}` |")), "{encoding}");
    }
}
