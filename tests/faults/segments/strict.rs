//! Issues numbers of a strict code on two processes, while nodes are killed and a proxy swallows,
//! cuts and delays what the store answers.
//!
//! Every number that a client got is checked: none twice, each above all that clients had before
//! they asked for it, and each number that no client got is explained by the log of a node or by its
//! death.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, StatusCode};
use rustix::process::Signal;
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    service::{PATIENCE, Service, Setup, client, parse_ids, run},
    support::{
        mariadb::Mariadb,
        poll,
        postgres::Postgres,
        proxy::{Fault, Proxy},
        redis::Redis,
        server::{Engine, Server},
    },
};

/// The code, whose name each of its statements has.
const CODE: &str = "invoice";
/// How many clients ask each node.
const CLIENTS: usize = 4;
/// How many numbers clients get between two faults.
const SOME: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_strict_numbers_ascend_and_the_log_explains_gaps() {
    strict_numbers(&Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_strict_numbers_ascend_and_the_log_explains_gaps() {
    strict_numbers(&Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_strict_numbers_ascend_and_the_log_explains_gaps() {
    strict_numbers(&Redis).await;
}

/// A number that a client got.
#[derive(Clone, Copy, Debug)]
struct Got {
    asked: Instant,
    answered: Instant,
    number: u64,
}

/// The clients of both nodes, and what they got.
#[derive(Debug, Default)]
struct Clients {
    got: Mutex<Vec<Got>>,
    /// The address of each node.
    nodes: Mutex<[String; 2]>,
    is_stopped: AtomicBool,
}

impl Clients {
    fn count(&self) -> usize {
        self.got.lock().expect("unpoisoned").len()
    }

    /// Asks one node until the clients are stopped.
    async fn ask(&self, node: usize) {
        let client = client();
        while !self.is_stopped.load(Ordering::SeqCst) {
            let url = self.nodes.lock().expect("unpoisoned")[node].clone();
            let asked = Instant::now();
            match post(&client, &url).await {
                Some((StatusCode::OK, body)) => {
                    let answered = Instant::now();
                    let got = parse_ids(&body).into_iter();
                    let got = got.map(|number| Got { asked, answered, number });
                    self.got.lock().expect("unpoisoned").extend(got);
                }
                Some((StatusCode::SERVICE_UNAVAILABLE, _)) | None => {
                    sleep(Duration::from_millis(20)).await;
                }
                Some((status, body)) => panic!("{status}: {body}"),
            }
        }
    }

    /// Waits until clients have got some more numbers.
    async fn until_more(&self) {
        let before = self.count();
        poll::until(PATIENCE, "clients get numbers", async || {
            (self.count() >= before + SOME).then_some(())
        })
        .await;
    }
}

async fn post(client: &Client, url: &str) -> Option<(StatusCode, Value)> {
    let answer = client.post(format!("{url}/ids/{CODE}?n=2")).send().await.ok()?;
    Some((answer.status(), answer.json().await.ok()?))
}

async fn strict_numbers(engine: &'static dyn Engine) {
    let server = Server::start(engine).await;
    let url = server.database().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let environment = [("RAINDROP__MODE", "segment"), ("RAINDROP__STORE__URL", url.as_str())];
    for code in [CODE, "speed"] {
        let create = ["codes", "create", code, "--strict", "--failover-gap", "0"];
        let (status, _, err) = run(&create, &environment, folder.path());
        assert_eq!(status, Some(0), "{err}");
    }
    let proxies = [Proxy::start(&url).await, Proxy::start(&url).await];
    let setup = |node: usize| {
        let through = engine.through(&url, proxies[node].port());
        Setup::new().set("mode", "segment").set("store.url", through).set("store.timeout", "1s")
    };
    let mut nodes = [setup(0).start_leased().await, setup(1).start_leased().await];
    for callers in [1, 64] {
        let rate = rate(&nodes[0], callers).await;
        println!("{} · {callers} callers of a strict code: {rate} numbers/s", engine.name());
    }
    let clients = Arc::new(Clients::default());
    let name = |nodes: &[Service; 2]| {
        *clients.nodes.lock().expect("unpoisoned") = [nodes[0].url(""), nodes[1].url("")];
    };
    name(&nodes);
    let mut asking = Vec::new();
    for client in 0..2 * CLIENTS {
        let clients = Arc::clone(&clients);
        asking.push(tokio::spawn(async move { clients.ask(client % 2).await }));
    }
    let (mut logs, mut killed) = (String::new(), 0);
    for round in 0..6 {
        clients.until_more().await;
        let victim = round % 2;
        match round {
            0 | 1 => proxies[victim].fail(CODE, Fault::CutReplies),
            2 | 3 => proxies[victim].fail(CODE, Fault::SwallowReplies),
            _ => {
                let fresh = setup(victim).start().await;
                let mut node = std::mem::replace(&mut nodes[victim], fresh);
                node.signal(Signal::KILL);
                node.ended().await;
                logs.push_str(&node.log());
                killed += 1;
                name(&nodes);
            }
        }
        if round < 4 {
            proxies[victim].met().await;
        }
    }
    clients.until_more().await;
    clients.is_stopped.store(true, Ordering::SeqCst);
    for asking in asking {
        asking.await.expect("no panic");
    }
    for node in nodes {
        logs.push_str(&node.log());
        node.stop().await;
    }
    check(engine.name(), &clients.got.lock().expect("unpoisoned"), &logs, killed);
}

/// Returns how many numbers a node issues in a second to this many callers.
async fn rate(node: &Service, callers: usize) -> usize {
    const SECONDS: u64 = 2;
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let mut asking = JoinSet::new();
    for _ in 0..callers {
        let url = node.url("/id/speed");
        asking.spawn(async move {
            let (client, mut count) = (client(), 0);
            while Instant::now() < until {
                let answer = client.post(&url).send().await.expect("an answer");
                assert_eq!(answer.status(), StatusCode::OK);
                answer.bytes().await.expect("a body");
                count += 1;
            }
            count
        });
    }
    let counts: Vec<usize> = asking.join_all().await;
    counts.into_iter().sum::<usize>() / usize::try_from(SECONDS).expect("few")
}

/// Checks every number, and prints what was found.
fn check(engine: &str, got: &[Got], logs: &str, killed: usize) {
    let mut numbers: Vec<u64> = got.iter().map(|got| got.number).collect();
    numbers.sort_unstable();
    let duplicates = numbers.windows(2).filter(|pair| pair[0] == pair[1]).count();
    // The largest number that any client had when each request began.
    let mut by_answer = got.to_vec();
    by_answer.sort_by_key(|got| got.answered);
    let mut by_request = got.to_vec();
    by_request.sort_by_key(|got| got.asked);
    let (mut largest, mut answers, mut disordered) = (0, by_answer.iter().peekable(), 0);
    for request in &by_request {
        while let Some(answer) = answers.next_if(|answer| answer.answered < request.asked) {
            largest = largest.max(answer.number);
        }
        disordered += usize::from(request.number <= largest);
    }
    let last = *numbers.last().expect("clients got numbers");
    let missing: Vec<u64> =
        (1..=last).filter(|number| numbers.binary_search(number).is_err()).collect();
    // The claims of the other code have the same numbers.
    let of_code = |line: &&str| field::<String>(line, "code").as_deref() == Some(CODE);
    let logs: Vec<&str> = logs.lines().filter(of_code).collect();
    let claims: Vec<(u64, u64)> = logs.iter().copied().filter_map(claimed).collect();
    let is_claimed =
        |number: &&u64| claims.iter().any(|(first, last)| (first..=last).contains(number));
    let unclaimed = missing.iter().filter(|number| !is_claimed(number)).count();
    let gaps = logs.iter().filter(|line| line.contains("may be a gap"));
    let may_be: usize = gaps.filter_map(|line| field::<usize>(line, "count")).sum();
    let lost = logs.iter().filter(|line| line.contains("the caller gave up"));
    let lost: usize = lost.filter_map(|line| field::<usize>(line, "count")).sum();
    println!(
        "{engine} · {} numbers, {duplicates} twice, {disordered} out of order · {} of 1 to {last} \
         missing: {} in claims of the log, {unclaimed} not, where the log tells of {may_be} and {lost}, and \
         {killed} nodes were killed",
        numbers.len(),
        missing.len(),
        missing.len() - unclaimed,
    );
    assert_eq!((duplicates, disordered), (0, 0));
    // A node that is killed may have reserved for each of its clients.
    assert!(unclaimed <= may_be + lost + killed * 2 * CLIENTS, "{missing:?}");
}

/// Returns the first and the last number in the line of a claim.
fn claimed(line: &str) -> Option<(u64, u64)> {
    line.contains("strict claim").then_some(())?;
    Some((field(line, "first")?, field(line, "last")?))
}

fn field<T: std::str::FromStr>(line: &str, name: &str) -> Option<T> {
    let (_, value) = line.split_once(&format!(" {name}="))?;
    let value = value.split_whitespace().next()?;
    value.trim_matches('"').parse().ok()
}
