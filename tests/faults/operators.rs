//! Tests `raindrop workers release`, `raise` and `relayout` beside running services.

use std::{fs, path::Path, sync::Arc};

use serde_json::{Value, json};

use crate::{
    collected::Collected,
    load::Load,
    service::{PATIENCE, Service, Setup, client, run},
    support::{
        free_port,
        mariadb::Mariadb,
        poll,
        server::{Engine as _, Server},
    },
};

/// The settings of every process of a test, and the folder that they run in.
struct Place {
    folder: tempfile::TempDir,
    settings: Vec<(&'static str, String)>,
}

impl Place {
    fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder, settings: Vec::new() }.with("store.url", "sqlite://ids.db")
    }

    async fn mariadb() -> Self {
        let url = Server::shared(&Mariadb).await.database().await;
        Self::sqlite().with("store.url", &url)
    }

    fn with(mut self, key: &'static str, value: &str) -> Self {
        self.settings.retain(|(given, _)| *given != key);
        self.settings.push((key, value.to_owned()));
        self
    }

    /// Short leases, so that they end within a test.
    fn quick(self) -> Self {
        self.with("lease.window", "6s").with("lease.renew", "1s").with("lease.max_clock_skew", "1s")
    }

    fn setup(&self) -> Setup {
        let setup = Setup::new().folder(self.folder.path());
        self.settings.iter().fold(setup, |setup, (key, value)| setup.set(key, value))
    }

    /// Runs `raindrop workers` with these arguments and further settings.
    fn workers(&self, arguments: &[&str], more: &[(&str, &str)]) -> (Option<i32>, String, String) {
        let own = self.settings.iter().map(|(key, value)| (*key, value.as_str()));
        let all: Vec<(String, &str)> = own
            .filter(|(key, _)| more.iter().all(|(other, _)| other != key))
            .chain(more.iter().copied())
            .map(|(key, value)| {
                (format!("RAINDROP__{}", key.to_uppercase().replace('.', "__")), value)
            })
            .collect();
        let all: Vec<(&str, &str)> =
            all.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        run(&[&["workers"], arguments].concat(), &all, self.folder.path())
    }
}

/// Waits until a service refuses because it has used up its lease.
async fn until_refused(service: &Service, collected: &Collected, end: &str) {
    poll::until(PATIENCE, "the range is used up", async || {
        let (status, body) = service.json("/id/order").await;
        if status == 200 {
            collected.add(&[body["id"].as_str()?.parse().ok()?]);
            return None;
        }
        (body["code"] == end).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_row_is_taken_by_the_next_start_on_sqlite() {
    a_released_row_is_taken_by_the_next_start(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_row_is_taken_by_the_next_start_on_mariadb() {
    a_released_row_is_taken_by_the_next_start(Place::mariadb().await).await;
}

async fn a_released_row_is_taken_by_the_next_start(place: Place) {
    // One row, and a ttl that no test waits for.
    let place = place.with("worker.id", "7").with("lease.ttl", "1h");
    let collected = Collected::default();
    let crashed = place.setup().start_leased().await;
    collected.add(&crashed.ids("order", 1_000).await);
    crashed.kill9().await;

    let next = place.setup().start().await;
    let refused = poll::until(PATIENCE, "the row is still held", async || {
        let (status, body) = next.json("/id/order").await;
        (body["code"] == "lease_unavailable").then_some(status)
    })
    .await;
    assert_eq!(refused, 503);

    let (code, out, err) = place.workers(&["release", "7", "--dry-run", "--json"], &[]);
    assert!(code == Some(0) && err.contains("frees worker 7, which"), "{err}");
    let tried: Value = serde_json::from_str(&out).expect("JSON");
    let worker = &tried["workers"][0];
    assert_eq!((&tried["done"], &worker["released"]), (&false.into(), &false.into()), "{tried}");
    assert!(worker["holder"].is_string() && worker["expires"].is_string(), "{tried}");
    let (code, out, err) = place.workers(&["release", "7", "--yes"], &[]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("worker 7 is free. It was held by"), "{out}");
    next.until_ready().await;
    assert_eq!(next.worker().await, 7);
    collected.add(&next.ids("order", 1_000).await);
    assert_eq!((collected.count(), collected.duplicates()), (2_000, 0));

    let (code, out, _) = place.workers(&["release", "3"], &[]);
    assert_eq!((code, out.as_str()), (Some(0), "worker 3 was free already\n"));
    let (code, out, err) = place.workers(&["release", "7", "512"], &[]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "nothing is touched");
    assert!(err.contains("worker 512: must be 0 to 511"), "{err}");
    assert_eq!(place.workers(&["release"], &[]).0, Some(2));
    collected.add(&next.ids("order", 1_000).await);
    next.stop().await;
}

/// The lease times are those of the namespace, not the defaults: a longer reach would make the next
/// fail-over wait longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_by_http_leaves_the_reach_of_the_namespace() {
    let url = Server::shared(&Mariadb).await.database().await;
    let place = Place::sqlite().quick().with("store.url", &url).with("worker.id", "7");
    let admin = format!("127.0.0.1:{}", free_port());
    let setup = place.setup().set("http.admin_listen", &admin).set("http.admin_changes", "true");
    let node = setup.start_leased().await;
    let history =
        async || Mariadb.texts(&url, "SELECT history FROM soc_raindrop_worker_layout").await;
    let before = history().await;
    let body = json!({ "worker_id": 7 });
    let released =
        client().post(format!("http://{admin}/cluster/release")).json(&body).send().await;
    let released: Value = released.expect("an answer").json().await.expect("JSON");
    assert_eq!(released["released"], true, "{released}");
    assert_eq!(history().await, before);
    node.until_ready().await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_sqlite_file_with_raised_marks_repeats_nothing() {
    let place = Place::sqlite().quick().with("lease.ttl", "3s").with("worker.max_id", "1");
    let load = Arc::new(Load::default());
    let old = place.setup().start_leased().await;
    old.stop().await;
    let file = place.folder.path().join("ids.db");
    let backup = place.folder.path().join("backup.db");
    // No process has the file open, so the file has everything.
    fs::copy(&file, &backup).expect("a copy");

    let old = place.setup().start_leased().await;
    until_renewed(&old).await;
    load.collected.add(&old.ids("order", 1_000).await);
    restore(&file, &backup);

    let (code, out, err) = place.workers(&["raise", "--yes", "--window", "5s"], &[]);
    assert_eq!(code, Some(2), "{out}");
    assert!(err.contains("--window 5s: must be lease.window (6s) to"), "{err}");
    let (code, out, err) = place.workers(&["raise", "--yes"], &[]);
    assert_eq!(code, Some(0), "{err}");
    for said in [
        "6s (lease.window of this configuration",
        "above everything that was ever leased",
        "from 20",
    ] {
        assert!(out.contains(said), "{said:?} is missing in\n{out}");
    }
    both_issue(&load, &old, &place.setup().start().await, "store_lost").await;
}

/// The old process keeps running, cut off from its database, which is restored meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_mariadb_with_raised_marks_repeats_nothing() {
    let mariadb = Server::start(&Mariadb).await;
    let url = mariadb.database().await;
    let database = url.rsplit('/').next().expect("a name");
    mariadb.run("CREATE USER 'old'@'127.0.0.1'").await;
    mariadb.run("GRANT ALL ON *.* TO 'old'@'127.0.0.1'").await;
    let place = Place::sqlite().quick().with("lease.ttl", "3s").with("worker.max_id", "1");
    let place = place.with("store.url", &url);
    let load = Arc::new(Load::default());
    place.setup().start_leased().await.stop().await;
    let table = format!("{database}.soc_raindrop_worker");
    mariadb.run(&format!("CREATE TABLE {database}.backup AS SELECT * FROM {table}")).await;

    let own = url.replace("root@", "old@");
    let old = place.setup().set("store.url", own).start_leased().await;
    until_renewed(&old).await;
    load.collected.add(&old.ids("order", 1_000).await);
    mariadb.run("ALTER USER 'old'@'127.0.0.1' ACCOUNT LOCK").await;
    mariadb.run("KILL USER 'old'@'127.0.0.1'").await;
    mariadb.run(&format!("DELETE FROM {table}")).await;
    mariadb.run(&format!("INSERT INTO {table} SELECT * FROM {database}.backup")).await;

    let (code, out, err) = place.workers(&["raise", "--yes"], &[]);
    assert!(code == Some(0) && out.contains("above everything that was ever leased"), "{out}{err}");
    both_issue(&load, &old, &place.setup().start().await, "store_unavailable").await;
}

/// A machine boots with its clock ahead, and its SQLite file was copied meanwhile, so that an epoch
/// begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_lowers_a_barrier_that_a_clock_put_ahead() {
    let place = Place::sqlite().quick();
    let collected = Collected::default();
    let node = place.setup().start_leased().await;
    collected.add(&node.ids("order", 1_000).await);
    node.stop().await;
    // No process has the file open, so the file has everything.
    let file = place.folder.path().join("ids.db");
    let copy = place.folder.path().join("copy.db");
    fs::copy(&file, &copy).expect("a copy");
    fs::rename(&copy, &file).expect("moved");

    let ahead = place.setup().with_shifted_clock(28_800.0).start().await;
    poll::until(PATIENCE, "an epoch begins", async || {
        let epochs = ahead.metric("raindrop_store_epoch_changes_total", "").await;
        (epochs > 0.0).then_some(())
    })
    .await;
    ahead.stop().await;
    let node = place.setup().start().await;
    poll::until(PATIENCE, "the node says what it waits for", async || {
        let reason = node.health().await["reason"].to_string();
        let said = ["an epoch began by a clock that was ahead", "workers raise --barrier now"];
        said.iter().all(|said| reason.contains(said)).then_some(())
    })
    .await;

    let (code, out, err) = place.workers(&["raise", "--dry-run"], &[]);
    assert!(code == Some(0) && out.contains("--barrier now lowers it"), "{out}{err}");
    let lower = ["raise", "--barrier", "now"];
    let (code, _, err) = place.workers(&lower, &[]);
    assert!(code == Some(2) && err.contains("nobody can be asked"), "{err}");
    let (code, out, err) = place.workers(&[&lower[..], &["--dry-run"]].concat(), &[]);
    assert_eq!(code, Some(0), "{err}");
    for said in [
        "begins a new epoch and lowers the barrier\nnew leases begin at 20",
        " instead of 20",
        "their marks are not lowered",
        "the store must have lost no write that a process made while a clock was ahead",
        "IDs that were issued by that clock are issued again when that time comes",
    ] {
        assert!(out.contains(said), "{said:?} is missing in\n{out}");
    }
    assert!(node.health().await["reason"].to_string().contains("by a clock that was ahead"));

    let lower = [&lower[..], &["--yes"]].concat();
    let (code, out, err) = place.workers(&lower, &[]);
    assert!(
        code == Some(0) && out.contains("the barrier is lowered; IDs are issued from"),
        "{err}"
    );
    node.until_ready().await;
    collected.add(&node.ids("order", 1_000).await);
    assert_eq!(collected.duplicates(), 0);
    let (code, out, err) = place.workers(&lower, &[]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("the barrier of namespace default stays: it is at 20"), "{err}");
    node.stop().await;
}

/// Waits until the lease reaches a window ahead.
async fn until_renewed(service: &Service) {
    let valid_until = service.health().await["valid_until"].clone();
    poll::until(PATIENCE, "the lease is renewed", async || {
        let renewed = service.health().await["valid_until"].clone();
        (renewed.as_str() > valid_until.as_str()).then_some(())
    })
    .await;
}

/// Runs the old process on the rest of its lease and the new one on the same row, above. Clients
/// request IDs of one code from both all the time.
async fn both_issue(load: &Arc<Load>, old: &Service, new: &Service, end: &str) {
    load.join(old);
    load.join(new);
    until_refused(old, &load.collected, end).await;
    new.until_ready().await;
    assert_eq!(new.worker().await, 1);
    let seen = load.collected.count();
    poll::until(PATIENCE, "the new process issues", async || {
        (load.collected.count() > seen + 10_000).then_some(())
    })
    .await;
    load.stop().await;
    assert_eq!(load.unexpected(), [""; 0]);
    assert_eq!(load.collected.duplicates(), 0);
}

/// Replaces a file by a backup, as a move would.
fn restore(file: &Path, backup: &Path) {
    let fresh = file.with_extension("fresh");
    fs::copy(backup, &fresh).expect("a copy");
    for left_over in ["-wal", "-shm"] {
        let name = format!("{}{left_over}", file.display());
        // SQLite removes them when no process has the file open.
        if Path::new(&name).exists() {
            fs::remove_file(name).expect("removed");
        }
    }
    fs::rename(fresh, file).expect("moved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_namespace_is_moved_to_a_layout_with_larger_ids_on_sqlite() {
    a_live_namespace_is_moved_to_a_layout_with_larger_ids(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_namespace_is_moved_to_a_layout_with_larger_ids_on_mariadb() {
    a_live_namespace_is_moved_to_a_layout_with_larger_ids(Place::mariadb().await).await;
}

async fn a_live_namespace_is_moved_to_a_layout_with_larger_ids(place: Place) {
    // The old process must serve until the new one does.
    let place = place
        .quick()
        .with("lease.window", "15s")
        .with("lease.ttl", "3s")
        .with("layout.preset", "js-safe");
    let collected = Collected::default();
    let old = place.setup().start_leased().await;
    collected.add(&old.ids("order", 1_000).await);

    let larger = [("layout.preset", "raindrop")];
    let (code, out, err) = place.workers(&["relayout", "--yes"], &larger);
    assert_eq!(code, Some(0), "{err}");
    for said in ["largest ID that the old marks allow is", "worker=5", "worker=9"] {
        assert!(out.contains(said), "{said:?} is missing in\n{out}");
    }
    let moved = out.find("the largest ID").expect("what was done, after what would be done");
    let numbers: Vec<u64> = out[moved..]
        .split(|character: char| !character.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    let (largest_old, smallest_new) = (numbers[0], numbers[1]);
    let (code, out, _) = place.workers(&["relayout", "--yes"], &larger);
    assert!(code == Some(0) && out.starts_with("nothing to do"), "{out}");
    // The move back is refused, and both IDs are named.
    let (code, _, err) = place.workers(&["relayout", "--yes"], &[]);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("largest ID that the old marks allow is"), "{err}");
    assert!(err.contains("smallest of the new layout from now on is"), "{err}");

    let new = place.setup().set("layout.preset", "raindrop").start_leased().await;
    for _ in 0..3 {
        let (old, new) = (old.ids("order", 1_000).await, new.ids("order", 1_000).await);
        assert!(old[999] <= largest_old && largest_old < smallest_new && smallest_new <= new[0]);
        collected.add(&old);
        collected.add(&new);
    }
    until_refused(&old, &collected, "store_lost").await;
    collected.add(&new.ids("order", 1_000).await);
    assert_eq!(collected.duplicates(), 0);
    // A node with the old layout no longer joins.
    let mut late = place.setup().spawn();
    assert_eq!(late.ended().await.code(), Some(2), "{}", late.log());
    new.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_was_begun_keeps_services_out_and_names_the_way_out() {
    let place = Place::sqlite();
    place.setup().start_leased().await.stop().await;
    let words = |worker: u32, sequence: u32| {
        format!(
            "unit=millisecond epoch=2025-01-01T00:00:00Z timestamp=41 data_center=0 \
             worker={worker} rollback=1 sequence={sequence} reserved=0 min_sequence=0 \
             max_sequence={}",
            (1_u64 << sequence) - 1
        )
    };
    let (ours, theirs) = (words(9, 12), words(8, 13));
    let file = place.folder.path().join("ids.db");
    let begun = format!("relayout stage=fencing from=[{ours}] to=[{theirs}]");
    let sql = format!("UPDATE soc_raindrop_worker_layout SET words = '{begun}'");
    let url = format!("sqlite://{}", file.display());
    let mut connection =
        <sqlx::SqliteConnection as sqlx::Connection>::connect(&url).await.expect("the file");
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.expect("written");
    sqlx::Connection::close(connection).await.expect("closed");

    let mut node = place.setup().spawn();
    assert_eq!(node.ended().await.code(), Some(2), "{}", node.log());
    assert!(node.log().contains("run `raindrop workers relayout`"), "{}", node.log());
    let (code, _, err) = place.workers(&["raise", "--yes"], &[]);
    assert!(code == Some(2) && err.contains("raindrop workers relayout"), "{err}");
    let (code, out, err) = place.workers(&["relayout", "--yes"], &[]);
    assert!(code == Some(0) && out.contains("was undone"), "{out}{err}");
    place.setup().start_leased().await.stop().await;
}
