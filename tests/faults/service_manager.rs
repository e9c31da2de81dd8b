//! What a service manager, such as systemd, is told, through a socket of the test's own.

use std::{path::PathBuf, time::Duration};

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::{net::UnixDatagram, time::timeout};

use crate::service::{PATIENCE, Setup};

/// After this silence the manager would restart the process.
const WATCHDOG: Duration = Duration::from_secs(2);
const ALIVE: &str = "WATCHDOG=1\n";

struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
    _folder: TempDir,
}

impl Manager {
    fn listen() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a free path");
        Self { socket, path, _folder: folder }
    }

    /// Returns the next message.
    async fn told(&self) -> String {
        let mut message = [0; 256];
        let received = timeout(PATIENCE, self.socket.recv(&mut message)).await;
        let length = received.expect("never told").expect("a message");
        String::from_utf8(message[..length].to_vec()).expect("UTF-8")
    }

    /// Waits until this is told; until then the process may only be alive.
    async fn until_told(&self, expected: &str) {
        loop {
            let told = self.told().await;
            if told == expected {
                return;
            }
            assert_eq!(told, ALIVE, "in place of {expected}");
        }
    }
}

#[tokio::test]
async fn the_manager_is_told_once_ids_are_issued_and_before_the_stop() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let setup = || Setup::new().folder(folder.path()).set("worker.max_id", 1);
    let first = setup().start_leased().await;
    let manager = Manager::listen();
    let mut second = setup().service_manager(&manager.path, WATCHDOG).start().await;
    for _ in 0..3 {
        assert_eq!(manager.told().await, ALIVE, "the only worker id is leased");
    }
    first.stop().await;
    manager.until_told("READY=1\n").await;
    assert_eq!(second.ids("order", 1).await.len(), 1);

    second.signal(Signal::TERM);
    manager.until_told("STOPPING=1\n").await;
    assert!(second.ended().await.success(), "{}", second.log());
}

#[tokio::test]
async fn a_stuck_task_gives_no_sign_of_life() {
    let manager = Manager::listen();
    let setup = Setup::new().service_manager(&manager.path, WATCHDOG);
    // A scrape reads it on a thread of the runtime.
    let service = setup.with_hanging_reads("/stat").start_leased().await;
    manager.until_told("READY=1\n").await;
    manager.until_told(ALIVE).await;

    service.hang_disk();
    let scrape = tokio::spawn(reqwest::get(service.url("/metrics")));
    let silence = async { while timeout(WATCHDOG, manager.told()).await.is_ok() {} };
    timeout(PATIENCE, silence).await.expect("the stuck task is never noticed");
    assert!(!scrape.is_finished());

    service.mend_disk();
    manager.until_told(ALIVE).await;
    scrape.await.expect("no panic").expect("an answer");
    service.stop().await;
}
