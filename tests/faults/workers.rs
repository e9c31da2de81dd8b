//! Tests which process gets which worker id when processes come and go.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    collected::Collected,
    service::{PATIENCE, Setup},
    support::{mariadb::Mariadb, poll, postgres::Postgres, server::Server},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_a_spare_row_serves_within_two_seconds() {
    let mariadb = Server::shared(&Mariadb).await;
    let url = mariadb.database().await;
    let setup = Setup::new().set("store.url", &url);
    let node = setup.clone().start_leased().await;
    node.ids("order", 10).await;
    node.kill9().await;
    // The machine may be busy with other tests: the fastest of five restarts counts.
    poll::within(Duration::from_secs(2), "serving again", async || {
        let again = setup.clone().start_leased().await;
        again.ids("order", 10).await;
        again.kill9().await;
    })
    .await;
}

/// Returns the commands that the server received in each session that renewed a lease from its
/// beginning to its end.
async fn renewals(mariadb: &Server, url: &str) -> Vec<Vec<(String, String)>> {
    let log = "SELECT CONCAT(thread_id, ' ', command_type, ' ', CONVERT(argument USING utf8mb4)) \
               FROM mysql.general_log WHERE command_type <> 'Prepare'";
    let mut sessions: BTreeMap<u64, Vec<(String, String)>> = BTreeMap::new();
    for line in mariadb.texts(url, log).await {
        let mut parts = line.splitn(3, ' ').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        let session = part().parse().expect("the number of a session");
        sessions.entry(session).or_default().push((part(), part()));
    }
    let is_whole = |commands: &Vec<(String, String)>| {
        let reads = commands.iter().filter(|(_, sql)| sql.contains("held_rows")).count();
        let writes = commands.iter().filter(|(_, sql)| sql.starts_with("UPDATE")).count();
        let is_ended = commands.last().is_some_and(|(command, _)| command == "Quit");
        (reads, writes, is_ended) == (1, 1, true)
    };
    sessions.into_values().filter(is_whole).collect()
}

/// The documents give this number, and sizing follows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_is_seven_statements_in_four_requests() {
    let mariadb = Server::start(&Mariadb).await;
    let url = mariadb.database().await;
    let setup = Setup::new().set("store.url", &url).set("lease.renew", "2s");
    let node = setup.start_leased().await;
    mariadb.run("SET GLOBAL log_output = 'TABLE'").await;
    mariadb.run("SET GLOBAL general_log = 1").await;
    let renewals = poll::until(PATIENCE, "three renewals", async || {
        let renewals = renewals(&mariadb, &url).await;
        (renewals.len() >= 3).then_some(renewals)
    })
    .await;
    node.stop().await;
    for renewal in renewals {
        let commands: Vec<&str> = renewal.iter().map(|(command, _)| command.as_str()).collect();
        assert_eq!(commands, ["Connect", "Query", "Execute", "Query", "Execute", "Quit"]);
        let set_up = &renewal[1].1;
        assert_eq!(set_up.matches("; SELECT ").count(), 2, "{set_up}");
    }
    let a_minute = 2 * (3 + 1 + 1 + 1 + 1);
    for document in
        [include_str!("../../docs/guides/size.md"), include_str!("../../docs/performance.md")]
    {
        let said = document.contains(&format!("{a_minute} statements a minute by MariaDB's count"))
            || document.contains(&format!("{a_minute} by the server's count"));
        assert!(said, "{a_minute} statements a minute");
    }
}

/// PostgreSQL counts transactions: the login, each preparation and each execution is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_is_seven_transactions_of_postgresql() {
    let postgres = Server::start(&Postgres).await;
    let (url, other_url) = (postgres.database().await, postgres.database().await);
    let setup = Setup::new().set("store.url", &url).set("lease.renew", "2s");
    let node = setup.start_leased().await;
    let (_, database) = url.rsplit_once('/').expect("a database");
    // Each renewal has a session of its own, and a session reports its transactions when it ends.
    let sql = format!(
        "SELECT concat(sessions, ' ', xact_commit + xact_rollback) FROM pg_stat_database \
         WHERE datname = '{database}' AND numbackends = 0"
    );
    let counted = async || {
        let found = postgres.texts(&other_url, &sql).await;
        let (sessions, transactions) = found.first()?.split_once(' ')?;
        Some((sessions.parse::<u64>().ok()?, transactions.parse::<u64>().ok()?))
    };
    let first = poll::until(PATIENCE, "no session is open", &counted).await;
    let last = poll::until(PATIENCE, "three renewals", async || {
        counted().await.filter(|(sessions, _)| *sessions >= first.0 + 3)
    })
    .await;
    node.stop().await;
    let (sessions, transactions) = (last.0 - first.0, last.1 - first.1);
    assert_eq!(transactions, 7 * sessions, "{sessions} renewals");
    let a_minute = 2 * 7;
    let document = include_str!("../../docs/guides/size.md");
    let said = document.contains(&format!("{a_minute} transactions by PostgreSQL's"));
    assert!(said, "{a_minute} transactions a minute");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seven_nodes_fill_three_bits_and_the_eighth_serves_when_one_leaves() {
    let mariadb = Server::shared(&Mariadb).await;
    let url = mariadb.database().await;
    let setup = Setup::new()
        .set("store.url", &url)
        .set("layout.worker_bits", 3)
        .set("lease.ttl", "10s")
        .set("lease.renew", "1s")
        .set("lease.window", "20s");
    let mut nodes = Vec::new();
    for _ in 0..7 {
        nodes.push(setup.clone().start_leased().await);
    }
    let eighth = setup.start().await;
    let refused = poll::until(PATIENCE, "the eighth is refused", async || {
        let (status, body) = eighth.json("/id/order").await;
        (body["code"] == "lease_unavailable").then_some(status)
    })
    .await;
    assert_eq!(refused, 503);
    let answer = eighth.get("/id/order").await.expect("an answer");
    let retry_after = answer.headers()["retry-after"].to_str().expect("text").parse::<u64>();
    assert!((1..=11).contains(&retry_after.expect("seconds")));
    let (status, _) = eighth.json("/health").await;
    assert_eq!(status, 503);
    // The log says so once, however often the node searches; it may also say that the store was
    // slow.
    let searches = "operation=\"acquire\",outcome=\"none_free\"";
    let searched = async || eighth.metric("raindrop_lease_operations_total", searches).await;
    let again = async || (searched().await >= 4.0).then_some(());
    poll::until(PATIENCE, "four searches", again).await;
    assert!(eighth.log().matches("lease at risk").count() <= 2, "{}", eighth.log());

    let collected = Collected::default();
    for node in &nodes {
        collected.add(&node.ids("order", 1_000).await);
    }
    nodes.pop().expect("seven").stop().await;
    eighth.until_ready().await;
    collected.add(&eighth.ids("order", 1_000).await);
    assert_eq!((collected.count(), collected.duplicates()), (8_000, 0));
}
