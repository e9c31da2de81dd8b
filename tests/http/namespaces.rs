//! Several namespaces in one process, and the codes that are bound to them.

use std::sync::Arc;

use raindrop::{core::clock::SystemClock, keeper::Released, store::MemoryStore};
use serde_json::Value;

use crate::support::{PATIENCE, World, config, config_of};

/// A 63-bit, a JS-safe and a 31-bit namespace, with codes bound to the last two.
const THREE: &str = "
    [namespaces.js.layout]
    preset = 'js-safe'
    [namespaces.qr.layout]
    preset = 'westid-qr'
    [[code]]
    name = 'scene'
    namespace = 'qr'
    [[code]]
    name = 'order'
    prefix = 'ORD-'
    [[code]]
    name = 'invoice'
    namespace = 'js'
    prefix = 'INV.'
";

async fn three() -> World {
    let clock = Arc::new(SystemClock::default());
    let world =
        World::with_config(config_of(THREE), Arc::new(MemoryStore::new(clock.clone())), clock);
    world.until_issuing().await;
    world
}

fn text(json: &Value) -> String {
    json["id"].as_str().expect("a string").to_owned()
}

#[tokio::test]
async fn one_process_serves_63_bits_js_safe_numbers_and_31_bits() {
    let world = three().await;
    let number = async |uri: &str| world.get(uri).await.json()["id"].as_u64().expect("a number");
    for _ in 0..100 {
        assert!(number("/id/a?namespace=js&format=number").await < 1 << 53);
        let scene = number("/id/scene?format=number").await;
        assert!((1..1 << 31).contains(&scene), "{scene}");
    }
    assert!(text(&world.get("/id/b").await.json()).parse::<u64>().expect("decimal") > 1 << 53);
    world.get("/id/b?format=number").await.problem(422, "unsafe_number");
    let json = world.get("/health").await.json();
    assert_eq!(json["status"], "ok");
    for namespace in ["default", "js", "qr"] {
        let health = &json["namespaces"][namespace];
        assert_eq!((&health["mode"], &health["issuing"]), (&"snowflake".into(), &true.into()));
    }
    assert_eq!(json["namespaces"].as_object().expect("an object").len(), 3);
}

#[tokio::test]
async fn every_namespace_exports_its_metrics_from_the_start() {
    let world = three().await;
    world.get("/ids/a?namespace=js&n=3").await;
    for (namespace, issued) in [("default", 0.0), ("js", 3.0), ("qr", 0.0)] {
        let of = |name: &str| format!("{name}{{id_namespace=\"{namespace}\"}}");
        assert_eq!(world.metric(&of("raindrop_ids_issued_total")).await, Some(issued));
        assert!(
            world.metric(&of("raindrop_workers").replace('}', ",state=\"held\"}")).await
                >= Some(1.0)
        );
        let exhausted = format!(
            "raindrop_sequence_exhausted_total{{id_namespace=\"{namespace}\",outcome=\"waited\"}}"
        );
        assert_eq!(world.metric(&exhausted).await, Some(0.0));
    }
}

#[tokio::test]
async fn unknown_namespace_is_404_and_names_the_known_ones() {
    let world = three().await;
    for uri in ["/id/a?namespace=no", "/ids/a?namespace=no", "/parse/1?namespace=no"] {
        let detail = world.get(uri).await.problem(404, "unknown_namespace");
        assert!(detail.contains("default, js, qr"), "{detail}");
    }
    let detail = world
        .get("/bounds?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&namespace=no")
        .await
        .problem(404, "unknown_namespace");
    assert!(detail.contains("default, js, qr"), "{detail}");
}

#[tokio::test]
async fn bound_code_needs_no_namespace_and_is_400_in_another() {
    let world = three().await;
    assert_eq!(world.get("/id/scene?namespace=qr").await.status, 200);
    assert_eq!(world.get("/id/invoice").await.status, 200);
    for uri in ["/id/scene?namespace=default", "/ids/scene?namespace=default&n=2"] {
        let detail = world.get(uri).await.problem(400, "invalid_parameter");
        assert!(detail.contains("\"qr\"") && detail.contains("\"default\""), "{detail}");
    }
    assert_eq!(world.call("HEAD", "/id/scene?namespace=js", &[]).await.status, 400);
}

#[tokio::test]
async fn prefixed_ids_are_written_and_read_back() {
    let world = three().await;
    let order = text(&world.get("/id/order").await.json());
    assert!(order.strip_prefix("ORD-").expect("the prefix").parse::<u64>().is_ok(), "{order}");
    let plain = world.call("GET", "/id/order", &[("accept", "text/plain")]).await.body;
    assert!(plain.starts_with("ORD-") && plain.ends_with('\n'), "{plain}");
    let ids = world.get("/ids/invoice?n=3").await.json();
    let ids: Vec<&str> =
        ids["ids"].as_array().expect("ids").iter().filter_map(Value::as_str).collect();
    assert!(ids.len() == 3 && ids.iter().all(|id| id.starts_with("INV.")), "{ids:?}");

    let parsed = world.get(&format!("/parse/{order}")).await.json();
    assert_eq!(parsed["namespace"], "default");
    assert_eq!(format!("ORD-{}", parsed["id"].as_str().expect("a string")), order);
    // The prefix tells the namespace, too.
    assert_eq!(world.get(&format!("/parse/{}", ids[0])).await.json()["namespace"], "js");
    let named = world.get(&format!("/parse/{}?layout=js-safe", ids[0])).await.json();
    assert_eq!(named["layout"], "js-safe");
    let uri = format!("/parse/{order}?namespace=js");
    let detail = world.get(&uri).await.problem(400, "invalid_parameter");
    assert!(detail.contains("\"default\"") && detail.contains("\"js\""), "{detail}");
    let detail = world.get("/parse/ORD-12x").await.problem(400, "invalid_id");
    assert!(detail.contains("\"ORD-\"") && detail.contains("position 2"), "{detail}");
    world.get("/parse/ORDER-12").await.problem(400, "invalid_id");
}

#[tokio::test]
async fn prefixed_ids_are_refused_as_numbers() {
    let world = three().await;
    for uri in ["/id/invoice?format=number", "/ids/invoice?format=number"] {
        for accept in ["application/json", "*/*"] {
            let answer = world.call("GET", uri, &[("accept", accept)]).await;
            let detail = answer.problem(400, "invalid_parameter");
            assert!(detail.contains("INV.") || detail.contains("ORD-"), "{detail}");
        }
    }
    assert_eq!(world.get("/id/invoice?format=string").await.status, 200);
    let ranges = world.get("/ids/invoice?n=3&format=range").await.json();
    let prefix = ranges["prefix"].as_str().expect("a prefix");
    let first = ranges["ranges"][0]["first"].as_str().expect("an ID");
    assert!(prefix.starts_with("INV."), "{ranges}");
    let parsed = world.get(&format!("/parse/{prefix}{first}")).await.json();
    assert_eq!(parsed["id"], first, "{parsed}");
}

#[tokio::test]
async fn each_namespace_has_its_allowed_codes() {
    let pairs = [
        ("codes.allow", "order"),
        ("namespaces.a.codes.allow", "user,cart"),
        ("namespaces.b.mode", "snowflake"),
    ];
    let clock = Arc::new(SystemClock::default());
    let world =
        World::with_config(config(&pairs), Arc::new(MemoryStore::new(clock.clone())), clock);
    world.until_issuing().await;
    for (namespace, served, refused) in
        [("default", "order", "user"), ("a", "user", "order"), ("b", "order", "cart")]
    {
        let get = async |code| world.get(&format!("/id/{code}?namespace={namespace}")).await;
        assert_eq!(get(served).await.status, 200, "{namespace}");
        get(refused).await.problem(404, "unknown_code");
    }
}

#[tokio::test]
async fn namespace_without_a_worker_does_not_stop_the_others() {
    let pairs = [("namespaces.a.worker.id", "7"), ("issue.max_wait", "50ms")];
    let clock = Arc::new(SystemClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let first = World::with_config(config(&pairs), store.clone(), clock.clone());
    first.until_issuing().await;
    let second = World::with_config(config(&pairs), store, clock);
    second.issuer.leased().await;
    assert_eq!(second.get("/id/order").await.status, 200);
    let answer = second.get("/id/order?namespace=a").await;
    assert!(answer.header("retry-after").is_some());
    answer.problem(503, "lease_unavailable");
    let health = second.get("/health").await;
    assert_eq!(health.status, 503);
    let json = health.json();
    assert_eq!(json["namespaces"]["default"]["issuing"], true);
    assert_eq!(json["namespaces"]["a"]["issuing"], false);
    let reason = json["namespaces"]["a"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("no worker id is free"), "{reason}");
    let metrics = second.get("/metrics").await.body;
    assert!(metrics.contains("raindrop_lease_info{id_namespace=\"default\""), "{metrics}");
    assert!(!metrics.contains("raindrop_lease_info{id_namespace=\"a\""), "{metrics}");

    // Once the other node has released the row, the namespace issues.
    for keeper in first.others {
        assert_eq!(keeper.release(PATIENCE).await, Released::Done);
    }
    second.until_issuing().await;
    assert_eq!(second.get("/id/order?namespace=a").await.status, 200);
}
