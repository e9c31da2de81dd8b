//! Segment mode on real processes.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use reqwest::{Client, StatusCode, header};
use rustix::process::Signal;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    collected::Collected,
    service::{Service, Setup, client, from_environment, parse_ids, run},
    support::{mariadb::Mariadb, poll, server::Server},
};

const PATIENCE: Duration = Duration::from_secs(60);
const MEMBERS: usize = 5;

/// The default namespace counts so many codes.
fn counting(url: &str, codes: usize) -> Setup {
    let codes: Vec<String> = (0..codes).map(code).collect();
    Setup::new()
        .set("mode", "segment")
        .set("codes.allow", codes.join(","))
        .set("store.url", url)
        .set("store.timeout", "1s")
}

fn code(index: usize) -> String {
    format!("code-{index}")
}

/// What the clients of several processes were given.
#[derive(Debug)]
struct Crowd {
    homes: Vec<Home>,
    /// By code.
    numbers: Vec<Collected>,
    unexpected: Mutex<Vec<String>>,
    stopped: AtomicBool,
}

/// A process as its clients know it.
#[derive(Debug)]
struct Home {
    address: Mutex<String>,
    /// How many requests it answered with numbers.
    answered: AtomicUsize,
    /// Odd while its connections may break.
    harm: AtomicUsize,
}

impl Crowd {
    fn new(members: &[Service], codes: usize) -> Arc<Self> {
        let home = |member: &Service| Home {
            address: Mutex::new(member.url("")),
            answered: AtomicUsize::new(0),
            harm: AtomicUsize::new(0),
        };
        Arc::new(Self {
            homes: members.iter().map(home).collect(),
            numbers: (0..codes).map(|_| Collected::default()).collect(),
            unexpected: Mutex::default(),
            stopped: AtomicBool::new(false),
        })
    }

    async fn ask(&self, client: &Client, member: usize, index: usize, count: u32) {
        let home = &self.homes[member];
        let harm = home.harm.load(Ordering::SeqCst);
        let address = home.address.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let url = format!("{address}/ids/{}?n={count}", code(index));
        let problem = match answer(client, &url).await {
            Ok((StatusCode::OK, body, _)) => {
                let numbers = parse_ids(&body);
                assert_eq!(numbers.len(), count as usize, "as many as were asked for");
                self.numbers[index].add(&numbers);
                home.answered.fetch_add(1, Ordering::SeqCst);
                return;
            }
            Ok((StatusCode::SERVICE_UNAVAILABLE, _, true)) => return,
            Ok((status, body, _)) => format!("{status} {body}"),
            Err(_) if harm % 2 == 1 || home.harm.load(Ordering::SeqCst) != harm => return,
            Err(error) => error.to_string(),
        };
        let mut unexpected = self.unexpected.lock().unwrap_or_else(PoisonError::into_inner);
        unexpected.push(format!("{url}: {problem}"));
    }

    fn answered(&self) -> Vec<usize> {
        self.homes.iter().map(|home| home.answered.load(Ordering::SeqCst)).collect()
    }

    /// Waits until every process has answered so many more requests.
    async fn until_each_answered(&self, more: usize) {
        let before = self.answered();
        poll::until(PATIENCE, "every process serves", async || {
            let answered = self.answered().into_iter().zip(&before);
            answered.into_iter().all(|(now, before)| now >= before + more).then_some(())
        })
        .await;
    }

    /// Ends a process with a signal and starts another one in its place.
    async fn replace(&self, members: &mut [Service], victim: usize, signal: Signal, setup: &Setup) {
        let home = &self.homes[victim];
        home.harm.fetch_add(1, Ordering::SeqCst);
        members[victim].signal(signal);
        let status = members[victim].ended().await;
        assert_eq!(status.success(), signal == Signal::TERM, "{}", members[victim].log());
        // Perhaps without its database, so it need not be ready.
        members[victim] = setup.clone().start().await;
        *home.address.lock().unwrap_or_else(PoisonError::into_inner) = members[victim].url("");
        home.harm.fetch_add(1, Ordering::SeqCst);
    }

    fn assert_sound(&self) -> usize {
        assert_eq!(*self.unexpected.lock().unwrap_or_else(PoisonError::into_inner), [""; 0]);
        let duplicates: usize = self.numbers.iter().map(Collected::duplicates).sum();
        assert_eq!(duplicates, 0);
        self.numbers.iter().map(Collected::count).sum()
    }
}

/// The status, the body, and whether it says when to come back.
async fn answer(client: &Client, url: &str) -> reqwest::Result<(StatusCode, Value, bool)> {
    let answer = client.get(url).send().await?;
    let (status, may_retry) = (answer.status(), answer.headers().contains_key(header::RETRY_AFTER));
    Ok((status, answer.json().await?, may_retry))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_processes_and_200_codes_repeat_nothing_whatever_is_killed() {
    const CODES: usize = 200;
    let seed = from_environment("SEED").unwrap_or(5);
    println!("SEED={seed}");
    let mariadb = Server::start(&Mariadb).await;
    let url = mariadb.database().await;
    // Small blocks, so that the database is asked all the time.
    let setup = counting(&url, CODES)
        .set("segment.min_step", 5)
        .set("segment.max_step", 200)
        .set("segment.target_duration", "1s");
    let mut members = Vec::new();
    for _ in 0..MEMBERS {
        members.push(setup.clone().start_leased().await);
    }
    let crowd = Crowd::new(&members, CODES);
    let mut clients = Vec::new();
    for member in 0..2 * MEMBERS {
        let crowd = Arc::clone(&crowd);
        let mut random = StdRng::seed_from_u64(seed + member as u64);
        clients.push(tokio::spawn(async move {
            let client = client();
            while !crowd.stopped.load(Ordering::SeqCst) {
                let (code, count) = (random.random_range(0..CODES), random.random_range(1..=20));
                crowd.ask(&client, member % MEMBERS, code, count).await;
                sleep(Duration::from_millis(random.random_range(0..10))).await;
            }
        }));
    }
    let some = 50;
    crowd.until_each_answered(some).await;
    for victim in 0..MEMBERS {
        crowd.replace(&mut members, victim, Signal::KILL, &setup).await;
        crowd.until_each_answered(some).await;
    }
    for victim in [1, 3] {
        mariadb.kill9();
        crowd.replace(&mut members, victim, Signal::KILL, &setup).await;
        mariadb.restart().await;
        crowd.until_each_answered(some).await;
    }
    mariadb.stop();
    sleep(Duration::from_secs(1)).await;
    mariadb.restart().await;
    crowd.until_each_answered(some).await;
    // What it was sent meanwhile it does afterwards.
    mariadb.freeze();
    crowd.replace(&mut members, 0, Signal::TERM, &setup).await;
    mariadb.thaw();
    crowd.until_each_answered(some).await;
    for victim in 0..MEMBERS {
        crowd.replace(&mut members, victim, Signal::TERM, &setup).await;
    }
    crowd.until_each_answered(some).await;

    crowd.stopped.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.expect("no client panics");
    }
    for member in members {
        member.stop().await;
    }
    let count = crowd.assert_sound();
    let asked = crowd.numbers.iter().filter(|numbers| numbers.count() > 0).count();
    println!("{count} numbers of {asked} codes, none twice");
    assert_eq!(asked, CODES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_times_the_load_is_not_more_work_for_the_database() {
    const CODES: usize = 40;
    /// How many numbers each code of each process is asked for in a second.
    const SLOW: u32 = 20;
    let mariadb = Server::shared(&Mariadb).await;
    let url = mariadb.database().await;
    let setup =
        counting(&url, CODES).set("segment.min_step", 10).set("segment.target_duration", "3s");
    let mut members = Vec::new();
    for _ in 0..MEMBERS {
        members.push(setup.clone().start_leased().await);
    }
    let crowd = Crowd::new(&members, CODES);
    let count = Arc::new(AtomicU32::new(SLOW));
    let mut clients = Vec::new();
    for member in 0..MEMBERS {
        let (crowd, count) = (Arc::clone(&crowd), Arc::clone(&count));
        clients.push(tokio::spawn(async move {
            let client = client();
            while !crowd.stopped.load(Ordering::SeqCst) {
                let next = Instant::now() + Duration::from_secs(1);
                for code in 0..CODES {
                    let count = count.load(Ordering::SeqCst);
                    crowd.ask(&client, member, code, count).await;
                }
                tokio::time::sleep_until(next).await;
            }
        }));
    }
    // As many requests in both phases: a busy machine makes them longer.
    let settled = async || {
        crowd.until_each_answered(9 * CODES).await;
        let figures = async || {
            let mut refills = 0.0;
            for member in &members {
                refills += member.metric("raindrop_segment_refills_total", "done").await;
            }
            (refills, crowd.numbers.iter().map(Collected::count).sum::<usize>())
        };
        let (began, before) = (Instant::now(), figures().await);
        crowd.until_each_answered(9 * CODES).await;
        let (after, seconds) = (figures().await, began.elapsed().as_secs_f64());
        ((after.0 - before.0) / seconds, after.1 - before.1)
    };
    let (slow_refills, slow_numbers) = settled().await;
    count.store(10 * SLOW, Ordering::SeqCst);
    let (fast_refills, fast_numbers) = settled().await;
    crowd.stopped.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.expect("no client panics");
    }
    println!(
        "{slow_numbers} numbers took {slow_refills:.1} reservations a second, \
         {fast_numbers} in as many requests {fast_refills:.1}"
    );
    assert!(fast_numbers > 7 * slow_numbers, "the load grew");
    assert!(slow_refills > 0.0 && fast_refills < 2.0 * slow_refills, "the work did not");
    crowd.assert_sound();
}

/// One process with one code of small blocks, over a file or a server.
fn single(url: &str) -> Setup {
    counting(url, 1).set("segment.min_step", 100).set("issue.max_wait", "300ms")
}

async fn numbers(node: &Service, count: u32) -> Vec<u64> {
    node.ids("code-0", count).await
}

async fn remaining(node: &Service) -> u64 {
    node.health().await["remaining"].as_u64().expect("a number")
}

/// What `raindrop codes` says of the only code: the next number, and the last step.
fn listed(folder: &Path, url: &str) -> (u64, u64) {
    let (code, out, err) = run(&["codes"], &[("RAINDROP__STORE__URL", url)], folder);
    assert_eq!(code, Some(0), "{err}");
    let line = out.lines().nth(1).unwrap_or_else(|| panic!("a code in {out}"));
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[..2], ["default", "code-0"], "{out}");
    (cells[2].parse().expect("a number"), cells[4].parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_loses_nothing_and_a_crash_at_most_what_was_in_hand() {
    let mariadb = Server::shared(&Mariadb).await;
    let url = mariadb.database().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let setup = single(&url);
    let mut last = 0;
    for count in [1, 60, 250] {
        let node = setup.clone().start_leased().await;
        let numbers = numbers(&node, count).await;
        assert_eq!(numbers, (last + 1..=last + u64::from(count)).collect::<Vec<_>>());
        last += u64::from(count);
        let log = stop_and_log(node).await;
        assert!(log.contains("mode segment · codes code-0"), "{log}");
        assert!(log.contains("lost=0"), "{log}");
        assert_eq!(listed(folder.path(), &url).0, last + 1);
    }

    let node = setup.clone().start_leased().await;
    last = *numbers(&node, 30).await.last().expect("thirty");
    let in_hand = remaining(&node).await;
    node.kill9().await;
    let (next, step) = listed(folder.path(), &url);
    let lost = next - (last + 1);
    println!("a crash lost {lost} numbers of {in_hand} in hand");
    // A block may have been on its way when the rest was asked for.
    assert!((in_hand..=in_hand + step).contains(&lost), "{lost} {in_hand} {step}");
    let node = setup.start_leased().await;
    assert_eq!(numbers(&node, 1).await, [next]);
    node.stop().await;
}

async fn stop_and_log(mut node: Service) -> String {
    node.signal(Signal::TERM);
    assert!(node.ended().await.success(), "{}", node.log());
    node.log()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_store_what_is_in_hand_is_served_and_then_it_is_told() {
    let mariadb = Server::start(&Mariadb).await;
    let url = mariadb.database().await;
    let node = single(&url).start_leased().await;
    let collected = Collected::default();
    collected.add(&numbers(&node, 10).await);
    mariadb.kill9();
    let mut left = remaining(&node).await;
    assert!(left >= 90, "{left}");
    while left > 0 {
        let count = left.min(30);
        collected.add(&numbers(&node, u32::try_from(count).expect("few")).await);
        left -= count;
    }
    // A block may have been on its way when the database ended.
    let (client, url_of_one) = (client(), node.url("/id/code-0"));
    let (problem, may_retry) = poll::until(PATIENCE, "nothing is in hand", async || {
        let (status, body, may_retry) = answer(&client, &url_of_one).await.expect("an answer");
        if status == StatusCode::OK {
            collected.add(&parse_ids(&body));
            return None;
        }
        Some((body, may_retry))
    })
    .await;
    assert_eq!((&problem["status"], &problem["code"]), (&503.into(), &"store_unavailable".into()));
    assert!(may_retry);
    let (status, health) = node.json("/health").await;
    assert_eq!(
        (status.as_u16(), &health["namespaces"]["default"]["issuing"]),
        (503, &false.into())
    );
    assert_eq!(node.get("/readyz").await.expect("an answer").status(), 503);
    assert_eq!(node.get("/livez").await.expect("an answer").status(), 200);

    // One that starts without it serves when it is back, too.
    let other = single(&url).start().await;
    assert_eq!(other.json("/id/code-0").await.1["code"], "store_unavailable");
    mariadb.restart().await;
    for node in [&node, &other] {
        node.until_ready().await;
        poll::until(PATIENCE, "numbers again", async || {
            let (status, body) = node.json("/ids/code-0?n=50").await;
            (status == StatusCode::OK).then(|| collected.add(&parse_ids(&body)))
        })
        .await;
    }
    assert_eq!(collected.duplicates(), 0);
    other.stop().await;
    node.stop().await;
}

#[test]
fn the_command_line_counts_too_and_gives_back_what_it_did_not_need() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = "[namespaces.n]\nmode = 'segment'\n\
                [[code]]\nname = 'order'\nnamespace = 'n'\nprefix = 'ORD-'\n\
                [[code]]\nname = 'odd'\nnamespace = 'n'\nincrement = 2\nremainder = 1\njs_safe = true\n";
    std::fs::write(folder.path().join("raindrop.toml"), file).expect("written");
    let raindrop = |arguments: &[&str]| {
        run(&[&["--config", "raindrop.toml"], arguments].concat(), &[], folder.path())
    };
    let (code, out, err) = raindrop(&["codes"]);
    assert_eq!((code, out.lines().count()), (Some(0), 1), "{out}{err}");
    let printed = |arguments: &[&str]| {
        let (code, out, err) = raindrop(arguments);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?}");
        out
    };
    assert_eq!(printed(&["id", "order", "-n", "3"]), "ORD-1\nORD-2\nORD-3\n");
    assert_eq!(printed(&["id", "order", "--encoding", "base36"]), "ORD-4\n");
    assert_eq!(printed(&["id", "odd", "-n", "2", "--format", "json"]), "[\"1\",\"3\"]\n");
    let many = printed(&["id", "odd", "-n", "2500"]);
    assert_eq!(many.lines().last(), Some("5003"));
    let codes = printed(&["codes"]);
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = codes.lines().map(cells).collect();
    assert_eq!(lines[0], ["NAMESPACE", "CODE", "NEXT", "LEFT", "STEP", "WRITTEN", "RATE"]);
    assert_eq!(lines[1][..4], ["n", "odd", "5005", "4503599627367994"], "{codes}");
    assert_eq!(lines[2][..3], ["n", "order", "5"], "{codes}");
    let rated = printed(&["codes", "--rate-over", "50ms"]);
    assert!(rated.lines().skip(1).all(|line| line.ends_with(" 0.0/s")), "{rated}");

    for (arguments, said) in [
        (&["id", "other", "--namespace", "n"][..], "\"other\" is not among the configured codes"),
        (&["id", "order", "--encoding", "friendly"], "friendly needs a layout"),
        (&["parse", "ORD-4"], "namespace \"n\" is in segment mode"),
        (&["workers", "--namespace", "n", "release", "1"], "namespace \"n\" is in segment mode"),
        (&["codes", "--rate-over", "5"], "a duration with its unit"),
    ] {
        let (code, _, err) = raindrop(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
        assert!(err.contains(said), "{arguments:?}: {err}");
    }
    let counting = [("RAINDROP__MODE", "segment"), ("RAINDROP__CODES__ALLOW", "a")];
    let (code, _, err) = run(&["plan"], &counting, folder.path());
    assert!(code == Some(2) && err.contains("segment mode"), "{err}");
    assert_eq!(run(&["plan", "--preset", "yitter"], &counting, folder.path()).0, Some(0));
    assert_eq!(run(&["workers"], &counting, folder.path()).0, Some(0));
    let (code, _, err) =
        run(&["id", "a"], &[("RAINDROP__NAMESPACES__N__LAYOUT__PRESET", "twitter")], folder.path());
    assert_eq!(code, Some(0), "{err}");
    let other_mode = [("RAINDROP__NAMESPACES__N__LAYOUT__PRESET", "twitter")];
    let (code, _, err) = run(&["id", "a", "--namespace", "n"], &other_mode, folder.path());
    assert!(code == Some(2) && err.contains("`mode=segment`"), "{err}");
}
