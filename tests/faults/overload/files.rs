//! Runs clients that would take more places than the process may open files.

use std::time::Duration;

use reqwest::{Client, StatusCode};
use tokio::{net::TcpStream, task::JoinSet, time::sleep};

use super::{Watched, most_connections};
use crate::service::Setup;

const OPEN_FILES: u32 = 64;
const SILENT: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_few_open_files_clients_leave_enough_for_the_lease_and_for_operators() {
    let setup = Setup::new().set("lease.window", "4s").set("lease.renew", "500ms");
    let setup = setup.set("lease.ttl", "2s").set("lease.max_clock_skew", "1s");
    let watched = Watched::start(setup.open_files(OPEN_FILES)).await;
    watched.service.logged("WARN").await;
    watched.service.logged("connections=32").await;

    let url = watched.service.url("/id/order");
    let address = watched.service.address();
    let mut silent = JoinSet::new();
    for _ in 0..SILENT {
        silent.spawn(async move {
            loop {
                if let Ok(stream) = TcpStream::connect(address).await {
                    // The client stays until the service cuts it off.
                    let _ = stream.readable().await;
                }
                sleep(Duration::from_millis(100)).await;
            }
        });
    }
    // Each request waits until a silent client's safe second is over: together longer than a lease
    // without a renewal.
    let new_each_time =
        Client::builder().pool_max_idle_per_host(0).timeout(Duration::from_secs(60));
    let client = new_each_time.build().expect("nothing unusual");
    for _ in 0..6 {
        let answer = client.get(&url).send().await.expect("a place");
        assert_eq!(answer.status(), StatusCode::OK, "{}", watched.service.log());
        assert!(watched.look().await.connections <= most_connections(32));
        sleep(Duration::from_secs(1)).await;
    }
    silent.shutdown().await;
    let log = watched.service.log();
    assert!(!log.contains("ERROR"), "{log}");
    watched.service.stop().await;
}
