use super::*;
use crate::core::instant::parse_unix_ms;

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

const PUBLISHED: [Published; 9] = [
    // The fields stand in LeafMonitorController's comment on /decodeSnowflakeId; the ID is
    // what Leaf's own formula makes of them.
    published("leaf", 1_169_786_042_799_259_000, "2019-09-06T01:35:00.834Z", [0, 39, 3448]),
    // README: {"UID":"180363646902239241","parsed":{"timestamp":"2017-01-19 12:15:46",
    // "workerId":"4","sequence":"9"}}
    published("baidu-uid", 180_363_646_902_239_241, "2017-01-19T04:15:46Z", [0, 4, 9]),
    // Output of sonyflake's example server: {"id":133591991580950539,"machine-id":11,"msb":0,
    // "sequence":5,"time":7962703203}
    published("sonyflake", 133_591_991_580_950_539, "2017-03-10T14:37:12.030Z", [0, 11, 5]),
    // Likewise: {"id":257532141091473317,"machine-id":51109,"msb":0,"sequence":0,
    // "time":15350111788}
    published("sonyflake", 257_532_141_091_473_317, "2019-07-13T15:11:57.880Z", [0, 51109, 0]),
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
];

#[test]
fn published_ids_have_their_published_fields() {
    for published in PUBLISHED {
        let layout = ForeignLayout::by_name(published.layout).expect("in the table");
        let parsed = layout.parse(Id::new(published.id).expect("63 bits"));
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
fn every_row_divides_63_bits_once_and_has_a_published_id() {
    for layout in ForeignLayout::ALL {
        assert_eq!(layout.fields.iter().map(|(_, _, bits)| bits).sum::<u32>(), 63);
        for (index, (kind, ..)) in layout.fields.iter().enumerate() {
            assert!(!layout.fields[..index].iter().any(|(other, ..)| other == kind));
        }
        assert_eq!(layout.fields[0].0, Tick, "IDs follow time");
        assert!(PUBLISHED.iter().any(|published| published.layout == layout.name));
    }
}
