//! Runs clients of HTTP/2 whose heads are small on the wire and large once they are decoded.

use std::{fs, path::PathBuf, time::Duration};

use rustix::process::Signal;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use crate::{
    service::{PATIENCE, Service, Setup},
    support::{
        frames::{HEADERS, PREFACE, SETTINGS, frame, headers, large},
        poll,
    },
};

const CLIENTS: usize = 100;
/// How many requests a connection may have under way.
const STREAMS: u8 = 100;
const KIB: u64 = 1024;
/// The bounds in docs/http/memory.md for a connection of HTTP/2, and for all heads.
const OF_CONNECTION: u64 = 844 * KIB;
const OF_HEADS: u64 = 32 << 20;
/// The memory beyond that which threads decode at a time, and which the allocator has not returned
/// yet.
const AT_A_TIME: u64 = 8 << 20;

/// A control group that measures the memory of a process, with the kernel's memory for it.
struct Group {
    folder: PathBuf,
    usage: &'static str,
    peak: &'static str,
}

impl Group {
    /// Moves a process into a new group; `None` if the tests may not create one.
    fn of(service: &Service) -> Option<Self> {
        let name = format!("raindrop-test-{}", service.id());
        [
            ("/sys/fs/cgroup/memory", "memory.usage_in_bytes", "memory.max_usage_in_bytes"),
            ("/sys/fs/cgroup", "memory.current", "memory.peak"),
        ]
        .into_iter()
        .find_map(|(mount, usage, peak)| {
            let folder = PathBuf::from(mount).join(&name);
            fs::create_dir(&folder).ok()?;
            let group = Self { folder, usage, peak };
            fs::write(group.folder.join("cgroup.procs"), service.id().to_string()).ok()?;
            group.read(peak)?;
            Some(group)
        })
    }

    fn read(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The process may still be ending.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Returns the present and the highest memory in bytes.
fn memory(service: &Service, group: Option<&Group>) -> (u64, u64) {
    if let Some(group) = group {
        return (
            group.read(group.usage).expect("a number"),
            group.read(group.peak).expect("a number"),
        );
    }
    let status = fs::read_to_string(format!("/proc/{}/status", service.id())).expect("it runs");
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim_end_matches("kB").trim().parse::<u64>().expect("a number") * KIB
    };
    (bytes("VmRSS:"), bytes("VmHWM:"))
}

/// Returns a client of HTTP/2 whose connection was accepted.
async fn connect(service: &Service) -> TcpStream {
    let mut client = TcpStream::connect(service.address()).await.expect("connected");
    client.write_all(&[PREFACE, SETTINGS].concat()).await.expect("sent");
    frame(&mut client, SETTINGS_TYPE).await;
    client
}

/// A connection holds the most that a client can make it hold for long: a full table of headers,
/// requests that wait for their bodies, and most of a head.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_connection_takes_no_more_memory_than_is_counted() {
    let limits = Setup::new().set("http.request_timeout", "10m").set("http.idle_timeout", "10m");
    let service = limits.start_leased().await;
    let group = Group::of(&service);
    let (before, _) = memory(&service, group.as_ref());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = connect(&service).await;
        client.write_all(&large(1, true)).await.expect("sent");
        frame(&mut client, HEADERS).await;
        let post = |number| headers(2 * number + 1, 0, b"\x83\x86\x04\x05/id/a\x01\x01x");
        client.write_all(&(1..STREAMS).flat_map(post).collect::<Vec<u8>>()).await.expect("sent");
        let mut part = large(2 * STREAMS + 1, false);
        // Without END_HEADERS.
        part[4] = 0;
        client.write_all(&part).await.expect("sent");
        clients.push(client);
    }
    let waiting = (CLIENTS * usize::from(STREAMS - 1)) as f64;
    poll::until(PATIENCE, "all requests wait", async || {
        let now = service.metric("raindrop_http_requests_in_flight", "").await;
        (now >= waiting).then_some(())
    })
    .await;
    let (_, peak) = memory(&service, group.as_ref());
    let taken = peak.saturating_sub(before) / CLIENTS as u64;
    println!("{} KiB for a connection, of {}", taken / KIB, OF_CONNECTION / KIB);
    assert!(taken <= OF_CONNECTION, "{taken} bytes, of at most {OF_CONNECTION}");
    drop(clients);
    service.stop().await;
}

/// The heads arrive while the process is stopped, so that it finds all of them when it reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_large_heads_takes_bounded_memory() {
    let service = Setup::new().start_leased().await;
    let group = Group::of(&service);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect(&service).await);
    }
    let (before, _) = memory(&service, group.as_ref());
    let burst: Vec<u8> =
        (0..STREAMS).flat_map(|number| large(2 * number + 1, number == 0)).collect();
    service.signal(Signal::STOP);
    let mut reading = Vec::new();
    for client in clients {
        let (mut answers, mut requests) = client.into_split();
        let burst = burst.clone();
        let sending = tokio::spawn(async move {
            requests.write_all(&burst).await.expect("sent");
            requests
        });
        reading.push(tokio::spawn(async move {
            for _ in 0..STREAMS {
                frame(&mut answers, HEADERS).await;
            }
            sending.await.expect("sent")
        }));
    }
    // The kernel takes its part for each connection, however long that takes.
    tokio::time::sleep(Duration::from_millis(500)).await;
    service.signal(Signal::CONT);
    for client in reading {
        drop(timeout(PATIENCE, client).await.expect("all is answered in time").expect("no panic"));
    }
    let (_, peak) = memory(&service, group.as_ref());
    let (taken, most) =
        (peak.saturating_sub(before), CLIENTS as u64 * OF_CONNECTION + OF_HEADS + AT_A_TIME);
    println!("{CLIENTS} clients: {} of {} MiB", taken >> 20, most >> 20);
    assert!(taken <= most, "{taken} bytes, of at most {most}");
    service.stop().await;
}

const SETTINGS_TYPE: u8 = 4;
