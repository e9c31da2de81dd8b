//! Tests state files of real processes: killed while the database is away, shared, copied, from
//! another boot, and on a disk that hangs.

use std::{fs, path::Path, sync::Arc, time::Duration};

use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::{
    collected::Collected,
    load::Load,
    service::{PATIENCE, Service, Setup, unix_ms},
    support::{mariadb::Mariadb, poll, server::Server},
};

const KILLS: usize = 3;
/// Where the slots of a state file begin.
const SLOTS: [usize; 2] = [4_096, 4_096 + 65_536];

async fn resumed(node: &Service) -> f64 {
    let done = "operation=\"resume\",outcome=\"done\"";
    node.metric("raindrop_lease_operations_total", done).await
}

/// More than this is left of a lease that reaches as far as `lease.window`.
const LONG_MS: i64 = 60_000;

/// Waits until both slots of the state file hold a lease that reaches as far as `lease.window`. The
/// first lease ends within seconds, also after an early renewal, and the store acknowledges a
/// renewal before the file has it.
async fn until_kept(folder: &Path) {
    poll::until(PATIENCE, "a long lease in the state file", async || {
        let file = fs::read(folder.join("state")).expect("a state file");
        let far_ms = unix_ms() + LONG_MS;
        let is_long = |slot| end_of_lease_ms(&file, slot).is_some_and(|end_ms| end_ms > far_ms);
        SLOTS.into_iter().all(is_long).then_some(())
    })
    .await;
}

/// Returns when the lease in a slot ends, by the default layout.
fn end_of_lease_ms(file: &[u8], slot: usize) -> Option<i64> {
    let epoch_ms = 1_735_689_600_000; // 2025-01-01
    let text = String::from_utf8_lossy(&file[slot..]);
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let lane: usize = value("lane ")?.parse().ok()?;
    let mark: i64 = value("marks ")?.split(',').nth(lane)?.parse().ok()?;
    Some(epoch_ms + (mark >> 12))
}

fn keeping(folder: &Path, url: &str) -> Setup {
    Setup::new().set("store.url", url).set("store.state_file", folder.join("state").display())
}

/// Sends `kill -9` under load, several times, while the database is down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_killed_while_the_database_is_down_issues_again_within_seconds() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(&Mariadb).await;
    let setup = keeping(folder.path(), &server.database().await);
    let mut node = setup.clone().start_leased().await;
    let load = Arc::new(Load::default());
    let home = load.join(&node);
    let (worker, lane) = (node.worker().await, node.lane().await);
    until_kept(folder.path()).await;
    server.kill9();
    for _ in 0..KILLS {
        let enough = home.served().ids + 2_000;
        let served = async || (home.served().ids > enough).then_some(());
        poll::until(PATIENCE, "IDs under load", served).await;
        home.harm();
        let killed = Instant::now();
        node.kill9().await;
        let started = Instant::now();
        node = setup.clone().start().await;
        poll::until(PATIENCE, "the first ID", async || {
            node.get("/id/first").await.ok().filter(|answer| answer.status() == 200)
        })
        .await;
        println!(
            "killed with the database down: first ID {:.2} s after the kill, {:.2} s after the start",
            killed.elapsed().as_secs_f64(),
            started.elapsed().as_secs_f64()
        );
        home.moved(&node);
        home.is_well();
        assert_eq!((node.worker().await, node.lane().await), (worker, lane));
        assert_eq!(resumed(&node).await, 1.0);
        node.logged("lease resumed from the state file").await;
    }
    let before = home.served().ids;
    poll::until(PATIENCE, "more IDs", async || (home.served().ids > before + 2_000).then_some(()))
        .await;
    server.restart().await;
    let renewed = async || {
        let health = node.health().await;
        (health["reason"].is_null() && health["worker_id"] == worker).then_some(())
    };
    poll::until(PATIENCE, "the lease is renewed", renewed).await;
    load.stop().await;
    println!("IDs {} · duplicates {}", load.collected.count(), load.collected.duplicates());
    assert_eq!((load.unexpected(), load.collected.duplicates()), (Vec::new(), 0));
    let log = node.log();
    assert!(!log.contains("lease lost") && !log.contains("lease acquired"), "{log}");
    node.stop().await;
}

/// A rolling restart in order, while the database is down, leaves no ID out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_stopped_while_the_database_is_down_is_resumed_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(&Mariadb).await;
    let setup = keeping(folder.path(), &server.database().await);
    let node = setup.clone().start_leased().await;
    let collected = Collected::default();
    collected.add(&node.ids("order", 10).await);
    until_kept(folder.path()).await;
    server.kill9();
    node.stop().await;
    let started = Instant::now();
    let node = setup.start_leased().await;
    collected.add(&node.ids("order", 10).await);
    println!("stopped with the database down: first ID {:?} after the start", started.elapsed());
    assert_eq!((resumed(&node).await, collected.duplicates()), (1.0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clean_stop_leaves_nothing_in_the_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let setup = Setup::new().folder(folder.path()).set("store.state_file", "state");
    for _ in 0..2 {
        let node = setup.clone().start_leased().await;
        assert_eq!(resumed(&node).await, 0.0);
        node.ids("order", 10).await;
        node.stop().await;
        let file = fs::read(folder.path().join("state")).expect("a state file");
        assert!(!String::from_utf8_lossy(&file).contains("token "));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_process_on_a_state_file_ends_with_code_1_and_names_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let setup = Setup::new().folder(folder.path()).set("store.state_file", "shared.state");
    let first = setup.clone().start_leased().await;
    let mut second = setup.spawn();
    let status = second.ended().await;
    assert_eq!(status.code(), Some(1), "{}", second.log());
    let log = second.log();
    assert!(log.contains("shared.state") && log.contains("another process uses"), "{log}");
    first.ids("order", 10).await;
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_that_is_not_a_state_file_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notes.txt");
    fs::write(&path, "remember the milk\n").expect("writes");
    let setup = Setup::new().folder(folder.path());
    let mut node = setup.clone().set("store.state_file", "notes.txt").spawn();
    let status = node.ended().await;
    assert_eq!(status.code(), Some(2), "{}", node.log());
    assert!(node.log().contains("notes.txt"), "{}", node.log());
    assert_eq!(fs::read(&path).expect("there"), b"remember the milk\n");
    let mut node = setup.set("store.state_file", "no/such/folder/state").spawn();
    let status = node.ended().await;
    assert_eq!(status.code(), Some(1), "{}", node.log());
    assert!(node.log().contains("no/such/folder/state"), "{}", node.log());
}

/// The checksum of a slot.
fn checksum(number: u64, text: &[u8]) -> u64 {
    let bytes = number.to_be_bytes().into_iter().chain(text.iter().copied());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Changes a fact in both slots, as if another machine or boot had written them.
fn forge(path: &Path, fact: &str) {
    let mut file = fs::read(path).expect("a state file");
    for at in SLOTS {
        let line = String::from_utf8(file[at..at + 48].to_vec()).expect("text");
        let fields: Vec<&str> = line.trim_end().split(' ').collect();
        let parse = |field: &str| u64::from_str_radix(field, 16).expect("a number");
        let (number, length) =
            (parse(fields[1]), usize::try_from(parse(fields[2])).expect("small"));
        let text = String::from_utf8(file[at + 48..at + 48 + length].to_vec()).expect("text");
        let begin = text.find(fact).expect("the fact is there") + fact.len();
        let mut text = text.into_bytes();
        text[begin] = if text[begin] == b'0' { b'1' } else { b'0' };
        let sum = checksum(number, &text);
        let slot = format!("slot {number:016x} {length:08x} {sum:016x}\n");
        file[at..at + 48].copy_from_slice(slot.as_bytes());
        file[at + 48..at + 48 + length].copy_from_slice(&text);
    }
    // The file is changed in place: a new file would be another one.
    use std::os::unix::fs::FileExt as _;
    let target = fs::OpenOptions::new().write(true).open(path).expect("writable");
    target.write_all_at(&file, 0).expect("written");
}

/// The file is a copy, or from before a restart of the machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_from_elsewhere_or_another_boot_is_refused_and_another_lease_acquired() {
    for fact in ["", "place.boot ", "place.host ", "place.store "] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let setup = Setup::new().folder(folder.path()).set("store.state_file", "state");
        let node = setup.clone().start_leased().await;
        let collected = Collected::default();
        collected.add(&node.ids("order", 1_000).await);
        let worker = node.worker().await;
        node.kill9().await;
        let state = folder.path().join("state");
        if fact.is_empty() {
            let copy = folder.path().join("copy");
            fs::copy(&state, &copy).expect("copied");
            fs::rename(&copy, &state).expect("renamed");
        } else {
            forge(&state, fact);
        }
        let node = setup.start_leased().await;
        node.logged("lease in the state file refused").await;
        let refused = "operation=\"resume\",outcome=\"refused\"";
        assert_eq!(node.metric("raindrop_lease_operations_total", refused).await, 1.0, "{fact}");
        // The row is held until its ttl.
        assert_ne!(node.worker().await, worker);
        collected.add(&node.ids("order", 1_000).await);
        assert_eq!(collected.duplicates(), 0);
        node.stop().await;
    }
}

/// The node issues nothing beyond the local mark in the file, and acquires another lease, which is
/// not written to the file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_that_hangs_costs_the_lease_and_not_the_service() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(&Mariadb).await;
    let setup = keeping(folder.path(), &server.database().await).with_hanging_disk("/state");
    let node = setup.clone().start_leased().await;
    let worker = node.worker().await;
    let load = Arc::new(Load::default());
    let home = load.join(&node);
    let served = async |more: usize| {
        let enough = home.served().ids + more;
        let served = async || (home.served().ids > enough).then_some(());
        poll::until(PATIENCE, "IDs under load", served).await;
    };
    served(2_000).await;
    until_kept(folder.path()).await;
    node.hang_disk();
    node.logged("state file failed").await;
    poll::until(PATIENCE, "another lease", async || node.has_left(worker).await.then_some(()))
        .await;
    served(2_000).await;
    println!("disk hung: longest gap {:?}", home.served().gap.longest());
    sleep(Duration::from_secs(1)).await;
    home.harm();
    // The process cannot end while a write hangs.
    node.signal(Signal::KILL);
    node.mend_disk();
    node.kill9().await;
    // The file has the lease that the process gave up, and no process used the range of that lease.
    let node = setup.start_leased().await;
    home.moved(&node);
    home.is_well();
    served(2_000).await;
    assert_eq!(resumed(&node).await, 1.0, "{}", node.log());
    load.stop().await;
    assert_eq!((load.unexpected(), load.collected.duplicates()), (Vec::new(), 0));
}
