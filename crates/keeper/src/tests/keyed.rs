//! Claims with idempotency keys over a faulty memory store, under paused time.

use std::{collections::BTreeMap, time::Duration};

use raindrop_core::{
    issue::ClaimError,
    lease::Token,
    segment::{SegmentSpec, TextForm},
};
use raindrop_store::{IdempotencyStore as _, KEYS_KEPT, KeyState, KeyText};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::{
    faulty_store::Fault,
    segments::{LONG, Node, World},
};
use crate::{IdempotencyKey, IssueError, KeyedNumber, SegmentSettings};

fn strict() -> SegmentSettings {
    let form: TextForm = "INV-{n:03}".parse().expect("a form");
    let spec = SegmentSpec { strict: true, text: Some(form), ..SegmentSpec::default() };
    let plain = SegmentSpec { strict: true, ..SegmentSpec::default() };
    let settings = SegmentSettings::new("numbers").with_code("order", spec);
    let settings = settings.with_code("plain", plain);
    settings.with_code("blocks", SegmentSpec::default())
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).expect("a key")
}

async fn claim(node: &Node, text: &str) -> Result<KeyedNumber, IssueError> {
    node.issuer.number_of_key(None, "order", &key(text)).await
}

async fn text(node: &Node, key: &str) -> String {
    claim(node, key).await.expect("issued").text
}

/// Begins a claim, which joins the queue at once.
async fn begin(node: &Node, text: &str) -> JoinHandle<Result<KeyedNumber, IssueError>> {
    let (issuer, key) = (node.issuer.clone(), key(text));
    let claim = tokio::spawn(async move { issuer.number_of_key(None, "order", &key).await });
    tokio::task::yield_now().await;
    claim
}

async fn text_of(claim: JoinHandle<Result<KeyedNumber, IssueError>>) -> String {
    claim.await.expect("no panic").expect("issued").text
}

#[tokio::test(start_paused = true)]
async fn repeated_key_gets_its_number_from_every_node() {
    let world = World::new();
    let (one, two) = (world.node(strict()).await, world.node(strict()).await);
    let new = |text: &str, is_repeated| Ok(KeyedNumber { text: text.to_owned(), is_repeated });
    assert_eq!(claim(&one, "a").await, new("INV-001", false));
    assert_eq!(claim(&two, "b").await, new("INV-002", false));
    assert_eq!(world.issue(&two, "order", 1).await, [3]);
    for node in [&one, &two] {
        assert_eq!(claim(node, "a").await, new("INV-001", true));
        assert_eq!(claim(node, "b").await, new("INV-002", true));
    }
    assert_eq!(world.issue(&one, "order", 1).await, [4]);
    // Each code has its own keys, and plain numbers are digits.
    let plain = one.issuer.number_of_key(None, "plain", &key("a")).await;
    assert_eq!(plain, new("1", false));
}

#[tokio::test(start_paused = true)]
async fn only_strict_codes_take_keys() {
    let world = World::new();
    let node = world.node(strict()).await;
    let refused = node.issuer.number_of_key(None, "blocks", &key("a")).await;
    let because = "it is not strict";
    let expected = ClaimError::NoIdempotencyKeys { code: "blocks".to_owned(), because };
    assert_eq!(refused, Err(IssueError::Refused(expected)));
    for text in ["", "a b", "ä", "tab\t", &"k".repeat(256)] {
        let error = IdempotencyKey::new(text).expect_err(text).to_string();
        assert!(error.contains("1 to 255 visible ASCII characters"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_with_one_key_at_the_same_time_take_one_number() {
    let world = World::with_latency(Duration::from_millis(50));
    let (one, two) = (world.node(strict()).await, world.node(strict()).await);
    let mut claims = Vec::new();
    for round in 0..6 {
        let node = if round % 2 == 0 { &one } else { &two };
        claims.push(begin(node, "same").await);
        claims.push(begin(node, &format!("own-{round}")).await);
        sleep(Duration::from_millis(17)).await;
    }
    let mut counts = BTreeMap::new();
    for claim in claims {
        *counts.entry(text_of(claim).await).or_insert(0) += 1;
    }
    let same = text(&one, "same").await;
    assert_eq!(counts.remove(&same), Some(6));
    assert!(counts.len() == 6 && counts.values().all(|count| *count == 1), "{counts:?}");
    assert_eq!(world.issue(&one, "order", 1).await, [8], "no gap");
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_finds_the_number_later() {
    let world = World::with_latency(Duration::from_millis(50));
    let (one, two) = (world.node(strict()).await, world.node(strict()).await);
    for (number, ms) in (1..).zip([10, 70, 120, 170]) {
        let key = format!("doc-{number}");
        let cut_off = begin(&one, &key).await;
        sleep(Duration::from_millis(ms)).await;
        cut_off.abort();
        let repeated = text(&two, &key).await;
        assert_eq!(repeated, format!("INV-{number:03}"), "cut off after {ms} ms");
        assert_eq!(text(&one, &key).await, repeated);
    }
    assert_eq!(world.issue(&two, "order", 1).await, [5]);
}

#[tokio::test(start_paused = true)]
async fn text_without_an_answer_is_written_again() {
    let world = World::new();
    let (one, two) = (world.node(strict()).await, world.node(strict()).await);
    for (number, fault) in
        (1..).zip([Fault::LostReply, Fault::NeverArrives, Fault::Late, Fault::LostReply])
    {
        world.store.fail_next_text(fault);
        let key = format!("doc-{number}");
        assert_eq!(text(&one, &key).await, format!("INV-{number:03}"), "{fault:?}");
        world.store.deliver_texts().await;
        assert_eq!(text(&two, &key).await, format!("INV-{number:03}"), "{fault:?}");
    }
    // So is a reservation without an answer, after it was undone.
    world.store.fail_next(Fault::LostReply);
    assert_eq!(text(&one, "last").await, "INV-005");
    assert_eq!(world.issue(&two, "order", 1).await, [6]);
}

/// A process that dies after it claimed a key delays the repeated request, which gets another number
/// if the first one was reserved.
#[tokio::test(start_paused = true)]
async fn key_of_a_process_that_died_is_taken_over() {
    let world = World::new();
    let (one, two) = (world.node(strict()).await, world.node(strict()).await);
    (0..100).for_each(|_| world.store.fail_next_text(Fault::Late));
    let lost = begin(&one, "doc").await;
    sleep(Duration::from_millis(100)).await;
    lost.abort();
    drop(one);
    assert!(lost.await.is_err());
    let began = Instant::now();
    let busy = claim(&two, "doc").await.expect_err("the other process may go on");
    assert!(matches!(busy, IssueError::NoLease { .. }), "{busy}");
    assert!(began.elapsed() >= Duration::from_secs(1));
    world.clock.step(20_000);
    (0..100).for_each(|_| world.store.fail_next_text(Fault::Refused));
    assert_eq!(text(&two, "doc").await, "INV-002");
    world.store.deliver_texts().await;
    assert_eq!(text(&two, "doc").await, "INV-002", "the late text changes nothing");
    assert_eq!(world.issue(&two, "order", 1).await, [3]);
}

/// Another process took the key over while this one waited for the store.
#[tokio::test(start_paused = true)]
async fn number_of_a_lost_key_is_undone() {
    let world = World::with_latency(Duration::from_millis(50));
    let node = world.node(strict()).await;
    let claimed = begin(&node, "doc").await;
    // Its key is claimed, and its number is being reserved.
    sleep(Duration::from_millis(75)).await;
    world.clock.step(20_000);
    let thief = Token::from_bits(7);
    let patience = Duration::from_secs(15);
    let stolen = world.store.claim_keys("numbers", "order", &["doc"], thief, patience).await;
    assert_eq!(stolen.expect("up"), [KeyState::Owned]);
    let text = KeyText { key: "doc".into(), text: "INV-777".into() };
    let done = world.store.finish_keys("numbers", "order", thief, &[text]).await;
    assert_eq!(done.expect("up"), [KeyState::Finished("INV-777".into())]);
    assert_eq!(text_of(claimed).await, "INV-777", "what the store holds");
    assert_eq!(world.issue(&node, "order", 1).await, [1], "no gap");
}

#[tokio::test(start_paused = true)]
async fn old_keys_are_deleted() {
    let world = World::new();
    let node = world.node(strict()).await;
    text(&node, "old").await;
    let kept = i64::try_from(KEYS_KEPT.as_millis()).expect("few");
    world.clock.step(kept - 1_000);
    text(&node, "young").await;
    sleep(Duration::from_mins(11)).await;
    assert_eq!(text(&node, "old").await, "INV-001", "it is not old enough");
    world.clock.step(2_000);
    sleep(Duration::from_mins(11)).await;
    assert_eq!(text(&node, "young").await, "INV-002");
    assert_eq!(text(&node, "old").await, "INV-003");
    node.keeper.release(LONG).await;
}

/// The last number of a code is repeated like any other, after other requests have found that there
/// are no more.
#[tokio::test(start_paused = true)]
async fn repeated_key_gets_its_number_after_the_last_one() {
    let world = World::new();
    let spec = SegmentSpec { strict: true, max: 2, ..SegmentSpec::default() };
    let settings = || SegmentSettings::new("numbers").with_code("order", spec);
    let (one, two) = (world.node(settings()).await, world.node(settings()).await);
    assert_eq!(text(&one, "a").await, "1");
    assert_eq!(text(&one, "b").await, "2");
    for (node, new) in [(&one, ["c", "d"]), (&two, ["e", "f"])] {
        for new in new {
            let refused = claim(node, new).await;
            let none_left =
                matches!(refused, Err(IssueError::Refused(ClaimError::SequenceExhausted { .. })));
            assert!(none_left, "{refused:?}");
        }
        let issued = node.issuer.next_ids("order", 1).await;
        assert!(issued.is_err(), "{issued:?}");
        let (again, other) = (begin(node, "b").await, begin(node, "a").await);
        assert_eq!((text_of(again).await, text_of(other).await), ("2".into(), "1".into()));
    }
}

/// A node that died may leave more keys than are claimed at once.
#[tokio::test(start_paused = true)]
async fn keys_of_a_process_that_died_keep_no_other_from_its_number() {
    let world = World::new();
    let node = world.node(strict()).await;
    let names: Vec<String> = (0..600).map(|number| format!("dead-{number}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let patience = Duration::from_secs(15);
    let dead = Token::from_bits(7);
    world.store.claim_keys("numbers", "order", &keys, dead, patience).await.expect("up");
    let mut busy = Vec::new();
    for name in &names {
        busy.push(begin(&node, name).await);
    }
    assert_eq!(text(&node, "new").await, "INV-001");
    for claim in busy {
        assert!(claim.await.expect("no panic").is_err(), "its owner may go on");
    }
}
