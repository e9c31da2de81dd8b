//! `/id` and `/ids`.

use raindrop::core::{
    clock::{Clock, SystemClock},
    instant::parse_unix_ms,
    preset::Preset,
};

use crate::support::World;

#[tokio::test]
async fn single_id_is_a_json_string() {
    let world = World::start(&[]).await;
    for method in ["GET", "POST"] {
        let answer = world.call(method, "/id/order", &[]).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let id = answer.json()["id"].as_str().expect("a string").to_owned();
        assert_eq!(answer.body, format!(r#"{{"id":"{id}"}}"#));
        assert!(id.parse::<u64>().expect("decimal") > 1 << 53);
    }
}

#[tokio::test]
async fn ids_are_ascending_and_unique_across_single_and_batch() {
    let world = World::start(&[]).await;
    let mut all = Vec::new();
    for n in [1, 2, 1_000, 7] {
        let id = world.get("/id/order").await.json()["id"].as_str().map(str::parse);
        all.push(id.expect("an id").expect("decimal"));
        let ids = world.call("POST", &format!("/ids/order?n={n}"), &[]).await.ids();
        assert_eq!(ids.len(), n);
        all.extend(ids);
    }
    assert_eq!(world.get("/ids/order").await.ids().len(), 1);
    assert!(all.is_sorted_by(|a, b| a < b));
}

#[tokio::test]
async fn no_id_of_a_large_batch_is_from_the_future() {
    let world = World::start(&[]).await;
    let layout = Preset::Raindrop.spec().build().expect("valid");
    for _ in 0..3 {
        let ids = world.get("/ids/order?n=10000").await.ids();
        let now = layout.tick_clamped(SystemClock::default().now_ms());
        assert_eq!(ids.len(), 10_000);
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert!(ids.iter().all(|id| id >> 22 <= now));
    }
}

#[tokio::test]
async fn too_large_count_is_400_and_names_the_largest() {
    let world =
        World::start(&[("layout.time_unit", "second"), ("layout.timestamp_bits", "41")]).await;
    let detail = world.get("/ids/order?n=10000").await.problem(400, "invalid_count");
    assert!(detail.contains("8192"), "{detail}");
}

#[tokio::test]
async fn ids_above_2_53_are_refused_as_json_numbers() {
    let world = World::start(&[]).await;
    for uri in ["/id/order?format=number", "/ids/order?n=3&format=number"] {
        let detail = world.get(uri).await.problem(422, "unsafe_number");
        assert!(detail.contains("9007199254740991"), "{detail}");
        assert!(detail.contains("format=string, or configure layout.preset = js-safe"), "{detail}");
    }
    assert_eq!(world.ids_issued().await, 0.0);

    let world = World::start(&[("layout.preset", "js-safe")]).await;
    let id = world.get("/id/order?format=number").await.json()["id"].as_u64().expect("a number");
    let answer = world.get("/ids/order?n=3&format=number").await.json();
    let ids: Vec<u64> =
        answer["ids"].as_array().expect("ids").iter().filter_map(|id| id.as_u64()).collect();
    assert!(ids.len() == 3 && ids[0] > id && ids[2] < 1 << 53);
}

#[tokio::test]
async fn ranges_contain_the_ids_of_the_list() {
    for (preset, expected_step) in [("raindrop", 1), ("sonyflake", 1 << 16)] {
        let world = World::start(&[("layout.preset", preset)]).await;
        let answer = world.get("/ids/order?n=5000&format=range").await.json();
        let ranges = answer["ranges"].as_array().expect("ranges");
        let expected_step = Some(expected_step.to_string());
        assert!(ranges.iter().all(|range| range["step"].as_str() == expected_step.as_deref()));
        let ids = read_ranges(&answer);
        assert_eq!(ids.len(), 5_000);
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert!((1..=3).contains(&ranges.len()), "whole ticks are one range: {answer}");
    }
}

/// All that a client needs of a range stands in its answer.
#[tokio::test]
async fn up_to_ranges_contain_all_that_a_client_needs() {
    for (preset, most) in [("raindrop", 1_000_000), ("js-safe", 1_000), ("twitter", 100_000)] {
        let world = World::start(&[("layout.preset", preset)]).await;
        let uri = format!("/ids/order?format=range&up_to={most}");
        let mut before = 0;
        for _ in 0..3 {
            let asked_at = SystemClock::default().now_ms();
            let answer = world.call("POST", &uri, &[]).await.json();
            let answered_at = SystemClock::default().now_ms();
            let ids = read_ranges(&answer);
            assert!((1..=most).contains(&ids.len()), "{}", ids.len());
            assert!(before < ids[0] && ids.is_sorted_by(|a, b| a < b), "{answer}");
            before = *ids.last().expect("at least one");
            let time = |name: &str| answer["time"][name].as_u64().expect("a number");
            let unix_ms = |id: u64| {
                time("epoch_ms")
                    + (id >> time("shift") & ((1 << time("bits")) - 1)) * time("unit_ms")
            };
            for id in [ids[0], before] {
                let parsed = world.get(&format!("/parse/{id}")).await.json();
                assert_eq!(parsed["unix_ms"], unix_ms(id), "{answer}");
            }
            let issued_at = answer["issued_at"].as_str().expect("an instant");
            let issued_at = parse_unix_ms(issued_at).expect("RFC 3339");
            assert!((asked_at..=answered_at).contains(&issued_at), "{answer}");
            // None is due more than 10 ms after the claim.
            let latest = u64::try_from(answered_at).expect("after 1970") + 10;
            assert!(unix_ms(before) <= latest, "{answer} answered at {answered_at}");
            assert!(
                answer["layout"].as_str().is_some_and(|text| text.contains("unit=")),
                "{answer}"
            );
        }
    }
}

#[tokio::test]
async fn range_length_is_bounded_by_setting_and_layout() {
    let world = World::start(&[]).await;
    for (query, allowed) in [
        ("format=range&up_to=0", "must be 1 to 1000000"),
        ("format=range&up_to=1000001", "must be 1 to 1000000"),
        ("format=range&up_to=%2B1", "must be 1 to 1000000"),
    ] {
        let detail = world.get(&format!("/ids/order?{query}")).await.problem(400, "invalid_count");
        assert!(detail.contains(allowed), "{detail}");
    }
    for (uri, because) in [
        ("/ids/order?up_to=5", "requires format=range"),
        ("/ids/order?format=string&up_to=5", "requires format=range"),
        ("/ids/order?format=range&up_to=5&n=5", "not possible with n"),
        ("/id/order?up_to=5", "/ids has it"),
    ] {
        let detail = world.get(uri).await.problem(400, "invalid_parameter");
        assert!(detail.contains(because), "{detail}");
    }
    let at = "/ids/order?format=range&up_to=5&at=2026-01-01T00:00:00Z";
    let detail = world.call("POST", at, &[]).await.problem(400, "invalid_parameter");
    assert!(detail.contains("not possible with at"), "{detail}");
    // A small layout: seven IDs in a tick of a second, and no wait.
    let small = [
        ("layout.time_unit", "second"),
        ("layout.max_sequence", "6"),
        ("issue.max_wait", "0s"),
        ("http.max_batch", "5"),
    ];
    let world = World::start(&small).await;
    let detail = world.get("/ids/order?format=range&up_to=15").await;
    let detail = detail.problem(400, "invalid_count");
    assert!(detail.contains("must be 1 to 7"), "{detail}");
    assert_eq!(read_ranges(&world.get("/ids/order?format=range&up_to=7").await.json()).len(), 3);
}

/// The IDs that an answer with ranges tells, as a client reads it.
fn read_ranges(answer: &serde_json::Value) -> Vec<u64> {
    let number = |text: &serde_json::Value| {
        text.as_str().expect("a string").parse::<u64>().expect("a number")
    };
    let mut ids = Vec::new();
    for range in answer["ranges"].as_array().expect("ranges") {
        let (first, step) = (number(&range["first"]), number(&range["step"]));
        let count = range["count"].as_u64().expect("a number");
        let (repeat, stride) = match range.get("repeat") {
            Some(repeat) => (repeat.as_u64().expect("a number"), number(&range["stride"])),
            None => (1, 0),
        };
        for time in 0..repeat {
            ids.extend((0..count).map(|index| first + time * stride + index * step));
        }
        assert_eq!(ids.last(), Some(&number(&range["last"])), "{range}");
    }
    ids
}

#[tokio::test]
async fn ids_of_sonyflakes_layout_have_its_fields() {
    let world = World::start(&[("layout.preset", "sonyflake")]).await;
    let answer = world.get("/ids/order?n=600").await.json();
    let ids: Vec<u64> = answer["ids"]
        .as_array()
        .expect("ids")
        .iter()
        .map(|id| id.as_str().expect("a string").parse().expect("a number"))
        .collect();
    assert!(ids.len() == 600 && ids.is_sorted_by(|a, b| a < b));
    let worker = ids[0] & 0xffff;
    for id in ids {
        let parsed = world.get(&format!("/parse/{id}?layout=sonyflake")).await.json();
        let (tick, sequence) = (id >> 24, id >> 16 & 0xff);
        assert_eq!((&parsed["tick"], &parsed["sequence"]), (&tick.into(), &sequence.into()));
        assert_eq!(parsed["worker_id"], worker);
    }
}

#[tokio::test]
async fn plain_text_has_one_id_per_line() {
    let world = World::start(&[]).await;
    let text = [("accept", "text/plain")];
    let one = world.call("GET", "/id/order", &text).await;
    assert_eq!(one.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(one.header("cache-control"), Some("no-store"));
    assert!(one.body.strip_suffix('\n').expect("a line").parse::<u64>().is_ok());
    let many = world.call("GET", "/ids/order?n=3&format=string", &text).await;
    let ids: Vec<u64> = many.body.lines().map(|line| line.parse().expect("an ID")).collect();
    assert!(ids.len() == 3 && ids.is_sorted() && many.body.ends_with('\n'));
    world.call("GET", "/ids/order?n=3&format=range", &text).await.problem(400, "invalid_parameter");
    // Text loses no digits.
    let number = world.call("GET", "/id/order?format=number", &text).await;
    assert_eq!(number.status, 200);
    assert_eq!(number.header("content-type"), one.header("content-type"));
    let both = [("accept", "application/json, text/plain, */*")];
    assert!(world.call("GET", "/id/order", &both).await.body.starts_with('{'));
}

#[tokio::test]
async fn head_request_claims_nothing() {
    let world = World::start(&[]).await;
    for uri in ["/id/order", "/ids/order?n=100"] {
        let get = world.get(uri).await;
        let issued = world.ids_issued().await;
        let head = world.call("HEAD", uri, &[]).await;
        assert_eq!((head.status.as_u16(), head.body.as_str()), (200, ""));
        for name in ["content-type", "cache-control"] {
            assert_eq!(head.header(name), get.header(name));
        }
        assert_eq!(head.header("content-length"), None);
        assert_eq!(world.ids_issued().await, issued);
    }
    assert_eq!(world.call("HEAD", "/ids/order?n=0", &[]).await.status, 400);
}

#[tokio::test]
async fn default_namespace_can_be_named() {
    let world = World::start(&[]).await;
    assert_eq!(world.get("/id/order?namespace=default").await.status, 200);
    assert_eq!(world.get("/ids/order?namespace=default&n=2").await.ids().len(), 2);
    for uri in ["/id/order?namespace=other", "/ids/order?namespace=", "/parse/1?namespace=other"] {
        world.get(uri).await.problem(404, "unknown_namespace");
    }
}

#[tokio::test]
async fn codes_that_are_not_allowed_are_404() {
    let world = World::start(&[("codes.allow", "order, user")]).await;
    assert_eq!(world.get("/id/user").await.status, 200);
    world.get("/id/other").await.problem(404, "unknown_code");
}
