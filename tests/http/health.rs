//! `/health`, `/readyz`, `/livez` and `/version`.

use raindrop::core::instant::parse_unix_ms;

use crate::support::{PATIENCE, World};

#[tokio::test]
async fn service_with_a_lease_is_healthy() {
    let world = World::start(&[("worker.id", "9")]).await;
    let answer = world.get("/health").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let json = answer.json();
    let default = &json["namespaces"]["default"];
    let valid_until = default["valid_until"].as_str().expect("an instant");
    assert!(parse_unix_ms(valid_until).is_some());
    assert_eq!(
        answer.body,
        format!(
            r#"{{"status":"ok","namespaces":{{"default":{{"mode":"snowflake","issuing":true,"worker_id":9,"lane":0,"valid_until":"{valid_until}","reason":null}}}}}}"#
        )
    );
    assert_eq!(world.get("/readyz").await.body, r#"{"status":"ok"}"#);
    assert_eq!(world.get("/livez").await.body, r#"{"status":"ok"}"#);
}

#[tokio::test]
async fn draining_service_is_unready_and_serves() {
    let world = World::start(&[]).await;
    world.state.drain();
    for route in ["/health", "/readyz"] {
        let answer = world.get(route).await;
        assert_eq!(answer.status, 503);
        assert_eq!(answer.json()["status"], "shutting_down");
        assert!(answer.header("retry-after").is_some());
    }
    assert_eq!(world.get("/livez").await.status, 200);
    assert_eq!(world.get("/id/order").await.status, 200);
}

#[tokio::test]
async fn service_with_a_failed_background_task_is_not_alive() {
    let world = World::start(&[]).await;
    assert_eq!(world.get("/livez").await.status, 200);
    world.state.fail();
    let detail = world.get("/livez").await.problem(503, "shutting_down");
    assert!(detail.contains("a background task failed"), "{detail}");
    assert_eq!(world.call("HEAD", "/livez", &[]).await.status, 503);
    assert_eq!(world.get("/id/order").await.status, 200);
}

#[tokio::test]
async fn released_service_answers_shutting_down() {
    let world = World::start(&[]).await;
    let World { router, state, issuer, keeper, .. } = world;
    keeper.release(PATIENCE).await;
    let answer = crate::support::call(&router, "GET", "/id/order", &[]).await;
    answer.problem(503, "shutting_down");
    assert!(!issuer.status().is_issuing());
    drop(state);
}

#[tokio::test]
async fn readiness_of_one_namespace_is_answered() {
    let world = World::start(&[("namespaces.other.layout.preset", "js-safe")]).await;
    world.until_issuing().await;
    for (uri, status) in [
        ("/readyz", 200),
        ("/readyz?namespace=other", 200),
        ("/health?namespace=default", 200),
        ("/readyz?namespace=missing", 404),
        ("/readyz?name=other", 400),
    ] {
        assert_eq!(world.get(uri).await.status, status, "{uri}");
    }
    let one = world.get("/health?namespace=other").await.json();
    assert_eq!(one["namespaces"].as_object().expect("namespaces").len(), 1, "{one}");
    let mut world = world;
    world.others.remove(0).release(PATIENCE).await;
    for (uri, status) in [
        ("/readyz", 503),
        ("/readyz?namespace=other", 503),
        ("/health?namespace=other", 503),
        ("/readyz?namespace=default", 200),
        ("/health?namespace=default", 200),
    ] {
        assert_eq!(world.get(uri).await.status, status, "{uri}");
    }
}

#[tokio::test]
async fn version_is_that_of_the_metrics() {
    let world = World::start(&[]).await;
    let answer = world.get("/version").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let build = answer.json();
    let (version, commit) = (&build["version"], &build["commit"]);
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let labels = format!("raindrop_build_info{{commit={commit},version={version}}} 1\n");
    let metrics = world.get("/metrics").await.body;
    assert!(metrics.contains(&labels), "{labels} is missing in {metrics}");
    assert_eq!(build.as_object().expect("an object").len(), 2);
}
