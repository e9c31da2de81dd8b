//! The lines of `log.requests`, and the request ids in them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{body::Body, extract::ConnectInfo, http::Request};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{
    support::{BrokenClock, Log, World, token_entry},
    tokens::with_tokens,
};

/// Returns the lines of requests, without timestamp and duration, which differ each time.
fn requests(log: &Log) -> Vec<Value> {
    let mut lines = log.lines("request");
    for line in &mut lines {
        let fields = line.as_object_mut().expect("an object");
        assert!(fields.remove("duration_ms").expect("each line has one").is_f64());
    }
    lines
}

#[tokio::test]
async fn line_has_every_field_that_is_known() {
    let (log, _guard) = Log::start();
    let world =
        World::start(&[("log.requests", "all"), ("http.trusted_proxies", "10.0.0.0/8")]).await;
    let request = Request::get("/ids/order?n=3&format=range")
        .header("host", "ids.example.com")
        .header("x-request-id", "0af7651916cd43dd/1")
        .header("x-forwarded-for", "2001:db8::17")
        .extension(ConnectInfo(SocketAddr::from(([10, 0, 0, 1], 4000))))
        .body(Body::empty())
        .expect("a request");
    let response = world.router.clone().oneshot(request).await.expect("an answer");
    assert_eq!(response.headers()["x-request-id"], "0af7651916cd43dd/1");
    let answer = world.call("POST", "/id/order?token=secret", &[("x-request-id", "a b")]).await;
    answer.problem(400, "invalid_parameter");
    let made = answer.header("x-request-id").expect("one is made");
    assert!(made.len() == 32 && made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{made}");
    assert_eq!(
        requests(&log),
        [
            json!({
                "level": "INFO",
                "message": "request",
                "http.request.method": "GET",
                "http.route": "/ids/{code}",
                "http.response.status_code": 200,
                "url.query": "n=3&format=range",
                "client.address": "2001:db8::17",
                "request_id": "0af7651916cd43dd/1",
                "code": "order",
                "count": 3,
            }),
            json!({
                "level": "INFO",
                "message": "request",
                "http.request.method": "POST",
                "http.route": "/id/{code}",
                "http.response.status_code": 400,
                "url.query": "***",
                "error.type": "invalid_parameter",
                "request_id": made,
                "code": "order",
            }),
        ]
    );
}

#[tokio::test]
async fn line_names_the_token_but_does_not_show_it() {
    let (log, _guard) = Log::start();
    let text = token_entry("billing", "rd_secret");
    let (world, _folder) = with_tokens(&text, "log.requests = 'all'\n").await;
    let before = requests(&log).len();
    world.call("GET", "/id/order", &[("authorization", "Bearer rd_secret")]).await;
    world.call("GET", "/id/order", &[("authorization", "Bearer rd_wrong")]).await;
    let lines = &requests(&log)[before..];
    assert_eq!((&lines[0]["token"], &lines[0]["count"]), (&json!("billing"), &json!(1)));
    assert_eq!(
        (&lines[1]["token"], &lines[1]["error.type"]),
        (&Value::Null, &json!("unauthorized"))
    );
    assert!(!format!("{lines:?}").contains("rd_"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn error_gets_one_line_a_second_with_the_number_of_those_left_out() {
    let world = World::start_with(&[], Arc::new(BrokenClock)).await;
    world.issuer.leased().await;
    let (log, _guard) = Log::start();
    let fail = async || {
        let answer = world.get("/id/order?format=number").await;
        answer.problem(500, "internal");
        answer.header("x-request-id").is_some()
    };
    assert!(fail().await, "a response with a line names its request");
    for _ in 0..4 {
        assert!(!fail().await);
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(fail().await);
    assert_eq!(world.get("/parse/x").await.status, 400);
    let lines = requests(&log);
    let left_out: Vec<_> = lines.iter().map(|line| line["left_out"].as_u64()).collect();
    assert_eq!(left_out, [None, Some(4)], "{lines:?}");
    assert!(lines.iter().all(|line| line["level"] == "WARN" && line["error.type"] == "internal"));
}

#[tokio::test]
async fn log_that_is_off_has_no_line_and_names_no_request() {
    let (log, _guard) = Log::start();
    let clock = Arc::new(BrokenClock);
    let world = World::start_with(&[("log.requests", "off")], clock).await;
    let answer = world.call("GET", "/id/order?format=number", &[("x-request-id", "a")]).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-request-id")), (500, None));
    assert_eq!(requests(&log), [] as [Value; 0]);
}
