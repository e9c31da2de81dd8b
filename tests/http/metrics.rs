//! `/metrics`.

use std::{collections::BTreeSet, fs, path::Path};

use axum::{Router, body::Body, http::Request};
use tower::ServiceExt as _;

use crate::support::World;

#[tokio::test]
async fn counters_are_exported_before_they_count() {
    let world = World::start(&[("worker.id", "9")]).await;
    let answer = world.get("/metrics").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4"));
    for name in [
        "raindrop_ids_issued_total{id_namespace=\"default\"} 0",
        "raindrop_sequence_exhausted_total{id_namespace=\"default\",outcome=\"borrowed\"} 0",
        "raindrop_sequence_exhausted_total{id_namespace=\"default\",outcome=\"waited\"} 0",
        "raindrop_sequence_exhausted_total{id_namespace=\"default\",outcome=\"refused\"} 0",
        "raindrop_clock_rollbacks_total{action=\"held\",id_namespace=\"default\"} 0",
        "raindrop_clock_rollbacks_total{action=\"rotated\",id_namespace=\"default\"} 0",
        "raindrop_clock_rollbacks_total{action=\"swapped\",id_namespace=\"default\"} 0",
        "raindrop_clock_rollbacks_total{action=\"refused\",id_namespace=\"default\"} 0",
        "raindrop_clock_skew_seconds ",
        "raindrop_lease_info{id_namespace=\"default\",lane=\"0\",worker_id=\"9\"} 1",
        "raindrop_lease_valid_until_timestamp_seconds{id_namespace=\"default\"} 1",
        "raindrop_lease_operations_total{id_namespace=\"default\",operation=\"acquire\",outcome=\"done\"} 1",
        "raindrop_lease_operations_total{id_namespace=\"default\",operation=\"renew\",outcome=\"unknown\"} 0",
        "raindrop_workers{id_namespace=\"default\",state=\"held\"} ",
        "raindrop_workers{id_namespace=\"default\",state=\"free\"} ",
        "raindrop_ids_valid_until_timestamp_seconds{id_namespace=\"default\"} 3934",
        "raindrop_codes{id_namespace=\"default\"} 0",
        "raindrop_issuing{id_namespace=\"default\"} 1",
        "raindrop_http_requests_total{method=\"GET\",route=\"/id/{code}\",status=\"200\"} 0",
        "raindrop_http_request_duration_seconds_bucket{route=\"/ids/{code}\",le=\"0.00005\"} 0",
        "raindrop_http_requests_in_flight 1",
        "raindrop_http_connections ",
        "raindrop_http_connections_dropped_total{reason=\"room\"} 0",
        "raindrop_log_lines_dropped_total 0",
        "raindrop_spans_dropped_total 0",
        "raindrop_task_failures_total{task=\"announcement\"} 0",
        "raindrop_task_failures_total{task=\"lease_keeper\"} 0",
        "raindrop_auth_refused_total{reason=\"missing\"} 0",
        "raindrop_auth_refused_total{reason=\"invalid\"} 0",
        "raindrop_auth_refused_total{reason=\"expired\"} 0",
        "raindrop_auth_refused_total{reason=\"forbidden\"} 0",
        "raindrop_auth_required 0",
        "raindrop_store_operation_duration_seconds_count{operation=\"swap\"} ",
        "raindrop_build_info{commit=\"",
        "process_resident_memory_bytes ",
    ] {
        assert!(answer.body.contains(&format!("\n{name}")), "{name} in\n{}", answer.body);
    }
    let version = concat!(",version=\"", env!("CARGO_PKG_VERSION"), "\"} 1");
    assert!(answer.body.contains(version), "{}", answer.body);
    assert!(!answer.body.contains("order") && !answer.body.contains("raindrop_segment"));
}

/// As embedders may.
#[tokio::test]
async fn requests_are_counted_by_template_where_the_router_is_nested() {
    let world = World::start(&[]).await;
    let own = || world.router.clone();
    for (nested, path, route) in [
        (Router::new().nest("/inner", own()), "/inner/id/order", "/id/{code}"),
        (Router::new().nest("/inner/", own()), "/inner/ids/order", "/ids/{code}"),
        (Router::new().nest("/inner", own()), "/inner", "/"),
        (
            Router::new().nest("/inner", Router::new().fallback_service(own())),
            "/inner/livez",
            "/livez",
        ),
    ] {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let answer = nested.oneshot(request).await.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
        let labels = format!("{{method=\"GET\",route=\"{route}\",status=\"200\"}}");
        let counted = world.metric(&format!("raindrop_http_requests_total{labels}")).await;
        assert_eq!(counted, Some(1.0), "{path}");
    }
}

#[tokio::test]
async fn requests_are_counted_by_template_method_and_status() {
    let world = World::start(&[]).await;
    world.get("/id/order").await;
    world.get("/id/user").await;
    world.call("POST", "/ids/order?n=5", &[]).await;
    world.get("/ids/order?n=0").await;
    world.get("/nowhere").await;
    world.call("PURGE", "/health", &[]).await;
    for (labels, count) in [
        (r#"method="GET",route="/id/{code}",status="200""#, 2.0),
        (r#"method="POST",route="/ids/{code}",status="200""#, 1.0),
        (r#"method="GET",route="/ids/{code}",status="400""#, 1.0),
        (r#"method="GET",route="<unmatched>",status="404""#, 1.0),
        (r#"method="other",route="/health",status="405""#, 1.0),
    ] {
        let name = format!("raindrop_http_requests_total{{{labels}}}");
        assert_eq!(world.metric(&name).await, Some(count), "{name}");
    }
    assert_eq!(world.ids_issued().await, 7.0);
    assert_eq!(world.metric(r#"raindrop_codes{id_namespace="default"}"#).await, Some(1.0));
}

/// An operator who sees a series looks it up.
#[test]
fn metrics_are_those_of_the_documentation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/metrics.md")).expect("the page");
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split("` |").next());
    let documented: BTreeSet<String> = cells.map(str::to_owned).collect();
    let folder = fs::read_dir(root.join("src/server/metrics")).expect("the sources");
    let mut sources: Vec<_> = folder.map(|entry| entry.expect("one").path()).collect();
    sources.push(root.join("src/process/telemetry.rs"));
    let mut exported = BTreeSet::new();
    for path in sources {
        let source = fs::read_to_string(&path).expect("a source");
        let texts = source.split('"').filter(|text| text.starts_with("raindrop_"));
        let is_name = |text: &&str| text.chars().all(|it| it.is_ascii_lowercase() || it == '_');
        exported.extend(texts.filter(is_name).map(str::to_owned));
    }
    assert!(exported.len() > 30, "{exported:#?}");
    assert_eq!(documented, exported);
}
