//! Ends a simulation: all faults are repaired, and every node that can have a row must issue.

use raindrop_store::Store;

use crate::{check::FailureKind, model::Setup, world::World};

/// How often the simulation checks whether a node issues again.
const LOOK_MS: u64 = 1_000;
/// How long a node may take beyond the times of its lease. A node gives up a request without an
/// answer after 10 s, and checks the store again 5 s later at most.
const SLACK_MS: u64 = 20_000;

impl World<'_> {
    /// Repairs all faults, lets as much time pass as the rules may need, and demands IDs.
    pub(crate) async fn settle(&mut self) {
        self.put_right().await;
        // Nodes that start may add rows, whose marks are ahead.
        self.advance(LOOK_MS + 10 * self.setup.latency_ms).await;
        // A node checks the store, and begins an epoch or creates what is gone.
        self.advance(self.setup.renew_ms + SLACK_MS).await;
        // If servers took turns, a node refused an epoch. It begins that only minutes later, with
        // another barrier.
        if !self.all_issue().await && !self.has_failed() && !self.all_issue().await {
            let troubles: Vec<_> =
                self.nodes.iter().flatten().map(|node| node.issuer.status()).collect();
            self.fail(FailureKind::Standstill, format!("{:?} issue: {troubles:?}", self.issuing));
        }
        if !self.has_failed() {
            self.renew_in_time().await;
        }
    }

    /// Demands that no start takes the store for a restored one while its holders live.
    async fn renew_in_time(&mut self) {
        let Setup { renew_ms, skew_ms, latency_ms, .. } = *self.setup;
        // On a store without a clock of its own no start waits. A clock that was behind and is
        // corrected looks there like one that jumped ahead, so no node renews for a window.
        if !self.setup.own_clock {
            return;
        }
        // A renewal that takes longer than `renew_ms` delays the next one: it has about nine round
        // trips.
        if 10 * latency_ms > renew_ms {
            return;
        }
        let oldest_ms = (renew_ms * 3 / 2).saturating_sub(skew_ms).max(renew_ms / 8 * 9);
        // Writes that the repair made necessary may have delayed the renewal under way.
        self.advance(2 * renew_ms).await;
        for _ in 0..(2 * renew_ms).div_ceil(LOOK_MS) {
            self.advance(LOOK_MS).await;
            let newest = self.cluster.memory.unreleased_rows("default", 1).await;
            let newest = newest.expect("memory does not fail").pop();
            let age_ms = newest.map_or(0, |row| self.time.now_ms() - row.heartbeat_ms);
            if age_ms > i64::try_from(oldest_ms).expect("small") {
                let detail = format!("the newest heartbeat is {age_ms} ms old");
                return self.fail(FailureKind::RenewedTooSeldom, detail);
            }
        }
    }

    /// Lets as much time pass as the rules may need, and returns whether every node then issues
    /// that can have a row.
    async fn all_issue(&mut self) -> bool {
        self.wait_for_marks().await;
        let unit_ms = self.layout.unit().millis();
        if unit_ms > 1_000 {
            // The rest of the present tick may be used up.
            self.time.sleep_all(unit_ms - self.time.now_ms().rem_euclid(unit_ms));
        }
        // A clock that was behind and is corrected looks like one that jumped ahead: the node gives
        // up its lease after a window. The row of a dead node comes free after the ttl. After a
        // fail-over the first lease begins a window and twice the skew later.
        let longest_ms =
            self.setup.window_ms + 2 * self.setup.skew_ms + self.setup.ttl_ms + SLACK_MS;
        let expected = self.setup.nodes().min(usize::try_from(self.setup.workers).expect("few"));
        self.issuing.fill(false);
        for _ in 0..longest_ms.div_ceil(LOOK_MS) {
            for node in 0..self.setup.nodes() {
                // Starts processes that ended, as an orchestrator does.
                self.start(node, true);
                if !self.issuing[node] {
                    self.issue(node, 0, 1);
                }
            }
            self.advance(LOOK_MS).await;
            if self.has_failed() {
                return false;
            }
            if self.issuing.iter().filter(|issuing| **issuing).count() >= expected {
                // Ranges that overlap would show now that all nodes agree on the time.
                for code in 0..self.setup.codes {
                    (0..self.setup.nodes()).for_each(|node| self.issue(node, code, 2));
                }
                self.advance(2 * LOOK_MS).await;
                return true;
            }
        }
        false
    }

    async fn put_right(&mut self) {
        self.cluster.state().outage = false;
        self.cluster.state().log_hangs = false;
        (0..self.setup.nodes()).for_each(|node| self.mend_disk(node));
        for link in 0..=self.setup.nodes() {
            self.heal(link);
            self.cluster.state().links[link].faults.clear();
        }
        while !self.cluster.state().late.is_empty() {
            self.deliver(0).await;
        }
        self.clocks.iter().for_each(|clock| clock.put_right());
        self.store_clock.put_right();
        self.finish_operations().await;
        for node in 0..self.setup.nodes() {
            self.start(node, true);
        }
    }

    /// Waits until marks, expiries and readings that wrong clocks left in the future are past.
    async fn wait_for_marks(&mut self) {
        let rows = self.cluster.memory.list_rows().await.expect("memory does not fail");
        let marks = rows.iter().flat_map(|listed| listed.row.marks.iter());
        let dues = marks.map(|mark| self.layout.start_of_tick_ms(self.layout.tick_of(mark)));
        let expiries = rows.iter().map(|listed| listed.row.expires_ms);
        let readings = self.clocks.iter().map(|clock| clock.highest_ms());
        let now_ms = self.time.now_ms();
        let record = self.cluster.memory.read_record("default").await;
        let record = record.expect("memory does not fail");
        let barrier = record.map_or(0, |record| record.history.barrier(&self.layout));
        let barrier_ms = self.layout.start_of_tick_ms(self.layout.tick_of(barrier));
        let dues = dues.chain([barrier_ms]);
        let latest_ms = dues.chain(expiries).chain(readings).fold(now_ms, i64::max);
        self.time.sleep_all(latest_ms + 1 - now_ms);
    }
}
