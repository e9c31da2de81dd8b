//! Claims take a short way past the router: over a connection everything is as it is through the
//! router, whichever way it goes.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

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

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connected")
    }

    /// Calls over a connection of its own.
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

/// Method, address and headers.
type Asked = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

fn asked() -> Vec<Asked> {
    static TOO_LONG: OnceLock<[String; 3]> = OnceLock::new();
    let [code, query, in_bounds] = TOO_LONG.get_or_init(|| {
        let long = |head: &str, length: usize| format!("{head}{}", "a".repeat(length));
        [long("/id/", 65), long("/id/order?format=", 5_000), long("/ids/", 64)]
    });
    let text: &[_] = &[("accept", "text/plain")];
    let origin: &[_] = &[("origin", "https://app.example")];
    let preflight: &[_] =
        &[("origin", "https://app.example"), ("access-control-request-method", "POST")];
    let mut asked: Vec<Asked> = Vec::new();
    for uri in [
        "/id/order",
        "/id/Order.v2:eu-west_1",
        "/id/%6Frder",
        "/id/order?",
        "/id/order?format=string",
        "/id/order?format=number",
        "/id/order?format=xml",
        "/id/order?encoding=hex",
        "/id/order?encoding=base32&padded=true",
        "/id/order?encoding=rot13",
        "/id/order?n=3",
        "/id/order?namespace=default",
        "/id/order?namespace=missing",
        "/id/order?namespace=d%65fault",
        "/id/order?at=today",
        "/id/.a",
        "/id/bad%20code",
        "/id/%FF",
        "/id/a%2Fb",
        "/id/a/b",
        "/id/",
        "/id",
        "/ids/",
        "/ids/order",
        "/ids/order?n=3",
        "/ids/order?n=10000",
        "/ids/order?n=10001",
        "/ids/order?n=%33",
        "/ids/order?n=+3",
        "/ids/order?n=3&n=4",
        "/ids/order?n=3&format=range",
        "/ids/order?n=3&format=range&encoding=hex",
        "/ids/order?&&n=2",
        code,
        query,
        in_bounds,
    ] {
        asked.extend([("GET", uri, &[][..]), ("POST", uri, &[]), ("HEAD", uri, &[])]);
    }
    for uri in ["/id/order", "/ids/order?n=2", "/id/.a", "/ids/order?n=2&format=range"] {
        asked.extend([("GET", uri, text), ("GET", uri, origin), ("POST", uri, origin)]);
        asked.extend([("OPTIONS", uri, &[][..]), ("OPTIONS", uri, preflight), ("PUT", uri, &[])]);
    }
    asked.push(("POST", "/id/order?at=2026-01-01T00:00:00Z", &[]));
    asked.push(("GET", "/id/order?at=2026-01-01T00:00:00Z", &[]));
    asked
}

/// An answer without what is another in every answer: IDs, and what hyper adds.
fn shape(answer: &Answer) -> (u16, BTreeMap<String, String>, String) {
    let mut headers = BTreeMap::new();
    for (name, value) in &answer.headers {
        if !["date", "content-length", "connection"].contains(&name.as_str()) {
            headers.insert(name.to_string(), format!("{value:?}"));
        }
    }
    let is_problem = answer.status.as_u16() >= 400;
    let mut body = String::new();
    for word in answer.body.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
        let is_id = !is_problem && word.len() > 12;
        body.push_str(if is_id { "ID" } else { word });
        if is_id {
            body.push_str(&word[word.len() - 1..]);
        }
    }
    (answer.status.as_u16(), headers, body)
}

/// What was counted of the routes that issue, and of IDs.
async fn counted(world: &World) -> BTreeMap<String, f64> {
    let text = world.get("/metrics").await.body;
    let of_issuing = text.lines().filter(|line| {
        line.starts_with("raindrop_ids_issued_total")
            || line.starts_with("raindrop_http_request_duration_seconds_count{route=\"/id")
            || (line.starts_with("raindrop_http_requests_total")
                && (line.contains("route=\"/id") || line.contains("<unmatched>")))
    });
    let value = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    of_issuing.map(value).collect()
}

fn rise(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let rise = |(name, value): (&String, &f64)| {
        (name.clone(), value - before.get(name).copied().unwrap_or_default())
    };
    after.iter().map(rise).filter(|(_, rise)| *rise > 0.0).collect()
}

#[tokio::test]
async fn both_ways_answer_and_count_the_same() {
    let reached = Reached::start(World::start(&[]).await).await;
    let world = &reached.world;
    for (method, uri, headers) in asked() {
        let told = format!("{method} {uri} {headers:?}");
        let before = counted(world).await;
        let routed = world.call(method, uri, headers).await;
        let between = counted(world).await;
        let connected = reached.call(method, uri, headers).await;
        let after = counted(world).await;
        assert_eq!(shape(&connected), shape(&routed), "{told}");
        let (routed, connected) = (rise(&before, &between), rise(&between, &after));
        assert_eq!(connected, routed, "{told}");
        assert!(!connected.is_empty(), "{told}");
    }
    reached.until("raindrop_http_requests_in_flight", 1.0).await;
    reached.stop().await;
}

#[tokio::test]
async fn only_browsers_hear_of_cors_in_answers_with_ids() {
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
            assert_eq!(answer.header("access-control-expose-headers"), Some("retry-after"));
            assert_eq!(answer.header("vary"), vary, "{uri}");
        }
        // Caches may keep these, and then for browsers too.
        assert_eq!(reached.call("GET", "/parse/1", &[]).await.header("vary"), vary);
        reached.stop().await;
    }
}

#[tokio::test]
async fn after_a_panic_the_connection_goes_on() {
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
async fn answers_to_a_pipeline_come_in_order() {
    let reached = Reached::start(World::start(&[]).await).await;
    let mut requests = String::new();
    // Every third on the long way.
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
async fn who_leaves_while_waiting_frees_the_place() {
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
    drop(waiting);
    reached.until("raindrop_http_requests_in_flight", 1.0).await;
    assert_eq!(reached.call("GET", "/id/other", &[]).await.status, 200);
    assert_eq!(reached.world.ids_issued().await, 1.0);
    reached.stop().await;
}

#[tokio::test]
async fn who_waits_too_long_hears_of_it() {
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
