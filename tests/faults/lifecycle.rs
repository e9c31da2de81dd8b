use std::{
    fs::{self, Permissions},
    io::Write as _,
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    process::Command,
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    collected::Collected,
    load::Load,
    service::{PATIENCE, Setup, run, unix_ms},
    support::poll,
};

/// Without this check, the runtime would panic, or the store fail at some later moment.
#[test]
fn too_few_threads_end_the_start_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("own");
    // Another user may not see the folder where the program was built.
    let program = folder.path().join("raindrop");
    fs::copy(env!("CARGO_BIN_EXE_raindrop"), &program).expect("copied");
    // The limit does not hold for root.
    let mut command = Command::new(if geteuid().is_root() { "setpriv" } else { "prlimit" });
    if geteuid().is_root() {
        command.args(["--reuid=65533", "--regid=65533", "--clear-groups", "prlimit"]);
    }
    command.arg("--nproc=4:4").arg(program).arg("serve");
    let listen = ("RAINDROP__HTTP__LISTEN", "127.0.0.1:0");
    command.env_remove("RUST_BACKTRACE").envs([listen]).current_dir(folder.path());
    let output = command.output().expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("that the service needs can be started"), "{said}");
    assert!(said.lines().count() <= 3 && !said.contains("panic"), "{said}");
}

/// SQLite opens a read-only file, so that no attempt would ever succeed.
#[test]
fn store_file_of_another_user_ends_the_start_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("own");
    let program = folder.path().join("raindrop");
    fs::copy(env!("CARGO_BIN_EXE_raindrop"), &program).expect("copied");
    let made = Command::new(&program).args(["id", "order"]).current_dir(folder.path()).output();
    assert!(made.expect("the command runs").status.success());
    let file = folder.path().join("raindrop.db");
    for mode in [0o444, 0o600] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("own");
        // Root may do everything.
        let is_root = geteuid().is_root();
        if !is_root && mode == 0o600 {
            continue;
        }
        let mut command = Command::new("timeout");
        command.arg("60");
        if is_root {
            command.args(["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]);
        }
        let listen = ("RAINDROP__HTTP__LISTEN", "127.0.0.1:0");
        command.arg(&program).arg("serve").envs([listen]).current_dir(folder.path());
        let output = command.output().expect("the command runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{mode:o}: {said}");
        for part in ["raindrop.db cannot be opened", "must be writable for this user"] {
            assert!(said.contains(part), "{mode:o}: {said}");
        }
    }
}

/// To process 1 of a container, the kernel passes only signals that it listens to.
#[cfg(target_os = "linux")]
#[test]
fn command_that_is_process_1_ends_at_a_signal() {
    // A store that never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", silent.local_addr().expect("bound"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    for signal in [Signal::TERM, Signal::INT] {
        let mut command = Command::new("unshare");
        if !geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--pid", "--fork", "--kill-child"]).arg(env!("CARGO_BIN_EXE_raindrop"));
        command.arg("workers").env("RAINDROP__STORE__URL", &url).current_dir(folder.path());
        // The signal must end the command long before this time-out does.
        command.env("RAINDROP__STORE__TIMEOUT", "10s");
        let mut unshare = command.spawn().expect("unshare runs");
        let (_asked, _) = silent.accept().expect("the command asks its store");
        let children = format!("/proc/{0}/task/{0}/children", unshare.id());
        let children = fs::read_to_string(children).expect("its children");
        let pid: i32 = children.trim().parse().expect("one child");
        kill_process(Pid::from_raw(pid).expect("a process"), signal).expect("sent");
        let status = unshare.wait().expect("it ends");
        assert_eq!(status.code(), Some(128 + signal.as_raw()), "{signal:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_configuration_it_serves_and_says_what_it_does() {
    let node = Setup::new().start_leased().await;
    let (status, body) = node.json("/id/order").await;
    assert_eq!(status, 200);
    let id: u64 = body["id"].as_str().expect("a string").parse().expect("decimal");
    assert_eq!(body.as_object().expect("an object").len(), 1);

    let ids = node.ids("order", 1_000).await;
    assert!(ids.len() == 1_000 && ids.is_sorted_by(|a, b| a < b) && ids[0] > id);

    let before = unix_ms() - 60_000;
    let (status, fields) = node.json(&format!("/parse/{id}")).await;
    assert_eq!(status, 200);
    assert!((before..=unix_ms()).contains(&fields["unix_ms"].as_i64().expect("a number")));
    let health = node.health().await;
    assert_eq!((&fields["worker_id"], &fields["lane"]), (&health["worker_id"], &health["lane"]));

    let folder = node.folder().join("raindrop.db");
    assert!(folder.is_file(), "the SQLite file is in the working folder");
    for expected in
        ["http://127.0.0.1:", "unique within this file", "worker", "lane", "valid until 2094"]
    {
        node.logged(expected).await;
    }
    node.stop().await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_core_dump_of_its_secrets_is_not_written() {
    let node = Setup::new().core_dumps().start().await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.id())).expect("ours");
    let line = limits.lines().find(|line| line.starts_with("Max core file size"));
    let soft = line.and_then(|line| line.split_whitespace().nth(4));
    assert_eq!(soft, Some("0"), "{limits}");
    node.stop().await;
}

/// Programs that rotate logs or measure a process send such signals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_that_mean_nothing_end_nothing_and_sigquit_stops_in_order() {
    let mut node = Setup::new().start_leased().await;
    for signal in [
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::XFSZ,
        Signal::HUP,
    ] {
        node.signal(signal);
        node.logged("listening").await;
        assert_eq!(node.json("/id/order").await.0, 200, "{signal:?}");
    }
    node.logged("SIGHUP: nothing to reload without auth.tokens_file and http.tls").await;
    node.signal(Signal::QUIT);
    let status = node.ended().await;
    assert!(status.success(), "{status}");
    let log = node.log();
    assert!(log.contains("stopping signal=\"SIGQUIT\""), "{log}");
    assert!(log.contains("stopped, worker id released"), "{log}");
}

/// Puts a FIFO that no process writes to in the place of a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifo_in_the_place_of_a_file_ends_the_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Each case has another FIFO, because the service opens a state file for writing as well.
    let fifo_of = |name: &str| {
        let fifo = folder.path().join(name);
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("coreutils").success());
        fifo
    };
    let silent = "nothing came from it within 4s";
    let mysql = ("store.url", "mysql://u@127.0.0.1:1/x");
    let verified = ("store.tls", "verify");
    let key = ("http.tls.key_file", "key");
    let started: Vec<_> = [
        ("auth.tokens_file", &[][..], silent, 2),
        ("http.tls.cert_file", &[key], silent, 2),
        ("store.password_file", &[mysql], silent, 2),
        ("store.url_file", &[], silent, 2),
        ("store.tls_ca_file", &[mysql, verified], "must be a regular file", 2),
        ("store.state_file", &[], "it is not a regular file", 1),
    ]
    .into_iter()
    .map(|(key, others, said, code)| {
        let others = others.iter();
        let setup = others.fold(Setup::new(), |setup, (key, value)| setup.set(key, value));
        (setup.set(key, fifo_of(key).display()).spawn(), key, said, code)
    })
    .collect();
    for (mut node, key, said, code) in started {
        assert_eq!(node.ended().await.code(), Some(code), "{key}: {}", node.log());
        assert!(node.log().contains(said), "{key}: {}", node.log());
    }
    let fifo = fifo_of(".env");
    let config = [("RAINDROP_CONFIG", fifo.to_str().expect("UTF-8"))];
    let (code, _, err) = run(&["config"], &config, folder.path());
    assert!(code == Some(2) && err.contains(silent), "{err}");
    let (code, _, err) = run(&["config"], &[], folder.path());
    assert!(code == Some(2) && err.contains("it is no regular file"), "{err}");
}

/// Returns the lines of worker ids that `raindrop workers` shows as held or with a holder.
fn used_rows(folder: &std::path::Path) -> String {
    let (code, out, err) = run(&["workers"], &[], folder);
    assert_eq!(code, Some(0), "{err}");
    out.lines().filter(|line| !line.contains(" never used")).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_under_load_frees_the_row_and_the_next_start_goes_on_above() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let setup = Setup::new().folder(folder.path()).set("worker.max_id", 1);
    let load = Arc::new(Load::default());
    for _ in 0..3 {
        // There is only one row: without a release, the next start would wait for its ttl.
        let node = setup.clone().start_leased().await;
        let home = load.join(&node);
        // An idle connection, and one that sent half a request, must not delay the stop.
        let address = node.address();
        let idle = TcpStream::connect(address).expect("connects");
        let mut half = TcpStream::connect(address).expect("connects");
        half.write_all(b"GET /id/order HTTP/1.1\r\nHost: ").expect("writes");
        poll::until(PATIENCE, "IDs under load", async || (home.served().ids > 5_000).then_some(()))
            .await;
        home.harm();
        node.stop().await;
        drop((idle, half));
        load.leave(&home);
        let rows = used_rows(folder.path());
        assert!(rows.contains("free") && !rows.contains("held"), "{rows}");
    }
    load.stop().await;
    assert_eq!(load.unexpected(), [""; 0]);
    assert_eq!(load.collected.duplicates(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_service_is_not_ready_and_still_serves() {
    let mut node = Setup::new().set("http.drain_delay", "10s").start_leased().await;
    node.signal(Signal::TERM);
    poll::until(PATIENCE, "it is not ready", async || {
        (node.get("/readyz").await.ok()?.status() == 503).then_some(())
    })
    .await;
    assert_eq!(node.get("/livez").await.expect("an answer").status(), 200);
    node.ids("order", 10).await;
    let status = node.ended().await;
    assert!(status.success(), "{status}\n{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_at_once() {
    let mut node = Setup::new().set("http.drain_delay", "60s").start_leased().await;
    node.signal(Signal::INT);
    poll::until(PATIENCE, "it is not ready", async || {
        (node.get("/readyz").await.ok()?.status() == 503).then_some(())
    })
    .await;
    // A signal that follows the first at once counts as the same, so one may not be enough.
    let status = poll::until(PATIENCE, "it ends", async || {
        node.signal(Signal::TERM);
        sleep(Duration::from_millis(100)).await;
        node.try_ended()
    })
    .await;
    assert!(!status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_services_on_one_file_hold_different_workers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let collected = Collected::default();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Setup::new().folder(folder.path()).start_leased().await);
    }
    for node in &nodes {
        collected.add(&node.ids("order", 10_000).await);
    }
    assert_eq!((collected.count(), collected.duplicates()), (30_000, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_layout_on_the_same_store_ends_with_code_2_and_names_both() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let first = Setup::new().folder(folder.path()).start_leased().await;
    let mut second = Setup::new().folder(folder.path()).set("layout.time_unit", "second").spawn();
    let status = second.ended().await;
    assert_eq!(status.code(), Some(2), "{}", second.log());
    let log = second.log();
    assert!(log.contains("unit=second") && log.contains("unit=millisecond"), "{log}");
    first.ids("order", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_ten_thousand_arrives_with_none_from_the_future() {
    let node = Setup::new().start_leased().await;
    let ids = node.ids("order", 10_000).await;
    let arrived = unix_ms();
    assert!(ids.len() == 10_000 && ids.is_sorted_by(|a, b| a < b));
    let (_, last): (_, Value) = node.json(&format!("/parse/{}", ids[9_999])).await;
    assert!(last["unix_ms"].as_i64().expect("a number") <= arrived);
}
