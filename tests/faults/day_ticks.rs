//! Tests processes whose tick is a day: their limits depend on how many IDs they issued and not on
//! when.

use std::time::Duration;

use reqwest::StatusCode;
use tokio::time::{Instant, sleep};

use crate::{
    collected::Collected,
    service::{PATIENCE, Service, Setup, parse_ids, unix_ms},
    support::poll,
};

/// Settings of every process. A first lease gets a sixteenth of the 160 000 positions of a day.
/// There is one lane, so the next lease of a row begins at the mark of the last one.
const SETTINGS: [(&str, &str); 7] = [
    ("layout.time_unit", "day"),
    ("layout.rollback_bits", "0"),
    ("layout.max_sequence", "159999"),
    ("store.timeout", "1s"),
    ("lease.window", "20s"),
    ("lease.renew", "1s"),
    ("lease.ttl", "1h"),
];
/// More than half of a first lease, so that the keeper raises the limit.
pub(crate) const USED: usize = 7_500;
/// IDs per request.
const BATCH: usize = 100;

pub(crate) fn setup(url: &str) -> Setup {
    let setup = Setup::new().set("store.url", url);
    SETTINGS.iter().fold(setup, |setup, (key, value)| setup.set(key, value))
}

/// Requests IDs until the node refuses; returns how many it issued.
pub(crate) async fn until_refused(node: &Service, collected: &Collected) -> usize {
    let mut count = 0;
    loop {
        let (status, body) = node.json(&format!("/ids/order?n={BATCH}")).await;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return count;
        }
        assert_eq!(status, StatusCode::OK, "{body}");
        collected.add(&parse_ids(&body));
        count += BATCH;
    }
}

/// Requests IDs until it has this many, or until none comes for a while; returns how many the node
/// issued.
pub(crate) async fn issue_what_it_may(
    node: &Service,
    collected: &Collected,
    most: usize,
    patience: Duration,
) -> usize {
    let mut count = 0;
    let mut last = Instant::now();
    while count < most && last.elapsed() < patience {
        let (status, body) = node.json(&format!("/ids/order?n={BATCH}")).await;
        if status == StatusCode::OK {
            collected.add(&parse_ids(&body));
            count += BATCH;
            last = Instant::now();
        } else {
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
            sleep(Duration::from_millis(20)).await;
        }
    }
    count
}

/// Requests this many IDs, and tries again while the node raises its limit.
pub(crate) async fn issue(node: &Service, collected: &Collected, count: usize) {
    let mut issued = 0;
    while issued < count {
        issued += poll::until(PATIENCE, "IDs", async || {
            let (status, body) = node.json(&format!("/ids/order?n={BATCH}")).await;
            (status == StatusCode::OK).then(|| {
                collected.add(&parse_ids(&body));
                BATCH
            })
        })
        .await;
    }
}

/// Waits if midnight is near, because a new day would raise the limits.
pub(crate) async fn until_it_stays_the_same_day() {
    let day_ms = 24 * 60 * 60 * 1_000;
    let left = Duration::from_millis((day_ms - unix_ms().rem_euclid(day_ms)).unsigned_abs());
    if left < Duration::from_mins(3) {
        sleep(left).await;
    }
}
