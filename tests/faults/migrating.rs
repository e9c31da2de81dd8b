//! Tests the change from another system at an instant, as docs/migrating.md describes it.

use std::path::Path;

use raindrop::core::{id::Id, instant::parse_unix_ms, preset::Preset};

use crate::{
    service::{PATIENCE, Service, Setup, run, unix_ms},
    support::poll,
};

const HOUR_BACK: f64 = -3_600.0;

/// Short, so that the instant comes within a test.
const LEASE: [(&str, &str); 4] = [
    ("lease.window", "6s"),
    ("lease.renew", "1s"),
    ("lease.ttl", "3s"),
    ("lease.max_clock_skew", "1s"),
];

/// A node over the file in this folder.
fn setup(folder: &Path) -> Setup {
    LEASE.into_iter().fold(Setup::new().folder(folder), |setup, (key, value)| setup.set(key, value))
}

fn instant_of(id: u64) -> i64 {
    let layout = Preset::Raindrop.layout();
    layout.start_of_tick_ms(layout.decompose(Id::new(id).expect("63 bits")).tick)
}

/// Collects IDs until the service refuses, and returns the reason.
async fn refused(node: &Service, ids: &mut Vec<u64>) -> String {
    poll::until(PATIENCE, "a refusal", async || {
        let (status, body) = node.json("/id/order").await;
        if status == 200 {
            ids.push(body["id"].as_str()?.parse().ok()?);
            return None;
        }
        Some(body["code"].as_str()?.to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_raised_before_the_change_keep_every_id_above_the_instant() {
    // Without the command, a node with a wrong clock issues among the IDs of an hour ago.
    let unprotected = tempfile::tempdir().expect("a temporary folder");
    let node = setup(unprotected.path()).with_shifted_clock(HOUR_BACK).start_leased().await;
    let ids = node.ids("order", 100).await;
    assert!(ids.iter().all(|id| instant_of(*id) < unix_ms() - 3_000_000));
    node.stop().await;

    let folder = tempfile::tempdir().expect("a temporary folder");
    setup(folder.path()).start_leased().await.stop().await;
    let variable = |key: &str| format!("RAINDROP__{}", key.to_uppercase().replace('.', "__"));
    let settings = LEASE.map(|(key, value)| (variable(key), value));
    let settings: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    let (code, out, err) = run(&["workers", "raise", "--yes"], &settings, folder.path());
    assert_eq!(code, Some(0), "{err}");
    let instant = out.trim_end().strip_suffix(" on").and_then(|said| said.rsplit(' ').next());
    let instant = instant.and_then(parse_unix_ms).unwrap_or_else(|| panic!("no instant in {out}"));

    let mut ids = Vec::new();
    let node = setup(folder.path()).with_shifted_clock(HOUR_BACK).start().await;
    assert_eq!(refused(&node, &mut ids).await, "lease_unavailable");
    node.shift_clock(0.0);
    node.until_ready().await;
    ids.extend(node.ids("order", 100).await);
    // No other lane and no other worker id has a mark that is past.
    node.shift_clock(HOUR_BACK);
    assert_eq!(refused(&node, &mut ids).await, "clock_rollback");
    node.shift_clock(0.0);
    node.until_ready().await;
    ids.extend(node.ids("order", 100).await);
    assert!(ids.iter().all(|id| instant_of(*id) >= instant), "{instant}: {ids:?}");
    assert!(ids.is_sorted_by(|a, b| a < b));
    node.stop().await;
}
