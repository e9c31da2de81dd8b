//! The whole service over a real listener: starting and stopping.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use raindrop::{
    config::Config,
    core::clock::{Clock, SystemClock},
    server::{ServeError, Service},
    store::{MemoryStore, Store},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

use crate::support::config;

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    /// Where operators ask.
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) store: Arc<MemoryStore>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), ServeError>>,
}

/// Lets time pass only while nothing else is to be done, once what was sent before has arrived: a
/// busy machine takes a while for that.
pub(crate) async fn pause_when_accepted() {
    tokio::time::sleep(Duration::from_millis(500)).await;
    tokio::time::pause();
}

impl Served {
    pub(crate) async fn start(pairs: &[(&str, &str)]) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        Self::ready_over(pairs, Arc::new(MemoryStore::new(clock))).await
    }

    /// Over a store that others may use too.
    pub(crate) async fn ready_over(pairs: &[(&str, &str)], store: Arc<MemoryStore>) -> Self {
        Self::ready_with(config(pairs), store).await
    }

    pub(crate) async fn ready_with(config: Config, store: Arc<MemoryStore>) -> Self {
        let served = Self::start_with(config, store).await;
        for _ in 0..6_000 {
            if served.get("/readyz").await.status() == 200 {
                return served;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never ready");
    }

    async fn start_with(config: Config, store: Arc<MemoryStore>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let admin_listener = match config.http.admin_listen {
            Some(address) => Some(TcpListener::bind(address).await.expect("a free port")),
            None => None,
        };
        let admin = admin_listener.as_ref().map(|bound| bound.local_addr().expect("an address"));
        let (stop, stopped) = oneshot::channel();
        let service = Service {
            config,
            listener,
            admin_listener,
            store: store.clone(),
            clock: Arc::new(SystemClock::default()),
            manager: None,
        };
        let running = tokio::spawn(service.run(async move {
            stopped.await.expect("the test stops the service");
        }));
        Self { address, admin, store, stop, running }
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Response {
        reqwest::get(format!("http://{}{path}", self.address)).await.expect("an answer")
    }

    /// The value of a metric with these labels.
    pub(crate) async fn metric(&self, name_and_labels: &str) -> f64 {
        let text = self.get("/metrics").await.text().await.expect("text");
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name_and_labels)?.strip_prefix(' '));
        // Some series begin with their first event.
        value.map_or(0.0, |value| value.parse().expect("a number"))
    }

    /// Tells the service to stop, and gives what is to be waited for.
    pub(crate) fn begin_stop(
        self,
    ) -> (SocketAddr, Arc<MemoryStore>, JoinHandle<Result<(), ServeError>>) {
        self.stop.send(()).expect("running");
        (self.address, self.store, self.running)
    }

    pub(crate) async fn stop(self) {
        let (_, store, running) = self.begin_stop();
        running.await.expect("no panic").expect("a clean stop");
        assert!(store.list_rows().await.expect("rows").iter().all(|row| row.row.free));
    }
}

#[tokio::test]
async fn ids_are_served_over_tcp() {
    let served = Served::start(&[]).await;
    let client = reqwest::Client::new();
    let url = format!("http://{}/ids/order?n=10000", served.address);
    let mut last = 0;
    for _ in 0..3 {
        let answer: serde_json::Value =
            client.get(&url).send().await.expect("sent").json().await.expect("JSON");
        for id in answer["ids"].as_array().expect("ids") {
            let id: u64 = id.as_str().expect("a string").parse().expect("an ID");
            assert!(id > last);
            last = id;
        }
    }
    let one = served.get("/id/order").await;
    assert_eq!(one.headers()["cache-control"], "no-store");
    served.stop().await;
}

#[tokio::test]
async fn stop_with_connected_clients_releases_the_row_in_time() {
    let served = Served::start(&[("http.shutdown_timeout", "2s")]).await;
    let mut idle = TcpStream::connect(served.address).await.expect("connected");
    idle.write_all(b"GET /id/order HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).await.expect("answered");
    let silent = TcpStream::connect(served.address).await.expect("connected");
    let mut half = TcpStream::connect(served.address).await.expect("connected");
    half.write_all(b"GET /id/order HTT").await.expect("sent");
    // Connections are accepted in order, so once this one is answered, the earlier ones are
    // accepted.
    assert_eq!(served.get("/livez").await.status(), 200);

    // From here on time passes only while nothing else is to be done.
    tokio::time::pause();
    let started = tokio::time::Instant::now();
    let (address, store, running) = served.begin_stop();
    running.await.expect("no panic").expect("a clean stop");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    tokio::time::resume();
    assert!(store.list_rows().await.expect("rows").iter().all(|row| row.row.free));
    assert!(TcpStream::connect(address).await.is_err());
    drop((idle, silent, half));
}

#[tokio::test]
async fn draining_listener_is_unready_and_serves() {
    let served = Served::start(&[("http.drain_delay", "60s")]).await;
    let (address, _, running) = served.begin_stop();
    let get = async |path: &str| {
        reqwest::get(format!("http://{address}{path}")).await.expect("an answer").status().as_u16()
    };
    while get("/readyz").await != 503 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(get("/health").await, 503);
    assert_eq!(get("/livez").await, 200);
    assert_eq!(get("/id/order").await, 200);
    // The rest of the drain takes no time.
    tokio::time::pause();
    running.await.expect("no panic").expect("a clean stop");
}

#[tokio::test]
async fn waiting_requests_are_answered_before_the_stop() {
    // 3 sequence bits in a second: after a full second the next ID waits.
    let served = Served::start(&[
        ("layout.time_unit", "second"),
        ("layout.timestamp_bits", "50"),
        ("issue.sequence_spread_bits", "0"),
    ])
    .await;
    let address = served.address;
    served.get("/ids/order?n=8").await;
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            tokio::spawn(async move {
                let url = format!("http://{address}/ids/order?n=1");
                reqwest::get(url).await.expect("an answer").status().as_u16()
            })
        })
        .collect();
    // Until every request has arrived; the first one and this one count, too.
    loop {
        let metrics = served.get("/metrics").await.text().await.expect("text");
        let value = |name: &str| {
            let sample =
                metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            sample.map_or(0.0, |value| value.parse::<f64>().expect("a number"))
        };
        let answered =
            r#"raindrop_http_requests_total{method="GET",route="/ids/{code}",status="200"}"#;
        if value(answered) + value("raindrop_http_requests_in_flight") >= 6.0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    served.stop().await;
    for waiting in waiting {
        assert_eq!(waiting.await.expect("no panic"), 200);
    }
}

#[tokio::test]
async fn other_recorded_layout_ends_the_service_and_names_both() {
    let first = Served::start(&[]).await;
    let second =
        Served::start_with(config(&[("layout.preset", "js-safe")]), Arc::clone(&first.store)).await;
    let error = second.running.await.expect("no panic").expect_err("a conflict").to_string();
    assert!(error.contains("worker=9") && error.contains("worker=5"), "{error}");
    first.stop().await;
}
