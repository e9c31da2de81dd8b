//! Runs more clients than the service has room for, and clients that are slow on purpose.
//!
//! `SECONDS=60` sets how long each test lasts, `SLOW=10000` how many clients are slow. Without them
//! both are short and small, with the same promises.

mod demand;
mod files;
mod heads;
mod slow;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::Client;
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    service::{Service, Setup, client, from_environment},
    support::free_port,
};

/// How much more memory a process under any load may have than at rest.
const MEMORY: f64 = 64.0 * 1024.0 * 1024.0;

/// Returns the most connections of a service: those of clients, and the spare places for probes.
fn most_connections(of_clients: u64) -> f64 {
    of_clients as f64 + spare_places(of_clients)
}

fn spare_places(of_clients: u64) -> f64 {
    (of_clients / 4).clamp(8, 64) as f64
}

fn length() -> Duration {
    Duration::from_secs(from_environment("SECONDS").unwrap_or(4))
}

/// A service with a listener for operators, and the highest values that they saw there.
struct Watched {
    service: Service,
    admin: String,
    client: Client,
}

/// The highest values.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    samples: u32,
    connections: f64,
    in_flight: f64,
    memory: f64,
}

impl Watched {
    async fn start(setup: Setup) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let service = setup.set("http.admin_listen", &address).start_leased().await;
        Self { service, admin: format!("http://{address}"), client: client() }
    }

    /// Returns what operators see now.
    async fn look(&self) -> Seen {
        let ready = self.client.get(format!("{}/readyz", self.admin)).send().await;
        let ready = ready.expect("operators are answered").status();
        assert_eq!(ready, 200, "it is ready however many there are");
        let metrics = self.client.get(format!("{}/metrics", self.admin)).send().await;
        let metrics = metrics.expect("operators are answered").text().await.expect("text");
        Seen {
            samples: 1,
            connections: value(&metrics, "raindrop_http_connections"),
            in_flight: value(&metrics, "raindrop_http_requests_in_flight"),
            memory: value(&metrics, "process_resident_memory_bytes"),
        }
    }

    /// Watches until the test ends it.
    fn watch(self: &Arc<Self>) -> Watching {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (watched, told) = (Arc::clone(self), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            loop {
                let now = watched.look().await;
                told.lock().unwrap_or_else(PoisonError::into_inner).widen(now);
                sleep(Duration::from_millis(50)).await;
            }
        });
        Watching { seen, task }
    }
}

impl Seen {
    fn widen(&mut self, now: Self) {
        self.samples += now.samples;
        self.connections = self.connections.max(now.connections);
        self.in_flight = self.in_flight.max(now.in_flight);
        self.memory = self.memory.max(now.memory);
    }
}

/// An operator who watches all the time.
struct Watching {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Watching {
    async fn stop(self) -> Seen {
        self.task.abort();
        match self.task.await {
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => *self.seen.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

fn value(metrics: &str, name: &str) -> f64 {
    let sample = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    sample.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}:\n{metrics}"))
}

fn mib(bytes: f64) -> String {
    format!("{:.0} MiB", bytes / 1024.0 / 1024.0)
}
