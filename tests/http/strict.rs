//! Strict codes over HTTP.

use std::sync::Arc;

use axum::{body::Body, http::Request};
use raindrop::{core::clock::SystemClock, store::MemoryStore};
use serde_json::json;
use tower::ServiceExt as _;

use crate::support::{Log, World, config_of};

const NUMBERS: &str = "
    [issue]
    max_wait = '200ms'
    [namespaces.numbers]
    mode = 'segment'
    [[code]]
    name = 'invoice'
    namespace = 'numbers'
    text = 'INV/{n:03}'
    strict = true
    failover_gap = 0
    [[code]]
    name = 'receipt'
    namespace = 'numbers'
    strict = true
    failover_gap = 0
    [[code]]
    name = 'plain'
    namespace = 'numbers'
";

async fn world(store: &Arc<MemoryStore>) -> World {
    let clock = Arc::new(SystemClock::default());
    let world = World::with_config(config_of(NUMBERS), store.clone(), clock);
    world.until_issuing().await;
    world
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock::default())))
}

#[tokio::test]
async fn two_nodes_issue_strict_numbers_in_turn() {
    let store = memory();
    let (one, two) = (world(&store).await, world(&store).await);
    for (node, uri, body) in [
        (&one, "/id/invoice", r#"{"id":"INV/001"}"#),
        (&two, "/ids/invoice?n=2", r#"{"ids":["INV/002","INV/003"]}"#),
        (&one, "/id/invoice?namespace=numbers", r#"{"id":"INV/004"}"#),
        (&two, "/id/receipt?format=number", r#"{"id":1}"#),
        (&one, "/id/receipt", r#"{"id":"2"}"#),
    ] {
        let answer = node.call("POST", uri, &[]).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, body), "{uri}");
    }
}

/// Proxies and browsers repeat a GET, and clients that lease ranges issue them later.
#[tokio::test]
async fn requests_that_strict_numbers_cannot_serve_claim_none() {
    let world = world(&memory()).await;
    for (method, uri, said) in [
        ("GET", "/id/invoice", "code \"invoice\" is strict: requires POST, not GET"),
        ("GET", "/ids/receipt?n=3", "code \"receipt\" is strict: requires POST, not GET"),
        ("POST", "/ids/receipt?format=range&n=3", "format = \"range\": must be left out"),
        ("POST", "/ids/receipt?format=range&up_to=3", "must be left out"),
    ] {
        let detail = world.call(method, uri, &[]).await.problem(400, "invalid_parameter");
        assert!(detail.contains(said), "{uri}: {detail}");
    }
    assert_eq!(world.call("HEAD", "/id/invoice", &[]).await.status, 400);
    assert_eq!(world.call("POST", "/id/receipt", &[]).await.body, r#"{"id":"1"}"#);
}

#[tokio::test]
async fn each_claim_has_a_line_in_the_log() {
    let (log, _guard) = Log::start();
    let world = world(&memory()).await;
    let id = [("x-request-id", "order-17")];
    assert_eq!(world.call("POST", "/ids/invoice?n=2", &id).await.status, 200);
    assert_eq!(world.call("POST", "/id/receipt", &[]).await.status, 200);
    // A client that goes away takes its number with it.
    let request = Request::post("/id/receipt").body(Body::empty()).expect("a request");
    drop(world.router.clone().oneshot(request).await.expect("an answer"));
    let line = |code, first, last, count, request_id: Option<&str>, delivered| {
        let mut line = json!({
            "level": "INFO",
            "message": "strict claim",
            "namespace": "numbers",
            "code": code,
            "first": first,
            "last": last,
            "count": count,
            "delivered": delivered,
        });
        if let Some(id) = request_id {
            line["request_id"] = json!(id);
        }
        line
    };
    assert_eq!(
        log.lines("strict claim"),
        [
            line("invoice", "INV/001", "INV/002", 2, Some("order-17"), true),
            line("receipt", "1", "1", 1, None, true),
            line("receipt", "2", "2", 1, None, false),
        ]
    );
}

#[tokio::test]
async fn requests_with_one_idempotency_key_get_one_number() {
    let store = memory();
    let (one, two) = (world(&store).await, world(&store).await);
    for (node, uri, key, accept, body) in [
        (&one, "/id/invoice", "\"doc-1\"", "*/*", r#"{"id":"INV/001"}"#),
        (&two, "/id/invoice", "doc-1", "*/*", r#"{"id":"INV/001"}"#),
        (&two, "/id/invoice", "doc-2", "*/*", r#"{"id":"INV/002"}"#),
        (&one, "/id/invoice", "doc-2", "text/plain", "INV/002\n"),
        (&one, "/id/receipt", "doc-1", "*/*", r#"{"id":"1"}"#),
        (&two, "/id/receipt?format=number", "doc-1", "*/*", r#"{"id":1}"#),
        (&two, "/id/receipt?encoding=base32", "doc-1", "text/plain", "1\n"),
        (&one, "/id/receipt?padded=true", "doc-1", "*/*", r#"{"id":"0000000000000000001"}"#),
    ] {
        let headers = [("idempotency-key", key), ("accept", accept)];
        let answer = node.call("POST", uri, &headers).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, body), "{uri} {key}");
    }
    assert_eq!(one.call("POST", "/id/invoice", &[]).await.body, r#"{"id":"INV/003"}"#);
    assert_eq!(two.call("POST", "/id/receipt", &[]).await.body, r#"{"id":"2"}"#);
}

#[tokio::test]
async fn idempotency_key_that_would_not_hold_is_refused() {
    let world = world(&memory()).await;
    let long = "k".repeat(256);
    for (method, uri, key, said) in [
        ("POST", "/id/plain", "a", "code \"plain\" is not strict"),
        ("GET", "/id/plain", "a", "code \"plain\" is not strict"),
        ("POST", "/id/order", "a", "code \"order\" is not strict"),
        ("POST", "/ids/receipt?n=2", "a", "not possible with /ids"),
        ("POST", "/ids/receipt", "a", "not possible with /ids"),
        ("POST", "/id/receipt", "", "must be 1 to 255 visible ASCII characters"),
        ("POST", "/id/receipt", "a b", "\"a b\" is no idempotency key"),
        ("POST", "/id/receipt", &long, "must be 1 to 255 visible ASCII characters"),
        ("POST", "/id/receipt", "\"a", "must end with a quotation mark"),
    ] {
        let answer = world.call(method, uri, &[("idempotency-key", key)]).await;
        let detail = answer.problem(400, "invalid_parameter");
        assert!(detail.starts_with("Idempotency-Key: ") && detail.contains(said), "{detail}");
    }
    assert_eq!(world.call("POST", "/id/receipt", &[]).await.body, r#"{"id":"1"}"#);
}

#[tokio::test]
async fn log_tells_the_idempotency_key_of_a_claim() {
    let (log, _guard) = Log::start();
    let world = world(&memory()).await;
    for _ in 0..2 {
        world.call("POST", "/id/invoice", &[("idempotency-key", "doc-1")]).await;
    }
    let line = |repeated| {
        json!({
            "level": "INFO",
            "message": "strict claim",
            "namespace": "numbers",
            "code": "invoice",
            "first": "INV/001",
            "last": "INV/001",
            "count": 1,
            "key": "doc-1",
            "repeated": repeated,
            "delivered": true,
        })
    };
    assert_eq!(log.lines("strict claim"), [line(false), line(true)]);
}
