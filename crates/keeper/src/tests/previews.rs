//! Previews of operations, compared with the operations.

use std::time::Duration;

use raindrop_store::Store;

use super::{
    operators::{larger_by, world},
    world::second,
};
use crate::{OperatorError, RelayoutOutcome, RelayoutPreview, WorkerRelease};

const WINDOW: Duration = Duration::from_mins(5);

#[tokio::test(start_paused = true)]
async fn preview_of_a_release_is_the_row_that_it_frees() {
    let world = world();
    let node = world.start(world.only(3));
    node.issuer.leased().await;
    let mut operator = world.operator(world.settings());
    let row = operator.preview_release(3).await.expect("up");
    assert!(!row.free && world.row(3).await == row, "nothing is written");
    assert_eq!(operator.release(3).await.expect("up"), WorkerRelease::Released(row));
    assert!(operator.preview_release(3).await.expect("up").free);
    let error = operator.preview_release(8).await.expect_err("no such worker");
    assert_eq!(error.to_string(), "worker 8: must be 0 to 7");
}

#[tokio::test(start_paused = true)]
async fn preview_of_a_raise_is_what_the_raise_then_does() {
    let world = world();
    let node = world.node().await;
    world.pass(second(5)).await;
    let rows = world.store.list_rows().await.expect("up");
    let mut operator = world.operator(world.settings());
    let preview = operator.preview_raise(WINDOW).await.expect("up");
    assert_eq!(preview.held, 1);
    assert_eq!(world.store.list_rows().await.expect("up"), rows, "nothing is written");
    let due_ms = operator.raise(WINDOW).await.expect("up");
    assert_eq!(due_ms, preview.due_ms);
    // The barrier never falls.
    let again = operator.preview_raise(second(20)).await.expect("up");
    assert_eq!((again.held, again.due_ms), (1, due_ms));
    drop(node);
}

#[tokio::test(start_paused = true)]
async fn preview_of_a_move_is_what_the_move_then_does() {
    let world = world();
    let node = world.node().await;
    let settings = larger_by(&world, 86_400_000);
    let mut operator = world.operator(settings.clone());
    let (rows, record) = (world.store.list_rows().await, world.recorded_layout().await);
    let preview = operator.preview_relayout().await.expect("allowed");
    let RelayoutPreview::Move { from, rows: count, held, largest_old, smallest_new } = preview
    else {
        panic!("{preview:?}")
    };
    assert_eq!((&from, count, held), (&record, 8, 1));
    assert_eq!(world.store.list_rows().await.expect("up"), rows.expect("up"), "nothing is written");
    assert_eq!(world.recorded_layout().await, record);
    let Ok(RelayoutOutcome::Moved(moved)) = operator.relayout().await else { panic!("moved") };
    assert_eq!((moved.from, moved.largest_old), (from, largest_old));
    assert!(smallest_new <= moved.smallest_new);
    assert_eq!(operator.preview_relayout().await.expect("up"), RelayoutPreview::NothingToDo);
    // The move back is refused, as the operation itself would refuse it.
    let refused = world.operator(world.settings()).preview_relayout().await.expect_err("smaller");
    assert!(matches!(refused, OperatorError::IdsTooSmall { .. }), "{refused}");
    drop(node);
}

#[tokio::test(start_paused = true)]
async fn preview_of_an_interrupted_move_tells_how_it_can_end() {
    let world = world();
    drop(world.node().await);
    let (ours, theirs) = (world.settings(), larger_by(&world, 86_400_000));
    let canonical = theirs.layout.canonical();
    // The lists are for judging, fencing, the fenced rows and converting.
    for (skip, converting) in [(1, false), (3, true)] {
        let mut operator = world.operator(theirs.clone());
        let _go_on = world.store.pause_list(skip);
        assert!(tokio::time::timeout(second(60), operator.relayout()).await.is_err(), "it waits");
        let back = world.operator(ours.clone()).preview_relayout().await;
        let on = world.operator(theirs.clone()).preview_relayout().await.expect("allowed");
        if converting {
            assert!(matches!(back, Err(OperatorError::Layout(_))), "{back:?}");
            let from = ours.layout.canonical();
            assert_eq!(on, RelayoutPreview::Finish { from, rows: 8 });
        } else {
            assert_eq!(back.expect("up"), RelayoutPreview::Revert { to: canonical.clone() });
            assert!(matches!(on, RelayoutPreview::Move { .. }), "{on:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn preview_without_a_record_is_refused() {
    let world = world();
    let error = world.operator(world.settings()).preview_relayout().await.expect_err("no record");
    assert!(matches!(error, OperatorError::NoRecord { .. }), "{error}");
    let preview = world.operator(world.settings()).preview_raise(WINDOW).await.expect("empty");
    assert_eq!(preview.held, 0);
}
