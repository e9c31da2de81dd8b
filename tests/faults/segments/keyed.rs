//! Sends requests with idempotency keys to two processes, cuts many of them off, and repeats each at
//! the other process until it is answered.
//!
//! Every document must get one number, no number may go to two documents, and none may be missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use reqwest::{Client, StatusCode};
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    service::{PATIENCE, Service, Setup, client, parse_ids, run},
    support::{
        mariadb::Mariadb,
        postgres::Postgres,
        redis::Redis,
        server::{Engine, Server},
    },
};

/// How many documents need a number.
const DOCUMENTS: u64 = 1_000;
/// How many clients number documents at a time.
const CLIENTS: u64 = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_numbers_each_document_once_without_a_gap() {
    each_document_once(&Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_numbers_each_document_once_without_a_gap() {
    each_document_once(&Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_numbers_each_document_once_without_a_gap() {
    each_document_once(&Redis).await;
}

/// The answers that a client read for one document, and how many it cut off.
#[derive(Debug, Default)]
struct Numbered {
    numbers: BTreeSet<u64>,
    cut_off: u64,
    unavailable: u64,
}

async fn post(client: &Client, node: &str, key: &str) -> Option<(StatusCode, Value)> {
    let request = client.post(format!("{node}/id/bill"));
    let answer = request.header("Idempotency-Key", format!("\"{key}\"")).send().await.ok()?;
    Some((answer.status(), answer.json().await.ok()?))
}

/// Numbers a document: cuts some requests off, each after another time, and repeats the request at
/// the other node; then asks both nodes.
async fn number(client: &Client, nodes: &[String; 2], document: u64) -> Numbered {
    let (mut random, mut numbered) = (StdRng::seed_from_u64(document), Numbered::default());
    let key = format!("order-{document}");
    for _ in 0..random.random_range(0..4) {
        let node = &nodes[random.random_range(0..2)];
        let after = Duration::from_micros(random.random_range(0..20_000));
        match tokio::time::timeout(after, post(client, node, &key)).await {
            Ok(Some((StatusCode::OK, body))) => numbered.numbers.extend(parse_ids(&body)),
            Ok(_) => {}
            // Dropping the request closes its connection.
            Err(_) => numbered.cut_off += 1,
        }
    }
    for node in nodes {
        let began = Instant::now();
        loop {
            match post(client, node, &key).await {
                Some((StatusCode::OK, body)) => break numbered.numbers.extend(parse_ids(&body)),
                Some((StatusCode::SERVICE_UNAVAILABLE, _)) | None => {
                    numbered.unavailable += 1;
                    sleep(Duration::from_millis(20)).await;
                }
                Some((status, body)) => panic!("{status}: {body}"),
            }
            assert!(began.elapsed() < PATIENCE, "no number for {key}");
        }
    }
    numbered
}

async fn each_document_once(engine: &'static dyn Engine) {
    let server = Server::start(engine).await;
    let url = server.database().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let environment = [("RAINDROP__MODE", "segment"), ("RAINDROP__STORE__URL", url.as_str())];
    for code in ["bill", "speed"] {
        let create = ["codes", "create", code, "--strict", "--failover-gap", "0"];
        let (status, _, err) = run(&create, &environment, folder.path());
        assert_eq!(status, Some(0), "{err}");
    }
    // A reservation that times out on a busy machine would be a gap.
    let setup = Setup::new().set("mode", "segment").set("store.url", url.clone());
    let setup = || setup.clone().set("store.timeout", "10s");
    let nodes = [setup().start_leased().await, setup().start_leased().await];
    let urls = Arc::new([nodes[0].url(""), nodes[1].url("")]);
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        let urls = Arc::clone(&urls);
        clients.spawn(async move {
            let (client, mut numbered) = (client(), BTreeMap::new());
            for document in (first..DOCUMENTS).step_by(usize::try_from(CLIENTS).expect("few")) {
                numbered.insert(document, number(&client, &urls, document).await);
            }
            numbered
        });
    }
    let numbered: BTreeMap<u64, Numbered> =
        clients.join_all().await.into_iter().flatten().collect();
    for callers in [1, 64] {
        for with_keys in [false, true] {
            let rate = rate(&nodes[0], callers, with_keys).await;
            let keys = if with_keys { "with" } else { "without" };
            println!("{} · {callers} callers {keys} keys: {rate} numbers/s", engine.name());
        }
    }
    for node in nodes {
        node.stop().await;
    }
    let cut_off: u64 = numbered.values().map(|document| document.cut_off).sum();
    let unavailable: u64 = numbered.values().map(|document| document.unavailable).sum();
    let several: Vec<_> =
        numbered.iter().filter(|(_, document)| document.numbers.len() != 1).collect();
    let numbers: BTreeSet<u64> =
        numbered.values().flat_map(|document| document.numbers.iter().copied()).collect();
    let last = numbers.last().copied().unwrap_or_default();
    println!(
        "{} · {} documents, {cut_off} requests cut off, {unavailable} answered 503: {} numbers up \
         to {last}, {} documents with several",
        engine.name(),
        numbered.len(),
        numbers.len(),
        several.len(),
    );
    assert!(cut_off > DOCUMENTS / 10, "{cut_off}");
    assert!(several.is_empty(), "{several:?}");
    assert_eq!((numbers.len() as u64, last), (DOCUMENTS, DOCUMENTS), "a number is missing");
}

/// Returns how many numbers a node issues in a second to this many callers.
async fn rate(node: &Service, callers: usize, with_keys: bool) -> u64 {
    const SECONDS: u64 = 2;
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let mut asking = JoinSet::new();
    for caller in 0..callers {
        let url = node.url("/id/speed");
        asking.spawn(async move {
            let (client, mut count) = (client(), 0);
            while Instant::now() < until {
                let mut request = client.post(&url);
                if with_keys {
                    request =
                        request.header("Idempotency-Key", format!("{callers}-{caller}-{count}"));
                }
                let answer = request.send().await.expect("an answer");
                assert_eq!(answer.status(), StatusCode::OK);
                answer.bytes().await.expect("a body");
                count += 1;
            }
            count
        });
    }
    let counts: Vec<u64> = asking.join_all().await;
    counts.into_iter().sum::<u64>() / SECONDS
}
