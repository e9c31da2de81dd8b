//! Tests a proxy that gives each statement to another of two servers, which both accept writes.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use raindrop::{
    core::{
        clock::SystemClock,
        id::Id,
        layout::{LayoutSpec, TimeUnit},
        lease::{HighWaterMarks, Token},
        segment::SegmentSpec,
    },
    keeper::{
        IssueError, Issuer, Keeper, KeeperSettings, NoObserver, SegmentIssuer, SegmentKeeper,
        SegmentSettings,
    },
    store::{
        KeyText, ManagedCode, NewSegment, Reservation, Store, StoreError, Undo, UnusedNumbers,
        with_sources,
    },
};
use tokio::{
    join,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    backend::{
        EPOCH, birth, create_rows, new_rows, open, patient, record, rows_record, scope, token,
        write,
    },
    support::{
        mariadb::Mariadb,
        mysql::Mysql,
        poll,
        programs::copy_folder,
        server::{Engine, Server},
        splitter::{Split, Splitter},
    },
};

/// As many nodes as worker ids.
const NODES: u64 = 3;
/// The pause between the claims of a node.
const PAUSE: Duration = Duration::from_millis(5);
/// For events that must happen, however busy the machine is.
const PATIENCE: Duration = Duration::from_mins(5);
const DEADLINE: Duration = Duration::from_secs(10);

/// How statements are divided, and the least number of them. Where no node can work, they come
/// slowly.
const SPLITS: [(Split, u32); 7] = [
    (Split::Turns(1), 300),
    (Split::Turns(2), 300),
    (Split::Turns(3), 300),
    (Split::Lot(1), 1_500),
    (Split::Lot(2), 1_500),
    (Split::WritesToSecond, 300),
    (Split::ReadsToSecond, 300),
];

/// All IDs and numbers that the nodes of one namespace issued, with their codes.
type Issued = Vec<(String, Id)>;

fn duplicates(issued: &Issued) -> usize {
    issued.len() - issued.iter().collect::<HashSet<_>>().len()
}

/// A node that issues IDs and numbers.
struct Node {
    keeper: Keeper,
    ids: Issuer,
    segment_keeper: SegmentKeeper,
    numbers: SegmentIssuer,
}

impl Node {
    fn start(namespace: &str, store: &Arc<dyn Store>) -> Self {
        // Two leases that begin at the same mark of a day issue the same IDs, at any time of the
        // day.
        let layout = LayoutSpec::for_unit(TimeUnit::Day).build().expect("valid");
        let mut settings = KeeperSettings::new(layout, "node");
        (settings.namespace, settings.max_worker) = (namespace.to_owned(), NODES);
        let (clock, observer) = (Arc::new(SystemClock::default()), Arc::new(NoObserver));
        let (keeper, ids) = Keeper::start(settings, store.clone(), clock, observer.clone());
        let spec = SegmentSpec { min_step: 10, max_step: 10, ..SegmentSpec::default() };
        let mut settings = SegmentSettings::new(format!("{namespace}-numbers"));
        settings.auto_create = Some(spec);
        let settings = settings.with_code("number", spec);
        let (segment_keeper, mut numbers) =
            SegmentKeeper::start(vec![(settings, observer)], store.clone());
        Self { keeper, ids, segment_keeper, numbers: numbers.pop().expect("a namespace") }
    }

    /// Issues a few IDs, and a few numbers of a code that exists and of one that may not. Returns
    /// whether that works, or the error names a proxy.
    async fn issue(&self, round: u32, issued: &Mutex<Issued>) -> bool {
        let new = format!("new-{round}");
        let (ids, numbers, new_numbers) = join!(
            self.ids.next_ids("id", 10),
            self.numbers.next_ids("number", 5),
            self.numbers.next_ids(&new, 5),
        );
        let mut issued = issued.lock().expect("nobody panicked");
        let mut keep = |code: &str, ids: Result<Vec<Id>, IssueError>| match ids {
            Ok(ids) => {
                issued.extend(ids.into_iter().map(|id| (code.to_owned(), id)));
                true
            }
            Err(error) => error.to_string().contains("a proxy sends statements to another one"),
        };
        let ids = keep("id", ids.map(Iterator::collect));
        let numbers = keep("number", numbers.map(Iterator::collect));
        let new_numbers = keep(&new, new_numbers.map(Iterator::collect));
        ids && numbers && new_numbers
    }

    /// Issues a few, and returns the rest.
    async fn begin(self) -> Issued {
        let issued = Mutex::default();
        self.ids.leased().await;
        self.numbers.prepared().await;
        poll::until(PATIENCE, "it issues", async || self.issue(0, &issued).await.then_some(()))
            .await;
        self.keeper.release(DEADLINE).await;
        self.segment_keeper.release(DEADLINE).await;
        issued.into_inner().expect("nobody panicked")
    }
}

/// A namespace, and the proxy between its nodes and the servers.
struct Case {
    split: Split,
    statements: u32,
    namespace: String,
    /// The IDs and numbers from before the proxy.
    issued: Issued,
}

impl Case {
    /// Lets nodes issue through the proxy until it has divided enough statements.
    async fn run(self, engine: &'static dyn Engine, servers: [u16; 2], url: String) {
        let Self { split, statements, namespace, issued } = self;
        let proxy = Arc::new(Splitter::start(servers, split).await);
        let issued = Arc::new(Mutex::new(issued));
        let mut nodes = JoinSet::new();
        for _ in 0..NODES {
            let store = open(&patient(engine.through(&url, proxy.port()))).await;
            let node = Node::start(&namespace, &store);
            let (proxy, issued) = (proxy.clone(), issued.clone());
            nodes.spawn(async move {
                // If chance divides, a node may lose its row, and wait until that expires.
                let may_wait = matches!(split, Split::Lot(_));
                for round in 0.. {
                    let is_clear = node.issue(round, &issued).await || may_wait;
                    if is_clear && proxy.statements() >= statements {
                        break;
                    }
                    sleep(PAUSE).await;
                }
            });
        }
        let have_ended = timeout(PATIENCE, nodes.join_all()).await.is_ok();
        let issued = issued.lock().expect("nobody panicked");
        assert_eq!(duplicates(&issued), 0, "{split:?}, of {}", issued.len());
        assert!(have_ended, "{split:?}: a node neither issues nor tells why");
    }
}

/// Makes a server as similar to another one as possible: with its data and its identity.
async fn make_alike(first: &Server, second: &Server) {
    first.stop();
    let copy = |folder: &Path| {
        fs::remove_dir_all(folder.join("data")).expect("a data folder");
        copy_folder(&first.folder().join("data"), &folder.join("data"));
    };
    second.refill(copy).await;
    first.restart().await;
}

/// Returns every row, with all columns that a write changes.
async fn tables(server: &Server, url: &str) -> HashSet<String> {
    let mut rows = HashSet::new();
    for (table, columns) in [
        ("soc_raindrop_worker", "namespace, worker_id, token, epoch, marks"),
        ("soc_raindrop_worker_layout", "namespace, token, words, epoch, history"),
        ("soc_raindrop_segment", "namespace, code, token, next_number"),
        ("soc_raindrop_segment_settings", "namespace, code, token, settings"),
        ("soc_raindrop_segment_keys", "namespace, code, request_key, owner, number_text"),
    ] {
        let sql = format!("SELECT CAST(CONCAT_WS(' ', {columns}) AS CHAR) FROM {table}");
        rows.extend(server.texts(url, &sql).await);
    }
    rows
}

/// Checks that nodes behind a proxy that sends each statement to another server issue nothing
/// twice. The second server is as similar to the first one as possible: with its data, its identity
/// and its numbers of connections.
async fn divided_statements_issue_nothing_twice(engine: &'static dyn Engine) {
    let servers = [Server::start(engine).await, Server::start(engine).await];
    let [first, second] = &servers;
    let url = first.database().await;
    let store = open(&patient(&url)).await;
    let mut cases = Vec::new();
    for (split, statements) in SPLITS {
        let namespace = format!("case-{}", cases.len());
        let issued = Node::start(&namespace, &store).begin().await;
        cases.push(Case { split, statements, namespace, issued });
    }
    store.close().await;
    make_alike(first, second).await;

    let url_of_second = engine.through(&url, second.port());
    let before = tables(second, &url_of_second).await;
    let mut running = JoinSet::new();
    for case in cases {
        running.spawn(case.run(engine, [first.port(), second.port()], url.clone()));
    }
    running.join_all().await;
    let after = tables(second, &url_of_second).await;
    let written: Vec<_> = after.difference(&before).collect();
    assert!(written.is_empty(), "to the second server: {written:?}");
}

/// Checks that a statement which a proxy sends to another server than that of its session writes
/// nothing there. Without the comparison of sessions, each statement would take effect there.
async fn no_write_changes_another_server(engine: &'static dyn Engine) {
    let servers = [Server::start(engine).await, Server::start(engine).await];
    let [first, second] = &servers;
    let url = first.database().await;
    let store = open(&patient(&url)).await;
    store.prepare().await.expect("tables");
    store.prepare_segments().await.expect("tables");
    let marks = HighWaterMarks::all_at(0, 2);
    create_rows(&store, &scope(1, 3), &marks).await.expect("rows");
    let reservation = Reservation {
        by: 10,
        step: 10,
        end: 1_000,
        token: token(1),
        or_begin_at: Some(1),
        epoch: EPOCH,
        row_epoch: Token::UNUSED,
    };
    store.reserve("default", "old", &reservation).await.expect("numbers");
    let managed = |code: &str, bits: u128| ManagedCode {
        code: code.to_owned(),
        settings: "step = 10".to_owned(),
        token: token(bits),
    };
    let is_written = store.write_managed_code("default", None, &managed("old", 1)).await;
    assert!(is_written.expect("a managed code"));
    let claim = async |store: &Arc<dyn Store>, key: &str| {
        store.claim_keys("default", "old", &[key], token(1), DEADLINE).await
    };
    claim(&store, "old").await.expect("a key");
    store.close().await;
    make_alike(first, second).await;

    let proxy = Splitter::start([first.port(), second.port()], Split::WritesToSecond).await;
    let store = open(&patient(engine.through(&url, proxy.port()))).await;
    let url_of_second = engine.through(&url, second.port());
    let before = tables(second, &url_of_second).await;
    let mut refused = Vec::new();
    let mut check = async |statement: &'static str, error: Option<StoreError>| {
        let said = error.as_ref().map(|error| with_sources(error)).unwrap_or_default();
        assert!(said.contains("a proxy sends statements to another one"), "{statement}: {said}");
        assert_eq!(tables(second, &url_of_second).await, before, "{statement}");
        refused.push(statement);
    };
    let written = store.create_record("new", &record(2, "words")).await;
    check("create_record", written.err()).await;
    let rows_token = rows_record().token;
    let written = store.swap_record("default", rows_token, &record(2, "words")).await;
    check("swap_record", written.err()).await;
    let written = store.create_rows(&scope(1, 9), &new_rows(&marks, rows_token)).await;
    check("create_rows", written.err()).await;
    check("swap_row", store.swap_row(&scope(1, 3), 1, birth(1), &write(2)).await.err()).await;
    let codes = [NewSegment { code: "new".to_owned(), first: 1 }];
    check("create_segments", store.create_segments("default", &codes).await.err()).await;
    let reservation = Reservation { token: token(2), row_epoch: EPOCH, ..reservation };
    let written = store.reserve("default", "new", &reservation).await;
    check("create_or_reserve", written.err()).await;
    let reservation = Reservation { or_begin_at: None, ..reservation };
    check("reserve", store.reserve("default", "old", &reservation).await.err()).await;
    let unused = UnusedNumbers { from: 6, reserved: token(1), epoch: EPOCH, token: token(2) };
    check("give_back", store.give_back("default", "old", &unused).await.err()).await;
    let undo = Undo { by: 10, reserved: token(1), epoch: EPOCH, token: token(2) };
    check("undo", store.undo("default", "old", &undo).await.err()).await;
    let written = store.write_managed_code("default", None, &managed("new", 2)).await;
    check("create_managed_code", written.err()).await;
    let written = store.write_managed_code("default", Some(token(1)), &managed("old", 2)).await;
    check("swap_managed_code", written.err()).await;
    check("claim_keys", claim(&store, "new").await.err()).await;
    let text = [KeyText { key: "old".to_owned(), text: "7".to_owned() }];
    let written = store.finish_keys("default", "old", token(1), &text).await;
    check("finish_keys", written.err()).await;
    check("delete_old_keys", store.delete_old_keys(Duration::ZERO).await.err()).await;

    // Every statement, except those that clean up after migrations.
    let file = include_str!("../../crates/store/src/sql/mysql.sql");
    let statements = file.split("-- name: ").filter_map(|part| part.split_once('\n'));
    let is_write = |sql: &str| {
        ["INSERT ", "UPDATE ", "DELETE FROM `{segment}"].iter().any(|verb| sql.starts_with(verb))
    };
    let mut writes: Vec<_> =
        statements.filter(|(_, sql)| is_write(sql)).map(|(name, _)| name).collect();
    writes.sort_unstable();
    refused.sort_unstable();
    assert_eq!(refused, writes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_changes_another_mariadb_than_that_of_its_session() {
    no_write_changes_another_server(&Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make mysql-test"]
async fn no_write_changes_another_mysql_than_that_of_its_session() {
    no_write_changes_another_server(&Mysql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_a_proxy_divides_between_two_mariadb_issue_nothing_twice() {
    divided_statements_issue_nothing_twice(&Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make mysql-test"]
async fn statements_that_a_proxy_divides_between_two_mysql_issue_nothing_twice() {
    divided_statements_issue_nothing_twice(&Mysql).await;
}
