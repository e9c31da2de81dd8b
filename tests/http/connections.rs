//! Requests over real connections.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use raindrop::{core::clock::SystemClock, server::serve};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::support::{Answer, BrokenClock, World};

/// A world that connections reach.
pub(crate) struct Reached {
    pub(crate) world: World,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Reached {
    pub(crate) async fn start(world: World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopping) = watch::channel(false);
        let serving = tokio::spawn(serve(listener, Arc::clone(&world.state), stopping));
        Self { world, address, stop, serving }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connected")
    }

    /// Sends a request over a new connection.
    pub(crate) async fn call(&self, method: &str, uri: &str, headers: &[(&str, &str)]) -> Answer {
        let method = method.parse().expect("a method");
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let mut request = client.request(method, format!("http://{}{uri}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, body: response.text().await.expect("UTF-8") }
    }

    /// Sends these bytes, of which the last request asks to close, and reads every answer.
    pub(crate) async fn exchange(&self, requests: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(requests.as_bytes()).await.expect("sent");
        let mut answers = String::new();
        stream.read_to_string(&mut answers).await.expect("read to the end");
        answers
    }

    /// Waits until a metric has this value.
    async fn until(&self, metric: &str, value: f64) {
        for _ in 0..6_000 {
            if self.world.metric(metric).await == Some(value) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{metric} is {:?}, never {value}", self.world.metric(metric).await);
    }

    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        self.serving.await.expect("no panic");
    }
}

/// A response without what differs in every response: IDs, and what hyper adds.
fn comparable(answer: &Answer) -> (u16, BTreeMap<String, String>) {
    let differ = ["date", "content-length", "connection"];
    let headers = answer.headers.iter().filter(|(name, _)| !differ.contains(&name.as_str()));
    let headers = headers.map(|(name, value)| (name.to_string(), format!("{value:?}"))).collect();
    (answer.status.as_u16(), headers)
}

#[tokio::test]
async fn router_and_connection_give_the_same_response() {
    let reached = Reached::start(World::start(&[]).await).await;
    let origin: &[_] = &[("origin", "https://app.example")];
    let preflight: &[_] =
        &[("origin", "https://app.example"), ("access-control-request-method", "POST")];
    for uri in
        ["/id/order", "/id/%6Frder", "/ids/order?n=3", "/id/.a", "/id/%FF", "/id/a/b", "/id/"]
    {
        for method in ["GET", "POST", "HEAD", "OPTIONS", "PUT"] {
            for headers in [&[][..], origin, preflight] {
                let routed = reached.world.call(method, uri, headers).await;
                let connected = reached.call(method, uri, headers).await;
                let request = format!("{method} {uri} {headers:?}");
                assert_eq!(comparable(&connected), comparable(&routed), "{request}");
            }
        }
    }
    reached.until("raindrop_http_requests_in_flight", 1.0).await;
    reached.stop().await;
}

#[tokio::test]
async fn ids_get_cors_headers_only_for_browsers() {
    for (origins, allowed, vary) in
        [("*", "*", None), ("https://app.example", "https://app.example", Some("origin"))]
    {
        let reached = Reached::start(World::start(&[("http.cors_origins", origins)]).await).await;
        for uri in ["/id/order", "/id/%6Frder", "/ids/order?n=2", "/id/.a"] {
            let answer = reached.call("GET", uri, &[]).await;
            for header in ["access-control-allow-origin", "access-control-expose-headers", "vary"] {
                assert_eq!(answer.header(header), None, "{uri}");
            }
            let answer = reached.call("GET", uri, &[("origin", "https://app.example")]).await;
            assert_eq!(answer.header("access-control-allow-origin"), Some(allowed), "{uri}");
            let exposed = answer.header("access-control-expose-headers");
            assert_eq!(exposed, Some("retry-after,x-request-id"));
            assert_eq!(answer.header("vary"), vary, "{uri}");
        }
        // Caches may keep these, and then for browsers too.
        assert_eq!(reached.call("GET", "/parse/1", &[]).await.header("vary"), vary);
        reached.stop().await;
    }
}

#[tokio::test]
async fn a_panic_does_not_end_the_connection() {
    let world = World::start_with(&[], Arc::new(BrokenClock)).await;
    world.issuer.leased().await;
    let reached = Reached::start(world).await;
    let answers = reached
        .exchange(
            "GET /id/order?format=number HTTP/1.1\r\nhost: x\r\n\r\n\
             GET /id/order HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        )
        .await;
    let (first, second) = answers.rsplit_once("HTTP/1.1 ").expect("two answers");
    assert!(first.starts_with("HTTP/1.1 500") && first.contains(r#""code":"internal""#), "{first}");
    assert!(!first.contains("as this test wants it"), "{first}");
    assert!(second.starts_with("200"), "{second}");
    let counted = r#"raindrop_http_requests_total{method="GET",route="/id/{code}",status="500"}"#;
    assert_eq!(reached.world.metric(counted).await, Some(1.0));
    reached.until("raindrop_http_requests_in_flight", 1.0).await;
    reached.stop().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let reached = Reached::start(World::start(&[]).await).await;
    let mut requests = String::new();
    for n in 1..=60 {
        let code = if n % 3 == 0 { "%6Frder" } else { "order" };
        let close = if n == 60 { "connection: close\r\n" } else { "" };
        requests += &format!("GET /ids/{code}?n={n} HTTP/1.1\r\nhost: x\r\n{close}\r\n");
    }
    let answers = reached.exchange(&requests).await;
    let bodies = answers.split("HTTP/1.1 200 OK\r\n").skip(1);
    let bodies = bodies.map(|answer| answer.split_once("\r\n\r\n").expect("a head").1);
    let ids: Vec<Vec<u64>> = bodies
        .map(|body| {
            let json: serde_json::Value = serde_json::from_str(body).expect("JSON");
            let ids = json["ids"].as_array().expect("IDs").iter();
            ids.map(|id| id.as_str().expect("a text").parse().expect("an ID")).collect()
        })
        .collect();
    assert_eq!(ids.iter().map(Vec::len).collect::<Vec<_>>(), (1..=60).collect::<Vec<_>>());
    assert!(ids.concat().is_sorted_by(|earlier, later| earlier < later));
    reached.stop().await;
}

/// 8 IDs in a second, and requests that wait much longer than this test.
const SLOW: [(&str, &str); 6] = [
    ("layout.time_unit", "second"),
    ("layout.timestamp_bits", "50"),
    ("issue.sequence_spread_bits", "0"),
    ("issue.max_wait", "100s"),
    ("http.request_timeout", "300s"),
    ("http.max_in_flight", "1"),
];

#[tokio::test]
async fn disconnected_client_is_no_longer_in_flight() {
    let reached = Reached::start(World::start(&SLOW).await).await;
    let mut waiting = reached.connect().await;
    let request = "GET /ids/order?n=720 HTTP/1.1\r\nhost: x\r\n\r\n";
    waiting.write_all(request.as_bytes()).await.expect("sent");
    // Itself, and the request that asks.
    reached.until("raindrop_http_requests_in_flight", 2.0).await;
    for uri in ["/id/other", "/id/%6Fther"] {
        reached.call("GET", uri, &[]).await.problem(503, "overloaded");
        reached.world.get(uri).await.problem(503, "overloaded");
    }
    assert_eq!(reached.call("GET", "/livez", &[]).await.status, 200);
    drop(waiting);
    reached.until("raindrop_http_requests_in_flight", 1.0).await;
    assert_eq!(reached.call("GET", "/id/other", &[]).await.status, 200);
    assert_eq!(reached.world.ids_issued().await, 1.0);
    reached.stop().await;
}

#[tokio::test]
async fn response_does_not_wait_for_the_next_pipelined_request() {
    let reached = Reached::start(World::start(&SLOW).await).await;
    let mut client = reached.connect().await;
    let request = |uri| format!("GET {uri} HTTP/1.1\r\nhost: x\r\n\r\n");
    // More than are read in one turn, and then one that waits.
    let mut requests = request("/parse/1").repeat(40);
    requests += &request("/ids/order?n=720");
    client.write_all(requests.as_bytes()).await.expect("sent");
    let (mut received, mut part) = (String::new(), [0; 4096]);
    while received.matches("\"worker_id\"").count() < 40 {
        let length = client.read(&mut part).await.expect("received");
        assert!(length > 0, "closed after {received}");
        received.push_str(std::str::from_utf8(&part[..length]).expect("UTF-8"));
    }
    assert_eq!(received.matches("HTTP/1.1 200 OK").count(), 40, "{received}");
    reached.until("raindrop_http_requests_in_flight", 2.0).await;
    drop(client);
    reached.stop().await;
}

#[tokio::test]
async fn request_that_waits_too_long_is_408() {
    let mut config = crate::support::config(&SLOW);
    config.http.request_timeout = Duration::from_millis(50);
    let clock = Arc::new(SystemClock::default());
    let store = Arc::new(raindrop::store::MemoryStore::new(clock.clone()));
    let world = World::with_config(config, store, clock);
    world.issuer.leased().await;
    let reached = Reached::start(world).await;
    reached.call("GET", "/ids/order?n=720", &[]).await.problem(408, "request_timeout");
    reached.until("raindrop_http_requests_in_flight", 1.0).await;
    let counted = r#"raindrop_http_requests_total{method="GET",route="/ids/{code}",status="408"}"#;
    assert_eq!(reached.world.metric(counted).await, Some(1.0));
    reached.stop().await;
}
