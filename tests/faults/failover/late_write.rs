//! Lets a write that was prepared for the first primary arrive at the next one, or at the first one
//! when that is the primary again.

use std::time::Duration;

use rustix::process::Signal;
use tokio::join;

use crate::{
    collected::Collected,
    day_ticks::{USED, issue, issue_what_it_may, setup, until_it_stays_the_same_day},
    service::{PATIENCE, Service, Setup},
    support::{
        pair::{Pair, Replicated},
        poll,
    },
};

const WORKER: u64 = 5;
const HOLDER: &str = "holder-of-the-late-write";
/// The time-out of the held write.
const HELD: &str = "4s";
const TTL: Duration = Duration::from_secs(3);
/// A node that issues no IDs for this long waits for something that this test does not wait for.
const IDLE: Duration = TTL.saturating_mul(3);
const ENOUGH: usize = 4 * USED;

pub(super) async fn late_writes(engine: &'static dyn Replicated) {
    join!(late_write(engine, Arrival::FailOver), late_write(engine, Arrival::FailBack));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// No node has read from the new primary: the write itself must tell it from the old one.
    FailOver,
    /// The write was prepared for this server: only the epoch tells that the server failed over
    /// meanwhile.
    FailBack,
}

/// Restores the row as it was when the write was prepared. In between its holder issued more than
/// the write allows, by renewals that are lost.
async fn late_write(engine: &'static dyn Replicated, arrival: Arrival) {
    until_it_stays_the_same_day().await;
    let mut pair = Pair::start(engine).await;
    let setup = setup(&pair.url()).set("lease.ttl", format!("{}s", TTL.as_secs()));
    let holders = setup.clone().set("worker.id", WORKER);
    let holder = holders.clone().set("store.timeout", HELD).set("worker.holder", HOLDER);
    let holder = holder.start_leased().await;
    // A node that reads from every primary.
    let witness = setup.set("worker.id", WORKER + 1).start_leased().await;
    let collected = Collected::default();
    issue(&holder, &collected, USED).await;
    pair.proxy.carry(HOLDER);
    pair.proxy.met().await;
    // The holder sends no other write until it gives this one up.
    pair.until_caught_up().await;
    pair.stop_replication().await;
    issue(&holder, &collected, 3 * USED).await;
    holder.signal(Signal::STOP);
    match arrival {
        Arrival::FailOver => {
            witness.signal(Signal::STOP);
            pair.kill_primary();
            pair.promote().await;
        }
        Arrival::FailBack => {
            promote_before(&witness, &mut pair).await;
            pair.rejoin().await;
            pair.settle().await;
            promote_before(&witness, &mut pair).await;
        }
    }

    // Redis runs a late write only if it knows the script, which other nodes load.
    let stranger = Setup::new().set("store.url", pair.another_database().await);
    stranger.start_leased().await.stop().await;
    let token = pair.token(WORKER).await;
    let answered = pair.proxy.count_answered();
    pair.proxy.release();
    pair.proxy.answered(answered + 1).await;
    let is_refused = pair.token(WORKER).await == token;
    let other = holders.start().await;
    let others = issue_what_it_may(&other, &collected, ENOUGH, IDLE).await;
    holder.signal(Signal::CONT);
    let own = issue_what_it_may(&holder, &collected, ENOUGH, IDLE).await;
    let duplicates = collected.duplicates();
    println!(
        "{} · a late write, {arrival:?}, {} · then {own} IDs of the holder, {others} of another \
         node: {duplicates} duplicates of {}",
        engine.name(),
        if is_refused { "refused" } else { "accepted" },
        collected.count(),
    );
    assert!(is_refused, "it was prepared before the fail-over");
    assert_eq!(duplicates, 0);
}

/// Fails over, and waits until a node has found the new primary.
async fn promote_before(witness: &Service, pair: &mut Pair) {
    // The node writes its row, or a new epoch.
    let looks = async || {
        witness.metric("raindrop_lease_operations_total", "outcome=\"done\"").await
            + witness.metric("raindrop_store_epoch_changes_total", "").await
    };
    pair.kill_primary();
    let before = looks().await;
    pair.promote().await;
    poll::until(PATIENCE, "the other node finds the new primary", async || {
        (looks().await > before).then_some(())
    })
    .await;
}
