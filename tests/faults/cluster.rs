//! Runs processes on one database under load, and injects faults one after the other.

use std::{sync::Arc, time::Duration};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IteratorRandom as _};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::{
    load::{Home, Load},
    report::{Report, Row},
    service::{PATIENCE, Service, Setup},
    support::{
        poll,
        proxy::Proxy,
        server::{Engine, Server},
    },
};

/// How far leases reach ahead.
pub(crate) const WINDOW: Duration = Duration::from_secs(15);
/// The time after which another process may take a row.
pub(crate) const TTL: Duration = Duration::from_secs(3);

/// The members that reach the database through the proxy.
pub(crate) const PROXIED: [usize; 2] = [2, 3];
/// The members whose clocks tests shift.
pub(crate) const WITH_CLOCK: [usize; 2] = [4, 5];
const MEMBERS: usize = 6;

/// The processes, their database and their clients.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) server: Server,
    pub(crate) proxy: Proxy,
    pub(crate) members: Vec<Member>,
    pub(crate) load: Arc<Load>,
    random: StdRng,
    pub(crate) report: Report,
    url: String,
}

/// A process that starts again after it ended.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) service: Service,
    pub(crate) home: Arc<Home>,
    pub(crate) holder: String,
    setup: Setup,
}

/// The victims of a fault, and how often it struck.
#[derive(Debug)]
pub(crate) struct Struck {
    pub(crate) times: usize,
    pub(crate) victims: Vec<Arc<Home>>,
}

impl Cluster {
    pub(crate) async fn start(engine: &'static dyn Engine, seed: u64) -> Self {
        let server = Server::start(engine).await;
        let url = server.database().await;
        let proxy = Proxy::start(&url).await;
        let proxied = engine.through(&url, proxy.port());
        let load = Arc::new(Load::default());
        let mut members = Vec::new();
        for index in 0..MEMBERS {
            let url = if PROXIED.contains(&index) { &proxied } else { &url };
            let holder = format!("member-{index}");
            let setup = quick(url).set("worker.holder", &holder);
            let setup = if WITH_CLOCK.contains(&index) { setup.with_clock() } else { setup };
            let service = setup.clone().start_leased().await;
            let home = load.join(&service);
            members.push(Member { service, home, holder, setup });
        }
        let (random, report) = (StdRng::seed_from_u64(seed), Report::new(engine.name()));
        let cluster = Self { server, proxy, members, load, random, report, url };
        cluster.until_renewed().await;
        cluster
    }

    /// Returns the settings of a process of this cluster.
    pub(crate) fn setup(&self) -> Setup {
        quick(&self.url)
    }

    /// Injects a fault, waits until every member serves again, and records the result.
    pub(crate) async fn suffer(
        &mut self,
        fault: &'static str,
        inflict: impl AsyncFnOnce(&mut Self) -> Struck,
    ) {
        let (count, duplicates) = (self.load.collected.count(), self.load.collected.duplicates());
        self.load.begin();
        let begin = Instant::now();
        let struck = inflict(self).await;
        self.until_all_serve().await;

        let took = begin.elapsed();
        let served: Vec<_> = struck.victims.iter().map(|victim| victim.served()).collect();
        let (figures, unexpected) = (self.load.figures(), self.load.unexpected());
        let rates = served.iter().map(|served| {
            let up = took.saturating_sub(served.gap.longest());
            served.ids as f64 / up.as_secs_f64()
        });
        let row = Row {
            fault,
            times: struck.times,
            requests: figures.requests,
            refused: figures.refused,
            broken: figures.broken,
            unexpected: unexpected.len(),
            ids: self.load.collected.count() - count,
            duplicates: self.load.collected.duplicates() - duplicates,
            cluster_gap: figures.gap.longest(),
            victim_gap: served.iter().map(|served| served.gap.longest()).max().unwrap_or_default(),
            ids_per_second: rates.fold(f64::INFINITY, f64::min),
        };
        let engine = self.report.engine();
        println!("{engine} · {fault} · {:.0} s · {} IDs", took.as_secs_f64(), row.ids);
        assert_eq!(row.duplicates, 0, "{fault}");
        assert!(unexpected.is_empty(), "{fault}: {unexpected:#?}");
        self.report.add(row);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Home>> {
        self.members.iter().map(|member| member.home.clone()).collect()
    }

    /// Returns the index of one of these members.
    pub(crate) fn any(&mut self, among: impl IntoIterator<Item = usize>) -> usize {
        among.into_iter().choose(&mut self.random).expect("at least one")
    }

    /// Returns a random time, so that a fault or its end comes unexpectedly.
    pub(crate) fn moment(&mut self, longest: Duration) -> Duration {
        self.random.random_range(Duration::ZERO..=longest)
    }

    /// Waits until every member has renewed its lease after now.
    pub(crate) async fn until_renewed(&self) {
        let mut before = Vec::new();
        for member in &self.members {
            before.push(member.renewals("done").await);
        }
        for (member, before) in self.members.iter().zip(before) {
            member.until_renewals("done", before).await;
        }
    }

    async fn until_all_serve(&self) {
        let before = self.members.iter().map(|member| member.home.served().ids);
        for (member, before) in self.members.iter().zip(before.collect::<Vec<_>>()) {
            poll::until(PATIENCE, "every member serves", async || {
                (member.home.served().ids > before + 5_000).then_some(())
            })
            .await;
        }
    }
}

impl Member {
    /// Ends the process with a signal and, after a while, starts another one in its place.
    pub(crate) async fn replace(&mut self, signal: Signal, after: Duration) {
        self.home.harm();
        self.service.signal(signal);
        let status = self.service.ended().await;
        assert_eq!(status.success(), signal == Signal::TERM, "{status}\n{}", self.service.log());
        sleep(after).await;
        self.service = self.setup.clone().start_leased().await;
        self.home.moved(&self.service);
        self.home.is_well();
    }

    /// Returns how many renewals had this outcome.
    pub(crate) async fn renewals(&self, outcome: &str) -> f64 {
        let labels = format!("operation=\"renew\",outcome=\"{outcome}\"");
        self.service.metric("raindrop_lease_operations_total", &labels).await
    }

    pub(crate) async fn until_renewals(&self, outcome: &str, more_than: f64) {
        poll::until(PATIENCE, &format!("a renewal is {outcome}"), async || {
            (self.renewals(outcome).await > more_than).then_some(())
        })
        .await;
    }
}

/// Short leases, so that other processes take rows within seconds.
fn quick(url: &str) -> Setup {
    Setup::new()
        .set("store.url", url)
        .set("store.timeout", "1s")
        .set("lease.ttl", format!("{}s", TTL.as_secs()))
        .set("lease.renew", "1s")
        .set("lease.window", format!("{}s", WINDOW.as_secs()))
}
