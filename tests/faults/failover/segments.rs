//! Issues segment numbers and IDs for a past time, while the database fails over and back and loses
//! the last reservations both times.

use raindrop::core::instant::format_unix_ms;
use reqwest::StatusCode;
use serde_json::Value;

use crate::{
    collected::Collected,
    service::{PATIENCE, Service, Setup, client, parse_ids, unix_ms},
    support::{
        pair::{Pair, Replicated},
        poll,
    },
};

/// More numbers than one fail-over loses here.
const GAP: u64 = 5_000;
/// How many numbers each node issues at a time.
const COUNT: u32 = 400;
/// An instant before the first start.
const AT: &str = "2024-02-29T12:00:00.123Z";

#[derive(Debug, Default)]
struct Issued {
    numbers: Collected,
    past: Collected,
}

pub(super) async fn segments_and_backfill(engine: &'static dyn Replicated) {
    let mut pair = Pair::start(engine).await;
    let setup = setup(&pair.url());
    let mut nodes = vec![setup.clone().start_leased().await, setup.clone().start_leased().await];
    let issued = Issued::default();
    pair.until_caught_up().await;
    for round in 0..2 {
        pair.stop_replication().await;
        for node in &nodes {
            issued.numbers.add(&numbers(node).await);
        }
        let now_ms = unix_ms();
        let at = if round == 0 { AT.to_owned() } else { until_open(&nodes[0], &issued).await };
        let (status, ids) = past(&nodes[0], &at, 2).await;
        assert_eq!(status, StatusCode::OK, "{at}");
        issued.past.add(&ids);
        pair.kill_primary();
        pair.promote().await;

        // One process reserved nothing of what was lost.
        let stranger = setup.clone().start().await;
        let strangers = numbers(&stranger).await;
        issued.numbers.add(&strangers);
        assert!(strangers[0] > GAP, "it skips: {}", strangers[0]);
        for node in &nodes {
            issued.numbers.add(&numbers(node).await);
        }
        for node in nodes.iter().chain([&stranger]) {
            for at in [&at, AT, &format_unix_ms(now_ms)] {
                let (status, ids) = until_answered(node, at).await;
                assert_eq!((status, ids), (StatusCode::UNPROCESSABLE_ENTITY, vec![]), "{at}");
            }
        }
        nodes.push(stranger);
        pair.rejoin().await;
    }
    until_open(&nodes[0], &issued).await;
    let (numbers, past) = (&issued.numbers, &issued.past);
    println!(
        "{} · segments and backfill · {} numbers, {} duplicates · {} IDs for a past time, {} \
         duplicates",
        engine.name(),
        numbers.count(),
        numbers.duplicates(),
        past.count(),
        past.duplicates(),
    );
    assert_eq!((numbers.duplicates(), past.duplicates()), (0, 0));
}

fn setup(url: &str) -> Setup {
    Setup::new()
        .set("store.url", url)
        .set("store.timeout", "1s")
        .set("layout.preset", "yitter")
        .set("layout.backfill_from", "2024-02-29T00:00:00Z")
        .set("lease.window", "3s")
        .set("lease.ttl", "3s")
        .set("lease.renew", "1s")
        .set("lease.max_clock_skew", "500ms")
        .set("namespaces.numbers.mode", "segment")
        .set("namespaces.numbers.codes.allow", "order")
        .set("segment.min_step", 100)
        .set("segment.max_step", 200)
        .set("segment.failover_gap", GAP)
}

/// Returns numbers, as soon as the node has any.
async fn numbers(node: &Service) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < COUNT as usize {
        let path = format!("/ids/order?namespace=numbers&n={}", COUNT / 10);
        let ids = poll::until(PATIENCE, "a node issues numbers", async || {
            let (status, body) = post(node, &path).await?;
            (status == StatusCode::OK).then(|| parse_ids(&body))
        });
        numbers.extend(ids.await);
    }
    numbers
}

/// Requests IDs for a past time, and tries again until the node answers whether there are any.
async fn past(node: &Service, at: &str, count: u32) -> (StatusCode, Vec<u64>) {
    let path = format!("/ids/order?n={count}&at={at}");
    poll::until(PATIENCE, "an answer for a past time", async || {
        let (status, body) = post(node, &path).await?;
        let is_final = status == StatusCode::OK || status == StatusCode::UNPROCESSABLE_ENTITY;
        is_final.then(|| (status, if status.is_success() { parse_ids(&body) } else { vec![] }))
    })
    .await
}

async fn until_answered(node: &Service, at: &str) -> (StatusCode, Vec<u64>) {
    past(node, at, 1).await
}

/// Waits until ticks after the last fail-over are open, takes some IDs, and returns their instant.
async fn until_open(node: &Service, issued: &Issued) -> String {
    poll::until(PATIENCE, "ticks are open again", async || {
        let at = format_unix_ms(unix_ms() - 100);
        let (status, ids) = past(node, &at, 2).await;
        issued.past.add(&ids);
        status.is_success().then_some(at)
    })
    .await
}

async fn post(node: &Service, path: &str) -> Option<(StatusCode, Value)> {
    let answer = client().post(node.url(path)).send().await.ok()?;
    Some((answer.status(), answer.json().await.ok()?))
}
