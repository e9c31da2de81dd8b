//! Runs clients that request IDs in a loop, from whichever process answers.

use std::{
    error::Error,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, StatusCode, header};
use serde_json::Value;
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep},
};

use crate::{
    collected::Collected,
    service::{Service, client, parse_ids},
};

/// How many IDs the clients of each process request at a time, and how long they rest after an
/// answer.
const CLIENTS: [(u32, Duration); 3] = [
    (1, Duration::from_millis(20)),
    (50, Duration::from_millis(50)),
    (500, Duration::from_millis(100)),
];

/// How many requests [`Load::rush`] makes, and for how many IDs each. Processes that get them at
/// the same time issue in the same milliseconds, and fill them.
const RUSH: (usize, u32) = (4, 10_000);
/// How long the client of [`Load::watch`] rests after an answer.
const WATCHING: Duration = Duration::from_millis(20);

/// The clients of all processes, and the answers that they got.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) collected: Collected,
    homes: Mutex<Vec<Arc<Home>>>,
    figures: Mutex<Figures>,
    unexpected: Mutex<Vec<String>>,
    stopped: AtomicBool,
    clients: Mutex<Vec<JoinHandle<()>>>,
}

/// The outcomes of requests since [`Load::begin`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) requests: usize,
    /// 503 as a problem document with `Retry-After`.
    pub(crate) refused: usize,
    /// The connection broke, and the test had killed or stopped the process meanwhile.
    pub(crate) broken: usize,
    /// The longest time in which no client got an ID.
    pub(crate) gap: Gap,
}

/// A process as its clients see it: they stay with it, and turn to another one for a request that
/// it does not answer.
#[derive(Debug)]
pub(crate) struct Home {
    address: Mutex<String>,
    /// Rises when the process is harmed and when it is well again.
    harm: AtomicU32,
    left: AtomicBool,
    served: Mutex<Served>,
}

/// The answers of a process since [`Load::begin`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Served {
    pub(crate) ids: usize,
    pub(crate) gap: Gap,
}

/// The longest time between two answers.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    last: Instant,
    longest: Duration,
}

impl Default for Gap {
    fn default() -> Self {
        Self { last: Instant::now(), longest: Duration::ZERO }
    }
}

impl Gap {
    fn answered(&mut self) {
        self.longest = self.longest();
        self.last = Instant::now();
    }

    /// Returns the longest gap, up to now.
    pub(crate) fn longest(&self) -> Duration {
        self.longest.max(self.last.elapsed())
    }
}

enum Answer {
    Ids(Vec<u64>),
    Refused,
    Broken(String),
    Unexpected(String),
}

impl Load {
    /// Starts the clients of one more process.
    pub(crate) fn join(self: &Arc<Self>, service: &Service) -> Arc<Home> {
        let home = Arc::new(Home {
            address: Mutex::new(service.url("")),
            harm: AtomicU32::new(0),
            left: AtomicBool::new(false),
            served: Mutex::default(),
        });
        lock(&self.homes).push(home.clone());
        for (count, rest) in CLIENTS {
            let (load, home) = (self.clone(), home.clone());
            let client = tokio::spawn(async move { load.client(&home, count, rest).await });
            lock(&self.clients).push(client);
        }
        home
    }

    /// Starts a client that requests IDs of this process alone, to measure its answers apart from
    /// those of others.
    pub(crate) fn watch(self: &Arc<Self>, home: &Arc<Home>) {
        let (load, home) = (self.clone(), home.clone());
        let watching = tokio::spawn(async move {
            let client = client();
            while !load.stopped.load(Ordering::Relaxed) && !home.left.load(Ordering::Relaxed) {
                load.request(&client, &home, 1).await;
                sleep(WATCHING).await;
            }
        });
        lock(&self.clients).push(watching);
    }

    /// Requests as many IDs of a process as it can issue in some milliseconds.
    pub(crate) fn rush(self: &Arc<Self>, home: &Arc<Home>, requests: &mut JoinSet<bool>) {
        for _ in 0..RUSH.0 {
            let (load, home) = (self.clone(), home.clone());
            requests.spawn(async move { load.request(&client(), &home, RUSH.1).await });
        }
    }

    /// Ends the clients of a process for good.
    pub(crate) fn leave(&self, home: &Arc<Home>) {
        home.left.store(true, Ordering::Relaxed);
        lock(&self.homes).retain(|other| !Arc::ptr_eq(other, home));
    }

    /// Begins a new measurement.
    pub(crate) fn begin(&self) {
        *lock(&self.figures) = Figures::default();
        lock(&self.homes).iter().for_each(|home| *lock(&home.served) = Served::default());
    }

    /// Returns every other failure since the start.
    pub(crate) fn unexpected(&self) -> Vec<String> {
        lock(&self.unexpected).clone()
    }

    pub(crate) fn figures(&self) -> Figures {
        lock(&self.figures).clone()
    }

    /// Ends the clients.
    pub(crate) async fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let clients = std::mem::take(&mut *lock(&self.clients));
        for client in clients {
            client.await.expect("no client panics");
        }
    }

    async fn client(&self, home: &Arc<Home>, count: u32, rest: Duration) {
        let client = client();
        while !self.stopped.load(Ordering::Relaxed) && !home.left.load(Ordering::Relaxed) {
            if !self.request(&client, home, count).await {
                let others = lock(&self.homes).clone();
                for other in others.iter().filter(|other| !Arc::ptr_eq(other, home)) {
                    if self.request(&client, other, count).await {
                        break;
                    }
                }
            }
            sleep(rest).await;
        }
    }

    /// Requests IDs of one process, and returns whether it answered with some.
    pub(crate) async fn request(&self, client: &Client, home: &Home, count: u32) -> bool {
        let harm = home.harm.load(Ordering::SeqCst);
        // All codes share a sequence, so a misspelt one costs no duplicate.
        let code = ["order", "orders"][lock(&self.figures).requests % 2];
        let url = format!("{}/ids/{code}?n={count}", lock(&home.address));
        let answer = ask(client, &url).await;
        let harmed = harm % 2 == 1 || home.harm.load(Ordering::SeqCst) != harm;
        let mut figures = lock(&self.figures);
        figures.requests += 1;
        match answer {
            Answer::Ids(ids) => {
                assert_eq!(ids.len(), count as usize, "as many as were asked for");
                self.collected.add(&ids);
                figures.gap.answered();
                let mut served = lock(&home.served);
                served.ids += ids.len();
                served.gap.answered();
                return true;
            }
            Answer::Refused => figures.refused += 1,
            Answer::Broken(_) if harmed => figures.broken += 1,
            Answer::Broken(what) | Answer::Unexpected(what) => {
                lock(&self.unexpected).push(format!("{url}: {what}"));
            }
        }
        false
    }
}

impl Home {
    /// Lets connections of the process break from now on.
    pub(crate) fn harm(&self) {
        assert_eq!(self.harm.fetch_add(1, Ordering::SeqCst) % 2, 0, "it was well");
    }

    /// Expects the connections of the process to hold again.
    pub(crate) fn is_well(&self) {
        assert_eq!(self.harm.fetch_add(1, Ordering::SeqCst) % 2, 1, "it was harmed");
    }

    /// Notes that the process started again, perhaps at another address.
    pub(crate) fn moved(&self, service: &Service) {
        *lock(&self.address) = service.url("");
    }

    pub(crate) fn served(&self) -> Served {
        lock(&self.served).clone()
    }
}

async fn ask(client: &Client, url: &str) -> Answer {
    let answer = match client.get(url).send().await {
        Ok(answer) => answer,
        Err(error) => return Answer::Broken(with_sources(&error)),
    };
    let status = answer.status();
    let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let is_problem = header(header::CONTENT_TYPE) == Some("application/problem+json");
    let retry_after = header(header::RETRY_AFTER).and_then(|value| value.parse::<u32>().ok());
    let body = match answer.bytes().await {
        Ok(body) => body,
        Err(error) => return Answer::Broken(with_sources(&error)),
    };
    match (status, serde_json::from_slice::<Value>(&body)) {
        (StatusCode::OK, Ok(body)) => Answer::Ids(parse_ids(&body)),
        (StatusCode::SERVICE_UNAVAILABLE, Ok(_)) if is_problem && retry_after >= Some(1) => {
            Answer::Refused
        }
        _ => Answer::Unexpected(format!("{status} {}", String::from_utf8_lossy(&body))),
    }
}

fn with_sources(error: &reqwest::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        said = format!("{said}: {error}");
        source = error.source();
    }
    said
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
