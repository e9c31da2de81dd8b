//! Tokens that expire, permissions, client certificates, and when a token is checked.

use std::sync::Arc;

use axum::{body::Body, http::Request};
use raindrop::{
    auth::ClientCertificate, core::clock::SystemClock, server::router, store::MemoryStore,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower::ServiceExt;

use crate::{
    connections::Reached,
    serving::Served,
    support::{World, config_of, token_entry},
};

const INVALID: &str = r#"Bearer realm="raindrop", error="invalid_token""#;

/// A service with the token file of this text, and these settings.
pub(crate) async fn with_tokens(text: &str, settings: &str) -> (World, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    std::fs::write(&path, text).expect("written");
    let config = config_of(&format!("auth.tokens_file = '{}'\n{settings}", path.display()));
    let clock = Arc::new(SystemClock::default());
    let world = World::with_config(config, Arc::new(MemoryStore::new(clock.clone())), clock);
    world.until_issuing().await;
    (world, folder)
}

#[tokio::test]
async fn permissions_open_only_their_routes() {
    let text = [("ids", "'ids'"), ("metrics", "'metrics'"), ("none", "")]
        .map(|(token, list)| token_entry(token, token) + &format!("permissions = [{list}]\n"));
    let (world, _folder) = with_tokens(&(text.concat() + &token_entry("both", "both")), "").await;
    let bounds = "/bounds?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z";
    for (uri, ids, metrics, none) in [
        ("/id/order", 200, 403, 403),
        ("/ids/order?n=2", 200, 403, 403),
        ("/parse/1", 200, 403, 403),
        (bounds, 200, 403, 403),
        ("/plan", 200, 403, 403),
        ("/metrics", 403, 200, 403),
        ("/health", 200, 200, 200),
        ("/openapi.json", 200, 200, 200),
        ("/version", 200, 200, 200),
        ("/nowhere", 404, 404, 404),
    ] {
        let both = if uri == "/nowhere" { 404 } else { 200 };
        for (token, status) in [("ids", ids), ("metrics", metrics), ("none", none), ("both", both)]
        {
            let value = format!("Bearer {token}");
            let answer = world.call("GET", uri, &[("authorization", &value)]).await;
            assert_eq!(answer.status, status, "{token} {uri}: {answer:?}");
        }
    }
    let answer = world.call("GET", "/metrics", &[("authorization", "Bearer ids")]).await;
    assert_eq!(
        answer.problem(403, "forbidden"),
        "the token \"ids\" may not use /metrics, which needs the permission metrics; allowed: ids"
    );
    let answer = world.call("POST", "/id/order", &[("authorization", "Bearer none")]).await;
    assert!(answer.problem(403, "forbidden").ends_with("permission ids; allowed: none"));
}

#[tokio::test]
async fn expired_token_is_401_and_counted_as_expired() {
    let text = token_entry("old", "old")
        + "expires = '2026-01-01'\n"
        + &token_entry("new", "new")
        + "expires = '9999-01-01'\n"
        + &token_entry("lasting", "lasting");
    let (world, _folder) = with_tokens(&text, "").await;
    let answer = world.call("GET", "/id/order", &[("authorization", "Bearer old")]).await;
    assert_eq!(answer.header("www-authenticate"), Some(INVALID));
    assert_eq!(answer.problem(401, "unauthorized"), "the token or client certificate has expired");
    let authorization = [("authorization", "Bearer new")];
    assert_eq!(world.call("GET", "/id/order", &authorization).await.status, 200);

    let metrics = world.call("GET", "/metrics", &authorization).await.body;
    for line in [
        "raindrop_auth_required 1",
        r#"raindrop_auth_refused_total{reason="expired"} 1"#,
        r#"raindrop_auth_refused_total{reason="invalid"} 0"#,
        r#"raindrop_token_last_used_timestamp_seconds{name="old"} 0"#,
        r#"raindrop_token_last_used_timestamp_seconds{name="lasting"} 0"#,
        r#"raindrop_token_expires_timestamp_seconds{name="old"} 1767225600"#,
        r#"raindrop_token_expires_timestamp_seconds{name="new"} 253370764800"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
    assert!(!metrics.contains(r#"expires_timestamp_seconds{name="lasting"}"#), "{metrics}");
    let used = r#"raindrop_token_last_used_timestamp_seconds{name="new"} "#;
    let used = metrics.lines().find_map(|line| line.strip_prefix(used)).expect("exported");
    assert!(used.parse::<f64>().expect("a number") > 1.7e9, "{used}");
}

#[tokio::test]
async fn client_certificate_opens_the_routes_of_its_entry() {
    let der = b"the certificate, as a handshake verified it";
    let text = token_entry("peer", "the certificate, as a handshake verified it")
        .replace("hash", "certificate")
        + "codes = ['order']\n"
        + &token_entry("shop", "secret");
    let (world, _folder) = with_tokens(&text, "").await;
    let certificate = Arc::new(ClientCertificate::read(der));
    let service = router(Arc::clone(&world.state));
    let call = async |uri: &str, token: Option<&str>, certificate: Option<&Arc<_>>| {
        let mut request = Request::get(uri);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut request = request.body(Body::empty()).expect("a request");
        if let Some(certificate) = certificate {
            request.extensions_mut().insert(Arc::<ClientCertificate>::clone(certificate));
        }
        service.clone().oneshot(request).await.expect("an answer").status().as_u16()
    };
    let other = Arc::new(ClientCertificate::read(b"another certificate"));
    for (uri, token, shown, status) in [
        ("/id/order", None, Some(&certificate), 200),
        ("/id/user", None, Some(&certificate), 403),
        ("/metrics", None, Some(&certificate), 200),
        ("/id/order", None, Some(&other), 401),
        ("/id/order", None, None, 401),
        // The header decides alone.
        ("/id/user", Some("secret"), Some(&certificate), 200),
        ("/id/order", Some("wrong"), Some(&certificate), 401),
    ] {
        assert_eq!(call(uri, token, shown).await, status, "{uri} {token:?} {shown:?}");
    }
}

/// Sends a head that announces a body and waits for 100 Continue, then returns everything that
/// comes until the service closes the connection.
async fn announce(reached: &Reached, method: &str, uri: &str, token: &str) -> String {
    reached
        .exchange(&format!(
            "{method} {uri} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
             content-length: 5\r\nexpect: 100-continue\r\n\r\n"
        ))
        .await
}

#[tokio::test]
async fn continue_is_sent_only_after_the_head_is_checked() {
    let scraper = token_entry("scraper", "scraper") + "permissions = ['metrics']\n";
    let (world, _folder) = with_tokens(&(token_entry("shop", "secret") + &scraper), "").await;
    let reached = Reached::start(world).await;
    for (method, uri, token, status) in [
        ("POST", "/id/order", "wrong", 401),
        ("POST", "/id/order", "scraper", 403),
        ("POST", "/nowhere", "wrong", 401),
        ("POST", "/nowhere", "secret", 404),
        ("PUT", "/id/order", "secret", 405),
        ("POST", "/livez", "wrong", 405),
    ] {
        // The service closes the connection: it neither waits for the body nor takes it for a
        // request.
        let answer = announce(&reached, method, uri, token).await;
        let told = format!("{method} {uri} {token}: {answer}");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{told}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{told}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{told}");
    }
    reached.stop().await;
}

#[tokio::test]
async fn announced_body_of_an_authenticated_client_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    std::fs::write(&path, token_entry("shop", "secret")).expect("written");
    let served = Served::start(&[("auth.tokens_file", path.to_str().expect("UTF-8"))]).await;
    let mut stream = TcpStream::connect(served.address).await.expect("connected");
    let head = "POST /id/order HTTP/1.1\r\nhost: x\r\nauthorization: Bearer secret\r\n\
                content-length: 5\r\nexpect: 100-continue\r\n\r\n";
    for _ in 0..2 {
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut answer = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"12345").await.expect("sent");
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            answer.push(stream.read_u8().await.expect("an answer"));
        }
        // The body is read and then refused, so the connection stays open.
        assert!(answer.starts_with(b"HTTP/1.1 415"), "{}", String::from_utf8_lossy(&answer));
    }
    served.stop().await;
}

#[tokio::test]
async fn refused_body_leaves_the_connection_open() {
    let (world, _folder) = with_tokens(&token_entry("shop", "secret"), "").await;
    let reached = Reached::start(world).await;
    let answers = reached
        .exchange(
            "POST /id/order HTTP/1.1\r\nhost: x\r\ncontent-length: 33\r\n\r\n\
             GET /id/smuggled HTTP/1.1\r\na: b\r\n\
             GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        )
        .await;
    let statuses = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]);
    assert_eq!(Vec::from_iter(statuses), ["401", "200"], "{answers}");
    reached.stop().await;
}
