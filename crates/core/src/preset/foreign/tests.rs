use super::*;
use crate::instant::parse_unix_ms;

/// A published ID with the fields that its source tells.
struct Published {
    layout: &'static str,
    id: u64,
    instant: &'static str,
    data_center: u64,
    worker: u64,
    sequence: u64,
}

const fn published(
    layout: &'static str,
    id: u64,
    instant: &'static str,
    [data_center, worker, sequence]: [u64; 3],
) -> Published {
    Published { layout, id, instant, data_center, worker, sequence }
}

const PUBLISHED: [Published; 10] = [
    // The fields stand in LeafMonitorController's comment on /decodeSnowflakeId; the ID is
    // what Leaf's own formula makes of them.
    published("leaf", 1_169_786_042_799_259_000, "2019-09-06T01:35:00.834Z", [0, 39, 3448]),
    // Discord's reference, "Snowflakes": 1462015105796, worker 1, process 0, increment 7
    published("discord", 175_928_847_299_117_063, "2016-04-30T11:18:25.796Z", [1, 0, 7]),
    // docs.joinmastodon.org/entities/Status: created_at 2019-12-08T03:48:33.901Z. The low bits
    // mean nothing outside the instance.
    published("mastodon", 103_270_115_826_048_975, "2019-12-08T03:48:33.849Z", [0, 0, 40911]),
    // A post with code Cgb-UsrA37l: device_timestamp 1658756046234252 (13:34:06 that day),
    // published some minutes later; shard and sequence are not told.
    published("instagram", 2_890_177_687_127_817_957, "2022-07-25T13:34:10.479Z", [0, 223, 741]),
    // snowflake_test.go, from NewNode(0): added on 2019-04-12 at 17:06:54 -05:00
    published("bwmarrin", 1_116_766_490_855_473_152, "2019-04-12T18:14:14.595Z", [0, 0, 0]),
    // The guide to cosid-jackson: "friendlyId": "20211228202301948-0-0", at +08:00
    published("cosid", 266_300_479_548_424_192, "2021-12-28T12:23:01.948Z", [0, 0, 0]),
    // README: where "millisecond changed"
    published("tsid", 38_352_658_567_418_874, "2020-04-15T19:59:46.360Z", [0, 421, 1018]),
    published("tsid", 38_352_658_573_940_759, "2020-04-15T19:59:46.361Z", [0, 989, 2071]),
    // The formulas in the sources named in the table give these IDs for the fields.
    published("seata", 4_657_378_791_159_824_461, "2025-06-01T12:30:15.120Z", [0, 517, 77]),
    published("tiktok", 7_510_957_267_414_142_229, "2025-06-01T12:30:15Z", [0, 0, 123_456_789]),
];

#[test]
fn published_ids_have_their_published_fields() {
    for published in PUBLISHED {
        let layout = ForeignLayout::by_name(published.layout).expect("in the table");
        let parsed = layout.parse(Id::new(published.id).expect("63 bits")).expect("it fits");
        let fields = parsed.fields;
        assert_eq!(Some(parsed.unix_ms), parse_unix_ms(published.instant), "{}", layout.name);
        assert_eq!(
            (fields.data_center, fields.worker, fields.sequence),
            (published.data_center, published.worker, published.sequence),
            "{}",
            layout.name
        );
        assert_eq!((fields.lane, fields.reserved, parsed.wraps), (0, 0, false));
    }
}

#[test]
fn every_layout_reads_63_bits_and_has_a_known_id() {
    for layout in ForeignLayout::built_in() {
        assert_eq!(layout.description.bits(), 63, "{}", layout.name);
        assert!(PUBLISHED.iter().any(|published| published.layout == layout.name));
    }
}

#[test]
fn longer_ids_are_refused() {
    let layout = ForeignLayout::described("short", "time:31@1s,sequence:10", 0).expect("valid");
    let read = |number| layout.parse(Id::new(number).expect("63 bits"));
    assert!(read((1 << 41) - 1).is_ok());
    let error = read(1 << 41).expect_err("42 bits").to_string();
    assert!(error.contains("more than the 41 bits"), "{error}");
}

#[test]
fn every_width_of_time_and_every_epoch_can_be_read() {
    let id = Id::new((1 << 63) - 1).expect("63 bits");
    for epoch_ms in [i64::MIN, -1, i64::MAX] {
        for text in ["time:63", "time:63@24h", "time:1@1h,worker:62"] {
            let layout = ForeignLayout::described("far", text, epoch_ms).expect("valid");
            assert!(layout.parse(id).is_ok());
        }
    }
}

#[test]
fn ticks_begin_at_multiples_of_the_unit() {
    let epoch_ms = parse_unix_ms("2020-01-01T00:00:00.007Z").expect("an instant");
    let layout = ForeignLayout::described("sony's", "time:39@10ms,sequence:24", epoch_ms);
    let parsed = layout.expect("valid").parse(Id::new(1 << 24).expect("63 bits")).expect("it fits");
    assert_eq!(Some(parsed.unix_ms), parse_unix_ms("2020-01-01T00:00:00.010Z"));
}
