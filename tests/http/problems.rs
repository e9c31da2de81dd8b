//! Every error is a problem document.

use std::{sync::Arc, time::Duration};

use raindrop::{core::clock::SystemClock, store::MemoryStore};

use crate::support::{BrokenClock, PATIENCE, World, config};

const ROUTES: [(&str, &[&str]); 11] = [
    ("/id/order", &["GET", "HEAD", "POST"]),
    ("/ids/order", &["GET", "HEAD", "POST"]),
    ("/parse/1", &["GET", "HEAD"]),
    ("/bounds?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z", &["GET", "HEAD"]),
    ("/plan?preset=js-safe", &["GET", "HEAD"]),
    ("/health", &["GET", "HEAD"]),
    ("/livez", &["GET", "HEAD"]),
    ("/readyz", &["GET", "HEAD"]),
    ("/metrics", &["GET", "HEAD"]),
    ("/openapi.json", &["GET", "HEAD"]),
    ("/version", &["GET", "HEAD"]),
];

#[tokio::test]
async fn other_methods_of_every_route_are_405() {
    let world = World::start(&[]).await;
    for (route, allowed) in ROUTES {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PURGE"]
        {
            let answer = world.call(method, route, &[]).await;
            if allowed.contains(&method) {
                assert_eq!(answer.status, 200, "{method} {route}");
            } else {
                answer.problem(405, "method_not_allowed");
                let mut named: Vec<&str> =
                    answer.header("allow").expect("allow").split(',').collect();
                named.sort_unstable();
                assert_eq!(named, allowed, "{method} {route}");
            }
        }
    }
}

#[tokio::test]
async fn unknown_routes_are_404() {
    let world = World::start(&[]).await;
    let code_follows = ": a code follows, as in /id/order";
    let no_slash = ": no route ends with a slash";
    for (uri, way_out) in [
        ("/console", ""),
        ("/console/", no_slash),
        ("/id", code_follows),
        ("/id/", code_follows),
        ("/ids/", code_follows),
        ("/id/order/", no_slash),
        ("/id/a/b", ""),
        ("/nowhere", ""),
        ("/parse", ": an ID follows, as in /parse/249679838552547328"),
        ("/health/", no_slash),
        ("//", no_slash),
        ("//id", ""),
    ] {
        for method in ["GET", "POST", "PUT", "HEAD"] {
            let answer = world.call(method, uri, &[]).await;
            assert_eq!(answer.status, 404, "{method} {uri}");
            if method != "HEAD" {
                // No other listener serves this route.
                let detail = answer.problem(404, "not_found");
                assert_eq!(detail, format!("there is no route {uri:?}{way_out}"));
            }
        }
    }
}

#[tokio::test]
async fn bad_requests_name_the_fault() {
    let world = World::start(&[]).await;
    let too_long = format!("/id/{}", "a".repeat(65));
    for (uri, code, said) in [
        ("/id/bad%20code", "invalid_code", "\"bad code\""),
        ("/id/.a", "invalid_code", "[A-Za-z0-9]"),
        ("/id/a%2Fb", "invalid_code", "\"a/b\""),
        ("/id/a%00", "invalid_code", "must match"),
        ("/id/%FF", "invalid_code", "UTF-8"),
        ("/id/%zz", "invalid_code", "must match"),
        ("/ids/%C3%B6?n=2", "invalid_code", "must match"),
        (&too_long, "invalid_code", "{0,63}"),
        ("/ids/order?n=0", "invalid_count", "1 to 10000"),
        ("/ids/order?n=10001", "invalid_count", "1 to 10000"),
        ("/ids/order?n=x", "invalid_count", "\"x\""),
        ("/ids/order?n=", "invalid_count", "\"\""),
        ("/ids/order?n=-1", "invalid_count", "\"-1\""),
        ("/ids/order?n=%2B3", "invalid_count", "\"+3\""),
        ("/ids/order?n=99999999999999999999", "invalid_count", "1 to 10000"),
        ("/id/order?n=3", "invalid_parameter", "\"n\""),
        ("/ids/order?N=3", "invalid_parameter", "\"N\""),
        ("/ids/order?n=3&n=4", "invalid_parameter", "more than once"),
        ("/ids/order?format=xml", "invalid_parameter", "string, number or range"),
        ("/id/order?format=range", "invalid_parameter", "string or number"),
        ("/id/order?since=2026-01-01T00:00:00Z", "invalid_parameter", "\"since\""),
    ] {
        let detail = world.get(uri).await.problem(400, code);
        assert!(detail.contains(said), "{uri}: {detail}");
    }
    assert_eq!(world.ids_issued().await, 0.0);
}

#[tokio::test]
async fn too_long_targets_are_414() {
    let world = World::start(&[]).await;
    let uri = format!("/id/order?format={}", "a".repeat(5_000));
    world.get(&uri).await.problem(414, "uri_too_long");
}

#[tokio::test]
async fn panic_in_a_handler_is_500_and_the_service_continues() {
    let world = World::start_with(&[], Arc::new(BrokenClock)).await;
    let answer =
        world.call("GET", "/id/order?format=number", &[("origin", "https://a.example")]).await;
    let detail = answer.problem(500, "internal");
    assert!(!detail.contains("as this test wants it"));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    world.issuer.leased().await;
    assert_eq!(world.get("/id/order").await.status, 200);
    let counted = r#"raindrop_http_requests_total{method="GET",route="/id/{code}",status="500"}"#;
    assert_eq!(world.metric(counted).await, Some(1.0));
}

#[tokio::test]
async fn used_up_sequences_are_503_and_used_up_codes_429() {
    let coarse = [
        ("layout.time_unit", "day"),
        ("layout.timestamp_bits", "40"),
        ("layout.worker_bits", "10"),
        ("layout.rollback_bits", "3"),
        ("layout.reserved_bits", "5"),
        ("codes.shared", "false"),
        ("codes.max", "1"),
        // Leaves 5 sequence bits, of which two slices of a day are lent at first.
    ];
    let world = World::start(&coarse).await;
    let mut refused = None;
    for _ in 0..40 {
        let answer = world.get("/id/order").await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("32 IDs a day are used up");
    let code = refused.json()["code"].as_str().expect("a code").to_owned();
    assert!(["sequence_exhausted", "lease_unavailable"].contains(&code.as_str()), "{code}");
    refused.problem(503, &code);
    world.get("/id/other").await.problem(429, "too_many_codes");
}

#[tokio::test]
async fn no_free_worker_is_503_lease_unavailable() {
    let clock = Arc::new(SystemClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let only = [("worker.id", "7"), ("issue.max_wait", "100ms")];
    let first = World::start_over(&only, store.clone(), clock.clone()).await;
    first.issuer.leased().await;
    let second = World::start_over(&only, store, clock).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    second.get("/id/order").await.problem(503, "lease_unavailable");
    let health = second.get("/health").await;
    assert_eq!(health.status, 503);
    assert!(health.header("retry-after").is_some());
    assert_eq!(health.json()["namespaces"]["default"]["issuing"], false);
    assert_eq!(second.get("/readyz").await.status, 503);
    assert_eq!(second.get("/livez").await.status, 200);

    assert_eq!(first.keeper.release(PATIENCE).await, raindrop::keeper::Released::Done);
    tokio::time::timeout(PATIENCE, second.issuer.leased()).await.expect("a lease");
    assert_eq!(second.get("/id/order").await.status, 200);
}

#[tokio::test]
async fn clock_outside_the_layout_is_reported() {
    let world = World::start_with(
        &[("layout.epoch", "2090-01-01T00:00:00Z"), ("issue.max_wait", "100ms")],
        Arc::new(SystemClock::default()),
    )
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.get("/id/order").await.problem(503, "clock_out_of_range");
    world.get("/id/order?format=number").await.problem(503, "clock_out_of_range");
}

#[tokio::test]
async fn late_response_is_a_time_out() {
    // 3 sequence bits in a second: a second batch of 8 waits for the next second, and the third
    // nearly all of it. A valid configuration keeps max_wait shorter than the time-out.
    let mut config = config(&[("layout.time_unit", "second"), ("layout.timestamp_bits", "50")]);
    config.http.request_timeout = Duration::from_millis(50);
    let clock = Arc::new(SystemClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let world = World::with_config(config, store, clock);
    world.issuer.leased().await;
    let mut answer = world.get("/ids/order?n=8").await;
    for _ in 0..3 {
        if answer.status == 200 {
            answer = world.get("/ids/order?n=8").await;
        }
    }
    answer.problem(408, "request_timeout");
}
