//! The header Host, over connections.

use crate::{connections::Reached, serving::Served, support::World};

/// Sends a request with these lines of a head, and returns the status.
async fn status(reached: &Reached, request: &str) -> String {
    let answer = reached.exchange(&format!("{request}connection: close\r\n\r\n")).await;
    answer.strip_prefix("HTTP/1.1 ").map_or(answer.clone(), |rest| rest[..3].to_owned())
}

#[tokio::test]
async fn request_without_exactly_one_valid_host_is_400() {
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
        ("GET http://ids.example/id/order HTTP/1.1\r\nhost: other.example\r\n", "400"),
        ("GET http://ids.example:80/id/order HTTP/1.1\r\nhost: ids.example\r\n", "200"),
        ("GET http://ids.example/id/order HTTP/1.1\r\nhost: ids.example:80\r\n", "200"),
        ("GET http://ids.example/id/order HTTP/1.1\r\nhost: ids.example:81\r\n", "400"),
        ("GET http://user@ids.example/id/order HTTP/1.1\r\nhost: ids.example\r\n", "200"),
        ("GET http://ids.example/livez HTTP/1.1\r\nhost: other.example\r\n", "400"),
    ] {
        assert_eq!(status(&reached, head).await, expected, "{head}");
    }
    let old = reached.exchange("GET /id/order HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 200"), "{old}");
    let old = reached.exchange("GET /id/order HTTP/1.0\r\nhost: x\r\nhost: y\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 400"), "{old}");
    let missing = reached.exchange("GET /id/order HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    assert!(missing.contains(r#""code":"invalid_parameter""#), "{missing}");
    assert!(missing.contains("the header Host is missing"), "{missing}");
    assert_eq!(reached.world.ids_issued().await, 8.0);
    reached.stop().await;
}

#[tokio::test]
async fn http2_request_with_a_wrong_or_second_host_is_400() {
    let served = Served::start(&[]).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build();
    let client = client.expect("a client");
    let own = served.address.to_string();
    for (hosts, expected) in [
        (&[][..], 200),
        (&[own.as_str()], 200),
        (&["other.example"], 400),
        (&[own.as_str(), own.as_str()], 400),
        (&[own.as_str(), "other.example"], 400),
    ] {
        let mut request = client.get(format!("http://{own}/id/order"));
        for host in hosts {
            request = request.header("host", *host);
        }
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), expected, "{hosts:?}");
    }
    served.stop().await;
}

#[tokio::test]
async fn transfer_codings_other_than_chunked_are_refused() {
    let reached = Reached::start(World::start(&[]).await).await;
    for (coding, expected) in [
        ("chunked", "200"),
        ("Chunked", "200"),
        ("gzip, chunked", "501"),
        ("gzip\r\ntransfer-encoding: chunked", "501"),
        ("chunked, chunked", "501"),
        // Hyper's own: what ends in another coding tells no end of the body.
        ("gzip", "400"),
        ("identity", "400"),
        ("chunked, identity", "400"),
    ] {
        let head = "POST /id/order HTTP/1.1\r\nhost: x\r\ntransfer-encoding: ";
        let request = format!("{head}{coding}\r\nconnection: close\r\n\r\n0\r\n\r\n");
        let answer = reached.exchange(&request).await;
        let status = answer.strip_prefix("HTTP/1.1 ").map(|rest| &rest[..3]);
        assert_eq!(status, Some(expected), "{coding}: {answer}");
        let problem = answer.contains(r#""code":"not_implemented""#);
        assert_eq!(problem, expected == "501", "{coding}: {answer}");
    }
    assert_eq!(reached.world.ids_issued().await, 2.0);
    reached.stop().await;
}

#[tokio::test]
async fn admin_listener_refuses_host_names_of_other_sites() {
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
