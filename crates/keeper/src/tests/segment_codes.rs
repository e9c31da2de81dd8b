//! Codes of segment namespaces that are created on demand.

use raindrop_core::issue::ClaimError;
use raindrop_store::{NewSegment, SegmentStore};
use tokio::time::sleep;

use super::segments::{LONG, World, orders, spec};
use crate::{IssueError, SegmentSettings};

#[tokio::test(start_paused = true)]
async fn codes_are_created_on_demand_up_to_the_bound() {
    let world = World::new();
    let settings = SegmentSettings {
        auto_create: Some(spec()),
        codes_max: 3,
        ..SegmentSettings::new("numbers").with_code("order", spec())
    };
    let node = world.node(settings).await;
    assert_eq!(world.issue(&node, "a", 1).await, [1]);
    assert_eq!(world.issue(&node, "A", 1).await, [1]);
    let full = node.issuer.next_id("b").await.expect_err("three are there");
    assert!(matches!(full, IssueError::Refused(ClaimError::TooManyCodes { max: 3, .. })));
}

#[tokio::test(start_paused = true)]
async fn codes_of_the_store_count_after_a_restart_and_on_every_node() {
    let world = World::new();
    let settings = || SegmentSettings {
        auto_create: Some(spec()),
        codes_max: 3,
        ..SegmentSettings::new("numbers")
    };
    let first = world.node(settings()).await;
    for code in ["a", "b", "c"] {
        assert_eq!(world.issue(&first, code, 1).await, [1]);
    }
    let restarted = world.node(settings()).await;
    let other_namespace = [NewSegment { code: "z".into(), first: 1 }];
    world.store.create_segments("others", &other_namespace).await.expect("up");
    for _ in 0..5 {
        let full = restarted.issuer.next_id("d").await.expect_err("three are there");
        assert!(matches!(full, IssueError::Refused(ClaimError::TooManyCodes { max: 3, .. })));
    }
    // Refused names do not count against codes that exist.
    for code in ["a", "b", "c"] {
        assert!(world.issue(&restarted, code, 1).await[0] > 1, "{code}");
    }
    assert_eq!((restarted.issuer.status().codes, restarted.issuer.status().reason), (3, None));
    assert_eq!(world.store.count_segments("numbers").await.expect("up"), 3);
    // An operator makes room.
    let third = world.node(settings()).await;
    third.issuer.next_id("d").await.expect_err("three are there");
    world.store.lose_segments();
    sleep(LONG).await;
    assert_eq!(world.issue(&third, "d", 1).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn of_concurrent_new_codes_no_more_than_fit_are_created() {
    let world = World::new();
    let settings = SegmentSettings {
        auto_create: Some(spec()),
        codes_max: 3,
        max_wait: LONG,
        ..SegmentSettings::new("numbers")
    };
    let node = world.node(settings).await;
    let names = ["a", "b", "c", "d", "e", "f"];
    let claims: Vec<_> = names
        .map(|name| {
            let issuer = node.issuer.clone();
            tokio::spawn(async move { issuer.next_id(name).await.is_ok() })
        })
        .into();
    let mut issued = 0;
    for claim in claims {
        issued += usize::from(claim.await.expect("no panic"));
    }
    assert_eq!(world.store.count_segments("numbers").await.expect("up"), 3);
    assert_eq!(issued, 3);
}

#[tokio::test(start_paused = true)]
async fn a_client_creates_its_share_of_codes_in_a_day() {
    let world = World::new();
    let settings = SegmentSettings {
        auto_create: Some(spec()),
        codes_max: 100,
        codes_max_per_client: 2,
        ..orders()
    };
    let node = world.node(settings).await;
    let claim = async |client: u64, code: &str| {
        let client = move || client;
        node.issuer.next_ids_for(Some(&client), code, 1.into()).await.map(drop)
    };
    for (client, code) in [(1, "order"), (1, "a"), (1, "b"), (1, "a"), (2, "c")] {
        claim(client, code).await.expect(code);
    }
    let refused = claim(1, "d").await.expect_err("two are created");
    let IssueError::Refused(ClaimError::ClientShareUsed { max: 2, retry_after }) = refused else {
        panic!("{refused}");
    };
    assert!(retry_after > LONG, "{retry_after:?}");
    claim(1, "c").await.expect("it exists");
    claim(2, "d").await.expect("another client has its own share");
    claim(1, "d").await.expect("it exists now");
    // A code that the store has is not created again.
    world
        .store
        .create_segments("numbers", &[NewSegment { code: "e".into(), first: 9 }])
        .await
        .expect("up");
    claim(1, "e").await.expect("it exists in the store");
    sleep(retry_after).await;
    claim(1, "f").await.expect("on another day");
}
