//! One number of a segment code beside a bare atomic increment, in alternating rounds of one run.

#![expect(clippy::print_stdout, reason = "the figures are the result")]

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use raindrop::{
    core::{
        clock::{Clock, SystemClock},
        segment::SegmentSpec,
    },
    keeper::{NoObserver, SegmentHandle, SegmentKeeper, SegmentSettings},
    store::MemoryStore,
};

const ROUNDS: usize = 9;
const PER_ROUND: u32 = 20_000_000;

/// A clock that does not step.
fn steady() -> Duration {
    SystemClock::default().steady()
}

fn timed(mut one: impl FnMut()) -> Duration {
    let began = steady();
    for _ in 0..PER_ROUND {
        one();
    }
    steady().saturating_sub(began)
}

fn median(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort_unstable();
    rounds[rounds.len() / 2].as_secs_f64() * 1e9 / f64::from(PER_ROUND)
}

fn main() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_time().build().expect("a runtime");
    let handle: SegmentHandle = runtime.block_on(async {
        let step = SegmentSpec::LARGEST;
        let spec = SegmentSpec { min_step: step, max_step: step, ..SegmentSpec::default() };
        let settings = SegmentSettings::new("numbers").with_code("order", spec);
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::default())));
        let (keeper, issuers) = SegmentKeeper::start(vec![(settings, Arc::new(NoObserver))], store);
        // It reserves for as long as this process lives.
        std::mem::forget(keeper);
        let handle = issuers[0].handle("order").expect("configured");
        handle.next_ids(1).await.expect("a block");
        handle
    });

    let counter = AtomicU64::new(0);
    let (mut bare, mut ours, mut looped) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(timed(|| {
            black_box(counter.fetch_add(1, Ordering::AcqRel));
        }));
        ours.push(timed(|| {
            black_box(handle.try_next_id().expect("a number in hand"));
        }));
        looped.push(timed(|| {
            let mut now = counter.load(Ordering::Acquire);
            while let Err(moved) =
                counter.compare_exchange_weak(now, now + 1, Ordering::AcqRel, Ordering::Acquire)
            {
                now = moved;
            }
            black_box(now);
        }));
    }
    let (bare, ours, looped) = (median(bare), median(ours), median(looped));
    println!("AtomicU64::fetch_add           {bare:.2} ns");
    println!("compare-and-swap loop          {looped:.2} ns  {:.2}x", looped / bare);
    println!("one number through its handle  {ours:.2} ns  {:.2}x", ours / bare);
    let met = if ours <= 1.3 * bare { "met" } else { "not met" };
    println!("target: a segment's number within 1.3x of fetch_add | {:.2}x | {met}", ours / bare);
}
