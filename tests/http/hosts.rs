//! The header Host, over connections.

use crate::{connections::Reached, serving::Served, support::World};

/// Sends a request with these lines of a head, and returns the status.
async fn status(reached: &Reached, request: &str) -> String {
    let answer = reached.exchange(&format!("{request}connection: close\r\n\r\n")).await;
    answer.strip_prefix("HTTP/1.1 ").map_or(answer.clone(), |rest| rest[..3].to_owned())
}

#[tokio::test]
async fn a_request_has_one_valid_host() {
    let reached = Reached::start(World::start(&[]).await).await;
    for (head, expected) in [
        ("GET /id/order HTTP/1.1\r\nhost: ids.example:8080\r\n", "200"),
        ("GET /id/order HTTP/1.1\r\nhost: [::1]:8080\r\n", "200"),
        ("GET http://ids.example/id/order HTTP/1.1\r\nhost: ids.example\r\n", "200"),
        ("GET /id/order HTTP/1.1\r\nhost: x\r\n", "200"),
        ("GET /id/order HTTP/1.1\r\n", "400"),
        ("GET /livez HTTP/1.1\r\n", "400"),
        ("GET /id/order HTTP/1.1\r\nhost: x\r\nhost: x\r\n", "400"),
        ("GET /id/order HTTP/1.1\r\nhost: a b\r\n", "400"),
        ("GET /id/order HTTP/1.1\r\nhost: a/b\r\n", "400"),
        ("GET /id/order HTTP/1.1\r\nhost: user@x\r\n", "400"),
        ("GET /id/order HTTP/1.1\r\nhost: x:port\r\n", "400"),
    ] {
        assert_eq!(status(&reached, head).await, expected, "{head}");
    }
    let old = reached.exchange("GET /id/order HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 200"), "{old}");
    let missing = reached.exchange("GET /id/order HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    assert!(missing.contains(r#""code":"invalid_parameter""#), "{missing}");
    assert!(missing.contains("the header Host is missing"), "{missing}");
    assert_eq!(reached.world.ids_issued().await, 5.0);
    reached.stop().await;
}

#[tokio::test]
async fn the_admin_listener_answers_under_no_name_of_another_site() {
    let served = Served::start(&[
        ("http.admin_listen", "127.0.0.1:0"),
        ("http.admin_hosts", "ids.example.com"),
    ])
    .await;
    let admin = served.admin.expect("a listener for operators");
    let client = reqwest::Client::new();
    let get = async |address, path: &str, host: &str| {
        let request = client.get(format!("http://{address}{path}")).header("host", host);
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("a body"))
    };
    for path in ["/cluster", "/metrics", "/health", "/livez", "/nowhere"] {
        let (status, body) = get(admin, path, "evil.example:9090").await;
        assert_eq!(status, 403, "{path}");
        assert!(body.contains("evil.example") && body.contains("http.admin_hosts"), "{body}");
    }
    let own = admin.to_string();
    for host in [own.as_str(), "localhost:9090", "[::1]", "raindrop-1:9090", "ids.example.com"] {
        assert_eq!(get(admin, "/cluster", host).await.0, 200, "{host}");
    }
    assert_eq!(get(served.address, "/id/order", "anything.example").await.0, 200);
    served.stop().await;
}
