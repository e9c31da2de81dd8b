//! Connections: bounds, and what a client sees on the wire.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::serving::Served;

async fn exchange(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.expect("read");
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[tokio::test]
async fn a_head_answer_claims_no_length_and_keeps_the_connection() {
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
async fn connections_beyond_the_bound_wait() {
    let served = Served::start(&[("http.max_connections", "1")]).await;
    let request = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut first = TcpStream::connect(served.address).await.expect("connected");
    assert!(exchange(&mut first, request).await.starts_with("HTTP/1.1 200"));
    let mut second = TcpStream::connect(served.address).await.expect("queued");
    let early = tokio::time::timeout(Duration::from_millis(200), exchange(&mut second, request));
    assert!(early.await.is_err());
    drop(first);
    let mut answer = [0; 12];
    second.read_exact(&mut answer).await.expect("served now");
    assert_eq!(&answer, b"HTTP/1.1 200");
    served.stop().await;
}

#[tokio::test]
async fn who_dawdles_over_a_head_is_cut_off() {
    let served = Served::start(&[]).await;
    // From here on time passes only while nothing else is to be done.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    for sent in ["", "GET /id/order HTT", "GET /id/order HTTP/1.1\r\nhost: x\r\n\r\nGET /id"] {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        stream.write_all(sent.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("closed");
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), usize::from(sent.len() > 20));
    }
    // Load balancers keep idle connections for 60 s.
    assert!(began.elapsed() > Duration::from_secs(3 * 60), "{:?}", began.elapsed());
    tokio::time::resume();
    served.stop().await;
}
