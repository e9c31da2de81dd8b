//! Panics of background tasks, which the clock, listeners and signals of these tests cause. Each
//! panic is reported, and the task is restarted or the service ends.

use std::{
    fmt,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{
        Arc, Once,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use raindrop::{
    config::Config,
    core::clock::{Clock, SystemClock},
    server::{ServeError, Service},
    store::{MemoryStore, Store},
};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::timeout};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::DefaultGuard,
};

use crate::support::{config, token_entry};

/// How long anything may take that should happen at once, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Long enough to look at a service that is ending.
const DRAINING: (&str, &str) = ("http.drain_delay", "60s");

/// Numbers of codes that are made on demand.
const COUNTING: [(&str, &str); 2] = [("mode", "segment"), ("segment.auto_create", "true")];

/// A clock that panics at the next reading after the test asked for it, once.
#[derive(Debug, Default)]
struct PlantedClock {
    system: SystemClock,
    armed: AtomicBool,
}

impl Clock for PlantedClock {
    fn now_ms(&self) -> i64 {
        assert!(!self.armed.swap(false, Ordering::SeqCst), "planted by a test");
        self.system.now_ms()
    }

    fn steady(&self) -> Duration {
        self.system.steady()
    }
}

/// Panics once in whichever task logs this, fields first, and counts how often that is logged.
#[derive(Debug, Default)]
struct PlantedLog {
    message: &'static str,
    seen: Arc<AtomicU32>,
}

impl PlantedLog {
    /// For the tasks of this test, as long as the guard lives.
    fn plant(message: &'static str) -> (Arc<AtomicU32>, DefaultGuard) {
        // tracing caches whether a subscriber wants a line when the first thread reaches it, which
        // may belong to another test. So every test has a subscriber that wants all lines.
        static LISTENING: Once = Once::new();
        LISTENING.call_once(|| {
            let log = Self { message: "logged by nobody", ..Self::default() };
            tracing::subscriber::set_global_default(log).expect("no other test sets one");
        });
        let log = Self { message, ..Self::default() };
        (Arc::clone(&log.seen), tracing::subscriber::set_default(log))
    }
}

impl Subscriber for PlantedLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        #[derive(Default)]
        struct Line {
            fields: String,
            message: String,
        }
        impl Visit for Line {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                match field.name() {
                    "message" => self.message = format!("{value:?}"),
                    name => self.fields += &format!("{name}={value:?} "),
                }
            }
        }
        let mut line = Line::default();
        event.record(&mut line);
        if (line.fields + &line.message).contains(self.message) {
            assert!(self.seen.fetch_add(1, Ordering::SeqCst) != 0, "planted by a test");
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The parts of a service, some of them planted.
struct Parts {
    pairs: Vec<(&'static str, &'static str)>,
    store_clock: Arc<PlantedClock>,
    listener_is_broken: bool,
    admin_is_broken: bool,
    stop_panics: bool,
}

impl Parts {
    fn new(pairs: &[(&'static str, &'static str)]) -> Self {
        Self {
            pairs: pairs.to_vec(),
            store_clock: Arc::default(),
            listener_is_broken: false,
            admin_is_broken: false,
            stop_panics: false,
        }
    }

    async fn start(self, more: &[(&'static str, &'static str)]) -> Running {
        let pairs: Vec<_> = self.pairs.iter().chain(more).copied().collect();
        self.start_with(config(&pairs)).await
    }

    async fn start_with(self, config: Config) -> Running {
        let (listener, address) = bind(self.listener_is_broken).await;
        let (admin_listener, admin) = bind(self.admin_is_broken).await;
        let store = Arc::new(MemoryStore::new(self.store_clock));
        let service = Service {
            config,
            listener,
            admin_listener: Some(admin_listener),
            store: store.clone(),
            clock: Arc::new(SystemClock::default()),
            manager: None,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(service.run(async move {
            stopped.await.expect("the test keeps the other end");
            assert!(!self.stop_panics, "planted by a test");
        }));
        Running { address, admin, store, stop, running }
    }
}

/// Binds a listener. A broken one is a connected socket, on which accepting fails.
async fn bind(is_broken: bool) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    if !is_broken {
        return (listener, address);
    }
    let stream = std::net::TcpStream::connect(address).expect("connected");
    stream.set_nonblocking(true).expect("a socket");
    // Its peer is gone, so there is something to be seen.
    drop(listener);
    let listener = std::net::TcpListener::from(OwnedFd::from(stream));
    (TcpListener::from_std(listener).expect("a socket"), address)
}

struct Running {
    address: SocketAddr,
    admin: SocketAddr,
    store: Arc<MemoryStore>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    /// Waits until the service ends without a stop signal.
    async fn ended(self) -> Result<(), ServeError> {
        timeout(PATIENCE, self.running).await.expect("it ends").expect("no panic")
    }

    async fn stop(self) -> Result<(), ServeError> {
        self.stop.send(()).expect("it runs");
        self.running.await.expect("no panic")
    }
}

/// Status and text of an answer, if there is any.
async fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let answer = reqwest::get(format!("http://{address}{path}")).await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.ok()?))
}

/// Asks until the answer is as wanted.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("never: {what}"))
}

async fn until_ready(running: &Running) {
    until("ready", async || {
        get(running.address, "/readyz").await.filter(|(status, _)| *status == 200)
    })
    .await;
}

async fn until_failures(address: SocketAddr, task: &str, count: u32) {
    let line = format!("raindrop_task_failures_total{{task=\"{task}\"}} {count}\n");
    until(&line, async || get(address, "/metrics").await.filter(|(_, text)| text.contains(&line)))
        .await;
}

async fn until_not_alive(address: SocketAddr) {
    let body = until("/livez is 503", async || {
        get(address, "/livez").await.and_then(|(status, body)| (status == 503).then_some(body))
    })
    .await;
    let problem: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(problem["code"], "shutting_down", "{body}");
    assert!(problem["detail"].as_str().expect("text").contains("background task"), "{body}");
}

/// The service says that it is not alive, and ends with the error that becomes exit code 1.
async fn assert_fatal(task: &str, parts: impl Fn() -> Parts) {
    let running = parts().start(&[DRAINING]).await;
    until_not_alive(running.address).await;
    until_not_alive(running.admin).await;
    until_failures(running.admin, task, 1).await;
    running.running.abort();

    let ended = parts().start(&[]).await.ended().await;
    let Err(ServeError::Task { task: failed, reason }) = ended else { panic!("{ended:?}") };
    assert_eq!((failed, reason.as_str()), (task, "it panicked: planted by a test"));
}

#[tokio::test]
async fn panicking_public_listener_ends_the_service() {
    let (_, _planted) = PlantedLog::plant("accept failed");
    let parts = || Parts { listener_is_broken: true, ..Parts::new(&[]) };
    let running = parts().start(&[]).await;
    let admin = running.admin;
    let ended = running.ended().await;
    assert!(matches!(ended, Err(ServeError::Task { task: "public_listener", .. })), "{ended:?}");
    assert_eq!(get(admin, "/livez").await, None);

    let (_, _planted) = PlantedLog::plant("accept failed");
    let running = parts().start(&[DRAINING]).await;
    until_failures(running.admin, "public_listener", 1).await;
    until_not_alive(running.admin).await;
}

#[tokio::test]
async fn panicking_admin_listener_ends_the_service() {
    let (_, _planted) = PlantedLog::plant("accept failed");
    let parts = || Parts { admin_is_broken: true, ..Parts::new(&[]) };
    let ended = parts().start(&[]).await.ended().await;
    assert!(matches!(ended, Err(ServeError::Task { task: "admin_listener", .. })), "{ended:?}");

    let (_, _planted) = PlantedLog::plant("accept failed");
    let running = parts().start(&[DRAINING]).await;
    until_not_alive(running.address).await;
}

#[tokio::test]
async fn panicking_keeper_step_is_followed_by_another() {
    let parts = Parts::new(&[]);
    parts.store_clock.armed.store(true, Ordering::SeqCst);
    let running = parts.start(&[]).await;
    until_failures(running.admin, "lease_keeper", 1).await;
    until_ready(&running).await;
    assert_eq!(get(running.address, "/livez").await.expect("an answer").0, 200);
}

#[tokio::test]
async fn panicking_segment_keeper_ends_the_service() {
    assert_fatal("segment_keeper", || {
        let parts = Parts::new(&COUNTING);
        parts.store_clock.armed.store(true, Ordering::SeqCst);
        parts
    })
    .await;
}

/// A service whose signal to stop panics when it comes.
async fn stop_by_panic(pairs: &[(&'static str, &'static str)]) -> Running {
    let mut running = Parts { stop_panics: true, ..Parts::new(&[]) }.start(pairs).await;
    until_ready(&running).await;
    assert_eq!(get(running.address, "/livez").await.expect("an answer").0, 200);
    let (other, _) = oneshot::channel();
    std::mem::replace(&mut running.stop, other).send(()).expect("it runs");
    running
}

#[tokio::test]
async fn panicking_stop_signal_stops_the_service_in_order() {
    let running = stop_by_panic(&[DRAINING]).await;
    until_not_alive(running.address).await;
    until_failures(running.admin, "stop_signal", 1).await;
    running.running.abort();

    let running = stop_by_panic(&[]).await;
    let store = Arc::clone(&running.store);
    let ended = running.ended().await;
    assert!(matches!(ended, Err(ServeError::Task { task: "stop_signal", .. })), "{ended:?}");
    assert!(store.list_rows().await.expect("rows").iter().all(|row| row.row.free));
}

#[tokio::test]
async fn panicking_refill_is_retried() {
    let parts = Parts::new(&COUNTING);
    let clock = Arc::clone(&parts.store_clock);
    let running = parts.start(&[]).await;
    until_ready(&running).await;
    clock.armed.store(true, Ordering::SeqCst);
    let id = until("a number", async || {
        get(running.address, "/id/order").await.filter(|(status, _)| *status == 200)
    })
    .await;
    assert_eq!(id.1, r#"{"id":"1"}"#);
    until_failures(running.admin, "segment_refill", 1).await;
    assert_eq!(get(running.address, "/livez").await.expect("an answer").0, 200);
    running.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn panicking_announcement_is_restarted() {
    let (seen, _planted) = PlantedLog::plant("namespace=\"default\" serving IDs on");
    let running = Parts::new(&[]).start(&[]).await;
    until("announced", async || (seen.load(Ordering::SeqCst) == 2).then_some(())).await;
    until_failures(running.admin, "announcement", 1).await;
    assert_eq!(get(running.address, "/livez").await.expect("an answer").0, 200);
    running.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn panicking_token_reload_is_restarted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    std::fs::write(&path, token_entry("shop", "secret")).expect("written");
    let (seen, _planted) = PlantedLog::plant("tokens reloaded");
    let parts = Parts::new(&[]);
    let config = config(&[("auth.tokens_file", path.to_str().expect("UTF-8"))]);
    let running = parts.start_with(config).await;
    until_ready(&running).await;
    for count in 1..=2 {
        kill_process(getpid(), Signal::HUP).expect("this process runs");
        until("reloaded", async || (seen.load(Ordering::SeqCst) == count).then_some(())).await;
    }
    until_failures(running.admin, "token_reload", 1).await;
    assert_eq!(get(running.address, "/livez").await.expect("an answer").0, 200);
    running.stop().await.expect("a clean stop");
}
