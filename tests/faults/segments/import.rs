//! Numbers of other services, taken over from their tables.

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

/// How Leaf makes its table and reserves.
const LEAF: [&str; 3] = [
    "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '', \
     max_id bigint NOT NULL DEFAULT '1', step int NOT NULL, PRIMARY KEY (biz_tag))",
    "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 2000), ('user', 50, 10), \
     ('fixed', 100, 1)",
    "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'order'",
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
    // The configured code is not in the store yet.
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
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
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
    let (status, out, err) =
        folder.import(&["leaf", "order", "fixed", "--from", file, "--margin", "5000", "--yes"]);
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
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
