//! A holder finds that its namespace has no record: its row shows whether the rows are of its
//! layout.

use std::time::Duration;

use raindrop_core::lease::{HighWaterMarks, RowExpiry, RowWrite, Token};
use raindrop_store::Store as _;

use super::{
    faulty_store::Fault,
    world::{Node, World, second, world},
};
use crate::UnavailableReason;

async fn holder(world: &World) -> Node {
    let node = world.start(world.only(3));
    node.issuer.leased().await;
    world.issue_for(&node, second(60)).await;
    node
}

async fn has_record(world: &World) -> bool {
    world.store.read_record("default").await.expect("up").is_some()
}

async fn goes_on_with_a_new_record(world: &World, node: &Node) {
    assert!(!has_record(world).await);
    assert_eq!(world.issue_for(node, second(700)).await, Duration::ZERO);
    assert!(has_record(world).await);
    assert_eq!((node.events.epochs(), node.status().reason), (1, None));
}

/// The store shows the holder's last write, but never acknowledged it.
#[tokio::test(start_paused = true)]
async fn holder_whose_last_write_is_visible_writes_the_record_again() {
    let world = world();
    let node = holder(&world).await;
    world.store.fail_next(Fault::LostReply);
    world.until_swap().await;
    world.store.lose_record("default");
    goes_on_with_a_new_record(&world, &node).await;
}

#[tokio::test(start_paused = true)]
async fn holder_of_a_row_that_went_back_writes_the_record_again() {
    let world = world();
    let node = holder(&world).await;
    let backup = world.store.backup();
    world.until_swap().await;
    world.store.put_back(backup);
    world.store.lose_record("default");
    goes_on_with_a_new_record(&world, &node).await;
}

#[tokio::test(start_paused = true)]
async fn holder_of_a_row_that_was_taken_stops_and_writes_no_record() {
    let world = world();
    let node = holder(&world).await;
    let row = world.row(3).await;
    let taken = RowWrite {
        token: Token::from_bits(77),
        epoch: world.epoch().await,
        holder: "another".into(),
        lane: 0,
        marks: HighWaterMarks::all_at(row.marks[0] + 1, row.marks.lanes()),
        expiry: RowExpiry::After(second(90)),
    };
    assert!(world.store.swap_row(&world.scope(), 3, row.token, &taken).await.expect("up"));
    world.store.lose_record("default");
    world.pass(second(31)).await;
    node.issuer.next_id("order").await.expect_err("the lease is lost");
    world.pass(second(60)).await;
    assert!(!has_record(&world).await);
}

/// The store was rolled back to before the lease. No process has taken the row, but whether it had
/// another layout is unknown.
#[tokio::test(start_paused = true)]
async fn lease_of_a_row_that_was_never_written_is_used_up_without_a_record() {
    let world = world();
    world.node().await.stop().await;
    let begin = world.store.backup();
    let node = holder(&world).await;
    world.store.put_back(begin);
    world.store.lose_record("default");
    assert!(world.row(3).await.was_never_written());
    assert_eq!(world.issue_for(&node, second(200)).await, Duration::ZERO);
    assert_eq!(node.status().reason, Some(UnavailableReason::StoreLost));
    assert!(!has_record(&world).await);
}
