//! Imports the numbers of other services from their tables.

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection};

use crate::{
    service::run,
    support::{
        mariadb::Mariadb,
        server::{Engine as _, Server},
    },
};

const CONFIG: &str =
    "[namespaces.n]\nmode = 'segment'\n[[code]]\nname = 'fixed'\nnamespace = 'n'\n";

/// How Leaf creates its table and reserves.
const LEAF: [&str; 3] = [
    "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '', \
     max_id bigint NOT NULL DEFAULT '1', step int NOT NULL, PRIMARY KEY (biz_tag))",
    "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 2000), ('user', 50, 10), \
     ('fixed', 100, 1)",
    "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'order'",
];

/// A service: its example, namespace and table, a row, how it reserves, and the largest number
/// after that.
type Service = (&'static str, &'static str, [&'static str; 3], &'static [&'static str], u64);

/// Each with a code whose name is `shop.order`.
const SERVICES: [Service; 3] = [
    (
        "leaf-segments",
        "default",
        [
            LEAF[0],
            "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('shop.order', 1, 2000)",
            "UPDATE leaf_alloc SET max_id = max_id + 1000000 WHERE biz_tag = 'shop.order'",
        ],
        &["leaf"],
        1_000_000,
    ),
    (
        "tinyid",
        "default",
        [
            "CREATE TABLE tiny_id_info (id bigint NOT NULL AUTO_INCREMENT, biz_type varchar(63) \
             NOT NULL, begin_id bigint NOT NULL, max_id bigint NOT NULL, step int DEFAULT '0', \
             delta int NOT NULL, remainder int NOT NULL, version bigint NOT NULL, PRIMARY KEY (id))",
            "INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step, delta, remainder, version) \
             VALUES ('shop.order', 1, 1, 100000, 1, 0, 1)",
            "UPDATE tiny_id_info SET max_id = 100001, version = version + 1 WHERE id = 1 \
             AND max_id = 1 AND version = 1 AND biz_type = 'shop.order'",
        ],
        &["tinyid"],
        100_001,
    ),
    (
        "cosid",
        "segments",
        [
            "CREATE TABLE cosid (name varchar(100) NOT NULL, last_max_id bigint unsigned NOT NULL \
             DEFAULT 0, last_fetch_time bigint unsigned NOT NULL DEFAULT 0, PRIMARY KEY (name))",
            "INSERT INTO cosid (name, last_max_id) VALUES ('shop.order', 0)",
            "UPDATE cosid SET last_max_id = (last_max_id + 20), last_fetch_time = unix_timestamp() \
             WHERE name = 'shop.order'",
        ],
        &["cosid", "--margin", "0"],
        20,
    ),
];

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("raindrop.toml"), CONFIG).expect("written");
        Self(folder)
    }

    fn raindrop(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        run(&[&["--config", "raindrop.toml"], arguments].concat(), &[], self.0.path())
    }

    fn import(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.raindrop(&[&["codes", "import"], arguments].concat())
    }

    fn number(&self, code: &str) -> u64 {
        let (status, out, err) = self.raindrop(&["id", code, "--namespace", "n"]);
        assert_eq!(status, Some(0), "{err}");
        out.trim().parse().expect("a number")
    }

    async fn sql(&self, file: &str, statement: &str) {
        let url = format!("sqlite://{}?mode=rwc", self.0.path().join(file).display());
        let mut connection = SqliteConnection::connect(&url).await.expect("the file");
        connection.execute(AssertSqlSafe(statement)).await.expect("a statement");
        connection.close().await.expect("a polite end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imported_codes_issue_only_above_the_numbers_of_the_other_service() {
    let leaf = Server::shared(&Mariadb).await.database().await;
    for statement in LEAF {
        Mariadb.run(&leaf, statement).await;
    }
    let folder = Folder::new();
    // The store does not have the configured code yet.
    let (status, _, err) = folder.import(&["leaf", "--from", &leaf, "--yes"]);
    assert_eq!(status, Some(2), "{err}");
    assert!(err.contains("code \"fixed\" is in the configuration"), "{err}");
    let names = ["leaf", "order", "user", "--from", &leaf, "--rename", "user=shop:user"];
    let (status, out, err) = folder.import(&[&names[..], &["--dry-run"]].concat());
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<_> = out.lines().map(cells).collect();
    assert_eq!(lines[0], ["NAME", "MAX_ID", "STEP", "CODE", "FIRST", "EFFECT"]);
    assert_eq!(lines[1], ["order", "2001", "2000", "order", "4002", "new"]);
    assert_eq!(lines[2], ["user", "50", "10", "shop:user", "61", "new"]);
    assert!(folder.raindrop(&["codes"]).2.contains("no segment codes"), "nothing was written");

    let (status, out, err) = folder.import(&[&names[..], &["--yes"]].concat());
    assert!(status == Some(0) && err.starts_with("raindrop: created the store /"), "{out}{err}");
    assert!(
        out.ends_with("n order: the next number is 4002\nn shop:user: the next number is 61\n")
    );
    assert_eq!((folder.number("order"), folder.number("shop:user")), (4_002, 61));
    // Once more, from another table of the same name and with a margin.
    let file = "sqlite://leaf.db";
    for statement in LEAF {
        folder.sql("leaf.db", statement).await;
    }
    let (status, out, err) =
        folder.import(&["leaf", "order", "fixed", "--from", file, "--margin", "5000", "--yes"]);
    assert!(status == Some(2) && err.contains("\"fixed\""), "{out}{err}");
    assert_eq!(folder.number("fixed"), 1);
    std::fs::write(folder.0.path().join("url"), format!("{file}\n")).expect("written");
    let (status, out, err) = folder.import(&[
        "leaf",
        "order",
        "fixed",
        "--from-file",
        "url",
        "--margin",
        "5000",
        "--yes",
    ]);
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("for example of fixed below 5102: stop them"), "{out}");
    assert!(out.contains("raised from 2\n") && out.contains("raised from 4003\n"), "{out}");
    assert_eq!((folder.number("order"), folder.number("fixed")), (9_002, 5_102));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_in_the_store_itself_are_imported_and_errors_say_where() {
    let folder = Folder::new();
    let (status, _, err) = folder.import(&["tinyid", "--yes"]);
    assert!(status == Some(1) && err.contains("does not exist"), "{err}");
    folder
        .sql(
            "raindrop.db",
            "CREATE TABLE old_ids (biz_type TEXT, max_id BIGINT, step INT, delta INT); \
             INSERT INTO old_ids VALUES ('odd', 1001, 100, 2)",
        )
        .await;
    for (arguments, status, said) in [
        (&["tinyid"][..], 2, "--yes"),
        (&["tinyid", "--yes"], 2, "there is no table tiny_id_info in sqlite://raindrop.db"),
        (&["tinyid", "--yes", "--table", "a-b"], 2, "\"a-b\" cannot be the name"),
        (&["leaf", "--yes", "--table", "old_ids"], 2, "it lacks biz_tag"),
        (&["tinyid", "--yes", "--from", "redis://127.0.0.1:1/0"], 2, "cannot be read here"),
        (&["tinyid", "--yes", "--from", "sqlite://none.db"], 1, "sqlite://none.db: "),
        (&["tinyid", "--yes", "--from-file", "none"], 2, "none: No such file"),
        (&["tinyid", "--yes", "--namespace", "default"], 2, "not in segment mode"),
        (&["tinyid", "even", "--yes", "--table", "old_ids"], 2, "\"even\" is not in the table"),
    ] {
        let (found, _, err) = folder.import(arguments);
        assert!(found == Some(status) && err.contains(said), "{arguments:?}: {found:?} {err}");
    }
    let (status, out, err) = folder.import(&["tinyid", "--table", "old_ids", "--yes"]);
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("odd has delta 2: other databases"), "{out}");
    assert_eq!(folder.number("odd"), 1_102);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn examples_issue_above_what_each_service_reserved() {
    for (example, namespace, statements, import, largest) in SERVICES {
        let database = Server::shared(&Mariadb).await.database().await;
        for statement in statements {
            Mariadb.run(&database, statement).await;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = format!("{}/docs/examples/{example}.toml", env!("CARGO_MANIFEST_DIR"));
        let raindrop = |arguments: &[&str]| {
            let config = ["--config", &file, "--store-url", "sqlite://a.db"];
            let (status, out, err) = run(&[&config, arguments].concat(), &[], folder.path());
            assert_eq!(status, Some(0), "{example}: {out}{err}");
            out
        };
        let more = ["--from", &database, "--namespace", namespace, "--yes"];
        raindrop(&[&["codes", "import"], import, &more].concat());
        let out = raindrop(&["id", "shop.order", "--namespace", namespace, "-n", "1000"]);
        let numbers: Vec<u64> = out.lines().map(|line| line.parse().expect("a number")).collect();
        assert!(numbers.iter().all(|number| *number > largest), "{example}: {}", numbers[0]);
    }
}
