//! Tests one code on one process: the numbers that are lost, and those that the process issues
//! without the store.

use std::path::Path;

use reqwest::StatusCode;
use rustix::process::Signal;

use super::{PATIENCE, answer, counting};
use crate::{
    collected::Collected,
    service::{Service, Setup, client, parse_ids, run},
    support::{mariadb::Mariadb, poll, server::Server},
};

/// One process with one code of small blocks.
fn single(url: &str) -> Setup {
    counting(url, 1).set("segment.min_step", 100).set("issue.max_wait", "2s")
}

async fn numbers(node: &Service, count: u32) -> Vec<u64> {
    node.ids("code-0", count).await
}

async fn remaining(node: &Service) -> u64 {
    node.health().await["remaining"].as_u64().expect("a number")
}

/// Returns what `raindrop codes` says of the only code: the next number, and the last step.
fn listed(folder: &Path, url: &str) -> (u64, u64) {
    let (code, out, err) = run(&["codes"], &[("RAINDROP__STORE__URL", url)], folder);
    assert_eq!(code, Some(0), "{err}");
    let line = out.lines().nth(1).unwrap_or_else(|| panic!("a code in {out}"));
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[..2], ["default", "code-0"], "{out}");
    (cells[3].parse().expect("a number"), cells[5].parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_loses_nothing_and_a_crash_at_most_what_was_in_hand() {
    let mariadb = Server::shared(&Mariadb).await;
    let url = mariadb.database().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let setup = single(&url);
    let mut last = 0;
    for count in [1, 60, 250] {
        let node = setup.clone().start_leased().await;
        let numbers = numbers(&node, count).await;
        assert_eq!(numbers, (last + 1..=last + u64::from(count)).collect::<Vec<_>>());
        last += u64::from(count);
        let log = stop_and_log(node).await;
        assert!(log.contains("mode segment · codes code-0"), "{log}");
        assert!(log.contains("lost=0"), "{log}");
        assert_eq!(listed(folder.path(), &url).0, last + 1);
    }

    let node = setup.clone().start_leased().await;
    last = *numbers(&node, 30).await.last().expect("thirty");
    let in_hand = remaining(&node).await;
    node.kill9().await;
    let (next, step) = listed(folder.path(), &url);
    let lost = next - (last + 1);
    println!("a crash lost {lost} numbers of {in_hand} in hand");
    // A reservation may have been under way when the test read the metric.
    assert!((in_hand..=in_hand + step).contains(&lost), "{lost} {in_hand} {step}");
    let node = setup.start_leased().await;
    assert_eq!(numbers(&node, 1).await, [next]);
    node.stop().await;
}

async fn stop_and_log(mut node: Service) -> String {
    node.signal(Signal::TERM);
    assert!(node.ended().await.success(), "{}", node.log());
    node.log()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_in_hand_are_served_without_the_store_and_then_503() {
    let mariadb = Server::start(&Mariadb).await;
    let url = mariadb.database().await;
    let node = single(&url).start_leased().await;
    let collected = Collected::default();
    collected.add(&numbers(&node, 10).await);
    mariadb.kill9();
    let mut left = remaining(&node).await;
    assert!(left >= 90, "{left}");
    while left > 0 {
        let count = left.min(30);
        collected.add(&numbers(&node, u32::try_from(count).expect("few")).await);
        left -= count;
    }
    // A reservation may have been under way when the database ended.
    let (client, url_of_one) = (client(), node.url("/id/code-0"));
    let (problem, may_retry) = poll::until(PATIENCE, "nothing is in hand", async || {
        let (status, body, may_retry) = answer(&client, &url_of_one).await.expect("an answer");
        if status == StatusCode::OK {
            collected.add(&parse_ids(&body));
            return None;
        }
        Some((body, may_retry))
    })
    .await;
    assert_eq!((&problem["status"], &problem["code"]), (&503.into(), &"store_unavailable".into()));
    assert!(may_retry);
    let (status, health) = node.json("/health").await;
    assert_eq!(
        (status.as_u16(), &health["namespaces"]["default"]["issuing"]),
        (503, &false.into())
    );
    assert_eq!(node.get("/readyz").await.expect("an answer").status(), 503);
    assert_eq!(node.get("/livez").await.expect("an answer").status(), 200);

    // A process that starts without the database serves once it is back, too.
    let other = single(&url).start().await;
    assert_eq!(other.json("/id/code-0").await.1["code"], "store_unavailable");
    mariadb.restart().await;
    for node in [&node, &other] {
        node.until_ready().await;
        poll::until(PATIENCE, "numbers again", async || {
            let (status, body) = node.json("/ids/code-0?n=50").await;
            (status == StatusCode::OK).then(|| collected.add(&parse_ids(&body)))
        })
        .await;
    }
    assert_eq!(collected.duplicates(), 0);
    other.stop().await;
    node.stop().await;
}
