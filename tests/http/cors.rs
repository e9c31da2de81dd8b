//! Browsers may call `/id`, `/ids`, `/parse` and `/bounds`, and nothing else.

use crate::support::World;

const ORIGIN: (&str, &str) = ("origin", "https://app.example");

#[tokio::test]
async fn by_default_every_origin_may_ask_for_ids() {
    let world = World::start(&[]).await;
    for route in
        ["/id/order", "/ids/order?n=2", "/parse/1", "/bounds", "/id/bad%20code", "/ids/order?n=0"]
    {
        let answer = world.call("GET", route, &[ORIGIN]).await;
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{route}");
    }
    for route in ["/health", "/livez", "/readyz", "/metrics", "/nowhere"] {
        let answer = world.call("GET", route, &[ORIGIN]).await;
        assert_eq!(answer.header("access-control-allow-origin"), None, "{route}");
    }
}

#[tokio::test]
async fn a_preflight_is_answered_and_claims_nothing() {
    let world = World::start(&[]).await;
    let asked = [
        ORIGIN,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type"),
    ];
    let answer = world.call("OPTIONS", "/id/order", &asked).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("access-control-allow-methods"), Some("GET,HEAD,POST"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("*,authorization"));
    assert_eq!(world.ids_issued().await, 0.0);
    world.call("OPTIONS", "/health", &asked).await.problem(405, "method_not_allowed");
}

#[tokio::test]
async fn options_that_is_no_preflight_is_just_another_method() {
    let world = World::start(&[]).await;
    for (route, allowed) in
        [("/id/order", "GET,HEAD,POST"), ("/parse/1", "GET,HEAD"), ("/bounds", "GET,HEAD")]
    {
        let answer = world.call("OPTIONS", route, &[ORIGIN]).await;
        assert_eq!(answer.header("allow"), Some(allowed), "{route}");
        answer.problem(405, "method_not_allowed");
    }
}

#[tokio::test]
async fn origins_may_be_limited_or_none() {
    let world =
        World::start(&[("http.cors_origins", "https://app.example,http://localhost:3000")]).await;
    let allowed = |answer: crate::support::Answer| {
        answer.header("access-control-allow-origin").map(str::to_owned)
    };
    let answer = world.call("GET", "/id/order", &[ORIGIN]).await;
    assert_eq!(allowed(answer).as_deref(), Some("https://app.example"));
    let other = [("origin", "https://other.example")];
    assert_eq!(allowed(world.call("GET", "/id/order", &other).await), None);
}
