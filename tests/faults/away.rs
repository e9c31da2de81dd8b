//! Tests a database that is away, with the default settings.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    load::Load,
    service::{PATIENCE, Service, Setup, client, from_environment},
    support::{free_port, mariadb::Mariadb, poll, server::Server},
};

/// `lease.renew`.
const RENEW: Duration = Duration::from_secs(30);

async fn renewals(node: &Service) -> f64 {
    let done = "operation=\"renew\",outcome=\"done\"";
    node.metric("raindrop_lease_operations_total", done).await
}

/// Waits for the first renewal, or for the next one after this count.
async fn until_renewed(node: &Service, before: f64) {
    poll::until(PATIENCE, "a renewal", async || (renewals(node).await > before).then_some(()))
        .await;
}

/// Tests an outage of `OUTAGE` seconds, a minute by default. It begins at the worst moment, just
/// before a renewal is due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_default_settings_an_outage_of_minutes_fails_no_request() {
    let outage = Duration::from_secs(from_environment("OUTAGE").unwrap_or(60));
    let server = Server::start(&Mariadb).await;
    let node = Setup::new().set("store.url", server.database().await).start_leased().await;
    let load = Arc::new(Load::default());
    let home = load.join(&node);
    until_renewed(&node, 0.0).await;
    // A renewal begins up to a tenth of its interval early.
    sleep(RENEW * 9 / 10 - Duration::from_secs(1)).await;
    server.kill9();
    let before = renewals(&node).await;
    sleep(outage).await;
    assert_eq!(renewals(&node).await, before);
    let (status, health) = node.json("/health").await;
    let reason = &health["namespaces"]["default"]["reason"];
    assert!(status == StatusCode::OK && reason.is_string(), "{status} {health}");
    println!("after {outage:?}: /health {status}, {reason}");
    server.restart().await;
    until_renewed(&node, before).await;
    load.stop().await;
    let figures = load.figures();
    println!(
        "away for {outage:?}: requests {} · refused {} · IDs {} · longest gap {:?}",
        figures.requests,
        figures.refused,
        load.collected.count(),
        home.served().gap.longest()
    );
    assert_eq!((figures.refused, figures.broken, load.unexpected()), (0, 0, Vec::new()));
    assert_eq!(load.collected.duplicates(), 0);
    node.stop().await;
}

/// The log names when the database went away and when it came back, and not every attempt between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_names_a_database_that_is_away_once() {
    let server = Server::start(&Mariadb).await;
    let setup = Setup::new().set("store.url", server.database().await);
    let setup = setup.set("lease.renew", "500ms").set("namespaces.numbers.mode", "segment");
    let node = setup.set("namespaces.numbers.segment.auto_create", "true").start_leased().await;
    until_renewed(&node, 0.0).await;
    assert_eq!(node.json("/id/order?namespace=numbers").await.0, 200);
    let lines = |namespace: &str, text: &str| {
        let log = node.log();
        let named = |line: &&str| line.contains(text) && line.contains(namespace);
        log.lines().filter(named).count()
    };
    let calls = async || node.metric("raindrop_store_operation_duration_seconds_count", "").await;
    server.kill9();
    let before = calls().await;
    poll::until(PATIENCE, "ten tries", async || (calls().await >= before + 10.0).then_some(()))
        .await;
    // A segment namespace asks seldom: it must ask before the database is back.
    for namespace in ["default", "numbers"] {
        let has_failed = async || (lines(namespace, "store failed") > 0).then_some(());
        poll::until(PATIENCE, "it has failed", has_failed).await;
    }
    server.restart().await;
    for namespace in ["default", "numbers"] {
        let is_back = async || (lines(namespace, "store answers again") > 0).then_some(());
        poll::until(PATIENCE, "it is back", is_back).await;
        let failed = lines(namespace, "store failed");
        // A broken connection and a refused one are two reasons; a server that starts adds more.
        assert!((1..=4).contains(&failed), "{}", node.log());
        assert_eq!(lines(namespace, "store answers again"), 1, "{}", node.log());
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_starts_without_its_database_and_serves_when_it_is_there() {
    let server = Server::start(&Mariadb).await;
    let url = server.database().await;
    server.stop();
    let node = Setup::new().set("store.url", url).start().await;
    assert_eq!(node.get("/livez").await.expect("an answer").status(), 200);
    let refused = poll::until(PATIENCE, "the failure is seen", async || {
        let (status, body) = node.json("/id/order").await;
        (body["code"] == "store_unavailable").then_some(status)
    })
    .await;
    assert_eq!(refused, 503);
    assert_eq!(node.get("/readyz").await.expect("an answer").status(), 503);
    server.restart().await;
    node.until_ready().await;
    node.ids("order", 10).await;
}

/// While the database does not answer, the node reports what it knows itself, also to ten clients
/// at once. It does so long before its calls of the store time out, each of which takes 9 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cluster_is_answered_while_the_database_is_frozen() {
    let server = Server::start(&Mariadb).await;
    let url = server.database().await;
    let admins = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let start = async |admin: &String| {
        let setup = Setup::new().set("store.url", &url).set("http.admin_listen", admin);
        setup.start_leased().await
    };
    let nodes = [start(&admins[0]).await, start(&admins[1]).await];
    for admin in &admins {
        // The first lease of a process ends after 10 s.
        poll::until(PATIENCE, "a renewal", async || {
            let answer = client().get(format!("http://{admin}/metrics")).send().await;
            let metrics = answer.expect("an answer").text().await.expect("a text");
            let renewed = "operation=\"renew\",outcome=\"done\"} 1";
            metrics.contains(renewed).then_some(())
        })
        .await;
    }
    let get = async |admin: &String| {
        let answer = client().get(format!("http://{admin}/cluster")).send().await;
        let answer = answer.expect("an answer");
        (answer.status(), answer.json::<Value>().await.expect("JSON"))
    };
    let (_, cluster) = get(&admins[0]).await;
    let listed = cluster["namespaces"]["default"]["workers"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{cluster}");
    assert_eq!(cluster["workers_age_seconds"], 0, "{cluster}");
    assert!(cluster["store_verified"].is_boolean(), "{cluster}");
    server.freeze();
    let mut oldest = 0;
    while oldest < 2 {
        for (status, cluster) in join_all((0..10).map(|_| get(&admins[0]))).await {
            let default = &cluster["namespaces"]["default"];
            assert_eq!(status, StatusCode::OK, "{cluster}");
            assert_eq!((&default["issuing"], &default["workers"]), (&true.into(), &listed));
            assert!(
                default["valid_until"].is_string() && default["layout"].is_string(),
                "{cluster}"
            );
            let error = cluster["store_error"].as_str();
            assert!(error.is_some_and(|error| error.contains("within 1s")), "{cluster}");
            assert!(cluster["history"]["namespaces"].is_object(), "{cluster}");
            oldest = cluster["workers_age_seconds"].as_u64().expect("an age").max(oldest);
        }
    }
    // This node was never asked before.
    let (_, cluster) = get(&admins[1]).await;
    assert_eq!(cluster["workers_age_seconds"], Value::Null, "{cluster}");
    let default = &cluster["namespaces"]["default"];
    assert_eq!((&default["issuing"], &default["workers"]), (&true.into(), &Value::Null));
    assert_eq!(cluster.get("store_verified"), None);
    server.thaw();
    for (admin, node) in admins.iter().zip(nodes) {
        poll::until(PATIENCE, "the workers are listed again", async || {
            let (_, cluster) = get(admin).await;
            let is_new = cluster.get("store_error").is_none();
            (is_new && cluster["namespaces"]["default"]["workers"].is_array()).then_some(())
        })
        .await;
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_database_holds_nothing_up() {
    let server = Server::start(&Mariadb).await;
    let setup = Setup::new()
        .set("store.url", server.database().await)
        .set("store.timeout", "500ms")
        .set("lease.renew", "500ms");
    let node = setup.start_leased().await;
    until_renewed(&node, 0.0).await;
    server.freeze();
    let load = Arc::new(Load::default());
    load.join(&node);
    sleep(Duration::from_secs(5)).await;
    let before = renewals(&node).await;
    server.thaw();
    until_renewed(&node, before).await;
    load.stop().await;
    let figures = load.figures();
    assert_eq!((figures.refused, figures.broken, load.unexpected()), (0, 0, Vec::new()));
    assert_eq!(load.collected.duplicates(), 0);
    server.freeze();
    // With a frozen database, a stop ends within its deadline, and says so.
    node.stop().await;
    server.thaw();
}
