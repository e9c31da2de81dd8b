//! `/parse`.

use raindrop::core::{
    clock::{Clock, SystemClock},
    instant::parse_unix_ms,
};

use crate::support::World;

#[tokio::test]
async fn parsed_id_has_time_worker_and_lane() {
    let world = World::start(&[("worker.id", "5")]).await;
    let before = SystemClock::default().now_ms();
    let id = world.get("/id/order").await.json()["id"].as_str().expect("a string").to_owned();
    let after = SystemClock::default().now_ms();
    let parsed = world.get(&format!("/parse/{id}")).await;
    assert_eq!(parsed.header("content-type"), Some("application/json"));
    let parsed = parsed.json();
    let health = world.get("/health").await.json()["namespaces"]["default"].clone();
    assert_eq!(parsed["id"], id);
    assert_eq!(parsed["worker_id"], 5);
    assert_eq!(parsed["worker_id"], health["worker_id"]);
    assert_eq!(parsed["lane"], health["lane"]);
    assert_eq!(parsed["js_safe"], false);
    assert_eq!(parsed["namespace"], "default");
    let unix_ms = parsed["unix_ms"].as_i64().expect("a number");
    assert!((before..=after).contains(&unix_ms));
    let timestamp = parsed["timestamp"].as_str().expect("a string");
    assert_eq!(parse_unix_ms(timestamp), Some(unix_ms));
    let hex = parsed["hex"].as_str().expect("a string");
    assert_eq!(hex.len(), 16);
    assert_eq!(u64::from_str_radix(hex, 16), id.parse());
}

#[tokio::test]
async fn parsed_id_has_exactly_the_documented_fields() {
    let world = World::start(&[]).await;
    assert_eq!(
        world.get("/parse/7236541234567").await.body,
        r#"{"id":"7236541234567","hex":"00000694e3783d87","timestamp":"2025-01-01T00:28:45.325Z","unix_ms":1735691325325,"tick":1725325,"data_center":0,"worker_id":449,"lane":1,"sequence":3463,"reserved":0,"js_safe":true,"namespace":"default"}"#
    );
    let by_preset = world.get("/parse/7236541234567?layout=js-safe").await.json();
    assert_eq!(by_preset["layout"], "js-safe");
    assert_eq!(by_preset["tick"], 7_236_541_234_567_u64 >> 13);
    assert_eq!(by_preset.get("namespace"), None);
    assert_eq!(world.get("/parse/9223372036854775807").await.status, 200);
}

#[tokio::test]
async fn bad_ids_are_400_with_the_position() {
    let world = World::start(&[]).await;
    for (id, said) in [
        ("12x4", "position 2"),
        ("-1", "position 0"),
        ("9223372036854775808", "9223372036854775807"),
        ("99999999999999999999999999", "9223372036854775807"),
        ("1%202", "position 1"),
        ("%FF", "UTF-8"),
    ] {
        let detail = world.get(&format!("/parse/{id}")).await.problem(400, "invalid_id");
        assert!(detail.contains(said), "{id}: {detail}");
    }
    for query in ["layout=other", "layout=raindrop&namespace=default", "padded=true"] {
        world.get(&format!("/parse/1?{query}")).await.problem(400, "invalid_parameter");
    }
}

#[tokio::test]
async fn ids_of_other_systems_are_parsed_by_layout_name() {
    let world = World::start(&[]).await;
    for (id, layout, timestamp, tick, worker, sequence) in [
        ("1415384785396004", "westid", "2017-03-28T06:48:57.735Z", 337_454_029, 426, 292),
        ("129053495681099", "yitter", "2021-02-18T10:20:03.094Z", 31_507_201_094_u64, 1, 11),
        ("9223372036854775807", "lingdu", "2026-09-06T02:58:26.943Z", (1 << 38) - 1, 32_767, 1_023),
        ("175928847299117063", "discord", "2016-04-30T11:18:25.796Z", 41_944_705_796, 0, 7),
    ] {
        let parsed = world.get(&format!("/parse/{id}?layout={layout}")).await.json();
        assert_eq!(parsed["layout"], layout);
        assert_eq!(parsed["timestamp"], timestamp, "{parsed}");
        assert_eq!(parsed["tick"], tick, "{parsed}");
        assert_eq!((&parsed["worker_id"], &parsed["sequence"]), (&worker.into(), &sequence.into()));
        assert_eq!(parsed.get("wraps"), None);
    }
}

#[tokio::test]
async fn wrapping_id_is_marked_and_has_its_latest_instant() {
    let world = World::start(&[]).await;
    let parsed = world.get("/parse/1465195519?layout=westid-qr").await.json();
    assert_eq!(parsed["wraps"], true);
    assert_eq!((&parsed["worker_id"], &parsed["sequence"]), (&31.into(), &31.into()));
    let now = SystemClock::default().now_ms();
    let unix_ms = parsed["unix_ms"].as_i64().expect("a number");
    assert!((now - (1 << 21)..=now + 10_000).contains(&unix_ms), "{parsed}");
    let detail =
        world.get("/parse/2147483648?layout=westid-qr").await.problem(422, "not_decodable");
    assert!(detail.contains("31 bits"), "{detail}");
}

#[tokio::test]
async fn ids_are_read_by_a_description_and_from_another_epoch() {
    let world = World::start(&[]).await;
    let parsed = async |query: &str| world.get(&format!("/parse/{query}")).await.json();
    let described = "time:29@1s,worker:21,sequence:13";
    let baidu = parsed("180363646902239241?layout=baidu-uid").await;
    let epoch = "2016-09-20T00:00:00%2B08:00";
    let same = parsed(&format!("180363646902239241?layout={described}&epoch={epoch}")).await;
    assert_eq!((&same["layout"], &same["worker_id"]), (&described.into(), &4.into()));
    assert_eq!(same["timestamp"], baidu["timestamp"]);
    let query = "180363646902239241?layout=baidu-uid&epoch=2016-09-20T00:00:00Z";
    assert_eq!(parsed(query).await["timestamp"], "2017-01-19T12:15:46.000Z");
    for (query, said) in [
        ("layout=time:41,node:10", "layout = \"time:41,node:10\": \"node:10\": must be a field of"),
        ("layout=snowflake", "layout = \"snowflake\": must be one of raindrop, js-safe"),
        ("layout=leaf&epoch=2020", "epoch = \"2020\": must be an RFC 3339 instant"),
        ("epoch=2020-01-01T00:00:00Z", "epoch goes with layout"),
    ] {
        let refused = world.get(&format!("/parse/1?{query}")).await;
        let detail = refused.problem(400, "invalid_parameter");
        assert!(detail.contains(said), "{query}: {detail}");
    }
    let detail = world.get("/parse/1024?layout=time:10").await.problem(422, "not_decodable");
    assert!(detail.contains("10 bits"), "{detail}");
}

#[tokio::test]
async fn improbable_times_cause_a_warning() {
    let world = World::start(&[]).await;
    let future = world.get("/parse/9223372036854775807").await.json();
    assert_eq!(future["warning"], "the timestamp 2094-09-07T15:47:35.551Z is in the future");
    let early = world.get("/parse/4711?layout=tiktok").await.json();
    let warning = early["warning"].as_str().expect("too early");
    assert!(warning.contains("before tiktok issued its first IDs"), "{warning}");
}
