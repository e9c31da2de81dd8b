//! Runs clients whose demand is twice the capacity.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, StatusCode, header};
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use super::{MEMORY, Watched, length, mib, most_connections, spare_places};
use crate::{
    collected::Collected,
    service::{GIVES_UP, PATIENCE, Setup, client, parse_ids},
    support::poll,
};

/// Fewer than the clients have together.
const MAX_CONNECTIONS: usize = 160;
const MAX_IN_FLIGHT: usize = 64;
/// How many connections of a storm request one ID at once and close, and how often.
const STORM: (usize, Duration) = (20, Duration::from_millis(20));
/// How many connections of storms may be open: with the others', more than there are places.
const STORMING: usize = 64;

#[derive(Default)]
struct Demand {
    stopped: AtomicBool,
    collected: Collected,
    refused: AtomicU64,
    /// How often the service closed a connection for another client just when its client used it
    /// again.
    closed: AtomicUsize,
}

impl Demand {
    /// Requests an ID: the service answers with one, or refuses in the documented way.
    async fn ask(&self, client: &Client, url: &str) {
        let mut answer = client.get(url).send().await;
        // RFC 9112, section 9.3.1, tells clients to repeat such a request.
        if answer.as_ref().is_err_and(reqwest::Error::is_request) {
            self.closed.fetch_add(1, Ordering::Relaxed);
            answer = client.get(url).send().await;
        }
        let answer = answer.expect("every request is answered");
        let status = answer.status();
        let headers = answer.headers().clone();
        let body: serde_json::Value = answer.json().await.expect("JSON");
        if status == StatusCode::OK {
            return self.collected.add(&parse_ids(&body));
        }
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
        let code = body["code"].as_str().expect("a code");
        assert!(["overloaded", "sequence_exhausted"].contains(&code), "{body}");
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        let retry_after = headers[header::RETRY_AFTER].to_str().expect("text");
        assert!(retry_after.parse::<u64>().expect("seconds") >= 1);
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// A code has 512 IDs a second, which a part of the clients uses up, so requests wait for the next
/// second. Twice as many clients as may be in flight ask again at once when they have an answer.
/// Storms of other clients come beside them, whatever happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_at_twice_its_capacity_stays_within_its_bounds() {
    let setup = Setup::new()
        .set("http.max_connections", MAX_CONNECTIONS)
        .set("http.max_in_flight", MAX_IN_FLIGHT)
        .set("layout.time_unit", "second")
        .set("layout.timestamp_bits", 44);
    let watched = Arc::new(Watched::start(setup).await);
    let url = watched.service.url("/id/order");
    let demand = Arc::new(Demand::default());
    demand.ask(&client(), &url).await;
    let rest = watched.look().await;
    let watching = watched.watch();

    let mut clients = JoinSet::new();
    for _ in 0..2 * MAX_IN_FLIGHT {
        let (demand, url, client) = (Arc::clone(&demand), url.clone(), client());
        clients.spawn(async move {
            while !demand.stopped.load(Ordering::Relaxed) {
                demand.ask(&client, &url).await;
            }
        });
    }
    let (stormy, storm_url) = (Arc::clone(&demand), url.clone());
    clients.spawn(async move {
        let client = Client::builder().pool_max_idle_per_host(0).timeout(GIVES_UP).build();
        let client = client.expect("nothing unusual");
        let places = Arc::new(Semaphore::new(STORMING));
        let mut storm = JoinSet::new();
        while !stormy.stopped.load(Ordering::Relaxed) {
            for _ in 0..STORM.0 {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else { break };
                let (stormy, url) = (Arc::clone(&stormy), storm_url.clone());
                let client = client.clone();
                storm.spawn(async move {
                    stormy.ask(&client, &url).await;
                    drop(place);
                });
            }
            sleep(STORM.1).await;
        }
        storm.join_all().await;
    });
    sleep(length()).await;
    demand.stopped.store(true, Ordering::Relaxed);
    clients.join_all().await;
    let seen = watching.stop().await;

    let (issued, refused) = (demand.collected.count(), demand.refused.load(Ordering::Relaxed));
    println!(
        "{:?} at twice the capacity: IDs {issued} · refused {refused} · looked {} times: at most \
         {} of {MAX_CONNECTIONS} connections, {} of {MAX_IN_FLIGHT} requests in flight, {} above \
         the {} at rest",
        length(),
        seen.samples,
        seen.connections,
        seen.in_flight,
        mib(seen.memory - rest.memory),
        mib(rest.memory),
    );
    assert!(issued > MAX_IN_FLIGHT && refused > 0);
    assert_eq!(demand.collected.duplicates(), 0);
    let closed = demand.closed.load(Ordering::Relaxed);
    assert!(closed * 100 <= issued, "{closed} connections were closed when they were used again");
    assert!(
        seen.samples > 1 && seen.connections <= most_connections(MAX_CONNECTIONS as u64),
        "{seen:?}"
    );
    // The probe itself is a request, each thread may be refusing one, and those that wait on a
    // spare place for a client's place were not admitted.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let let_in = (MAX_IN_FLIGHT + 1 + threads) as f64;
    assert!(seen.in_flight <= let_in + spare_places(MAX_CONNECTIONS as u64), "{seen:?}");
    assert!(seen.memory - rest.memory <= MEMORY, "{seen:?}");
    // No request is in flight once the clients have gone.
    poll::until(PATIENCE, "nothing is in flight", async || {
        (watched.look().await.in_flight <= 1.0).then_some(())
    })
    .await;
    Arc::into_inner(watched).expect("nobody watches").service.stop().await;
}
