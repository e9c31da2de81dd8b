//! HTTP/2: responses, limits and eviction of its connections, and the end of connections at a stop.

use std::{io::Write as _, time::Duration};

use reqwest::{Client, StatusCode, Version};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    frames::{END_STREAM, HEADERS, NO_WINDOW, PING, PREFACE, SETTINGS, frame, get, headers, large},
    serving::{Served, pause_when_accepted},
};

fn client() -> Client {
    Client::builder().http2_prior_knowledge().no_proxy().build().expect("a client")
}

#[tokio::test]
async fn responses_over_http2_equal_those_over_http1() {
    let served = Served::start(&[]).await;
    let (new, old) = (client(), Client::builder().no_proxy().build().expect("a client"));
    for (method, path) in [
        ("GET", "/id/order"),
        ("HEAD", "/id/order"),
        ("POST", "/id/order"),
        ("PUT", "/id/order"),
        ("GET", "/ids/order?n=10"),
        ("GET", "/parse/1"),
        ("GET", "/health"),
        ("GET", "/nowhere"),
        ("GET", "/"),
        ("POST", "/cluster/release"),
    ] {
        let ask = async |client: &Client| {
            let method = method.parse().expect("a method");
            let request = client.request(method, format!("http://{}{path}", served.address));
            request.send().await.expect("an answer")
        };
        let (new, old) = (ask(&new).await, ask(&old).await);
        assert_eq!((new.version(), old.version()), (Version::HTTP_2, Version::HTTP_11));
        assert_eq!(new.status(), old.status(), "{method} {path}");
        let names = |headers: &reqwest::header::HeaderMap| {
            let mut names: Vec<String> = headers.keys().map(ToString::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(names(new.headers()), names(old.headers()), "{method} {path}");
    }
    served.stop().await;
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let served = Served::start(&[]).await;
    let (client, url) = (client(), format!("http://{}/ids/order?n=10000", served.address));
    // Read each response before the next request: together they exceed the client's window.
    let ask = |request: reqwest::RequestBuilder| async {
        let answer = request.send().await.expect("an answer");
        (answer.status(), answer.bytes().await.expect("a body"))
    };
    let asked: Vec<_> = (0..200).map(|_| tokio::spawn(ask(client.get(&url)))).collect();
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.expect("no panic"));
    }
    let metrics = served.get("/metrics").await.text().await.expect("text");
    // This client's, and that of this question.
    assert!(metrics.contains("\nraindrop_http_connections 2\n"), "{metrics}");
    let mut all = std::collections::HashSet::new();
    for (_, body) in answers.iter().filter(|(status, _)| *status == StatusCode::OK) {
        let json: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        let ids = json["ids"].as_array().expect("ids");
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| all.insert(id.as_str().expect("a text").to_owned())));
    }
    assert!(all.len() >= 100_000, "{}", all.len());
    served.stop().await;
}

const RESET: u8 = 3;
const SETTINGS_TYPE: u8 = 4;
const GOAWAY: u8 = 7;

#[tokio::test]
async fn draining_service_sends_goaway_or_connection_close() {
    let served = Served::start(&[("http.drain_delay", "60s")]).await;
    let mut new = TcpStream::connect(served.address).await.expect("connected");
    new.write_all(&[PREFACE, SETTINGS, &get(1, "/")].concat()).await.expect("sent");
    // `:status 200` of the static table.
    assert_eq!(frame(&mut new, HEADERS).await[0], 0x88);
    let mut old = TcpStream::connect(served.address).await.expect("connected");
    let (address, _, running) = served.begin_stop();
    frame(&mut new, GOAWAY).await;
    // An idle connection stays open: a request may be on its way. The answer says what comes next.
    old.write_all(b"GET /id/order HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let mut answer = String::new();
    old.read_to_string(&mut answer).await.expect("closed after it");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    // Who comes now is served all the same.
    let late = client().get(format!("http://{address}/id/order")).send().await.expect("an answer");
    assert_eq!(late.status(), 200);
    tokio::time::pause();
    running.await.expect("no panic").expect("a clean stop");
}

/// Sends a ping every second until the connection is closed; returns how long that took.
async fn ping(stream: TcpStream) -> Duration {
    let (mut answers, mut pings) = stream.into_split();
    let reading = tokio::spawn(async move {
        let mut rest = Vec::new();
        let _ = answers.read_to_end(&mut rest).await;
    });
    let began = tokio::time::Instant::now();
    pause_when_accepted().await;
    while !reading.is_finished() {
        let _ = pings.write_all(PING).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::resume();
    began.elapsed()
}

#[tokio::test]
async fn idle_http2_connection_ends_despite_pings() {
    let served = Served::start(&[("http.idle_timeout", "20s")]).await;
    for asked in [get(1, "/"), Vec::new()] {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        stream.write_all(&[PREFACE, SETTINGS, &asked].concat()).await.expect("sent");
        if !asked.is_empty() {
            frame(&mut stream, HEADERS).await;
        }
        let took = ping(stream).await;
        assert!((Duration::from_secs(15)..Duration::from_secs(40)).contains(&took), "{took:?}");
    }
    served.stop().await;
}

#[tokio::test]
async fn http2_client_that_reads_no_response_is_cut_off() {
    let served = Served::start(&[]).await;
    let mut stream = TcpStream::connect(served.address).await.expect("connected");
    // So small that over HTTP/1 nothing would be reserved for it.
    let asked = get(1, "/ids/order?n=100");
    stream.write_all(&[PREFACE, NO_WINDOW, &asked].concat()).await.expect("sent");
    frame(&mut stream, HEADERS).await;
    assert!(served.metric("raindrop_http_unsent_bytes").await > 1_000.0);
    let took = ping(stream).await;
    assert!((Duration::from_secs(25)..Duration::from_secs(50)).contains(&took), "{took:?}");
    let stalled = r#"raindrop_http_connections_dropped_total{reason="stalled"}"#;
    assert_eq!(served.metric(stalled).await, 1.0);
    assert_eq!(served.metric("raindrop_http_unsent_bytes").await, 0.0);
    served.stop().await;
}

#[tokio::test]
async fn http2_client_that_floods_frames_is_cut_off() {
    let served = Served::start(&[]).await;
    let mut stream = TcpStream::connect(served.address).await.expect("connected");
    stream.write_all(&[PREFACE, SETTINGS, &get(1, "/")].concat()).await.expect("sent");
    frame(&mut stream, HEADERS).await;
    let (mut answers, mut flood) = stream.into_split();
    let reading = tokio::spawn(async move {
        let mut answer = [0; 4096];
        while answers.read(&mut answer).await.is_ok_and(|length| length > 0) {}
    });
    let ping = PING.repeat(1_000);
    let mut sent = 0;
    while flood.write_all(&ping).await.is_ok() {
        sent += ping.len();
        assert!(sent < 100 << 20, "it goes on for ever");
    }
    reading.await.expect("no panic");
    served.stop().await;
}

/// Neither connection has a request to answer, and neither client closes it.
#[tokio::test]
async fn incomplete_and_silent_http2_clients_do_not_delay_a_stop() {
    let served = Served::start(&[("http.shutdown_timeout", "60s")]).await;
    let mut half = TcpStream::connect(served.address).await.expect("connected");
    half.write_all(b"GET /livez HTTP/1.1\r\nHos").await.expect("sent");
    let mut silent = TcpStream::connect(served.address).await.expect("connected");
    silent.write_all(&[PREFACE, SETTINGS, &get(1, "/")].concat()).await.expect("sent");
    frame(&mut silent, HEADERS).await;
    // From here on time passes only while nothing else is to be done.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let (_, _, running) = served.begin_stop();
    running.await.expect("no panic").expect("a clean stop");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop((half, silent));
}

/// Bodies count from the head on, however long the connection was idle before.
#[tokio::test]
async fn body_may_take_the_time_of_its_request() {
    let served = Served::start(&[("http.idle_timeout", "2s")]).await;
    let mut client = TcpStream::connect(served.address).await.expect("connected");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let head = b"POST /id/order HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n";
    client.write_all(head).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    client.write_all(b"{}").await.expect("sent");
    let mut answer = [0; 12];
    client.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 415");
    served.stop().await;
}

/// The setting of how many requests may be under way.
const MOST_STREAMS: [u8; 6] = [0, 3, 0, 0, 0, 100];

#[tokio::test]
async fn http2_connection_takes_a_hundred_requests_at_a_time() {
    let served = Served::start(&[]).await;
    let mut stream = TcpStream::connect(served.address).await.expect("connected");
    let first = get(1, "/livez");
    let rest: Vec<u8> = (1..100_u8).flat_map(|number| get(2 * number + 1, "/livez")).collect();
    // Without a window none of them ends.
    stream.write_all(&[PREFACE, NO_WINDOW, &first, &rest].concat()).await.expect("sent");
    let settings = frame(&mut stream, SETTINGS_TYPE).await;
    assert!(settings.chunks(6).any(|setting| setting == MOST_STREAMS), "{settings:?}");
    for _ in 0..100 {
        // `:status 200` of the static table.
        assert_eq!(frame(&mut stream, HEADERS).await[0], 0x88);
    }
    // One more is refused, and no other one for it.
    stream.write_all(&get(201, "/livez")).await.expect("sent");
    const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];
    assert_eq!(frame(&mut stream, RESET).await, REFUSED_STREAM);
    served.stop().await;
}

/// h2 keeps trailers for as long as a stream lasts, and a client decides how long that is.
#[tokio::test]
async fn http2_trailers_end_the_connection() {
    let served = Served::start(&[]).await;
    let asked = |stream| headers(stream, 0, b"\x83\x86\x04\x05/id/a\x01\x01x");
    let trailers = |stream| headers(stream, END_STREAM, b"\x00\x01a\x01b");
    let mut stream = TcpStream::connect(served.address).await.expect("connected");
    let open = [&asked(1), &asked(3), &trailers(1), &get(5, "/id/a")[..]].concat();
    stream.write_all(&[PREFACE, SETTINGS, &open].concat()).await.expect("sent");
    // Requests under way are answered; the client sends further ones to another node.
    frame(&mut stream, GOAWAY).await;
    frame(&mut stream, HEADERS).await;
    let mut stream = TcpStream::connect(served.address).await.expect("connected");
    let more = [PREFACE, SETTINGS, &open, &trailers(3)].concat();
    stream.write_all(&more).await.expect("sent");
    let mut rest = Vec::new();
    // Closed, or reset, because not all was read.
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(served.get("/id/order").await.status(), 200);
    served.stop().await;
}

#[tokio::test]
async fn http2_connection_takes_eight_places() {
    for (places, is_kept) in [("15", false), ("16", true)] {
        let served = Served::start(&[("http.max_connections", places)]).await;
        let connect = async || {
            let mut stream = TcpStream::connect(served.address).await.expect("connected");
            // So that the service has to wait for the preface: who waits for places is not idle.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let asked = [PREFACE, SETTINGS, &get(1, "/id/a")].concat();
            stream.write_all(&asked).await.expect("sent");
            frame(&mut stream, HEADERS).await;
            stream
        };
        let mut first = connect().await;
        let mut second = connect().await;
        if is_kept {
            first.write_all(&get(3, "/id/a")).await.expect("connected");
            frame(&mut first, HEADERS).await;
        } else {
            let mut rest = Vec::new();
            let _ = first.read_to_end(&mut rest).await;
        }
        second.write_all(&get(3, "/id/a")).await.expect("connected");
        frame(&mut second, HEADERS).await;
        drop((first, second));
        served.stop().await;
    }
}

/// Each has one place, and needs seven more.
#[tokio::test]
async fn http2_connections_do_not_block_each_other() {
    const PLACES: usize = 32;
    let places = PLACES.to_string();
    let served = Served::start(&[("http.max_connections", &places)]).await;
    // All have arrived before the service has its turn.
    let prefaces = (0..PLACES).map(|_| {
        let mut stream = std::net::TcpStream::connect(served.address).expect("connected");
        stream.write_all(PREFACE).expect("sent");
        stream.set_nonblocking(true).expect("a socket");
        stream
    });
    let mut clients: Vec<_> = prefaces.collect();
    assert_eq!(served.get("/id/order").await.status(), 200);
    let mut served_ones = 0;
    for client in clients.drain(..) {
        let mut stream = TcpStream::from_std(client).expect("a socket");
        // The service's settings, unless it is closed.
        served_ones += usize::from(stream.read_exact(&mut [0; 9]).await.is_ok());
    }
    assert!((1..=4).contains(&served_ones), "{served_ones}");
    served.stop().await;
}

/// All of them need the same place. Below 40 places, eight or nine are spare.
#[tokio::test]
async fn second_request_on_a_spare_place_evicts_no_connection() {
    for places in [8, 39, 40] {
        let served = Served::start(&[("http.max_connections", &places.to_string())]).await;
        let mut others = Vec::new();
        for _ in 0..places {
            others.push(TcpStream::connect(served.address).await.expect("connected"));
        }
        for other in &mut others {
            other.write_all(b"GET /id/a HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
        }
        for other in &mut others {
            assert!(other.read(&mut [0; 4096]).await.expect("an answer") > 0);
        }
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        let asked = [PREFACE, SETTINGS, &get(1, "/id/a"), &get(3, "/id/a")].concat();
        stream.write_all(&asked).await.expect("sent");
        // `:status 200` of the static table.
        assert_ne!(frame(&mut stream, HEADERS).await[0], 0x88);
        drop(others);
        for stream_of_next in [5, 7] {
            assert_eq!(frame(&mut stream, HEADERS).await[0], 0x88, "{places} places");
            stream.write_all(&get(stream_of_next, "/id/a")).await.expect("sent");
        }
        assert_eq!(frame(&mut stream, HEADERS).await[0], 0x88, "{places} places");
        served.stop().await;
    }
}

/// Small on the wire, large once they are decoded: more of them than there is room for.
#[tokio::test]
async fn many_large_heads_at_once_are_answered() {
    let served = Served::start(&[]).await;
    let burst: Vec<u8> =
        (0..100_u8).flat_map(|number| large(2 * number + 1, number == 0)).collect();
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        stream.write_all(&[PREFACE, SETTINGS, &burst].concat()).await.expect("sent");
        clients.push(stream);
    }
    for mut stream in clients {
        for _ in 0..100 {
            assert_eq!(frame(&mut stream, HEADERS).await[0], 0x88);
        }
    }
    served.stop().await;
}
