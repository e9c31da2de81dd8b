//! Tests the accounts of `docs/guides/accounts.md`: with exactly the rights that the page names,
//! everything works.

use std::{fs, path::Path, process::Command};

use crate::{
    backend::Backend,
    support::{
        mariadb::Mariadb,
        postgres::Postgres,
        redis::{Redis, run},
        server::Server,
    },
};

/// A namespace of worker ids with room for backfill, and one of segment codes.
const CONFIG: &str = r#"
[layout]
preset = "yitter"
backfill_from = "2024-02-29T00:00:00Z"

[namespaces.numbers]
mode = "segment"

[[code]]
name = "invoice"
namespace = "numbers"

[[code]]
name = "bill"
namespace = "numbers"
strict = true
failover_gap = 0
"#;

/// Returns the blocks of the page in this language.
fn blocks(language: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guides/accounts.md");
    let page = fs::read_to_string(page).expect("the page");
    let fence = format!("```{language}\n");
    let blocks = page.split(fence.as_str()).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// Returns the statements of a block before and after the first start.
fn parts(block: &str) -> (&str, &str) {
    let (first, after) = block.split_once("-- after the first start").expect("two parts");
    // The rest of the line says more.
    (first, after.split_once('\n').map_or("", |(_, after)| after))
}

/// Runs the statements as the administrator. `app` stands for the database.
async fn grant(backend: &Backend, sql: &str) {
    let database = backend.url().rsplit('/').next().expect("a name").to_owned();
    let lines = sql.lines().filter(|line| !line.contains("-- MySQL only"));
    let lines = lines.map(|line| line.split("--").next().unwrap_or_default());
    let sql = lines.collect::<Vec<_>>().join("\n");
    let sql = sql.replace("app.", &format!("{database}."));
    let sql = sql.replace("DATABASE app", &format!("DATABASE {database}"));
    for statement in sql.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        backend.run(statement).await;
    }
}

/// Runs everything that nodes and operators run. Each call needs another `round`.
fn use_everything(url: &str, round: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("raindrop.toml");
    fs::write(&config, CONFIG).expect("written");
    let raindrop = |words: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_raindrop"))
            .args(words.split(' '))
            .arg("--config")
            .arg(&config)
            .env("RAINDROP__STORE__URL", url)
            .current_dir(folder.path())
            .output()
            .expect("the program");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {said}");
        // The warning would name the settings that the account may not read.
        assert!(!said.contains("WARN"), "{words}: {said}");
    };
    raindrop("id order -n 2");
    raindrop("id invoice -n 2");
    raindrop(&format!("id order --at 2024-02-29T12:00:00.{round:03}Z"));
    raindrop("workers");
    raindrop("workers release 1 --yes");
    raindrop(&format!("codes create receipt-{round} --start 10"));
    raindrop(&format!("codes set receipt-{round} --max-step 5000"));
    raindrop(&format!("codes raise --by 10 receipt-{round} --yes"));
    raindrop(&format!("codes retire receipt-{round} --yes"));
    raindrop("id bill --idempotency-key order-17");
    raindrop("codes");
    raindrop("workers raise --dry-run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_of_mariadb_suffice() {
    let server = Server::start(&Mariadb).await;
    let backend = Backend::Mariadb(server.database().await);
    let url = backend.url().replace("root@", "raindrop:secret@");
    let blocks = blocks("sql");
    let (first, after) = parts(&blocks[0]);
    for (round, rights) in (1..).zip([first, after, blocks[1].as_str()]) {
        grant(&backend, rights).await;
        use_everything(&url, round);
    }
    issues_without_the_table_of_keys(&backend, &url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_of_postgres_suffice() {
    let server = Server::start(&Postgres).await;
    let backend = Backend::Postgres(server.database().await);
    let url = |role: &str| backend.url().replace("postgres@", &format!("{role}:secret@"));
    let blocks = blocks("sql");
    let (first, after) = parts(&blocks[2]);
    grant(&backend, first).await;
    use_everything(&url("raindrop_owner"), 1);
    grant(&backend, after).await;
    use_everything(&url("raindrop"), 2);
    issues_without_the_table_of_keys(&backend, &url("raindrop")).await;
}

/// Makes the tables those of a version without idempotency keys. A node that may not create tables
/// must go on with them.
async fn issues_without_the_table_of_keys(backend: &Backend, url: &str) {
    let schema = if matches!(backend, Backend::Postgres(_)) { "raindrop." } else { "" };
    let tables = format!("{schema}soc_raindrop_segment");
    backend.run(&format!("DROP TABLE {tables}_keys")).await;
    backend.run(&format!("DELETE FROM {tables}_migrations WHERE version = 3")).await;
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("raindrop.toml");
    fs::write(&config, CONFIG).expect("written");
    let raindrop = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_raindrop"))
            .arg("id")
            .args(words)
            .arg("--config")
            .arg(&config)
            .env("RAINDROP__STORE__URL", url)
            .current_dir(folder.path())
            .output()
            .expect("the program")
    };
    let output = raindrop(&["invoice"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no table of idempotency keys"), "{said}");
    assert!(raindrop(&["bill"]).status.success(), "a strict code without a key");
    let refused = raindrop(&["bill", "--idempotency-key", "order-18"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("the store keeps none"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn account_of_redis_suffices() {
    let server = Server::start(&Redis).await;
    let blocks = blocks("text");
    let words: Vec<&str> = blocks[0].split_whitespace().collect();
    run::<()>(server.address(), &words).await;
    let url = server.address().replace("redis://", "redis://raindrop:secret@");
    use_everything(&format!("{url}/0"), 1);
    use_everything(&format!("{url}/0"), 2);
}
