//! `/id` and `/ids`.

use raindrop::core::{
    clock::{Clock, SystemClock},
    preset::Preset,
};

use crate::support::World;

#[tokio::test]
async fn one_id_is_answered_as_a_string() {
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
async fn ten_thousand_ids_are_never_from_the_future() {
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
async fn a_count_that_can_never_fit_names_the_largest() {
    let world =
        World::start(&[("layout.time_unit", "second"), ("layout.timestamp_bits", "41")]).await;
    let detail = world.get("/ids/order?n=10000").await.problem(400, "invalid_count");
    assert!(detail.contains("8192"), "{detail}");
}

#[tokio::test]
async fn numbers_are_refused_before_they_lose_digits() {
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
async fn ranges_say_what_the_list_would() {
    for (preset, expected_step) in [("raindrop", 1), ("sonyflake", 1 << 16)] {
        let world = World::start(&[("layout.preset", preset)]).await;
        let answer = world.get("/ids/order?n=5000&format=range").await.json();
        let ranges = answer["ranges"].as_array().expect("ranges");
        let number = |text: &serde_json::Value| {
            text.as_str().expect("a string").parse::<u64>().expect("a number")
        };
        let mut total = 0;
        let mut last_id = 0;
        for range in ranges {
            let (first, last, step) =
                (number(&range["first"]), number(&range["last"]), number(&range["step"]));
            let count = range["count"].as_u64().expect("a number");
            assert_eq!((step, first + (count - 1) * step), (expected_step, last));
            assert!(first > last_id);
            last_id = last;
            total += count;
        }
        assert_eq!(total, 5_000);
        assert!(ranges.len() >= 2);
    }
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
async fn head_claims_nothing() {
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
async fn the_default_namespace_may_be_named() {
    let world = World::start(&[]).await;
    assert_eq!(world.get("/id/order?namespace=default").await.status, 200);
    assert_eq!(world.get("/ids/order?namespace=default&n=2").await.ids().len(), 2);
    for uri in ["/id/order?namespace=other", "/ids/order?namespace=", "/parse/1?namespace=other"] {
        world.get(uri).await.problem(404, "unknown_namespace");
    }
}

#[tokio::test]
async fn only_allowed_codes_are_served() {
    let world = World::start(&[("codes.allow", "order, user")]).await;
    assert_eq!(world.get("/id/user").await.status, 200);
    world.get("/id/other").await.problem(404, "unknown_code");
}
