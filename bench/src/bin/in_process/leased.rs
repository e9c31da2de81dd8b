//! Raindrop with a keeper. Its store is in memory, since issuing does not use it.

use std::{future::Future, sync::Arc};

use raindrop_core::{
    clock::{Clock, SystemClock},
    layout::Layout,
    segment::SegmentSpec,
};
use raindrop_keeper::{
    Issuer, Keeper, KeeperSettings, NoObserver, SegmentHandle, SegmentKeeper, SegmentSettings,
};
use raindrop_store::MemoryStore;
use tokio::runtime::Builder;

fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock::default())))
}

/// Runs a task, and the tasks that it spawns, on one background thread for the rest of this
/// process.
fn in_background<T>(task: impl Future<Output = T>) -> T {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build();
    Box::leak(Box::new(runtime.expect("a runtime"))).block_on(task)
}

/// Returns an issuer whose lease is renewed.
pub(crate) fn issuer(layout: Layout, clock: &Arc<dyn Clock>) -> Issuer {
    in_background(async {
        let settings = KeeperSettings::new(layout, "bench");
        let (keeper, issuer) =
            Keeper::start(settings, store(), Arc::clone(clock), Arc::new(NoObserver));
        std::mem::forget(keeper);
        issuer.next_id("first").await.expect("a lease");
        issuer
    })
}

/// Returns a handle of a segment code with the largest block in hand.
pub(crate) fn segment() -> SegmentHandle {
    in_background(async {
        let step = SegmentSpec::LARGEST;
        let spec = SegmentSpec { min_step: step, max_step: step, ..SegmentSpec::default() };
        let settings = SegmentSettings::new("numbers").with_code("order", spec);
        let (keeper, issuers) =
            SegmentKeeper::start(vec![(settings, Arc::new(NoObserver))], store());
        std::mem::forget(keeper);
        let handle = issuers[0].handle("order").expect("configured");
        handle.next_ids(1).await.expect("a block");
        handle
    })
}
