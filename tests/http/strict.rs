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
