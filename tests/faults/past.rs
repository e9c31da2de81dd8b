//! Tests IDs for a past time, from several processes.

use std::{collections::HashSet, time::Duration};

use tokio::task::JoinSet;

use crate::{
    service::{PATIENCE, Service, Setup, client},
    support::{
        mariadb::Mariadb,
        poll,
        proxy::Proxy,
        server::{Engine, Server},
    },
};

const AT: &str = "2024-02-29T12:00:00.123Z";

/// Returns the status, and the IDs if there are any.
async fn ask(service: &Service, count: u32) -> (u16, Vec<String>) {
    let url = service.url(&format!("/ids/order?n={count}&at={AT}"));
    let answer = client().post(url).send().await.expect("an answer");
    let status = answer.status().as_u16();
    let body: serde_json::Value = answer.json().await.expect("JSON");
    let ids = body["ids"].as_array().cloned().unwrap_or_default();
    (status, ids.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_and_a_restarted_one_share_the_five_ids_of_a_past_millisecond() {
    let url = Server::shared(&Mariadb).await.database().await;
    let setup = Setup::new()
        .set("store.url", &url)
        .set("layout.preset", "yitter")
        .set("layout.backfill_from", "2024-02-29T00:00:00Z");
    let one = setup.clone().start_leased().await;
    let two = setup.clone().start_leased().await;
    let answers = tokio::join!(ask(&one, 1), ask(&two, 1), ask(&one, 1), ask(&two, 1));
    let mut ids = HashSet::new();
    for (status, given) in [answers.0, answers.1, answers.2, answers.3] {
        assert_eq!((status, given.len()), (200, 1));
        ids.extend(given);
    }
    one.kill9().await;
    let again = setup.start_leased().await;
    let (status, fifth) = ask(&again, 1).await;
    assert_eq!(status, 200);
    ids.extend(fifth);
    assert_eq!(ids.len(), 5, "{ids:?}");
    for node in [&again, &two] {
        assert_eq!(ask(node, 1).await, (422, Vec::new()));
    }
    println!("one past millisecond, three processes: {ids:?}, then 422");
}

/// The requests wait for each other, and not for the connections that a renewal needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_for_a_past_time_delay_no_renewal() {
    let url = Server::shared(&Mariadb).await.database().await;
    let proxy = Proxy::start(&url).await;
    let setup = Setup::new()
        .set("store.url", Mariadb.through(&url, proxy.port()))
        .set("store.timeout", "2s")
        .set("lease.renew", "500ms")
        .set("layout.preset", "yitter");
    let node = setup.start_leased().await;
    proxy.delay(Duration::from_millis(20));
    let url = node.url(&format!("/id/order?at={AT}"));
    let (client, mut asking) = (client(), JoinSet::new());
    for _ in 0..300 {
        let request = client.post(&url);
        asking.spawn(async move {
            loop {
                let again = request.try_clone().expect("no body");
                again.send().await.expect("an answer");
            }
        });
    }
    let renewals = async || {
        let done = "operation=\"renew\",outcome=\"done\"";
        node.metric("raindrop_lease_operations_total", done).await
    };
    let (before, logged) = (renewals().await, node.log().len());
    let renewed = async || (renewals().await >= before + 5.0).then_some(());
    poll::until(PATIENCE, "five renewals", renewed).await;
    asking.shutdown().await;
    assert!(!node.log()[logged..].contains("store failed"), "{}", node.log());
    let answered = node.metric("raindrop_http_requests_total", "status=\"422\"").await;
    assert!(answered >= 10.0, "{answered}");
}
