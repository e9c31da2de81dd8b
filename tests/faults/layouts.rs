use crate::{
    collected::Collected,
    service::{Service, Setup},
};

async fn parsed_unix_ms(node: &Service, id: u64) -> i64 {
    let (status, fields) = node.json(&format!("/parse/{id}")).await;
    assert_eq!(status, 200, "{fields}");
    assert_eq!(fields["worker_id"], node.worker().await);
    fields["unix_ms"].as_i64().expect("a number")
}

/// Tests each unit end to end over SQLite, with crashes and clean stops in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_unit_serves_across_restarts_without_a_duplicate() {
    for (unit, unit_ms) in
        [("second", 1_000), ("minute", 60_000), ("hour", 3_600_000), ("day", 86_400_000_i64)]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let setup = Setup::new()
            .folder(folder.path())
            .set("layout.time_unit", unit)
            .set("worker.max_id", 2)
            .set("lease.ttl", "1s")
            .set("lease.renew", "400ms");
        let collected = Collected::default();
        for restart in 0..4 {
            let node = setup.clone().start_leased().await;
            let ids = node.ids("order", 1_000).await;
            let unix_ms = parsed_unix_ms(&node, ids[0]).await;
            assert_eq!(unix_ms.rem_euclid(unit_ms), 0, "{unit}");
            collected.add(&ids);
            if restart % 2 == 0 {
                node.kill9().await;
            } else {
                node.stop().await;
            }
        }
        assert_eq!((collected.count(), collected.duplicates()), (4_000, 0), "{unit}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_layout_restarted_twenty_times_keeps_serving() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let setup = Setup::new()
        .folder(folder.path())
        .set("layout.time_unit", "day")
        .set("worker.max_id", 2)
        .set("lease.ttl", "1s")
        .set("lease.renew", "400ms");
    let collected = Collected::default();
    for restart in 0..20 {
        let node = setup.clone().start_leased().await;
        collected.add(&node.ids("order", 5_000).await);
        if restart % 3 == 0 {
            node.stop().await;
        } else {
            node.kill9().await;
        }
    }
    assert_eq!((collected.count(), collected.duplicates()), (100_000, 0));
}
