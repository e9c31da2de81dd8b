//! Runs clients that take places and do nothing with them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{Watched, length, mib, most_connections};
use crate::{
    collected::Collected,
    service::{GIVES_UP, PATIENCE, Setup, client, from_environment, parse_ids},
    support::poll,
};

/// How many healthy clients keep their connection; as many open one for each request.
const HEALTHY: usize = 8;
/// How many slow clients connect at once.
const COMING: u64 = 100;
/// Open files beside the slow clients' connections.
const OTHER_FILES: u64 = 500;

/// How a client is slow.
#[derive(Clone, Copy)]
enum Slow {
    /// The client sends nothing.
    Silent,
    /// The client sends a part of a head and no more.
    Half,
    /// The client sends a byte of an endless header now and then.
    Dribbling,
    /// The client made one request, and keeps the connection.
    Idle,
}

impl Slow {
    const ALL: [Self; 4] = [Self::Silent, Self::Half, Self::Dribbling, Self::Idle];

    /// Takes a place for as long as the service lets it.
    async fn stay(self, address: SocketAddr) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(address).await?;
        let sent: &[u8] = match self {
            Self::Silent => b"",
            Self::Half | Self::Dribbling => b"GET /id/order HTTP/1.1\r\nhost: x\r\nslow: ",
            Self::Idle => b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n",
        };
        stream.write_all(sent).await?;
        let mut answer = [0; 1024];
        loop {
            match timeout(Duration::from_secs(1), stream.read(&mut answer)).await {
                Ok(read) => {
                    if read? == 0 {
                        return Ok(());
                    }
                }
                Err(_) if matches!(self, Self::Dribbling) => stream.write_all(b"x").await?,
                Err(_) => {}
            }
        }
    }
}

/// The answers that healthy clients got.
#[derive(Default)]
struct Healthy {
    stopped: AtomicBool,
    collected: Collected,
    longest_us: AtomicU64,
}

impl Healthy {
    async fn ask_until_stopped(&self, client: Client, url: String) {
        while !self.stopped.load(Ordering::Relaxed) {
            let began = Instant::now();
            let answer = client.get(&url).send().await.expect("healthy clients are served");
            assert_eq!(answer.status(), 200);
            self.collected.add(&parse_ids(&answer.json().await.expect("JSON")));
            let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.longest_us.fetch_max(took, Ordering::Relaxed);
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// As many slow clients as there are places reconnect whenever the service cuts them off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn healthy_clients_are_served_while_slow_ones_take_every_place() {
    let slow = from_environment("SLOW").unwrap_or(300);
    let setup = Setup::new().set("http.max_connections", slow);
    // The service starts before this process raises its limit of open files: it must raise its own.
    let watched = Arc::new(Watched::start(setup).await);
    let limit = getrlimit(Resource::Nofile);
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    assert!(allowed >= slow + OTHER_FILES, "ulimit -Hn {allowed}: SLOW={slow} needs more files");
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("its own limit");

    let rest = watched.look().await;
    let watching = watched.watch();
    let url = watched.service.url("/id/order");
    let address = watched.service.address();
    let comings: Arc<AtomicU64> = Arc::default();
    let mut crowd = JoinSet::new();
    for number in 0..slow {
        if number % COMING == 0 {
            // The test is not about the kernel's queue of new connections.
            sleep(Duration::from_millis(50)).await;
        }
        let comings = Arc::clone(&comings);
        let kind = Slow::ALL[usize::try_from(number).expect("small") % Slow::ALL.len()];
        crowd.spawn(async move {
            loop {
                comings.fetch_add(1, Ordering::Relaxed);
                // The client comes again, whatever ended its connection.
                let _ = kind.stay(address).await;
                sleep(Duration::from_secs(1)).await;
            }
        });
    }
    // Clients that are cut off because of their heads are away for a moment.
    poll::until(PATIENCE, "nearly every place is taken", async || {
        (watched.look().await.connections >= 0.8 * slow as f64).then_some(())
    })
    .await;

    let healthy = Arc::new(Healthy::default());
    let mut clients = JoinSet::new();
    for number in 0..2 * HEALTHY {
        let keeps = usize::from(number < HEALTHY);
        let client = Client::builder().pool_max_idle_per_host(keeps).timeout(GIVES_UP).build();
        let (healthy, url) = (Arc::clone(&healthy), url.clone());
        let client = client.expect("nothing unusual");
        clients.spawn(async move { healthy.ask_until_stopped(client, url).await });
    }
    sleep(length()).await;
    healthy.stopped.store(true, Ordering::Relaxed);
    clients.join_all().await;
    let seen = watching.stop().await;
    crowd.shutdown().await;

    let metrics = client().get(format!("{}/metrics", watched.admin)).send().await;
    let metrics = metrics.expect("answered").text().await.expect("text");
    let dropped: Vec<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("raindrop_http_connections_dropped_total"))
        .collect();
    println!(
        "{:?} with {slow} slow clients, who came {} times: IDs for healthy ones {}, the longest \
         after {:?} · at most {} connections, {} above the {} at rest · dropped {}",
        length(),
        comings.load(Ordering::Relaxed),
        healthy.collected.count(),
        Duration::from_micros(healthy.longest_us.load(Ordering::Relaxed)),
        seen.connections,
        mib(seen.memory - rest.memory),
        mib(rest.memory),
        dropped.join(", "),
    );
    assert!(healthy.collected.count() > 2 * HEALTHY);
    assert_eq!(healthy.collected.duplicates(), 0);
    assert!(seen.connections <= most_connections(slow), "{seen:?}");
    Arc::into_inner(watched).expect("nobody watches").service.stop().await;
}
