//! Tests how a store finds the server that accepts writes: several hosts, Sentinels, fail-overs.

use std::{net::TcpListener, sync::Arc, time::Duration};

use raindrop::{
    core::lease::HighWaterMarks,
    store::{Store, StoreError, StoreSettings, with_sources},
};

use crate::{
    backend::{Backend, birth, create_rows, open, patient, scope, token, write},
    outage::{MARGIN, OPENING, PATIENCE, settings},
    support::{
        free_port,
        mariadb::Mariadb,
        pair::Replicated as _,
        poll,
        postgres::Postgres,
        proxy::Proxy,
        redis::{Redis, Sentinel, run, try_run},
        server::Server,
    },
};

/// Returns the address of a database, with these ports of this machine instead of the server's.
fn at(url: &str, ports: &[u16]) -> String {
    let (server, database) = url.rsplit_once('/').expect("a database");
    let (before, _) = server.split_once("127.0.0.1").expect("this machine");
    let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("{before}{}/{database}", hosts.join(","))
}

/// Opens a store on a fresh database, with rows.
async fn with_rows(settings: &StoreSettings) -> Arc<dyn Store> {
    let store = open(settings).await;
    store.prepare().await.expect("tables");
    create_rows(&store, &scope(1, 3), &HighWaterMarks::all_at(0, 2)).await.expect("rows");
    store
}

/// Returns why the store can use no server.
async fn refusal(store: &Arc<dyn Store>) -> String {
    let error = store.survey(&scope(1, 3)).await.expect_err("nobody takes writes");
    assert!(!error.is_permanent(), "{error:?}");
    with_sources(&error)
}

/// Expects the error of a server that answers a write like a replica, and then another server, which
/// is still empty.
async fn is_left_after_a_write(store: &Arc<dyn Store>) {
    let error = store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect_err("no write");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    store.prepare().await.expect("the other server");
    assert_eq!(store.list_rows().await.expect("no rows there"), []);
}

async fn dead_and_silent_hosts_are_passed_over(backend: Backend) {
    let url = backend.url();
    // The host accepts connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (dead, silent) = (free_port(), silent.local_addr().expect("its address").port());
    let (_, port) = url.rsplit_once(':').expect("a port");
    let port = port.split('/').next().expect("a port").parse().expect("a port");

    let store = open(&StoreSettings::new(at(&url, &[dead, silent, port]))).await;
    poll::until(PATIENCE, "the tables", async || store.prepare().await.ok()).await;

    let store = open(&settings(at(&url, &[silent, dead]))).await;
    poll::within(OPENING + MARGIN, "a search in vain", async || {
        let said = refusal(&store).await;
        assert!(said.contains(&format!("127.0.0.1:{dead}: ")), "{said}");
        assert!(said.contains(&format!("127.0.0.1:{silent}: no answer within ")), "{said}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_dead_and_silent_hosts_are_passed_over() {
    dead_and_silent_hosts_are_passed_over(Backend::mariadb().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_dead_and_silent_hosts_are_passed_over() {
    dead_and_silent_hosts_are_passed_over(Backend::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_dead_and_silent_hosts_are_passed_over() {
    dead_and_silent_hosts_are_passed_over(Backend::redis().await).await;
}

/// With the default time-outs, although logging in to each host takes two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_behind_two_slow_replicas_is_found() {
    let (primary, replica) = (Server::start(&Mariadb).await, Server::start(&Mariadb).await);
    let url = primary.database().await;
    let (_, database) = url.rsplit_once('/').expect("a database");
    replica.run(&format!("CREATE DATABASE {database}")).await;
    replica.run("SET GLOBAL read_only = 1").await;
    let of_replica = at(&url, &[replica.port()]);
    let mut proxies = Vec::new();
    for url in [&of_replica, &of_replica, &url] {
        let proxy = Proxy::start(url).await;
        proxy.delay(Duration::from_millis(600));
        proxies.push(proxy);
    }
    let ports: Vec<_> = proxies.iter().map(Proxy::port).collect();
    let store = open(&StoreSettings::new(at(&url, &ports))).await;
    poll::until(PATIENCE, "the tables", async || store.prepare().await.ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_that_is_read_only_is_left_even_by_an_administrator() {
    let (old, new) = (Server::start(&Mariadb).await, Server::start(&Mariadb).await);
    let url = old.database().await;
    let (_, database) = url.rsplit_once('/').expect("a database");
    new.run(&format!("CREATE DATABASE {database}")).await;
    new.run("SET GLOBAL read_only = 1").await;
    let replica = open(&patient(at(&url, &[new.port()]))).await;
    let said = refusal(&replica).await;
    let expected =
        format!("the store accepts no writes: 127.0.0.1:{}: read_only is on", new.port());
    assert!(said.starts_with(&expected), "{said}");

    let store = with_rows(&patient(at(&url, &[new.port(), old.port()]))).await;
    // Open connections of the administrator can still write.
    old.run("SET GLOBAL read_only = 1").await;
    let said = refusal(&store).await;
    assert!(said.starts_with("the store accepts no writes: "), "{said}");
    for server in [&old, &new] {
        let expected = format!("127.0.0.1:{}: read_only is on: ", server.port());
        assert!(said.contains(&expected), "{said}");
    }
    new.run("SET GLOBAL read_only = 0").await;
    store.prepare().await.expect("the new primary");
    assert_eq!(store.list_rows().await.expect("no rows there"), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_that_refuses_a_write_as_read_only_is_left() {
    let (old, new) = (Server::start(&Mariadb).await, Server::start(&Mariadb).await);
    let url = old.database().await;
    let (_, database) = url.rsplit_once('/').expect("a database");
    new.run(&format!("CREATE DATABASE {database}")).await;
    let store = with_rows(&patient(at(&url, &[old.port(), new.port()]))).await;
    // Like a server that becomes a replica after the store read its state.
    let trigger = format!(
        "CREATE TRIGGER {database}.demoted BEFORE UPDATE ON {database}.soc_raindrop_worker \
         FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290"
    );
    old.run(&trigger).await;
    is_left_after_a_write(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_standby_is_used_once_it_is_promoted() {
    let primary = Server::start(&Postgres).await;
    let url = primary.database().await;
    let standby = primary.start_standby().await;
    let store = with_rows(&patient(at(&url, &[standby.port(), primary.port()]))).await;
    let alone = open(&patient(at(&url, &[standby.port()]))).await;
    let said = refusal(&alone).await;
    let expected = format!("127.0.0.1:{}: it is a standby: ", standby.port());
    assert!(said.contains(&expected), "{said}");

    assert!(store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect("an answer"));
    Postgres.until_caught_up(&primary, &standby).await;
    let store = open(&StoreSettings::new(at(&url, &[standby.port(), primary.port()]))).await;
    poll::until(PATIENCE, "an open connection", async || store.list_rows().await.ok()).await;
    primary.freeze();
    let said = refusal(&store).await;
    let expected = format!("127.0.0.1:{}: it accepts no writes: it is a standby", standby.port());
    assert!(said.contains(&expected), "{said}");
    let silent = format!("127.0.0.1:{}: no answer within ", primary.port());
    assert!(said.contains(&silent), "{said}");
    standby.run("SELECT pg_promote()").await;
    let row = poll::until(PATIENCE, "the new primary", async || {
        store.read_row(&scope(1, 3), 1).await.ok().flatten()
    })
    .await;
    assert_eq!(row.token, token(1));
    assert!(store.swap_row(&scope(1, 3), 1, token(1), &write(2)).await.expect("an answer"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_that_refuses_a_write_as_read_only_is_left() {
    let (old, new) = (Server::start(&Postgres).await, Server::start(&Postgres).await);
    let url = old.database().await;
    let (_, database) = url.rsplit_once('/').expect("a database");
    new.run(&format!("CREATE DATABASE {database}")).await;
    let store = with_rows(&patient(at(&url, &[old.port(), new.port()]))).await;
    let backend = Backend::Postgres(url);
    // Like a server that becomes a replica after the store read its state.
    backend
        .run(
            "CREATE FUNCTION demoted() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN RAISE EXCEPTION USING ERRCODE = ''25006''; END'",
        )
        .await;
    backend
        .run(
            "CREATE TRIGGER demoted BEFORE UPDATE ON soc_raindrop_worker \
             FOR EACH ROW EXECUTE FUNCTION demoted()",
        )
        .await;
    is_left_after_a_write(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_replica_is_used_once_it_is_promoted() {
    let (one, two) = (Server::start(&Redis).await, Server::start(&Redis).await);
    let follow = async |replica: &Server, primary: &Server| {
        let port = primary.port().to_string();
        run::<()>(replica.address(), &["REPLICAOF", "127.0.0.1", &port]).await;
    };
    let url = one.database().await;
    follow(&two, &one).await;
    let store = with_rows(&patient(at(&url, &[two.port(), one.port()]))).await;
    in_sync(&two).await;
    Redis.until_caught_up(&one, &two).await;
    let replica = open(&patient(at(&url, &[two.port()]))).await;
    let said = refusal(&replica).await;
    let expected = format!("127.0.0.1:{}: it is a replica: ", two.port());
    assert!(said.contains(&expected), "{said}");

    run::<()>(two.address(), &["REPLICAOF", "NO", "ONE"]).await;
    follow(&one, &two).await;
    // The connections are still open.
    assert!(store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect("an answer"));
    let row = replica.read_row(&scope(1, 3), 1).await.expect("an answer").expect("the row");
    assert_eq!(row.token, token(1));

    // A user who may not ask for the role learns it from the first write.
    in_sync(&one).await;
    for server in [&one, &two] {
        let user = ["ACL", "SETUSER", "plain", "on", ">p", "~*", "+@all", "-info", "-role"];
        run::<()>(server.address(), &user).await;
    }
    let plain = at(&url, &[one.port(), two.port()]).replace("redis://", "redis://plain:p@");
    let store = open(&patient(plain)).await;
    let error = store.swap_row(&scope(1, 3), 1, token(1), &write(2)).await.expect_err("a replica");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(store.swap_row(&scope(1, 3), 1, token(1), &write(2)).await.expect("an answer"));
}

/// Waits until a replica has the writes of its primary.
async fn in_sync(replica: &Server) {
    poll::until(PATIENCE, "a replica in sync", async || {
        let info: String = run(replica.address(), &["INFO", "replication"]).await;
        info.contains("master_link_status:up").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_primary_is_the_one_that_a_sentinel_names() {
    let primary = Server::start(&Redis).await;
    let port = primary.port().to_string();
    let follow = ["--replicaof", "127.0.0.1", &port].map(str::to_owned);
    let replica = Server::start_with(&Redis, follow.into()).await;
    let sentinel = Server::start(&Sentinel).await;
    let order = async |words: &[&str]| {
        run::<redis::Value>(sentinel.address(), &[&["SENTINEL"], words].concat()).await
    };
    order(&["MONITOR", "ids", "127.0.0.1", &port, "1"]).await;

    let url = |service: &str| {
        let (dead, port) = (free_port(), sentinel.port());
        format!("redis+sentinel://127.0.0.1:{dead},127.0.0.1:{port}/{service}/7")
    };
    let said = refusal(&open(&patient(url("other"))).await).await;
    assert!(said.contains("the Sentinel knows no service other"), "{said}");
    let wrong = open(&patient(sentinel.address())).await;
    let error = wrong.prepare().await.expect_err("a Sentinel").to_string();
    assert!(error.contains("use redis+sentinel://"), "{error}");

    let store = with_rows(&patient(url("ids"))).await;
    assert!(store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect("an answer"));
    let there: u64 = run(&format!("{}/7", primary.address()), &["DBSIZE"]).await;
    assert!(there > 0, "the database of the address");
    in_sync(&replica).await;
    poll::until(PATIENCE, "the Sentinel knows the replica", async || {
        matches!(order(&["REPLICAS", "ids"]).await, redis::Value::Array(known) if known.len() == 1)
            .then_some(())
    })
    .await;
    assert_eq!(run::<u64>(primary.address(), &["WAIT", "1", "0"]).await, 1);
    primary.kill9();
    let row = poll::until(PATIENCE, "the new primary", async || {
        // A Sentinel that finds no fit replica tries again only after six minutes, unless asked.
        let _ = try_run::<String>(sentinel.address(), &["SENTINEL", "FAILOVER", "ids"]).await;
        store.read_row(&scope(1, 3), 1).await.ok().flatten()
    })
    .await;
    assert_eq!(row.token, token(1));
    assert!(store.swap_row(&scope(1, 3), 1, token(1), &write(2)).await.expect("an answer"));
}
