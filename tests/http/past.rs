//! IDs for a past time.

use std::{collections::HashSet, sync::Arc};

use raindrop::{core::clock::SystemClock, store::MemoryStore};

use crate::support::{World, config_of};

const AT: &str = "at=2024-02-29T12:00:00.123Z";

async fn yitter() -> World {
    let world = World::start(&[("layout.preset", "yitter")]).await;
    world.until_issuing().await;
    world
}

#[tokio::test]
async fn a_past_millisecond_has_five_ids_in_all() {
    let world = yitter().await;
    let issued = world.ids_issued().await;
    let one = world.call("POST", &format!("/id/order?{AT}"), &[]).await;
    assert_eq!(one.status, 200, "{one:?}");
    assert_eq!(one.header("cache-control"), Some("no-store"));
    let one: u64 = one.json()["id"].as_str().expect("a string").parse().expect("an ID");
    let four = world.call("POST", &format!("/ids/order?n=4&{AT}"), &[]).await.ids();
    let all: HashSet<u64> = four.iter().copied().chain([one]).collect();
    assert_eq!(all.len(), 5);
    for id in all {
        let parsed = world.get(&format!("/parse/{id}")).await.json();
        assert_eq!(parsed["timestamp"], "2024-02-29T12:00:00.123Z");
        assert!(parsed["sequence"].as_u64() < Some(5), "{parsed}");
    }
    assert_eq!(world.ids_issued().await - issued, 5.0);
    let sixth = world.call("POST", &format!("/id/order?{AT}"), &[]).await;
    let detail = sixth.problem(422, "out_of_range");
    assert!(detail.contains("0 of 5") && detail.contains("order"), "{detail}");
    // Another code has its own.
    let range = world.call("POST", &format!("/ids/user?n=5&format=range&{AT}"), &[]).await.json();
    assert_eq!(range["ranges"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&range["ranges"][0]["step"], &range["ranges"][0]["count"]),
        (&"1".into(), &5.into())
    );
    let number = world.call("POST", &format!("/id/third?format=number&{AT}"), &[]).await.json();
    assert!(number["id"].is_u64(), "{number}");
}

#[tokio::test]
async fn what_is_not_past_or_not_reserved_is_refused() {
    let world = yitter().await;
    for (at, said) in [
        ("2999-01-01T00:00:00Z", "in a past tick"),
        ("1970-01-01T00:00:00Z", "must be 2020-02-19T18:20:02Z or later"),
    ] {
        let refused = world.call("POST", &format!("/id/order?at={at}"), &[]).await;
        let detail = refused.problem(422, "out_of_range");
        assert!(detail.contains(said), "{detail}");
    }
    let six = world.call("POST", &format!("/ids/order?n=6&{AT}"), &[]).await;
    assert!(six.problem(422, "out_of_range").contains("5 of 5"));
    for (method, path) in [("GET", "/id/order"), ("HEAD", "/ids/order")] {
        let refused = world.call(method, &format!("{path}?{AT}"), &[]).await;
        assert_eq!(refused.status, 400, "{refused:?}");
    }
    let detail = world.get(&format!("/id/order?{AT}")).await.problem(400, "invalid_parameter");
    assert!(detail.contains("POST"), "{detail}");
    let bad = world.call("POST", "/id/order?at=yesterday", &[]).await;
    assert!(bad.problem(400, "invalid_parameter").contains("RFC 3339"));

    let without = World::start(&[]).await;
    without.until_issuing().await;
    let refused = without.call("POST", &format!("/id/order?{AT}"), &[]).await;
    assert!(refused.problem(422, "out_of_range").contains("layout.min_sequence"));
}

#[tokio::test]
async fn a_namespace_that_counts_has_none() {
    let clock = Arc::new(SystemClock::default());
    let config = config_of("[namespaces.numbers]\nmode = 'segment'\nsegment.auto_create = true");
    let world = World::with_config(config, Arc::new(MemoryStore::new(clock.clone())), clock);
    world.until_issuing().await;
    let refused = world.call("POST", &format!("/id/order?namespace=numbers&{AT}"), &[]).await;
    assert!(refused.problem(422, "out_of_range").contains("numbers"));
}
