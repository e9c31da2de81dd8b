//! Tests the warnings to operators about a store that may lose acknowledged writes.

use serde_json::Value;

use crate::{
    service::{Setup, client},
    support::{
        free_port,
        redis::{self, Redis},
        server::Server,
    },
};

/// Gets a route of the admin listener.
async fn get(admin: &str, path: &str) -> Value {
    let answer = client().get(format!("http://{admin}{path}")).send().await.expect("an answer");
    answer.json().await.expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_lose_writes_are_named_to_operators() {
    let server = Server::start(&Redis).await;
    let url = server.database().await;
    let admin = format!("127.0.0.1:{}", free_port());
    let setup = Setup::new().set("store.url", &url).set("http.admin_listen", &admin);
    let setup = setup.set("namespaces.numbers.mode", "segment");
    let node = setup.clone().start_leased().await;
    for path in ["/health", "/cluster"] {
        let default = &get(&admin, path).await["namespaces"]["default"];
        assert_eq!((&default["issuing"], default.get("store_warnings")), (&true.into(), None));
    }
    node.stop().await;
    redis::run::<()>(&url, &["CONFIG", "SET", "appendfsync", "everysec"]).await;
    let node = setup.start_leased().await;
    for path in ["/health", "/cluster"] {
        let namespaces = &get(&admin, path).await["namespaces"];
        for name in ["default", "numbers"] {
            let warnings = namespaces[name]["store_warnings"].as_array().expect("warnings");
            let warning = warnings[0].as_str().expect("a text");
            assert_eq!(warnings.len(), 1, "{namespaces}");
            assert!(warning.starts_with("appendfsync is everysec, not always"), "{warning}");
        }
    }
    let (_, public) = node.json("/health").await;
    assert_eq!(public, serde_json::json!({ "status": "ok" }), "it may name the server");
    node.stop().await;
}
