//! The examples that need the core only.

use raindrop_core::{id::Id, preset::Preset};

use crate::example::{assert_ascending, run};

fn workers(ids: &[u64]) -> Vec<u64> {
    let layout = Preset::Raindrop.spec().build().expect("a preset is valid");
    let worker = |id: &u64| layout.decompose(Id::new(*id).expect("an ID")).worker;
    let mut workers: Vec<u64> = ids.iter().map(worker).collect();
    workers.dedup();
    workers
}

#[test]
fn fixed_worker_prints_ids_of_the_worker_it_is_given() {
    let ids = run("fixed_worker", &["42"]);
    assert_ascending(&ids, 10);
    assert_eq!(workers(&ids), [42]);
}

#[test]
fn blocks_prints_ids_of_several_blocks() {
    let ids = run("blocks", &[]);
    assert_ascending(&ids, 10_000);
    assert_eq!(workers(&ids), [7]);
}
