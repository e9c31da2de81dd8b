//! Runs fleets on a server that becomes slow, with more nodes than it has connections.
//!
//! A fleet starts while the server is fast. Then each answer comes late, and every node must still
//! renew its lease in time. `make fleets` reports larger fleets than every build tests.

#![expect(clippy::print_stdout, reason = "the figures of a run are part of its result")]

use std::{
    env, fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use raindrop::{
    core::{
        clock::{Clock as _, SystemClock},
        preset::Preset,
    },
    keeper::{Issuer, Keeper, KeeperSettings, NoObserver},
    store::{StoreSettings, connect},
};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{
    mariadb::Mariadb,
    poll,
    postgres::Postgres,
    proxy::Proxy,
    server::{Engine, Server},
};

/// For events that must happen, however busy the machine is.
const PATIENCE: Duration = Duration::from_mins(5);
/// Short, so that a node that cannot renew is soon silent; the default renewals need a little more
/// than a minute.
const WINDOW: Duration = Duration::from_secs(61);
/// The pause between the IDs of a node.
const PAUSE: Duration = Duration::from_millis(250);
/// How long after a node's last ID it counts as silent: a busy machine may delay one by less.
const SILENT: Duration = Duration::from_secs(10);
/// The time between the lines of a report.
const BETWEEN_LINES: Duration = Duration::from_secs(15);
/// How long a fleet is watched after the slow time: every node renews once.
const RECOVERY: Duration = Duration::from_secs(30);

/// Nodes in this process that issue IDs, on a separate server.
struct Fleet {
    began: Instant,
    nodes: Vec<(Keeper, Issuer, Arc<Issued>)>,
    proxy: Proxy,
    _server: Server,
}

/// When a node issued its last ID, and its longest silence before that, in ms since the start.
#[derive(Default)]
struct Issued {
    last: AtomicU64,
    longest_silence: AtomicU64,
}

/// Issues an ID now and then, once the node has its first lease.
async fn issue(issuer: Issuer, issued: Arc<Issued>, began: Instant) {
    issuer.leased().await;
    loop {
        if issuer.next_id("order").await.is_ok() {
            let now = since(began);
            let silence = now - issued.last.swap(now, Ordering::Relaxed);
            issued.longest_silence.fetch_max(silence, Ordering::Relaxed);
        }
        sleep(PAUSE).await;
    }
}

fn since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).expect("not that long")
}

/// The behaviour of a fleet during one phase of the test.
struct Report {
    nodes: usize,
    fewest_issuing: usize,
    longest_silence: Duration,
    logins: u32,
    refused: u32,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, fewest_issuing, longest_silence, logins, refused } = self;
        let silence = longest_silence.as_secs_f64();
        write!(
            f,
            "{fewest_issuing} of {nodes} always issued, longest silence {silence:.1} s, {logins} \
             logins, {refused} of them refused"
        )
    }
}

impl Fleet {
    /// Starts the nodes on a server with this many connections, and waits until each has renewed
    /// its lease.
    async fn start(engine: &'static dyn Engine, connections: u32, nodes: usize) -> Self {
        let arguments = match engine.name() {
            "PostgreSQL" => vec!["-c".to_owned(), format!("max_connections={connections}")],
            _ => vec![format!("--max-connections={connections}")],
        };
        let server = Server::start_with(engine, arguments).await;
        let url = server.database().await;
        let proxy = Proxy::start(&url).await;
        let url = url.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
        let (began, clock) = (Instant::now(), Arc::new(SystemClock::default()));
        let start = |number| {
            let layout = Preset::Raindrop.spec().build().expect("a preset is valid");
            let store = connect(&StoreSettings::new(&url), clock.clone()).expect("usable settings");
            let mut settings = KeeperSettings::new(layout, format!("node-{number}"));
            settings.lease.window = WINDOW;
            let (keeper, issuer) =
                Keeper::start(settings, store, clock.clone(), Arc::new(NoObserver));
            let issued = Arc::new(Issued::default());
            tokio::spawn(issue(issuer.clone(), Arc::clone(&issued), began));
            (keeper, issuer, issued)
        };
        let fleet = Self { began, nodes: (0..nodes).map(start).collect(), proxy, _server: server };
        let renewed_ms = i64::try_from(WINDOW.as_millis()).expect("a minute") / 2;
        for (_, issuer, _) in &fleet.nodes {
            timeout(PATIENCE, issuer.leased()).await.expect("a lease");
            poll::until(PATIENCE, "a renewal", async || {
                let beyond_ms = clock.now_ms() + renewed_ms;
                let lease = issuer.status().lease?;
                (lease.valid_until_ms > beyond_ms).then_some(())
            })
            .await;
        }
        fleet
    }

    /// Returns how long each node has issued nothing.
    fn silences(&self) -> impl Iterator<Item = Duration> {
        let now = since(self.began);
        let silence = move |issued: &Issued| now - issued.last.load(Ordering::Relaxed).min(now);
        self.nodes.iter().map(move |(.., issued)| Duration::from_millis(silence(issued)))
    }

    /// Returns how many nodes issue IDs.
    fn issuing(&self) -> usize {
        self.silences().filter(|silence| *silence < SILENT).count()
    }

    /// Watches the nodes for this time, with answers this late.
    async fn watch(&self, late: Duration, lasting: Duration) -> Report {
        self.proxy.delay(late);
        for (.., issued) in &self.nodes {
            issued.longest_silence.store(0, Ordering::Relaxed);
        }
        let counted = || (self.proxy.count_logins(), self.proxy.count_refused());
        let (begin, before) = (Instant::now(), counted());
        let (mut fewest_issuing, mut next_line) = (self.nodes.len(), Duration::ZERO);
        while begin.elapsed() < lasting {
            sleep(PAUSE).await;
            let issuing = self.issuing();
            fewest_issuing = fewest_issuing.min(issuing);
            if begin.elapsed() >= next_line {
                next_line += BETWEEN_LINES;
                let (seconds, (logins, refused)) = (begin.elapsed().as_secs(), counted());
                let (logins, refused) = (logins - before.0, refused - before.1);
                println!("  {seconds} s: {issuing} issue, {logins} logins, {refused} refused");
            }
        }
        let past = |issued: &Issued| issued.longest_silence.load(Ordering::Relaxed);
        let past = self.nodes.iter().map(|(.., issued)| Duration::from_millis(past(issued)));
        let (logins, refused) = counted();
        Report {
            nodes: self.nodes.len(),
            fewest_issuing,
            longest_silence: past.chain(self.silences()).max().unwrap_or_default(),
            logins: logins - before.0,
            refused: refused - before.1,
        }
    }
}

/// For a quarter of a minute longer than leases last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_nodes_go_on_with_a_slow_postgres_with_100_connections() {
    let fleet = Fleet::start(&Postgres, 100, 200).await;
    let lasting = WINDOW + Duration::from_secs(15);
    let report = fleet.watch(Duration::from_millis(400), lasting).await;
    assert_eq!(report.fewest_issuing, report.nodes, "{report}");
}

/// Reports the behaviour of fleets of several sizes, in steps of a quarter of a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make fleets"]
async fn report() {
    let numbers = |variable: &str| {
        let value = env::var(variable).expect(variable);
        let numbers = value.split_whitespace().map(|number| number.parse::<u64>().expect(variable));
        numbers.collect::<Vec<_>>()
    };
    let lasting = Duration::from_secs(numbers("LASTING")[0]);
    let engines: [(&'static dyn Engine, u32); 2] = [(&Postgres, 100), (&Mariadb, 151)];
    let named = env::var("ENGINE").unwrap_or_default().to_lowercase();
    for (engine, connections) in engines {
        if !engine.name().to_lowercase().contains(&named) {
            continue;
        }
        for nodes in numbers("NODES") {
            for late_ms in numbers("LATE_MS") {
                let nodes = usize::try_from(nodes).expect("a small number");
                println!("{} with {connections} connections, {nodes} nodes", engine.name());
                let fleet = Fleet::start(engine, connections, nodes).await;
                let late = Duration::from_millis(late_ms);
                let slow = fleet.watch(late, lasting).await;
                println!("answers {late_ms} ms late for {lasting:?}: {slow}");
                let well = fleet.watch(Duration::ZERO, RECOVERY).await;
                println!("well again: {} issue at the end; {well}", fleet.issuing());
            }
        }
    }
}
