//! Responses that clients do not read, or read slowly.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    frames::{HEADERS, NO_WINDOW, PREFACE, frame, get},
    serving::Served,
    support::PATIENCE,
};

const UNSENT: &str = "raindrop_http_unsent_bytes";
/// Of a batch that is sent in pieces: one that waits, and the next.
const IN_PIECES: f64 = 32.0 * 1024.0;

fn request(code: &str) -> String {
    format!("GET /ids/{code}?n=10000&encoding=friendly HTTP/1.1\r\nhost: x\r\n\r\n")
}

#[tokio::test]
async fn large_batch_arrives_complete_in_every_format() {
    let settings =
        [("layout.preset", "js-safe"), ("issue.max_wait", "4s"), ("http.max_batch", "50000")];
    let served = Served::start(&settings).await;
    for query in ["", "&format=number", "&encoding=friendly", "&encoding=base62", "&padded=true"] {
        // The smaller one is sent at once, but for the longest texts; the larger one in pieces.
        for (count, is_whole) in [(10_000, query != "&encoding=friendly"), (50_000, false)] {
            let answer = served.get(&format!("/ids/order?n={count}{query}")).await;
            assert_eq!(answer.headers()["content-type"], "application/json");
            let is_known = is_whole || ["", "&format=number"].contains(&query);
            let headers = answer.headers();
            assert_eq!(headers.contains_key("content-length"), is_known, "{query} {count}");
            let answer: Value = answer.json().await.expect("JSON");
            let ids = answer["ids"].as_array().expect("ids");
            assert_eq!(ids.len(), count, "{query}");
            let texts: std::collections::HashSet<String> =
                ids.iter().map(Value::to_string).collect();
            assert_eq!(texts.len(), count, "{query}");
        }
    }
    let lines = reqwest::Client::new().get(format!("http://{}/ids/order?n=9999", served.address));
    let lines = lines.header("accept", "text/plain").send().await.expect("an answer");
    let lines = lines.text().await.expect("text");
    assert_eq!(lines.lines().filter(|line| line.parse::<u64>().is_ok()).count(), 9_999);
    let ranges: Value =
        served.get("/ids/order?n=10000&format=range").await.json().await.expect("JSON");
    let ranges = ranges["ranges"].as_array().expect("ranges");
    assert_eq!(
        ranges
            .iter()
            .map(|it| it["count"].as_u64().expect("a count") * it["repeat"].as_u64().unwrap_or(1))
            .sum::<u64>(),
        10_000
    );
    assert_eq!(served.metric(UNSENT).await, 0.0);
    served.stop().await;
}

/// HTTP/1.0 has no chunks.
#[tokio::test]
async fn http10_response_without_length_closes_the_connection() {
    let settings = [("http.max_batch", "50000"), ("layout.worker_bits", "5")];
    let served = Served::start(&settings).await;
    for (query, closes) in [("n=10", false), ("n=50000", false), ("n=50000&encoding=hex", true)] {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        let head = format!("GET /ids/order?{query} HTTP/1.0\r\nconnection: keep-alive\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut answer = vec![0; 400];
        stream.read_exact(&mut answer[..200]).await.expect("answered");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, _) = answer.split_once("\r\n\r\n").expect("a head");
        assert_eq!(head.contains("connection: close"), closes, "{head}");
        assert_ne!(head.contains("content-length"), closes, "{head}");
    }
    served.stop().await;
}

#[tokio::test]
async fn clients_that_never_read_take_bounded_memory_and_block_no_others() {
    let settings = [("http.max_unsent", "1MiB")];
    let served = Served::start(&settings).await;
    let mut greedy = Vec::new();
    for number in 0..100 {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        let sent = stream.write_all(request(&format!("x{number}")).as_bytes()).await;
        sent.expect("sent");
        greedy.push(stream);
    }
    // The budget, but for its last part, which is the operators'.
    let most = 1024.0 * 1024.0 * 15.0 / 16.0;
    let refused = r#"raindrop_http_requests_total{method="GET",route="/ids/{code}",status="503"}"#;
    let full = async {
        while served.metric(refused).await < 1.0 {
            let unsent = served.metric(UNSENT).await;
            assert!(unsent <= most && unsent % IN_PIECES == 0.0, "{unsent}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, full).await.expect("the budget is used up");
    // One ID takes none of it.
    assert_eq!(served.get("/id/order").await.status(), 200);
    // The slowest readers are evicted for others.
    let url = format!("http://{}/ids/order?n=10000", served.address);
    let batch = async {
        loop {
            let answer = reqwest::get(&url).await.expect("an answer");
            if answer.status() == 200 {
                return answer.json::<Value>().await.expect("JSON");
            }
            assert_eq!(answer.headers()["retry-after"], "1");
            let problem: Value = answer.json().await.expect("JSON");
            assert_eq!(problem["code"], "overloaded");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let batch = tokio::time::timeout(PATIENCE, batch).await.expect("served in time");
    assert_eq!(batch["ids"].as_array().expect("ids").len(), 10_000);
    let evicted = r#"raindrop_http_connections_dropped_total{reason="unsent"}"#;
    assert!(served.metric(evicted).await >= 1.0);
    // The memory that the others reserved is free once their connections end.
    drop(greedy);
    let gone = async {
        while served.metric(UNSENT).await > 0.0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("given back");
    served.stop().await;
}

/// The heads of responses alone would fill memory: nothing else bounds what hyper collects.
#[tokio::test]
async fn pipelined_requests_of_a_client_that_never_reads_are_not_served() {
    let served = Served::start(&[]).await;
    let mut greedy = TcpStream::connect(served.address).await.expect("connected");
    let heads = "HEAD /id/order HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1_000);
    let mut sent = 0;
    // Send until the service reads no more for a while.
    let patience = Duration::from_secs(2);
    while sent < 1_000_000 {
        match tokio::time::timeout(patience, greedy.write_all(heads.as_bytes())).await {
            Ok(written) => written.expect("connected"),
            Err(_) => break,
        }
        sent += 1_000;
    }
    assert!(sent < 1_000_000, "requests are read while no response is");
    let answered = r#"raindrop_http_requests_total{method="HEAD",route="/id/{code}",status="200"}"#;
    let before = served.metric(answered).await;
    // As soon as it reads, it is served.
    let mut answers = vec![0; 64 * 1024];
    let read = async {
        while served.metric(answered).await <= before {
            let length = greedy.read(&mut answers).await.expect("answers");
            assert!(answers[..length].windows(8).any(|part| part == b"HTTP/1.1"));
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("served again");
    served.stop().await;
}

#[tokio::test]
async fn slow_reader_is_cut_off() {
    let served = Served::start(&[]).await;
    let mut slow = TcpStream::connect(served.address).await.expect("connected");
    slow.write_all(request("order").as_bytes()).await.expect("sent");
    slow.readable().await.expect("answered");
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    // Less than the lowest rate, but never nothing for long.
    let mut read = 0;
    loop {
        let mut some = [0; 1_000];
        match slow.read(&mut some).await {
            Ok(1..) => read += 1_000,
            _ => break,
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(30), "{took:?}");
    assert!(read < 200_000, "{read} bytes in {took:?}");
    tokio::time::resume();
    let stalled = r#"raindrop_http_connections_dropped_total{reason="stalled"}"#;
    assert_eq!(served.metric(stalled).await, 1.0);
    served.stop().await;
}

#[tokio::test]
async fn unread_documents_count_against_the_memory_limit() {
    tokio::time::timeout(PATIENCE, unread_documents()).await.expect("counted, and then not");
}

async fn unread_documents() {
    let served = Served::start(&[("http.max_unsent", "1MiB")]).await;
    let asked = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(16);
    let mut greedy = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        stream.write_all(asked.as_bytes()).await.expect("sent");
        greedy.push(stream);
    }
    while served.metric(UNSENT).await < 100_000.0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(served.metric(UNSENT).await <= 1024.0 * 1024.0);
    assert_eq!(served.get("/id/order").await.status(), 200);
    drop(greedy);
    while served.metric(UNSENT).await > 0.0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    served.stop().await;
}

/// What operators are sent counts as well, on their listener too.
#[tokio::test]
async fn operators_that_never_read_take_bounded_memory() {
    let settings = [("http.admin_listen", "127.0.0.1:0"), ("http.max_unsent", "1MiB")];
    let served = Served::start(&settings).await;
    let admin = served.admin.expect("a listener for operators");
    let mut greedy = TcpStream::connect(admin).await.expect("connected");
    let many: Vec<u8> = (0..100_u8).flat_map(|number| get(2 * number + 1, "/metrics")).collect();
    greedy.write_all(&[PREFACE, NO_WINDOW, &many].concat()).await.expect("sent");
    let mut statuses = Vec::new();
    for _ in 0..100 {
        statuses.push(frame(&mut greedy, HEADERS).await[0]);
    }
    // `:status 200` of the static table, and one that is not there.
    assert_eq!(statuses[0], 0x88);
    assert_ne!(*statuses.last().expect("answers"), 0x88);
    // Clients get no large answer either, but IDs.
    let ids = served.get("/ids/order?n=10000").await;
    assert_eq!(ids.status(), 503);
    assert_eq!(served.get("/id/order").await.status(), 200);
    drop(greedy);
    let given_back = async {
        while served.get("/ids/order?n=10000").await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, given_back).await.expect("given back");
    served.stop().await;
}
