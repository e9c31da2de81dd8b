//! The admin listener: its routes, the routes that the public one then lacks, and its end.

use std::time::Duration;

use raindrop::config::{Config, Inputs};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::serving::Served;

async fn apart(pairs: &[(&str, &str)]) -> Served {
    let mut all = vec![("http.admin_listen", "127.0.0.1:0"), ("worker.id", "9")];
    all.extend(pairs);
    Served::start(&all).await
}

impl Served {
    async fn admin(&self, path: &str) -> (u16, Value) {
        let address = self.admin.expect("a listener for operators");
        let answer = reqwest::get(format!("http://{address}{path}")).await.expect("an answer");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a body");
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}

#[tokio::test]
async fn each_listener_serves_only_its_routes() {
    let served = apart(&[]).await;
    for (path, public, admin) in [
        ("/id/order", 200, 404),
        ("/ids/order?n=2", 200, 404),
        ("/plan", 200, 200),
        ("/livez", 200, 200),
        ("/readyz", 200, 200),
        ("/health", 200, 200),
        ("/version", 200, 200),
        ("/metrics", 404, 200),
        ("/cluster", 404, 200),
    ] {
        assert_eq!(served.get(path).await.status().as_u16(), public, "{path}");
        assert_eq!(served.admin(path).await.0, admin, "{path}");
    }
    for path in ["/metrics", "/cluster", "/cluster/release", "/codes", "/codes/order", "/log"] {
        let problem: Value = served.get(path).await.json().await.expect("JSON");
        let detail = format!(
            "there is no route {path:?} on this listener: it is served on http.admin_listen"
        );
        assert_eq!((&problem["code"], &problem["detail"]), (&"not_found".into(), &detail.into()));
    }
    let detail = "there is no route \"/id/order\" on this listener: it is served on http.listen";
    assert_eq!(served.admin("/id/order").await.1["detail"], detail);
    assert_eq!(served.admin("/codes/a/b").await.1["detail"], "there is no route \"/codes/a/b\"");
    let public = served.get("/health").await.text().await.expect("a body");
    assert_eq!(public, r#"{"status":"ok"}"#);
    let (_, health) = served.admin("/health").await;
    assert_eq!(health["namespaces"]["default"]["worker_id"], 9);
    let (_, metrics) = served.admin("/metrics").await;
    let issued = "raindrop_ids_issued_total{id_namespace=\"default\"} 3";
    assert!(metrics.as_str().expect("text").contains(issued), "{metrics}");
    served.stop().await;
}

#[tokio::test]
async fn without_an_admin_listener_the_public_one_serves_all_but_the_cluster() {
    let served = Served::start(&[]).await;
    let health: Value = served.get("/health").await.json().await.expect("JSON");
    assert!(health["namespaces"]["default"]["issuing"] == true, "{health}");
    assert_eq!(served.get("/metrics").await.status(), 200);
    let cluster = served.get("/cluster").await;
    assert_eq!(cluster.status(), 404);
    let detail = cluster.json::<Value>().await.expect("JSON")["detail"].to_string();
    assert!(detail.contains("it needs http.admin_listen, or auth.tokens_file"), "{detail}");
    served.stop().await;
}

#[tokio::test]
async fn cluster_lists_every_held_worker_id() {
    let served = apart(&[]).await;
    let (status, cluster) = served.admin("/cluster").await;
    assert_eq!(status, 200);
    let default = &cluster["namespaces"]["default"];
    assert_eq!(default["mode"], "snowflake");
    assert_eq!(default["worker_id"], 9);
    assert!(default["layout"].as_str().is_some_and(|words| words.contains("worker=9")));
    let workers = default["workers"].as_array().expect("workers");
    assert_eq!(workers.len(), 1, "{cluster}");
    assert_eq!((&workers[0]["worker_id"], &workers[0]["lane"]), (&9.into(), &0.into()));
    assert!(workers[0]["holder"].as_str().is_some_and(|holder| !holder.is_empty()));
    let expires = workers[0]["expires"].as_str().expect("an instant");
    assert!(raindrop::core::instant::parse_unix_ms(expires).is_some(), "{expires}");
    served.stop().await;
}

#[tokio::test]
async fn admin_listener_answers_while_all_public_connections_are_taken() {
    let served = apart(&[("http.max_connections", "1")]).await;
    // A request under way: its connection is not evicted, and no other client gets a place.
    let mut busy = TcpStream::connect(served.address).await.expect("connected");
    busy.write_all(b"POST /id/order HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n")
        .await
        .expect("sent");
    let mut waiting = TcpStream::connect(served.address).await.expect("queued");
    waiting.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    for path in ["/livez", "/readyz", "/health", "/metrics", "/cluster"] {
        assert_eq!(served.admin(path).await.0, 200, "{path}");
    }
    busy.write_all(b"{}").await.expect("sent");
    let mut answer = [0; 12];
    busy.read_exact(&mut answer).await.expect("answered");
    assert_eq!(&answer, b"HTTP/1.1 415");
    drop(busy);
    waiting.read_exact(&mut answer).await.expect("answered");
    served.stop().await;
}

#[tokio::test]
async fn admin_listener_answers_until_the_end_of_the_drain() {
    let served = apart(&[("http.drain_delay", "60s")]).await;
    let admin = served.admin.expect("a listener");
    let (_, _, running) = served.begin_stop();
    let get = async |path: &str| {
        let answer = reqwest::get(format!("http://{admin}{path}")).await.expect("an answer");
        answer.status().as_u16()
    };
    while get("/readyz").await == 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(get("/livez").await, 200);
    assert_eq!(get("/metrics").await, 200);
    // The rest of the drain takes no time.
    tokio::time::pause();
    running.await.expect("no panic").expect("a clean stop");
    assert!(TcpStream::connect(admin).await.is_err());
}

#[tokio::test]
async fn admin_listener_reads_without_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = folder.path().join("tokens.toml");
    let token = format!("[[token]]\nname = \"shop\"\nhash = \"sha256:{}\"\n", "0".repeat(64));
    std::fs::write(&tokens, token).expect("written");
    let served = apart(&[("auth.tokens_file", tokens.to_str().expect("text"))]).await;
    for path in ["/livez", "/readyz", "/health", "/metrics", "/cluster"] {
        assert_eq!(served.admin(path).await.0, 200, "{path}");
    }
    assert_eq!(served.admin("/nowhere").await.0, 404);
    for (path, status) in [("/id/order", 401), ("/health", 401), ("/readyz", 200)] {
        assert_eq!(served.get(path).await.status().as_u16(), status, "{path}");
    }
    served.stop().await;
}

#[test]
fn equal_listener_addresses_are_refused() {
    let given = [
        ("RAINDROP__HTTP__LISTEN".to_owned(), "127.0.0.1:8080".to_owned()),
        ("RAINDROP__HTTP__ADMIN_LISTEN".to_owned(), "127.0.0.1:8080".to_owned()),
    ];
    let inputs = Inputs { environment: given.into_iter().collect(), ..Inputs::default() };
    let error = Config::load(&inputs).expect_err("they are equal").to_string();
    assert!(error.contains("http.admin_listen"), "{error}");
    assert!(error.contains("another address or port than http.listen"), "{error}");
}
