//! A namespace of plain numbers beside one with a layout.

use std::{sync::Arc, time::Duration};

use raindrop::{
    core::clock::SystemClock,
    keeper::GivenBack,
    server::{ServeError, Service},
    store::{MemoryStore, SegmentStore, Store},
};
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{PATIENCE, World, config_of};

const NUMBERS: &str = "
    [issue]
    max_wait = '200ms'
    [namespaces.numbers]
    mode = 'segment'
    codes.max = 5
    [[code]]
    name = 'order'
    namespace = 'numbers'
    [[code]]
    name = 'odd'
    namespace = 'numbers'
    start = 100
    increment = 2
    remainder = 1
    [[code]]
    name = 'short'
    namespace = 'numbers'
    start = 9007199254740988
    js_safe = true
    [[code]]
    name = 'large'
    namespace = 'numbers'
    start = 9007199254740992
    [[code]]
    name = 'invoice'
    namespace = 'numbers'
    prefix = 'INV-'
";

fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock::default())))
}

async fn numbers() -> World {
    over(NUMBERS, store()).await
}

async fn over(text: &str, store: Arc<MemoryStore>) -> World {
    let world = World::with_config(config_of(text), store, Arc::new(SystemClock::default()));
    world.until_issuing().await;
    world
}

#[tokio::test]
async fn numbers_count_up_beside_a_snowflake_namespace() {
    let world = numbers().await;
    for (uri, body) in [
        ("/id/order", r#"{"id":"1"}"#),
        ("/id/order?namespace=numbers&format=number", r#"{"id":2}"#),
        ("/ids/order?n=3", r#"{"ids":["3","4","5"]}"#),
        ("/ids/order?n=2&format=number", r#"{"ids":[6,7]}"#),
        ("/ids/odd?n=3", r#"{"ids":["101","103","105"]}"#),
        ("/id/invoice", r#"{"id":"INV-1"}"#),
        ("/id/invoice?encoding=hex", r#"{"id":"INV-0000000000000002"}"#),
        ("/id/order?encoding=base62", r#"{"id":"8"}"#),
        ("/id/order?padded=true", r#"{"id":"0000000000000000009"}"#),
    ] {
        let answer = world.get(uri).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, body), "{uri}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    for (uri, increment, first, last, count) in [
        ("/ids/order?n=4&format=range", "1", "10", "13", 4),
        ("/ids/odd?n=3&format=range", "2", "107", "111", 3),
        ("/ids/odd?up_to=1&format=range", "2", "113", "113", 1),
    ] {
        let mut answer = world.get(uri).await.json();
        let issued_at = answer["issued_at"].take();
        assert!(issued_at.as_str().is_some_and(|at| at.ends_with('Z')), "{issued_at}");
        let range = json!({ "first": first, "last": last, "step": increment, "count": count });
        let expected = json!({ "issued_at": null, "increment": increment, "ranges": [range] });
        assert_eq!(answer, expected, "{uri}");
    }
    assert_eq!(world.call("POST", "/id/order", &[]).await.body, r#"{"id":"14"}"#);
    assert_eq!(world.call("HEAD", "/ids/order?n=9", &[]).await.status, 200);
    let plain = world.call("GET", "/ids/order?n=2", &[("accept", "text/plain")]).await;
    assert_eq!(plain.body, "15\n16\n", "HEAD claimed nothing");
    let time = world.get("/id/time").await.json();
    assert!(time["id"].as_str().expect("a string").len() > 15, "{time}");
}

#[tokio::test]
async fn batch_continues_in_the_next_block() {
    let store = store();
    let (one, two) = (over(NUMBERS, store.clone()).await, over(NUMBERS, store).await);
    let number = |text: &serde_json::Value| text.as_str()?.parse::<u64>().ok();
    let mut across = 0;
    // Sooner or later one's next block comes after one of the other's.
    for _ in 0..20 {
        two.get("/ids/order?n=900").await;
        let answer = one.get("/ids/order?n=5000&format=range").await.json();
        let ranges = answer["ranges"].as_array().expect("ranges");
        let counts: u64 = ranges.iter().filter_map(|range| range["count"].as_u64()).sum();
        assert_eq!(counts, 5_000, "{answer}");
        assert!(ranges.windows(2).all(|pair| number(&pair[0]["last"]) < number(&pair[1]["first"])));
        across += usize::from(ranges.len() > 1);
    }
    assert!(across > 0, "no batch crossed blocks");
}

#[tokio::test]
async fn segment_namespace_has_no_fields_spans_or_friendly_texts() {
    let world = numbers().await;
    for uri in [
        "/parse/1?namespace=numbers",
        "/parse/INV-1",
        "/parse/20261120T151102.123Z-0-5-0-17-0?encoding=friendly&namespace=numbers",
        "/bounds?namespace=numbers&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z",
    ] {
        world.get(uri).await.problem(422, "not_decodable");
    }
    let detail = world.get("/parse/INV-1").await.problem(422, "not_decodable");
    assert!(detail.contains("\"numbers\"") && detail.contains("segment"), "{detail}");
    world.get("/parse/INV-x").await.problem(400, "invalid_id");
    // Another system's layout is the reader's own choice.
    assert_eq!(world.get("/parse/INV-1?layout=twitter").await.json()["sequence"], 1);
    let detail = world.get("/id/order?encoding=friendly").await.problem(400, "invalid_parameter");
    assert!(detail.contains("friendly needs a layout"), "{detail}");
    world.get("/id/invoice?format=number").await.problem(400, "invalid_parameter");
    assert_eq!(world.get("/id/order").await.body, r#"{"id":"1"}"#, "nothing was claimed");
}

#[tokio::test]
async fn numbers_above_2_53_are_refused_as_json_numbers() {
    let world = numbers().await;
    world.get("/id/large?format=number").await.problem(422, "unsafe_number");
    let first = r#"{"id":"9007199254740992"}"#;
    assert_eq!(world.get("/id/large").await.body, first, "nothing was claimed");
}

#[tokio::test]
async fn unknown_codes_are_404_or_created_up_to_the_limit() {
    let world = numbers().await;
    let detail = world.get("/id/other?namespace=numbers").await.problem(404, "unknown_code");
    for said in ["\"other\"", "namespace \"numbers\"", "[[code]]", "auto_create", "codes create"] {
        assert!(detail.contains(said), "{said:?} is missing in {detail}");
    }
    world.get("/id/order?namespace=default").await.problem(400, "invalid_parameter");

    let made = over(
        "[namespaces.n]\nmode = 'segment'\nsegment = { auto_create = true, min_step = 10 }\ncodes.max = 2\n",
        store(),
    )
    .await;
    for code in ["a", "A", "a", "A"] {
        assert_eq!(made.get(&format!("/id/{code}?namespace=n")).await.status, 200, "{code}");
    }
    assert_eq!(made.get("/id/A?namespace=n").await.body, r#"{"id":"3"}"#);
    made.get("/id/b?namespace=n").await.problem(429, "too_many_codes");
    assert_eq!(made.metric("raindrop_codes{id_namespace=\"n\"}").await, Some(2.0));
}

#[tokio::test]
async fn used_up_code_is_reported_and_was_announced() {
    let world = numbers().await;
    let ratio = "raindrop_segment_unreserved_ratio{id_namespace=\"numbers\"}";
    for number in 9_007_199_254_740_988_u64..9_007_199_254_740_992 {
        let answer = world.get("/id/short?format=number").await;
        assert_eq!(answer.body, format!("{{\"id\":{number}}}"));
    }
    let detail = world.get("/id/short").await.problem(503, "sequence_exhausted");
    assert_eq!(detail, "code \"short\" in namespace \"numbers\" has too few numbers left");
    assert_eq!(world.metric(ratio).await, Some(0.0));
    // No other node has any either, so it is no reason to ask those instead.
    let health = world.get("/health").await;
    let json = health.json();
    assert_eq!(
        (health.status.as_u16(), &json["namespaces"]["numbers"]["issuing"]),
        (200, &true.into())
    );
    let reason = &json["namespaces"]["numbers"]["reason"];
    // The service tells operators the reason.
    assert_eq!(reason, "the code has no numbers left");
    assert_eq!(world.get("/id/order").await.status, 200);
}

#[tokio::test]
async fn health_shows_mode_codes_and_remaining_numbers() {
    let world = numbers().await;
    let numbers = async || world.get("/health").await.json()["namespaces"]["numbers"].clone();
    world.get("/id/order").await;
    let remaining = numbers().await["remaining"].as_u64().expect("a number");
    assert!(remaining >= 999, "{remaining}");
    let entry = format!(
        r#""numbers":{{"mode":"segment","issuing":true,"codes":5,"remaining":{remaining},"reason":null}}"#
    );
    let body = world.get("/health").await.body;
    assert!(body.contains(&entry), "{entry} in {body}");
    world.state.drain();
    assert_eq!(numbers().await["reason"], "the service is shutting down");
}

#[tokio::test]
async fn each_mode_exports_its_metrics_from_the_start() {
    let world = numbers().await;
    world.get("/ids/order?n=5").await;
    let text = world.get("/metrics").await.body;
    for line in [
        "raindrop_ids_issued_total{id_namespace=\"numbers\"} 5",
        "raindrop_ids_issued_total{id_namespace=\"default\"} 0",
        "raindrop_segment_refills_total{id_namespace=\"numbers\",outcome=\"done\"} ",
        "raindrop_segment_refills_total{id_namespace=\"numbers\",outcome=\"refused\"} ",
        "raindrop_segment_refills_total{id_namespace=\"numbers\",outcome=\"failed\"} 0",
        "raindrop_segment_remaining{id_namespace=\"numbers\"} ",
        "raindrop_segment_unreserved_ratio{id_namespace=\"numbers\"} ",
        "raindrop_codes{id_namespace=\"numbers\"} 5",
        "raindrop_issuing{id_namespace=\"numbers\"} 1",
        "raindrop_store_operation_duration_seconds_count{operation=\"reserve\"} ",
    ] {
        assert!(text.contains(&format!("\n{line}")), "{line} in\n{text}");
    }
    let about = |namespace: &str, metric: &str| {
        let label = format!("namespace=\"{namespace}\"");
        text.lines().any(|line| line.starts_with(metric) && line.contains(&label))
    };
    for metric in [
        "raindrop_lease_info",
        "raindrop_lease_",
        "raindrop_workers",
        "raindrop_ids_valid_until",
        "raindrop_sequence_exhausted_total",
        "raindrop_clock_rollbacks_total",
    ] {
        assert!(!about("numbers", metric) && about("default", metric), "{metric}");
    }
    assert!(!about("default", "raindrop_segment"));
}

#[tokio::test]
async fn after_the_release_it_is_shutting_down_and_a_single_node_lost_nothing() {
    let store = store();
    let world = over(NUMBERS, store.clone()).await;
    world.get("/ids/order?n=17").await;
    let World { router, segments, .. } = world;
    let GivenBack { returned, lost } = segments.release(PATIENCE).await;
    assert!(returned > 0 && lost == 0);
    let answer = crate::support::call(&router, "GET", "/id/order", &[]).await;
    answer.problem(503, "shutting_down");
    let listed = store.list_segments().await.expect("listed");
    let next = |code: &str| listed.iter().find(|listed| listed.code == code).map(|code| code.next);
    assert_eq!((next("order"), next("odd"), next("invoice")), (Some(18), Some(101), Some(1)));
}

/// Runs the service until it is ready and then stops it, or until it fails.
async fn serve(text: &str, store: Arc<MemoryStore>) -> Result<(), ServeError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/readyz", listener.local_addr().expect("an address"));
    let clock = Arc::new(SystemClock::default());
    let service = Service {
        config: config_of(text),
        listener,
        admin_listener: None,
        store,
        clock,
        manager: None,
    };
    service
        .run(async move {
            while reqwest::get(&url).await.is_ok_and(|answer| answer.status() != 200) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
}

#[tokio::test]
async fn namespaces_with_another_mode_in_the_store_are_all_named() {
    let store = store();
    let text = |first: &str, second: &str| {
        format!(
            "codes.allow = ['a']\n[namespaces.a]\nmode = '{first}'\n\
             [namespaces.b]\nmode = '{second}'\n[namespaces.c]\nmode = 'segment'\n"
        )
    };
    serve(&text("segment", "snowflake"), store.clone()).await.expect("a clean stop");
    let error = serve(&text("snowflake", "segment"), store.clone()).await.expect_err("conflicts");
    let said = error.to_string();
    for part in
        ["namespace a: ", "namespace b: ", "`mode=segment table=memory`", "`unit=millisecond "]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!said.contains("namespace c: "), "{said}");
    assert!(store.list_rows().await.expect("rows").iter().all(|row| row.row.free));
}

#[tokio::test]
async fn only_namespace_can_be_in_segment_mode() {
    let store = store();
    serve("mode = 'segment'\ncodes.allow = ['a']\n", store.clone()).await.expect("a clean stop");
    let listed = store.list_segments().await.expect("listed");
    assert_eq!((listed.len(), listed[0].namespace.as_str(), listed[0].next), (1, "default", 1));
    assert!(store.list_rows().await.expect("rows").is_empty(), "no worker id is leased");
}
