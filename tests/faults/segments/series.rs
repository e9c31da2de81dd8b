//! Creates the members of a strict series on two processes at once, and kills one of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use reqwest::{Client, StatusCode};
use rustix::process::Signal;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::{
    service::{Setup, client},
    support::{
        mariadb::Mariadb,
        postgres::Postgres,
        redis::Redis,
        server::{Engine, Server},
    },
};

const MEMBERS: usize = 100;
const CALLERS: usize = 20;
const START: u64 = 7;
const CONFIG: &str = "[namespaces.numbers]\nmode = 'segment'\n[[code]]\nname = 'invoice:*'\n\
                      namespace = 'numbers'\ntext = 'INV-{*}-{n:04}'\nstart = 7\nstrict = true\n\
                      failover_gap = 0\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_members_are_created_once_and_follow_each_other() {
    members(&Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_members_are_created_once_and_follow_each_other() {
    members(&Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_members_are_created_once_and_follow_each_other() {
    members(&Redis).await;
}

/// The texts that a caller got, and how many of its requests got none.
#[derive(Debug, Default)]
struct Got {
    texts: Vec<String>,
    unanswered: usize,
}

async fn members(engine: &'static dyn Engine) {
    let server = Server::start(engine).await;
    let url = server.database().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("raindrop.toml");
    std::fs::write(&file, CONFIG).expect("written");
    // A busy machine must not let a claim give up.
    let setup = Setup::new()
        .config_file(&file)
        .set("store.url", &url)
        .set("issue.max_wait", "20s")
        .set("http.request_timeout", "50s");
    let mut nodes = [setup.clone().start_leased().await, setup.clone().start_leased().await];
    let urls = [nodes[0].url(""), nodes[1].url("")];

    // Every caller asks once for each member, and each begins with another one.
    let mut asking = JoinSet::new();
    for caller in 0..CALLERS {
        let url = urls[caller % 2].clone();
        asking.spawn(async move {
            let (client, mut got) = (client(), Got::default());
            for index in 0..MEMBERS {
                ask(&client, &url, (caller + index) % MEMBERS, &mut got).await;
            }
            got
        });
    }
    let mut texts = BTreeSet::new();
    let (created, unanswered) = collect(asking, &mut texts).await;
    let numbers = by_member(&texts);
    let expected: BTreeSet<u64> = (START..START + CALLERS as u64).collect();
    let consecutive = numbers.values().filter(|numbers| **numbers == expected).count();
    println!(
        "{} · {MEMBERS} members by {CALLERS} callers of two nodes: {created} texts, {} equal ones, \
         {consecutive} members from {START} without a gap",
        engine.name(),
        created - texts.len(),
    );
    assert_eq!((texts.len(), unanswered), (MEMBERS * CALLERS, 0));
    assert_eq!((numbers.len(), consecutive), (MEMBERS, MEMBERS));

    // Other members are created while one node is killed.
    let is_stopped = Arc::new(AtomicBool::new(false));
    let mut asking = JoinSet::new();
    for caller in 0..CALLERS {
        let (url, is_stopped) = (urls[caller % 2].clone(), Arc::clone(&is_stopped));
        asking.spawn(async move {
            let (client, mut got) = (client(), Got::default());
            let members = (0..MEMBERS).map(|index| MEMBERS + (caller + index) % MEMBERS);
            for member in members.cycle().take(3 * MEMBERS) {
                ask(&client, &url, member, &mut got).await;
                // Callers of the killed node need not ask on, and the others have asked enough.
                if caller % 2 == 0 && is_stopped.load(Ordering::SeqCst) {
                    break;
                }
            }
            got
        });
    }
    let before = texts.len();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    nodes[0].signal(Signal::KILL);
    nodes[0].ended().await;
    is_stopped.store(true, Ordering::SeqCst);
    let (got, unanswered) = collect(asking, &mut texts).await;
    let others = by_member(&texts);
    let missing: usize = others
        .values()
        .map(|numbers| {
            let last = numbers.last().copied().unwrap_or(START);
            usize::try_from(last + 1 - START).expect("few") - numbers.len()
        })
        .sum();
    println!(
        "{} · a node killed while members are created: {got} texts, {} equal ones, {missing} numbers \
         missing, {unanswered} requests without an answer",
        engine.name(),
        got - (texts.len() - before),
    );
    assert_eq!(texts.len() - before, got);
    assert_eq!(others.len(), 2 * MEMBERS);
    // Each of these requests may have taken a number.
    assert!(missing <= unanswered, "{missing} of {unanswered}");
    assert!(unanswered > 0, "the node was killed while it was asked");
}

/// Asks for the next text of a member.
async fn ask(client: &Client, url: &str, member: usize, got: &mut Got) {
    let answer = async {
        let answer = client.post(format!("{url}/id/invoice:m{member}")).send().await.ok()?;
        let status = answer.status();
        Some((status, answer.json::<Value>().await.ok()?))
    };
    match answer.await {
        Some((StatusCode::OK, body)) => got.texts.push(body["id"].as_str().expect("a text").into()),
        Some((StatusCode::SERVICE_UNAVAILABLE, _)) | None => got.unanswered += 1,
        Some((status, body)) => panic!("{status}: {body}"),
    }
}

/// Adds what the callers got. Returns how many texts that is, and how many requests got none.
async fn collect(asking: JoinSet<Got>, texts: &mut BTreeSet<String>) -> (usize, usize) {
    let (mut count, mut unanswered) = (0, 0);
    for got in asking.join_all().await {
        count += got.texts.len();
        unanswered += got.unanswered;
        texts.extend(got.texts);
    }
    (count, unanswered)
}

/// Returns the numbers of each member.
fn by_member(texts: &BTreeSet<String>) -> BTreeMap<&str, BTreeSet<u64>> {
    let mut numbers: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for text in texts {
        let (member, number) = text.rsplit_once('-').expect("a text of the form");
        numbers.entry(member).or_default().insert(number.parse().expect("a number"));
    }
    numbers
}
