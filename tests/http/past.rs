//! IDs for a past time.

use std::{collections::HashSet, sync::Arc, time::Duration};

use raindrop::{
    core::{
        clock::{Clock as _, SystemClock},
        instant::format_unix_ms,
    },
    store::MemoryStore,
};

use crate::support::{PATIENCE, World, config_of};

const AT: &str = "at=2024-02-29T12:00:00.123Z";
const LATER: &str = "at=2024-02-29T12:00:00.124Z";
const LATEST: &str = "at=2024-02-29T12:00:00.125Z";

/// With a lease, and perhaps with past ticks open from an instant on.
async fn yitter(backfill_from: Option<&str>) -> World {
    let mut keys = vec![("layout.preset", "yitter")];
    keys.extend(backfill_from.map(|from| ("layout.backfill_from", from)));
    let world = World::start(&keys).await;
    world.until_issuing().await;
    world
}

/// With every past tick open.
async fn opened() -> World {
    yitter(Some("2020-02-19T18:20:02Z")).await
}

/// `?at=` the time so long ago.
fn ago(time: Duration) -> String {
    let now_ms = SystemClock::default().now_ms();
    format_unix_ms(now_ms - i64::try_from(time.as_millis()).expect("milliseconds"))
}

/// Before Raindrop's first start in the namespace, another system may have issued equal IDs.
#[tokio::test]
async fn instant_before_the_first_start_is_422_and_names_the_key() {
    let world = yitter(None).await;
    for at in [&AT[3..], &ago(Duration::from_secs(1)), &ago(Duration::ZERO)] {
        let refused = world.call("POST", &format!("/ids/order?n=2&at={at}"), &[]).await;
        let detail = refused.problem(422, "out_of_range");
        assert!(detail.contains("layout.backfill_from"), "{detail}");
    }
    assert_eq!(world.ids_issued().await, 0.0);
}

#[tokio::test]
async fn instants_after_the_first_start_need_no_opening() {
    let pairs = [("layout.preset", "yitter"), ("lease.max_clock_skew", "100ms")];
    let world = World::start(&pairs).await;
    world.until_issuing().await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let at = ago(Duration::from_millis(50));
    let five = world.call("POST", &format!("/ids/order?n=5&at={at}"), &[]).await.ids();
    assert_eq!(five.len(), 5);
    let refused = world.call("POST", &format!("/id/order?{AT}"), &[]).await;
    assert!(refused.problem(422, "out_of_range").contains("layout.backfill_from"));
}

#[tokio::test]
async fn instants_from_backfill_from_on_are_open() {
    let world = yitter(Some("2024-02-29T12:00:00.123Z")).await;
    let five = world.call("POST", &format!("/ids/order?n=5&{AT}"), &[]).await.ids();
    assert_eq!(five.len(), 5);
    let earlier = "/id/order?at=2024-02-29T12:00:00.122Z";
    let detail = world.call("POST", earlier, &[]).await.problem(422, "out_of_range");
    let first = "must be 2024-02-29T12:00:00.123Z or later";
    assert!(detail.contains(first) && detail.contains("layout.backfill_from"), "{detail}");

    // One that is still to come closes what the first start would leave open.
    let world = yitter(Some("2999-01-01T00:00:00Z")).await;
    for at in [&AT[3..], &ago(Duration::ZERO)] {
        let refused = world.call("POST", &format!("/id/order?at={at}"), &[]).await;
        let detail = refused.problem(422, "out_of_range");
        assert!(detail.contains("must be 2999-01-01T00:00:00Z or later"), "{detail}");
    }
}

#[tokio::test]
async fn backfill_from_applies_to_one_namespace() {
    let clock = Arc::new(SystemClock::default());
    let config = config_of(
        "layout = { preset = 'yitter', backfill_from = '2024-01-01T00:00:00Z' }\n\
         [namespaces.closed.layout]\npreset = 'yitter'\n\
         [namespaces.later.layout]\npreset = 'yitter'\nbackfill_from = '2025-01-01T00:00:00Z'\n",
    );
    let world = World::with_config(config, Arc::new(MemoryStore::new(clock.clone())), clock);
    world.until_issuing().await;
    let at = async |namespace: &str, year: u32| {
        let path = format!("/id/order?namespace={namespace}&at={year}-03-01T00:00:00Z");
        world.call("POST", &path, &[]).await.status.as_u16()
    };
    for (namespace, of_2024, of_2025) in
        [("default", 200, 200), ("closed", 422, 422), ("later", 422, 200)]
    {
        let found = (at(namespace, 2024).await, at(namespace, 2025).await);
        assert_eq!(found, (of_2024, of_2025), "{namespace}");
    }
}

#[tokio::test]
async fn past_millisecond_has_five_ids() {
    let world = opened().await;
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
    assert!(detail.contains("0 of 5"), "{detail}");
    let other = world.call("POST", &format!("/id/user?{AT}"), &[]).await;
    other.problem(422, "out_of_range");
    let range =
        world.call("POST", &format!("/ids/user?n=5&format=range&{LATER}"), &[]).await.json();
    assert_eq!(range["ranges"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&range["ranges"][0]["step"], &range["ranges"][0]["count"]),
        (&"1".into(), &5.into())
    );
    let number = world.call("POST", &format!("/id/third?format=number&{LATEST}"), &[]).await.json();
    assert!(number["id"].is_u64(), "{number}");
}

#[tokio::test]
async fn future_instants_and_too_many_backfilled_ids_are_refused() {
    let world = opened().await;
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
async fn segment_namespace_has_no_backfill() {
    let clock = Arc::new(SystemClock::default());
    let config = config_of("[namespaces.numbers]\nmode = 'segment'\nsegment.auto_create = true");
    let world = World::with_config(config, Arc::new(MemoryStore::new(clock.clone())), clock);
    world.until_issuing().await;
    let refused = world.call("POST", &format!("/id/order?namespace=numbers&{AT}"), &[]).await;
    assert!(refused.problem(422, "out_of_range").contains("numbers"));
}

/// A process without a lease reserves nothing, and is no dead end.
#[tokio::test]
async fn backfill_needs_a_lease() {
    let clock = Arc::new(SystemClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let keys = [
        ("layout.preset", "yitter"),
        ("layout.backfill_from", "2020-02-19T18:20:02Z"),
        ("worker.id", "3"),
    ];
    let first = World::start_over(&keys, store.clone(), clock.clone()).await;
    first.issuer.leased().await;
    let second = World::start_over(&keys, store, clock).await;
    let uri = format!("/ids/order?n=5&{AT}");
    let refused = second.call("POST", &uri, &[]).await;
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    let detail = refused.problem(503, "lease_unavailable");
    assert!(!detail.contains("restored"), "{detail}");
    first.keeper.release(PATIENCE).await;
    tokio::time::timeout(PATIENCE, second.issuer.leased()).await.expect("a lease");
    assert_eq!(second.call("POST", &uri, &[]).await.ids().len(), 5);
}
