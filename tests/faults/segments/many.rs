//! Runs many codes on several processes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::{
    counting,
    crowd::{Crowd, MEMBERS},
};
use crate::{
    collected::Collected,
    service::{client, from_environment},
    support::{mariadb::Mariadb, server::Server},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_processes_and_200_codes_repeat_nothing_whatever_is_killed() {
    const CODES: usize = 200;
    let seed = from_environment("SEED").unwrap_or(5);
    println!("SEED={seed}");
    let mariadb = Server::start(&Mariadb).await;
    let url = mariadb.database().await;
    // Small blocks, so that nodes query the database all the time.
    let setup = counting(&url, CODES)
        .set("segment.min_step", 5)
        .set("segment.max_step", 200)
        .set("segment.target_duration", "1s");
    let (crowd, mut members) = Crowd::start(&setup, CODES).await;
    let mut clients = Vec::new();
    for member in 0..2 * MEMBERS {
        let crowd = Arc::clone(&crowd);
        let mut random = StdRng::seed_from_u64(seed + member as u64);
        clients.push(tokio::spawn(async move {
            let client = client();
            while !crowd.is_stopped() {
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
    // The database handles the requests of the meantime after the thaw.
    mariadb.freeze();
    crowd.replace(&mut members, 0, Signal::TERM, &setup).await;
    mariadb.thaw();
    crowd.until_each_answered(some).await;
    for victim in 0..MEMBERS {
        crowd.replace(&mut members, victim, Signal::TERM, &setup).await;
    }
    crowd.until_each_answered(some).await;

    crowd.stop(clients).await;
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
    /// How many numbers of each code clients request of each process in a second.
    const SLOW: u32 = 20;
    let mariadb = Server::shared(&Mariadb).await;
    let url = mariadb.database().await;
    let setup =
        counting(&url, CODES).set("segment.min_step", 10).set("segment.target_duration", "3s");
    let (crowd, members) = Crowd::start(&setup, CODES).await;
    let count = Arc::new(AtomicU32::new(SLOW));
    let mut clients = Vec::new();
    for member in 0..MEMBERS {
        let (crowd, count) = (Arc::clone(&crowd), Arc::clone(&count));
        clients.push(tokio::spawn(async move {
            let client = client();
            while !crowd.is_stopped() {
                let next = Instant::now() + Duration::from_secs(1);
                for code in 0..CODES {
                    let count = count.load(Ordering::SeqCst);
                    crowd.ask(&client, member, code, count).await;
                }
                tokio::time::sleep_until(next).await;
            }
        }));
    }
    // The same number of requests in both phases: a busy machine makes them longer.
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
    crowd.stop(clients).await;
    println!(
        "{slow_numbers} numbers took {slow_refills:.1} reservations a second, \
         {fast_numbers} in as many requests {fast_refills:.1}"
    );
    assert!(fast_numbers > 7 * slow_numbers, "the load grew");
    assert!(slow_refills > 0.0 && fast_refills < 2.0 * slow_refills, "the work did not");
    crowd.assert_sound();
}
