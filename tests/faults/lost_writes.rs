//! Tests renewals that are visible before they are durable, and are lost when the server is killed:
//! its log device hangs, or its standby is away. No acknowledged write is lost.

use rustix::process::Signal;

use crate::{
    collected::Collected,
    day_ticks::{USED, issue, setup, until_it_stays_the_same_day, until_refused},
    service::{PATIENCE, Service, Setup},
    support::{
        mariadb::Mariadb,
        poll,
        postgres::Postgres,
        proxy::Proxy,
        server::{Engine, Server},
    },
};

/// InnoDB shows a commit before its log is flushed, unless a binary log orders commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_renewal_lost_with_hung_log_repeats_no_id() {
    let server = Server::start_with_log_device(&Mariadb, &["--innodb-flush-method=fsync"]).await;
    let url = server.database().await;
    let holder = Holder::start(&Mariadb, &url).await;
    server.hang_log();
    holder.use_more_than_half().await;
    holder.until_visible(&url).await;
    // The node reads the row before each renewal; the second read finds the visible one.
    holder.until_unanswered(2).await;
    holder.node.signal(Signal::STOP);
    server.restart_with_working_log().await;
    assert_eq!(holder.marked(&url).await, holder.mark, "what was visible is lost");
    holder.lose_row_to_another_node(&url).await;
}

/// PostgreSQL flushes its log before it shows a commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_renewal_lost_with_hung_log_repeats_no_id() {
    let server = Server::start_with_log_device(&Postgres, &[]).await;
    let url = server.database().await;
    let holder = Holder::start(&Postgres, &url).await;
    server.hang_log();
    holder.use_more_than_half().await;
    holder.until_unanswered(2).await;
    assert_eq!(holder.marked(&url).await, holder.mark, "it was never visible");
    holder.node.signal(Signal::STOP);
    server.restart_with_working_log().await;
    assert_eq!(holder.marked(&url).await, holder.mark, "it is lost");
    holder.lose_row_to_another_node(&url).await;
}

/// A commit that waits for a standby is in the primary's log already: a restart reveals it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewal_visible_after_primary_restart_and_missing_on_standby_repeats_no_id() {
    renewal_missing_on_standby(async |primary, _| primary.restart().await).await;
}

/// When the waiting connection is terminated, the commit becomes visible. `statement_timeout` does
/// not end the wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewal_visible_after_ended_wait_and_missing_on_standby_repeats_no_id() {
    renewal_missing_on_standby(async |primary, url| {
        let end = "SELECT CAST(pg_terminate_backend(pid) AS TEXT) FROM pg_stat_activity \
                   WHERE wait_event = 'SyncRep'";
        assert_eq!(primary.texts(url, end).await, ["true"]);
    })
    .await;
}

async fn renewal_missing_on_standby(reveal: impl AsyncFnOnce(&Server, &str)) {
    let primary = Server::start(&Postgres).await;
    let url = primary.database().await;
    let standby = primary.start_standby().await;
    let standbys_url = Postgres.through(&url, standby.port());
    // The standby has copied the settings already, so it will wait for no other server.
    primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'").await;
    primary.run("SELECT pg_reload_conf()").await;
    until_texts(&primary, &url, "SELECT sync_state FROM pg_stat_replication", &["sync"]).await;
    let holder = Holder::start(&Postgres, &url).await;

    standby.kill9();
    holder.use_more_than_half().await;
    let waiting = "SELECT wait_event FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until_texts(&primary, &url, waiting, &["SyncRep"]).await;
    assert_eq!(holder.marked(&url).await, holder.mark, "not visible yet");
    reveal(&primary, &url).await;
    holder.until_visible(&url).await;
    holder.until_unanswered(2).await;
    holder.node.signal(Signal::STOP);
    primary.kill9();
    standby.restart().await;
    standby.run("SELECT pg_promote()").await;
    assert_eq!(holder.marked(&standbys_url).await, holder.mark, "what was visible is lost");
    holder.lose_row_to_another_node(&standbys_url).await;
}

async fn until_texts(server: &Server, url: &str, sql: &str, expected: &[&str]) {
    poll::until(PATIENCE, &format!("{sql} says {expected:?}"), async || {
        (server.texts(url, sql).await == expected).then_some(())
    })
    .await;
}

/// Settings of processes whose store loses no acknowledged write: a standby has each, too.
fn lossless(url: &str) -> Setup {
    setup(url).set("store.failover", "lossless").set("lease.ttl", "10s")
}

/// A node that reaches its database through a proxy, and the row that it has leased.
struct Holder {
    engine: &'static dyn Engine,
    node: Service,
    proxy: Proxy,
    worker: u64,
    /// The row's mark before the node issued anything.
    mark: u64,
    collected: Collected,
}

impl Holder {
    async fn start(engine: &'static dyn Engine, url: &str) -> Self {
        until_it_stays_the_same_day().await;
        let proxy = Proxy::start(url).await;
        let setup = lossless(&engine.through(url, proxy.port()));
        let node = setup.set("worker.min_id", 5).set("worker.max_id", 6).start_leased().await;
        let worker = node.worker().await;
        let mark = mark(engine, url, worker).await;
        Self { engine, node, proxy, worker, mark, collected: Collected::default() }
    }

    /// Returns the row's present mark.
    async fn marked(&self, url: &str) -> u64 {
        mark(self.engine, url, self.worker).await
    }

    /// Waits until other sessions see a raised mark.
    async fn until_visible(&self, url: &str) {
        poll::until(PATIENCE, "the renewal is visible", async || {
            (self.marked(url).await > self.mark).then_some(())
        })
        .await;
    }

    /// Uses more than half of the lease, from where renewals raise the mark; until then they leave
    /// it unchanged.
    async fn use_more_than_half(&self) {
        issue(&self.node, &self.collected, USED).await;
    }

    /// Waits for this many more renewals without an answer.
    async fn until_unanswered(&self, more: u32) {
        let labels = "operation=\"renew\",outcome=\"unknown\"";
        let unanswered = async || self.node.metric("raindrop_lease_operations_total", labels).await;
        let enough = unanswered().await + f64::from(more);
        poll::until(PATIENCE, "renewals have no answer", async || {
            (unanswered().await >= enough).then_some(())
        })
        .await;
    }

    /// Lets another node take the row of the paused one. The paused one then resumes without its
    /// store until it refuses, and with it afterwards.
    async fn lose_row_to_another_node(self, url: &str) {
        let Self { engine, node, proxy, worker, collected, .. } = self;
        proxy.disconnect();
        // The other node waits until the row has expired: a row that an operator releases comes due
        // tomorrow.
        let other = lossless(url).set("worker.id", worker).start_leased().await;
        node.signal(Signal::CONT);
        let own = until_refused(&node, &collected).await;
        let others = own.max(USED);
        issue(&other, &collected, others).await;
        println!(
            "{} · after the loss {own} IDs of the paused node, {others} of the other: {} \
             duplicates of {}",
            engine.name(),
            collected.duplicates(),
            collected.count(),
        );
        assert_eq!(collected.duplicates(), 0);

        proxy.point_to(url);
        poll::until(PATIENCE, "the first node leases another row", async || {
            let leased = node.health().await["worker_id"].as_u64();
            leased.filter(|leased| *leased != worker)
        })
        .await;
        for node in [&node, &other] {
            issue(node, &collected, USED).await;
        }
        assert_eq!(collected.duplicates(), 0);
    }
}

async fn mark(engine: &dyn Engine, url: &str, worker: u64) -> u64 {
    let sql = format!("SELECT marks FROM soc_raindrop_worker WHERE worker_id = {worker}");
    engine.texts(url, &sql).await[0].parse().expect("the mark of the only lane")
}
