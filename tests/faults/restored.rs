//! Tests stores that are restored in place, emptied, robbed of rows or tables, or reconfigured
//! while nodes run.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection};
use tempfile::TempDir;

use crate::{
    load::{Home, Load},
    service::{PATIENCE, Service, Setup, parse_ids},
    support::{
        kubernetes::Kubernetes,
        mariadb::Mariadb,
        poll,
        postgres::Postgres,
        programs::{self, succeed},
        redis::{self, Redis},
        server::{Engine, Server},
    },
};

const TABLES: [&str; 2] = ["soc_raindrop_worker", "soc_raindrop_worker_layout"];

/// The store of the nodes, and what an operator does to it.
enum Place {
    Database(&'static dyn Engine, String),
    Redis(String),
    Sqlite(TempDir),
    Kubernetes(String),
}

/// The part of the store that an operator deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deleted {
    Rows,
    Record,
    Everything,
}

impl Place {
    async fn of(engine: &'static dyn Engine) -> Self {
        Self::Database(engine, Server::shared(engine).await.database().await)
    }

    async fn redis() -> Self {
        Self::Redis(Server::shared(&Redis).await.database().await)
    }

    fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().expect("a temporary folder"))
    }

    fn url(&self) -> String {
        match self {
            Self::Database(_, url) | Self::Redis(url) | Self::Kubernetes(url) => url.clone(),
            Self::Sqlite(folder) => format!("sqlite://{}", folder.path().join("a.db").display()),
        }
    }

    /// Runs a statement or, on Redis, a script.
    async fn run(&self, words: &str) {
        match self {
            Self::Database(engine, url) => engine.run(url, words).await,
            Self::Redis(url) => redis::run(url, &["EVAL", words, "0"]).await,
            Self::Sqlite(_) => {
                let connected = SqliteConnection::connect(&self.url()).await;
                let mut connection = connected.expect("the file");
                connection.execute(AssertSqlSafe(words)).await.expect(words);
                connection.close().await.expect("a polite end");
            }
            Self::Kubernetes(_) => panic!("it has no statements"),
        }
    }

    async fn back_up(&self) {
        if let Self::Kubernetes(_) = self {
            // The tests of Kubernetes copy the files of etcd instead.
            return;
        }
        if let Self::Redis(_) = self {
            let keep = "for _, key in ipairs(redis.call('KEYS', 'soc_raindrop_*')) do \
                        redis.call('HSET', 'backup', key, redis.call('DUMP', key)) end";
            return self.run(keep).await;
        }
        for table in TABLES {
            self.run(&format!("DROP TABLE IF EXISTS {table}_copy")).await;
            self.run(&format!("CREATE TABLE {table}_copy AS SELECT * FROM {table}")).await;
        }
    }

    /// Writes the backup into the running store, in one step.
    async fn put_back(&self) {
        if let Self::Redis(_) = self {
            let put_back = "local kept = redis.call('HGETALL', 'backup') for at = 1, #kept, 2 do \
                            redis.call('RESTORE', kept[at], 0, kept[at + 1], 'REPLACE') end";
            return self.run(put_back).await;
        }
        let put_back = TABLES.map(|table| {
            format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {table}_copy; ")
        });
        self.run(&format!("BEGIN; {}COMMIT", put_back.concat())).await;
    }

    async fn delete(&self, what: Deleted) {
        if let Self::Redis(_) = self {
            let pattern = match what {
                Deleted::Rows => "soc_raindrop_worker:{default}:*:*",
                Deleted::Record => "soc_raindrop_worker:{default}:layout",
                Deleted::Everything => return self.run("redis.call('FLUSHDB')").await,
            };
            let delete = format!("redis.call('DEL', unpack(redis.call('KEYS', '{pattern}')))");
            return self.run(&delete).await;
        }
        let tables = match what {
            Deleted::Rows => &TABLES[..1],
            Deleted::Record => &TABLES[1..],
            Deleted::Everything => &TABLES,
        };
        let delete: String = tables.iter().map(|table| format!("DELETE FROM {table}; ")).collect();
        self.run(&delete).await;
    }

    /// Creates dropped tables again, with the content of the backup. Each is filled before it gets
    /// its name, and nodes use none while one is missing.
    async fn make_again(&self, tables: &[&str]) {
        let migrations = match self {
            Self::Sqlite(_) => [
                include_str!("../../migrations/sqlite/0001_worker.sql"),
                include_str!("../../migrations/sqlite/0002_layout.sql"),
            ],
            Self::Database(engine, _) if engine.name() == Postgres.name() => [
                include_str!("../../migrations/postgres/0001_worker.sql"),
                include_str!("../../migrations/postgres/0002_layout.sql"),
            ],
            _ => [
                include_str!("../../migrations/mysql/0001_worker.sql"),
                include_str!("../../migrations/mysql/0002_layout.sql"),
            ],
        };
        for (table, make) in TABLES.iter().zip(migrations) {
            let made = table.replace(TABLES[0], "dump");
            if tables.contains(table) {
                self.run(&make.replace("{table}", "dump")).await;
                self.run(&format!("INSERT INTO {made} SELECT * FROM {table}_copy")).await;
            } else {
                // A dump has all tables.
                let put_back = format!(
                    "BEGIN; DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {table}_copy; COMMIT"
                );
                self.run(&put_back).await;
            }
        }
        for table in tables {
            let made = table.replace(TABLES[0], "dump");
            self.run(&format!("ALTER TABLE {made} RENAME TO {table}")).await;
        }
    }
}

/// How long leases reach and rows are held: longer than a test waits, unless nodes are to use them
/// up.
const LONG: [&str; 2] = ["120s", "60s"];
const SHORT: [&str; 2] = ["6s", "3s"];

/// Nodes under load.
struct Fleet {
    place: Place,
    setup: Setup,
    load: Arc<Load>,
    nodes: Vec<Service>,
    homes: Vec<Arc<Home>>,
}

impl Fleet {
    async fn start(place: Place, [window, ttl]: [&str; 2]) -> Self {
        let setup = Setup::new()
            .set("store.url", place.url())
            .set("lease.window", window)
            .set("lease.ttl", ttl)
            .set("lease.renew", "1s")
            .set("lease.max_clock_skew", "1s");
        let (load, mut nodes, mut homes) = (Arc::new(Load::default()), Vec::new(), Vec::new());
        for _ in 0..3 {
            let node = setup.clone().start_leased().await;
            homes.push(load.join(&node));
            nodes.push(node);
        }
        until_renewed(&nodes, 3.0).await;
        place.back_up().await;
        Self { place, setup, load, nodes, homes }
    }

    async fn epochs(&self) -> f64 {
        let mut epochs = 0.0;
        for node in &self.nodes {
            epochs += node.metric("raindrop_store_epoch_changes_total", "").await;
        }
        epochs
    }

    /// Lets something happen, and checks that every node keeps renewing. A lease that is being used
    /// up gets no longer.
    async fn goes_on(&self, what: &str, begins_epochs: bool, happens: impl Future<Output = ()>) {
        // The backup is older than the skew.
        until_renewed(&self.nodes, 4.0).await;
        let before = self.epochs().await;
        happens.await;
        until_renewed(&self.nodes, 4.0).await;
        for node in &self.nodes {
            let until = async || node.health().await["valid_until"].to_string();
            let reached = until().await;
            poll::until(PATIENCE, "the lease gets longer", async || {
                (until().await > reached).then_some(())
            })
            .await;
        }
        let began = self.epochs().await - before;
        assert_eq!(began > 0.0, begins_epochs, "{what}: {began} epochs");
    }

    /// Waits until every node refuses with this code, and `/health` has this reason.
    async fn until_used_up(&self, code: &str, reason: &str) {
        for node in &self.nodes {
            poll::until(PATIENCE, "the lease is used up", async || {
                let (_, body) = node.json("/id/order").await;
                let said = node.health().await["reason"].to_string();
                (body["code"] == code && said.contains(reason)).then_some(())
            })
            .await;
        }
    }

    async fn until_issuing(&self) {
        for home in &self.homes {
            let before = home.served().ids;
            poll::until(PATIENCE, "the node issues", async || {
                (home.served().ids > before).then_some(())
            })
            .await;
        }
    }

    /// Ends the load and checks that no ID came twice. Returns how many requests were refused.
    async fn end(self) -> usize {
        self.load.stop().await;
        assert_eq!(self.load.unexpected(), [""; 0]);
        assert_eq!(self.load.collected.duplicates(), 0);
        self.load.figures().refused
    }
}

/// Checks that no request is refused, whatever happens to the rows and the record.
async fn nodes_go_on(place: Place) {
    let fleet = Fleet::start(place, LONG).await;
    let place = &fleet.place;
    fleet.goes_on("put back", true, place.put_back()).await;
    if let Place::Sqlite(folder) = place {
        let file = folder.path().join("b.db");
        place.run(&format!("VACUUM INTO '{}'", file.display())).await;
        let restore = async || {
            let words = [".timeout 60000".to_owned(), format!(".restore '{}'", file.display())];
            let program = programs::find(&["sqlite3"], &[]).expect("`make deps` names the package");
            succeed(Command::new(program).arg(folder.path().join("a.db")).args(words));
        };
        fleet.goes_on(".restore", true, restore()).await;
    }
    for (what, begins_epochs) in
        [(Deleted::Rows, false), (Deleted::Record, true), (Deleted::Everything, true)]
    {
        fleet.goes_on(&format!("{what:?}"), begins_epochs, place.delete(what)).await;
    }
    assert_eq!(fleet.end().await, 0, "no request was refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_on_whatever_happens_to_mariadb() {
    nodes_go_on(Place::of(&Mariadb).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_on_whatever_happens_to_postgres() {
    nodes_go_on(Place::of(&Postgres).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_on_whatever_happens_to_redis() {
    nodes_go_on(Place::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_on_whatever_happens_to_a_sqlite_file() {
    nodes_go_on(Place::sqlite()).await;
}

/// Checks which change of a setting begins an epoch.
async fn nodes_go_on_with_settings(engine: &'static dyn Engine, changes: &[(&[&str], bool)]) {
    let server = Server::start(engine).await;
    let url = server.database().await;
    let fleet = Fleet::start(Place::Database(engine, url.clone()), LONG).await;
    for (statements, begins_epochs) in changes {
        let change = async || {
            for sql in *statements {
                engine.run(&url, sql).await;
            }
        };
        fleet.goes_on(statements[0], *begins_epochs, change()).await;
    }
    assert_eq!(fleet.end().await, 0, "no request was refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_on_when_settings_of_mariadb_and_postgres_change() {
    let case = nodes_go_on_with_settings;
    let mariadb: [(&[&str], _); 3] = [
        (&["SET GLOBAL server_id = 7"], true),
        (&["SET GLOBAL innodb_flush_log_at_trx_commit = 2"], true),
        // No node can tell later that the setting had another value.
        (&["SET GLOBAL innodb_flush_log_at_trx_commit = 1"], false),
    ];
    let reload = "SELECT pg_reload_conf()";
    let postgres: [(&[&str], _); 2] = [
        (&["ALTER SYSTEM SET fsync = off", reload], true),
        (&["ALTER SYSTEM SET fsync = on", reload], true),
    ];
    tokio::join!(case(&Mariadb, &mariadb), case(&Postgres, &postgres));
}

/// Copies a folder over the content of another one.
fn copy(from: &Path, to: &Path) {
    let all = r#"find "$1" -mindepth 1 -delete; cp -a "$0/." "$1""#;
    succeed(Command::new("sh").args(["-ec", all]).args([from, to]));
}

/// Returns a copy of the server's present files.
fn snapshot(server: &Server) -> TempDir {
    let snapshot = tempfile::tempdir().expect("a temporary folder");
    server.freeze();
    copy(server.folder(), snapshot.path());
    server.thaw();
    snapshot
}

/// Restores a copy of the server's files, as a snapshot of a volume does.
async fn nodes_go_on_with_a_snapshot(engine: &'static dyn Engine) {
    let server = Server::start(engine).await;
    let url = server.database().await;
    let place = match engine.name() == Redis.name() {
        true => Place::Redis(url),
        false => Place::Database(engine, url),
    };
    let fleet = Fleet::start(place, LONG).await;
    let snapshot = snapshot(&server);
    let refill = server.refill(|folder| copy(snapshot.path(), folder));
    fleet.goes_on("a snapshot", true, refill).await;
    assert_eq!(fleet.end().await, 0, "no request was refused");
}

/// A node cannot tell whether a restored etcd is in this cluster or in another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn nodes_go_on_with_a_snapshot_of_kubernetes() {
    let server = Server::start(&Kubernetes).await;
    let fleet = Fleet::start(Place::Kubernetes(server.database().await), LONG).await;
    let snapshot = snapshot(server.backing());
    let refill = async {
        server.kill9();
        server.backing().refill(|folder| copy(snapshot.path(), folder)).await;
        server.restart().await;
    };
    fleet.goes_on("a snapshot", true, refill).await;
    assert_eq!(fleet.end().await, 0, "no request was refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_on_with_a_snapshot_of_mariadb_postgres_and_redis() {
    let case = nodes_go_on_with_a_snapshot;
    tokio::join!(case(&Mariadb), case(&Postgres), case(&Redis));
}

/// The first node that checks begins an epoch, and the record then remembers the nodes' epoch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_on_with_a_backup_that_lacks_their_epoch() {
    let fleet = Fleet::start(Place::of(&Mariadb).await, ["20s", "10s"]).await;
    let before = fleet.epochs().await;
    fleet.goes_on("put back", true, fleet.place.put_back()).await;
    fleet.goes_on("put back again", true, fleet.place.put_back()).await;
    assert_eq!(fleet.epochs().await - before, 2.0);
    assert_eq!(fleet.load.figures().refused, 0, "no request was refused");
    fleet.end().await;
}

/// Nodes issue to their limits, and recover once the tables exist again.
async fn nodes_go_on_once_tables_are_restored(place: Place) {
    let fleet = Fleet::start(place, SHORT).await;
    for dropped in [&TABLES[1..], &TABLES] {
        fleet.place.back_up().await;
        until_renewed(&fleet.nodes, 4.0).await;
        for table in dropped {
            fleet.place.run(&format!("DROP TABLE {table}")).await;
        }
        fleet.until_used_up("store_lost", "").await;
        let mut late = fleet.setup.clone().spawn();
        assert_eq!(late.ended().await.code(), Some(2), "{}", late.log());
        assert!(late.log().contains(&format!("table {} is gone", dropped[0])), "{}", late.log());
        fleet.place.make_again(dropped).await;
        fleet.until_issuing().await;
    }
    let mut late = fleet.setup.clone().start_leased().await;
    until_renewed(std::slice::from_ref(&late), 1.0).await;
    assert_eq!(late.try_ended(), None);
    fleet.end().await;
}

// At the same time, like the next one: such a case mostly waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_on_once_the_tables_of_mariadb_postgres_and_sqlite_are_restored() {
    let case = nodes_go_on_once_tables_are_restored;
    let (mariadb, postgres) = (Place::of(&Mariadb).await, Place::of(&Postgres).await);
    tokio::join!(case(mariadb), case(postgres), case(Place::sqlite()));
}

/// Nodes issue to their limits while the store takes no writes, and recover afterwards.
async fn nodes_go_on_once_writes_are_accepted(
    engine: &'static dyn Engine,
    [off, on]: [&[&str]; 2],
) {
    let server = Server::start(engine).await;
    let url = server.database().await;
    let fleet = Fleet::start(Place::Database(engine, url.clone()), SHORT).await;
    for sql in off {
        engine.run(&url, sql).await;
    }
    fleet
        .until_used_up("store_unavailable", "the store is unavailable: it accepts no writes")
        .await;
    for sql in on {
        engine.run(&url, sql).await;
    }
    fleet.until_issuing().await;
    assert_eq!(fleet.epochs().await, 0.0, "it is the same store");
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_on_once_mariadb_and_postgres_accept_writes() {
    let case = nodes_go_on_once_writes_are_accepted;
    let mariadb = [&["SET GLOBAL read_only = 1"][..], &["SET GLOBAL read_only = 0"]];
    let off = ["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"];
    let on = ["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"];
    tokio::join!(case(&Mariadb, mariadb), case(&Postgres, [&off, &on]));
}

/// A node that starts just after a restore waits until the living ones have checked: the backup
/// shows the rows of two of them as free.
async fn start_waits_for_living_nodes(place: Place) {
    let setup = Setup::new()
        .set("store.url", place.url())
        .set("worker.max_id", 3)
        .set("lease.window", "30s")
        .set("lease.ttl", "20s")
        .set("lease.renew", "4s")
        .set("lease.max_clock_skew", "1s");
    let load = Arc::new(Load::default());
    let mut nodes = vec![setup.clone().start_leased().await];
    until_renewed(&nodes, 1.0).await;
    place.back_up().await;
    for _ in 0..2 {
        nodes.push(setup.clone().start_leased().await);
    }
    // The backup is older than holders take to check.
    until_renewed(&nodes, 3.0).await;
    for node in &nodes {
        load.join(node);
    }
    place.put_back().await;
    let late = setup.start().await;
    late.logged("no lease was renewed since").await;
    let (_, health) = late.json("/health").await;
    let reason = health["namespaces"]["default"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("lease.stale_wait"), "{health}");
    for _ in 0..80 {
        let (status, answer) = late.json("/ids/order?n=100").await;
        if status.is_success() {
            load.collected.add(&parse_ids(&answer));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    load.stop().await;
    assert_eq!(load.unexpected(), [""; 0]);
    assert_eq!(load.collected.duplicates(), 0);
    assert_eq!(load.figures().refused, 0, "no request was refused");
    late.logged("the store failed over").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_on_a_restored_mariadb_waits_for_living_nodes() {
    start_waits_for_living_nodes(Place::of(&Mariadb).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_on_a_restored_postgres_waits_for_living_nodes() {
    start_waits_for_living_nodes(Place::of(&Postgres).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_on_a_restored_redis_waits_for_living_nodes() {
    start_waits_for_living_nodes(Place::redis().await).await;
}

/// Waits until each node has renewed its lease this many times.
async fn until_renewed(nodes: &[Service], times: f64) {
    let renewals = async |node: &Service| {
        node.metric("raindrop_lease_operations_total", r#"operation="renew",outcome="done""#).await
    };
    let mut enough = Vec::new();
    for node in nodes {
        enough.push(renewals(node).await + times);
    }
    for (node, enough) in nodes.iter().zip(enough) {
        poll::until(PATIENCE, "the lease is renewed", async || {
            (renewals(node).await >= enough).then_some(())
        })
        .await;
    }
}
