//! Connections: bounds, and what a client sees on the wire.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    serving::{Served, pause_when_accepted},
    support::token_entry,
};

const ALIVE: &str = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
const ID: &str = "GET /id/order HTTP/1.1\r\nhost: x\r\n\r\n";

/// Whether the service ends it, in one way or the other; waits for that.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
    read.is_ok()
}

async fn exchange(stream: &mut TcpStream, request: &str) -> String {
    let mut answer = vec![0; 4096];
    let exchanged = async {
        stream.write_all(request.as_bytes()).await?;
        stream.read(&mut answer).await
    };
    // Nothing, if the connection is reset.
    let length = exchanged.await.unwrap_or(0);
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// Connects a new client, and waits for its response: it got a place.
async fn newcomer(served: &Served) -> TcpStream {
    newcomer_asking(served, ID).await
}

async fn newcomer_asking(served: &Served, request: &str) -> TcpStream {
    let serve = async {
        loop {
            let mut new = TcpStream::connect(served.address).await.expect("queued");
            // Refused when no place is free for too long, or cut off for another newcomer.
            if exchange(&mut new, request).await.starts_with("HTTP/1.1 200") {
                return new;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), serve).await.expect("a place")
}

#[tokio::test]
async fn head_response_has_no_length_and_keeps_the_connection() {
    let served = Served::start(&[]).await;
    let mut stream = TcpStream::connect(served.address).await.expect("connected");
    let head = exchange(&mut stream, "HEAD /id/order HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(!head.to_lowercase().contains("content-length: 0"), "{head}");
    let get = exchange(&mut stream, "GET /id/order HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(get.starts_with("HTTP/1.1 200") && get.contains(r#"{"id":""#), "{get}");
    served.stop().await;
}

#[tokio::test]
async fn new_client_evicts_one_that_sends_no_request() {
    let settings = [("http.max_connections", "4"), ("http.request_timeout", "10m")];
    let served = Served::start(&settings).await;
    let mut silent = TcpStream::connect(served.address).await.expect("connected");
    let mut half = TcpStream::connect(served.address).await.expect("connected");
    half.write_all(b"GET /id/order HTT").await.expect("sent");
    let mut body = TcpStream::connect(served.address).await.expect("connected");
    let head = "POST /id/order HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n";
    body.write_all(head.as_bytes()).await.expect("sent");
    let mut regular = TcpStream::connect(served.address).await.expect("connected");
    assert!(exchange(&mut regular, ID).await.starts_with("HTTP/1.1 200"));
    let mut others = Vec::new();
    for slow in [&mut silent, &mut half, &mut body] {
        let new = newcomer(&served).await;
        assert!(is_closed(slow).await);
        // It keeps its place, so that the next one needs another.
        others.push(new);
    }
    // Who asked a moment ago keeps its place.
    assert!(exchange(&mut regular, ID).await.starts_with("HTTP/1.1 200"));
    served.stop().await;
}

/// A request with that token.
const KNOWN_ID: &str = "GET /id/order HTTP/1.1\r\nhost: x\r\nauthorization: Bearer known\r\n\r\n";

/// A service with one token, `known`.
async fn with_a_token(max_connections: &str) -> (Served, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    std::fs::write(&path, token_entry("a", "known")).expect("written");
    let file = path.to_str().expect("UTF-8");
    let settings = [("http.max_connections", max_connections), ("auth.tokens_file", file)];
    (Served::start(&settings).await, folder)
}

#[tokio::test]
async fn unauthenticated_client_is_evicted_whatever_it_requests() {
    let too_long = format!("GET /id/order?{}", "x".repeat(5_000));
    let asked = [
        ("GET /id/order", "401"),
        ("GET /livez", "200"),
        ("OPTIONS /id/order", "401"),
        (too_long.as_str(), "414"),
        ("GET /nowhere", "401"),
    ];
    for (asks, status) in asked {
        let (served, _folder) = with_a_token("1").await;
        let mut stranger = TcpStream::connect(served.address).await.expect("connected");
        let (request, status) =
            (format!("{asks} HTTP/1.1\r\nhost: x\r\n\r\n"), format!("HTTP/1.1 {status}"));
        assert!(exchange(&mut stranger, &request).await.starts_with(&status), "{asks:.20}");
        let asking = tokio::spawn(async move {
            let mut answer = vec![0; 4096];
            // Until it is cut off.
            while stranger.write_all(request.as_bytes()).await.is_ok() {
                match stranger.read(&mut answer).await {
                    Ok(1..) => assert!(answer.starts_with(status.as_bytes())),
                    _ => break,
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        let _new = newcomer_asking(&served, KNOWN_ID).await;
        asking.await.expect("refused until it was cut off");
        served.stop().await;
    }
}

#[tokio::test]
async fn authenticated_client_is_not_evicted() {
    for asks in ["GET /id/order", "GET /bounds"] {
        let (served, _folder) = with_a_token("2").await;
        let known = format!("{asks} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer known\r\n\r\n");
        let mut regular = TcpStream::connect(served.address).await.expect("connected");
        assert!(!exchange(&mut regular, &known).await.starts_with("HTTP/1.1 401"));
        let mut stranger = TcpStream::connect(served.address).await.expect("connected");
        assert!(exchange(&mut stranger, ALIVE).await.starts_with("HTTP/1.1 200"));
        let _new = newcomer_asking(&served, KNOWN_ID).await;
        // The younger one gave way.
        assert!(is_closed(&mut stranger).await);
        assert!(exchange(&mut regular, &known).await.starts_with("HTTP/1.1 "), "{asks}");
        served.stop().await;
    }
}

#[tokio::test]
async fn new_client_evicts_an_idle_one_if_all_are_authenticated() {
    let served = Served::start(&[("http.max_connections", "1")]).await;
    let mut idle = TcpStream::connect(served.address).await.expect("connected");
    assert!(exchange(&mut idle, ID).await.starts_with("HTTP/1.1 200"));
    let mut new = TcpStream::connect(served.address).await.expect("connected");
    assert!(exchange(&mut new, ID).await.starts_with("HTTP/1.1 200"));
    assert!(is_closed(&mut idle).await);
    served.stop().await;
}

/// Ten times as many would change nothing: probes have places of their own.
#[tokio::test]
async fn probes_are_answered_when_connections_are_full_and_evict_no_client() {
    let served = Served::start(&[("http.max_connections", "2")]).await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        clients.push(newcomer(&served).await);
    }
    let mut probes = Vec::new();
    for path in ["/livez", "/readyz", "/metrics"] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        // Clients that ask all the time keep their places.
        for client in &mut clients {
            assert!(exchange(client, ID).await.starts_with("HTTP/1.1 200"));
        }
        probes.push(newcomer_asking(&served, &request).await);
    }
    // Sixteen spare places are for probes alone.
    let mut waiting = Vec::new();
    for _ in 0..60 {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        stream.write_all(ID.as_bytes()).await.expect("sent");
        waiting.push(stream);
    }
    let mut refused = TcpStream::connect(served.address).await.expect("connected");
    let asking = exchange(&mut refused, ID);
    let busy = async {
        loop {
            for client in &mut clients {
                assert!(exchange(client, ID).await.starts_with("HTTP/1.1 200"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let answer = tokio::select! {
        answer = asking => answer,
        () = busy => unreachable!("it never ends"),
    };
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("overloaded"), "{answer}");
    assert!(answer.contains("connection: close") && answer.contains("retry-after: 1"), "{answer}");
    assert!(is_closed(&mut refused).await);
    served.stop().await;
}

#[tokio::test]
async fn connections_above_the_limit_of_an_address_are_closed() {
    let proxy = ("http.trusted_proxies", "10.0.0.0/8,127.0.0.1");
    for (proxies, is_limited) in [(("http.trusted_proxies", "10.0.0.0/8"), true), (proxy, false)] {
        let served = Served::start(&[("http.max_connections_per_ip", "2"), proxies]).await;
        let mut kept = Vec::new();
        for _ in 0..2 {
            kept.push(newcomer(&served).await);
        }
        let mut third = TcpStream::connect(served.address).await.expect("connected");
        if !is_limited {
            assert!(exchange(&mut third, ID).await.starts_with("HTTP/1.1 200"));
        } else {
            assert!(is_closed(&mut third).await);
            kept.pop();
            let _other = newcomer(&served).await;
            assert!(exchange(&mut kept[0], ID).await.starts_with("HTTP/1.1 200"));
        }
        drop(kept);
        served.stop().await;
    }
}

/// Clients evict connections that only probe, even if those probe all the time.
#[tokio::test]
async fn new_client_evicts_one_that_only_probes() {
    let served = Served::start(&[("http.max_connections", "4")]).await;
    let mut probes = Vec::new();
    for _ in 0..4 {
        probes.push(newcomer_asking(&served, ALIVE).await);
    }
    let probing: Vec<_> = probes
        .into_iter()
        .map(|mut probe| {
            tokio::spawn(async move {
                let mut answer = vec![0; 4096];
                while probe.write_all(ALIVE.as_bytes()).await.is_ok()
                    && probe.read(&mut answer).await.is_ok_and(|length| length > 0)
                {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            })
        })
        .collect();
    for _ in 0..3 {
        let _client = newcomer(&served).await;
    }
    probing.into_iter().for_each(|probe| probe.abort());
    served.stop().await;
}

#[tokio::test]
async fn client_that_reads_no_response_is_cut_off() {
    let served = Served::start(&[]).await;
    let mut greedy = TcpStream::connect(served.address).await.expect("connected");
    let request = "GET /ids/order?n=10000 HTTP/1.1\r\nhost: x\r\n\r\n";
    tokio::time::pause();
    // Asks without end and reads nothing; more than any buffer holds.
    while greedy.write_all(request.repeat(100).as_bytes()).await.is_ok() {}
    tokio::time::resume();
    let metrics = served.get("/metrics").await.text().await.expect("text");
    let cut_off = "raindrop_http_connections_dropped_total{reason=\"stalled\"} 1";
    assert!(metrics.contains(cut_off), "{metrics}");
    served.stop().await;
}

#[tokio::test]
async fn body_is_415_or_413_and_a_large_one_ends_the_connection() {
    let served = Served::start(&[]).await;
    for (length, status) in
        [(0, 200), (2, 415), (16 * 1024, 415), (64 * 1024, 415), (64 * 1024 + 1, 413)]
    {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        let head =
            format!("POST /id/order HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        // No more than it reads, so that none is left when it closes.
        let sent = if status == 413 { 0 } else { length.min(16 * 1024 + 1) };
        let answer = exchange(&mut stream, &(head + &"x".repeat(sent))).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{length} bytes: {answer}");
        let closes = answer.contains("connection: close");
        assert_eq!(closes, length > 16 * 1024, "{length} bytes: {answer}");
        assert_eq!(answer.contains("unsupported_media_type"), status == 415, "{answer}");
        if closes {
            assert!(is_closed(&mut stream).await);
        } else {
            assert!(exchange(&mut stream, ALIVE).await.starts_with("HTTP/1.1 200"));
        }
    }
    let metrics = served.get("/metrics").await.text().await.expect("text");
    assert!(metrics.contains("raindrop_ids_issued_total{id_namespace=\"default\"} 1"), "{metrics}");
    served.stop().await;
}

/// A request that waits for its body does not count as a claim in flight.
#[tokio::test]
async fn slow_bodies_do_not_delay_other_requests() {
    let served = Served::start(&[("http.max_in_flight", "1")]).await;
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        let head = "POST /id/order HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("sent");
        slow.push(stream);
    }
    assert_eq!(served.get("/livez").await.status(), 200);
    assert_eq!(served.get("/id/order").await.status(), 200);
    served.stop().await;
}

#[tokio::test]
async fn unread_body_is_discarded_and_the_connection_reused() {
    let (served, _folder) = with_a_token("10").await;
    let mut client = TcpStream::connect(served.address).await.expect("connected");
    for (method, path, status) in [
        ("PUT", "/codes/a", "401"),
        ("POST", "/nowhere", "401"),
        ("PUT", "/livez", "405"),
        ("GET", "/livez", "200"),
    ] {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 3000\r\n\r\n");
        // The body comes later than the head.
        client.write_all(head.as_bytes()).await.expect("sent");
        tokio::time::sleep(Duration::from_millis(20)).await;
        let answer = exchange(&mut client, &"x".repeat(3_000)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}: {answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
    let head = "PUT /codes/a HTTP/1.1\r\nhost: x\r\ncontent-length: 30000\r\n\r\n";
    let answer = exchange(&mut client, &(head.to_owned() + &"x".repeat(20_000))).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    served.stop().await;
}

#[tokio::test]
async fn chunked_body_is_measured_while_it_arrives() {
    let pairs = [("http.admin_listen", "127.0.0.1:0"), ("http.admin_changes", "true")];
    let served = Served::start(&pairs).await;
    let chunked = "HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("8001\r\n{}\r\n", " ".repeat(0x8001));
    let mut small = TcpStream::connect(served.address).await.expect("connected");
    for _ in 0..2 {
        let request = format!("POST /id/order {chunked}2\r\n{{}}\r\n0\r\n\r\n");
        let answer = exchange(&mut small, &request).await;
        assert!(answer.starts_with("HTTP/1.1 415") && answer.contains("POST /ids"), "{answer}");
    }
    let mut large = TcpStream::connect(served.address).await.expect("connected");
    let answer = exchange(&mut large, &format!("POST /id/order {chunked}{chunk}")).await;
    assert!(answer.starts_with("HTTP/1.1 415") && answer.contains("connection: close"), "{answer}");
    assert!(is_closed(&mut large).await);
    // Where one is read.
    let admin = served.admin.expect("a listener for operators");
    let mut large = TcpStream::connect(admin).await.expect("connected");
    let request = format!(
        "POST /cluster/release HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
                           application/json\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}"
    );
    let answer = exchange(&mut large, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains(r#""code":"payload_too_large""#), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    assert!(is_closed(&mut large).await);
    served.stop().await;
}

#[tokio::test]
async fn invalid_content_length_is_refused_and_ends_the_connection() {
    let served = Served::start(&[]).await;
    for (length, status) in [
        ("65537", 413),
        ("18446744073709551613", 413),
        // hyper refuses these before the service sees them.
        ("18446744073709551614", 431),
        ("18446744073709551615", 431),
        ("18446744073709551616", 400),
        ("-1", 400),
    ] {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        let head =
            format!("POST /id/order HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        let answer = exchange(&mut stream, &head).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{length}: {answer}");
        assert!(is_closed(&mut stream).await);
    }
    served.stop().await;
}

#[tokio::test]
async fn too_large_head_is_431() {
    let served = Served::start(&[]).await;
    let long = format!("GET /id/order HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "x".repeat(17_000));
    let many = format!("GET /id/order HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(100));
    for request in [long, many] {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        let answer = exchange(&mut stream, &request).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
        assert!(is_closed(&mut stream).await);
    }
    served.stop().await;
}

#[tokio::test]
async fn client_that_sends_no_complete_head_in_time_is_cut_off() {
    let served = Served::start(&[("http.idle_timeout", "20s")]).await;
    let whole = "GET /id/order HTTP/1.1\r\nhost: x\r\n\r\n";
    for sent in ["", "G", "GET /id/order HTT", whole] {
        let began = tokio::time::Instant::now();
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        stream.write_all(sent.as_bytes()).await.expect("sent");
        pause_when_accepted().await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("closed");
        tokio::time::resume();
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), usize::from(sent == whole));
        let seconds = Duration::from_secs(20)..Duration::from_secs(40);
        assert!(seconds.contains(&began.elapsed()), "{sent:?}: {:?}", began.elapsed());
    }
    served.stop().await;
}
