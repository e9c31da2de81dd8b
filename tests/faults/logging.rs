//! Tests services whose log lines cannot be written, or hang: nothing else suffers from it.

use std::{
    fs::File,
    io::{ErrorKind, PipeReader, Write as _, pipe},
    net::{Shutdown, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use rustix::{io::ioctl_fionbio, process::Signal};
use tokio::time::sleep;

use crate::{
    collected::Collected,
    service::{Service, Setup, run},
    support::{mariadb::Mariadb, poll, server::Server},
};

const PATIENCE: Duration = Duration::from_secs(300);

/// Returns a full pipe, and its reader, which does not read.
fn full_pipe() -> (PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = pipe().expect("a pipe");
    ioctl_fionbio(&writer, true).expect("a pipe");
    for piece in [&[b'.'; 4096][..], b"."] {
        let error = loop {
            if let Err(error) = writer.write(piece) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    // Like the pipe of a container's log: a writer blocks.
    ioctl_fionbio(&writer, false).expect("a pipe");
    (reader, writer)
}

async fn renewals(node: &Service) -> f64 {
    let done = "operation=\"renew\",outcome=\"done\"";
    node.metric("raindrop_lease_operations_total", done).await
}

/// Makes the service log one line for each of some connections, at the level `debug`.
fn make_it_log(node: &Service) {
    for _ in 0..100 {
        let mut client = TcpStream::connect(node.address()).expect("connects");
        client.write_all(b"GET /id/or").expect("writes");
        client.shutdown(Shutdown::Both).expect("a socket");
    }
}

/// The service leases, issues, loses its database and finds it again, and stops in order.
async fn assert_nothing_else_suffers(setup: Setup) {
    let server = Server::start(&Mariadb).await;
    let url = server.database().await;
    let setup = setup
        .set("store.url", &url)
        .set("store.timeout", "500ms")
        .set("lease.renew", "500ms")
        .set("log.level", "debug");
    let node = setup.start_leased().await;
    let collected = Collected::default();
    for _ in 0..2 {
        collected.add(&node.ids("order", 1_000).await);
        server.kill9();
        poll::until(PATIENCE, "the failure is seen", async || {
            node.health().await["reason"].is_string().then_some(())
        })
        .await;
        collected.add(&node.ids("order", 1_000).await);
        server.restart().await;
        let before = renewals(&node).await;
        poll::until(PATIENCE, "a renewal", async || (renewals(&node).await > before).then_some(()))
            .await;
    }
    poll::until(PATIENCE, "dropped lines are counted", async || {
        make_it_log(&node);
        (node.metric("raindrop_log_lines_dropped_total", "").await > 0.0).then_some(())
    })
    .await;
    collected.add(&node.ids("order", 1_000).await);
    assert_eq!((collected.count(), collected.duplicates()), (5_000, 0));
    assert_eq!(node.metric("raindrop_task_failures_total", "").await, 0.0);

    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = || run(&["workers"], &[("RAINDROP__STORE__URL", &url)], folder.path()).1;
    assert!(rows().contains("default: 1 held, 0 free"), "{}", rows());
    node.stop().await;
    assert!(rows().contains("default: 0 held, 1 free"), "{}", rows());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_error_may_be_a_broken_pipe() {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    assert_nothing_else_suffers(Setup::new().stderr(writer)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_error_may_be_a_full_disk() {
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    assert_nothing_else_suffers(Setup::new().stderr(full)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_error_may_be_a_pipe_that_nobody_reads() {
    let (_reader, writer) = full_pipe();
    assert_nothing_else_suffers(Setup::new().stderr(writer)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_signal_ends_a_service_whose_log_is_not_read() {
    let (_reader, writer) = full_pipe();
    let mut node = Setup::new().stderr(writer).set("http.drain_delay", "600s").start_leased().await;
    // A signal that follows the first at once counts as the same, so two may not be enough.
    let status = poll::until(PATIENCE, "it ends", async || {
        node.signal(Signal::TERM);
        sleep(Duration::from_millis(100)).await;
        node.try_ended()
    })
    .await;
    assert_eq!(status.code(), Some(1), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fatal_error_ends_a_service_whose_output_is_not_read() {
    let (_reader, writer) = full_pipe();
    let mut node = Setup::new().stderr(writer).set("http.max_batch", 0).spawn();
    assert_eq!(node.ended().await.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_lines_are_written_before_it_ends() {
    let mut node = Setup::new().start_leased().await;
    node.signal(Signal::TERM);
    assert!(node.ended().await.success());
    let log = node.log();
    for line in ["stopping", "stopped, worker id released"] {
        assert!(log.contains(line), "{line:?} is missing in\n{log}");
    }
}

/// Starts a server that refuses each connection with this text, as MySQL does before TLS. An
/// attacker who controls the network can do the same. Returns its port.
fn refusing_server(text: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let error = [&[0xff][..], &1129_u16.to_le_bytes(), text].concat();
    let length = u32::try_from(error.len()).expect("short").to_le_bytes();
    let packet = [&length[..3], &[0], &error].concat();
    // The thread ends with the process of the tests.
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            // A client may have disconnected.
            let _ = connection.write_all(&packet);
            let _ = connection.shutdown(Shutdown::Write);
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_of_a_false_store_forges_no_line_and_controls_no_terminal() {
    const EVIL: &[u8] =
        b"x\x1b[2J\x1b]0;owned\x07\xc2\x9b31m\n2026-11-29T00:00:00Z  INFO forged\r\n";
    let url = format!("mysql://u:pw@127.0.0.1:{}/x", refusing_server(EVIL));
    let setup = Setup::new().set("store.url", &url).set("store.tls", "verify");
    let mut texts = Vec::new();
    for format in ["text", "json"] {
        let node = setup.clone().set("log.format", format).start().await;
        node.logged("owned").await;
        texts.push(node.log());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = [("RAINDROP__STORE__URL", &*url), ("RAINDROP__STORE__TLS", "verify")];
    let (code, out, err) = run(&["id", "order"], &settings, folder.path());
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    texts.push(err);
    for text in texts {
        assert!(text.contains("owned"), "{text:?}");
        let control = text.chars().find(|letter| *letter != '\n' && letter.is_control());
        assert_eq!(control, None, "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("2026-11-29T00:00:00Z")), "{text:?}");
    }
}

/// The line that says why the service ends must have the format of those before it.
#[test]
fn last_line_of_a_json_log_is_json() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (code, _, err) = run(&["id", "order"], &[], folder.path());
    assert_eq!(code, Some(0), "{err}");
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    for (level, is_json) in [("info", true), ("off", false)] {
        let settings = [
            ("RAINDROP__LOG__FORMAT", "json"),
            ("RAINDROP__LOG__LEVEL", level),
            ("RAINDROP__LAYOUT__PRESET", "js-safe"),
        ];
        let (code, out, err) = run(&serve, &settings, folder.path());
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        let last = err.lines().last().expect("a line");
        assert!(last.contains("js-safe") || last.contains("layout"), "{err}");
        let objects =
            err.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
        assert_eq!(objects, is_json, "{err}");
    }
}
