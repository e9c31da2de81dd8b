//! Raindrop, as a program that embeds it uses it.

use std::{
    hint::black_box,
    sync::Arc,
    thread::{sleep, yield_now},
};

use raindrop::core::{
    clock::{CachedClock, Clock, Recent, SystemClock},
    id::Id,
    issue::{Blocks, Claim, CodeHandle, Generator, IssueSettings},
    layout::{Layout, LayoutSpec, TimeUnit},
    preset::Preset,
};
use raindrop_bench::rounds::{Rounds, alone, in_pairs};

use crate::leased;

pub(crate) const NAMED_SYSTEM: &str = "by name, system clock";
pub(crate) const NAMED_CACHED: &str = "by name, cached clock";
pub(crate) const HANDLE_SYSTEM: &str = "handle, system clock";
pub(crate) const HANDLE_CACHED: &str = "handle, cached clock";
pub(crate) const BLOCKS: &str = "block iterator, cached clock";
pub(crate) const LEASED: &str = "handle of a leased worker id, cached clock";
pub(crate) const LEASED_BLOCKS: &str = "block iterator of a leased worker id, cached clock";
pub(crate) const SEGMENT: &str = "segment handle (plain numbers)";
pub(crate) const APART_SYSTEM: &str = "a handle for each of two codes, system clock";
pub(crate) const APART_CACHED: &str = "a handle for each of two codes, cached clock";

/// What one thread is measured with, in the order of the report.
pub(crate) const ALONE: [&str; 8] = [
    BLOCKS,
    LEASED_BLOCKS,
    SEGMENT,
    HANDLE_CACHED,
    LEASED,
    NAMED_CACHED,
    HANDLE_SYSTEM,
    NAMED_SYSTEM,
];

/// What two threads are measured with: on one code, and on a code each.
pub(crate) const PAIRED: [&str; 7] =
    [BLOCKS, HANDLE_CACHED, NAMED_CACHED, HANDLE_SYSTEM, NAMED_SYSTEM, APART_CACHED, APART_SYSTEM];

/// How many IDs the block iterator claims at a time.
pub(crate) const BLOCK: u32 = 1024;

/// Those that two threads have apart.
const CODES: [&str; 2] = ["left", "right"];

type Shared = &'static Generator;

/// A layout whose ticks hold more IDs than this machine can hand out: the clock never limits.
pub(crate) fn unthrottled() -> Layout {
    let spec = LayoutSpec {
        epoch_ms: SystemClock::default().now_ms(),
        exact: true,
        timestamp_bits: Some(32),
        worker_bits: 1,
        rollback_bits: 0,
        ..LayoutSpec::for_unit(TimeUnit::Millisecond)
    };
    spec.build().expect("30 bits of sequence")
}

/// A generator that lives as long as this process.
pub(crate) fn generator(layout: Layout, clock: &Arc<dyn Clock>) -> Shared {
    let settings = IssueSettings::default();
    let generator = Generator::with_worker(layout, 0, &settings, Arc::clone(clock));
    Box::leak(Box::new(generator.expect("worker 0 fits")))
}

/// The clocks, and a generator with each.
pub(crate) struct Ours {
    pub(crate) cached_clock: Arc<dyn Clock>,
    pub(crate) cached: Shared,
    system: Shared,
    /// Of the default layout, with 12 bits of sequence.
    pub(crate) capped: Shared,
}

impl Ours {
    pub(crate) fn new() -> Self {
        let system_clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let cached_clock: Arc<dyn Clock> =
            Arc::new(CachedClock::start().expect("a thread for the clock"));
        Self {
            cached: generator(unthrottled(), &cached_clock),
            system: generator(unthrottled(), &system_clock),
            capped: generator(Preset::Raindrop.layout(), &cached_clock),
            cached_clock,
        }
    }

    /// The reading that the cached clock keeps.
    pub(crate) fn recent(&self) -> Recent {
        self.cached_clock.recent().expect("it keeps one")
    }

    pub(crate) fn add_alone(&self, rounds: &mut Rounds<'_>) {
        let (cached, system) = (self.cached, self.system);
        rounds.add(BLOCKS, alone(by_block(cached, "blocks")));
        let mut segment = leased::segment();
        rounds.add(SEGMENT, alone(move || segment.try_next_id().expect("a block in hand")));
        let issuer = leased::issuer(unthrottled(), &self.cached_clock);
        let mut handle = issuer.handle("order").expect("a valid code");
        rounds.add(LEASED, alone(move || tried(|| handle.try_next_id())));
        let mut blocks = issuer.handle("blocks").expect("a valid code").into_blocks(BLOCK);
        rounds.add(LEASED_BLOCKS, alone(move || tried(|| black_box(&mut blocks).next_id().ok())));
        rounds.add(HANDLE_CACHED, alone(by_handle(cached, "order")));
        rounds.add(NAMED_CACHED, alone(move || by_name(cached, "user")));
        rounds.add(HANDLE_SYSTEM, alone(by_handle(system, "order")));
        rounds.add(NAMED_SYSTEM, alone(move || by_name(system, "user")));
    }

    pub(crate) fn add_paired(&self, rounds: &mut Rounds<'_>) {
        let (cached, system) = (self.cached, self.system);
        rounds.add(BLOCKS, in_pairs(move |_| by_block(cached, "blocks")));
        rounds.add(HANDLE_CACHED, in_pairs(move |_| by_handle(cached, "order")));
        rounds.add(NAMED_CACHED, in_pairs(move |_| move || by_name(cached, "user")));
        rounds.add(HANDLE_SYSTEM, in_pairs(move |_| by_handle(system, "order")));
        rounds.add(NAMED_SYSTEM, in_pairs(move |_| move || by_name(system, "user")));
        // Codes that come up one after the other may lie side by side in memory.
        for generator in [cached, system] {
            for code in CODES {
                by_name(generator, code);
            }
        }
        rounds.add(APART_CACHED, in_pairs(move |thread| by_handle(cached, CODES[thread])));
        rounds.add(APART_SYSTEM, in_pairs(move |thread| by_handle(system, CODES[thread])));
    }

    /// At 12 bits of sequence a millisecond has 4096 IDs; the caller sleeps until its tick is due.
    pub(crate) fn add_capped(&self, rounds: &mut Rounds<'_>) {
        rounds.add(HANDLE_CACHED, alone(by_handle(self.capped, "order")));
    }

    pub(crate) fn add_capped_paired(&self, rounds: &mut Rounds<'_>) {
        let capped = self.capped;
        rounds.add(HANDLE_CACHED, in_pairs(move |_| by_handle(capped, "order")));
    }
}

/// One ID through a handle. A thread that lost its core between reading the clock and its turn
/// can find the code ahead of its reading: then, as at the end of a full tick, it waits.
pub(crate) fn by_handle(generator: Shared, code: &str) -> impl FnMut() -> Id + use<> {
    let mut handle: CodeHandle<Shared> = generator.handle(code).expect("a valid code");
    move || match handle.try_next_id() {
        Ok(id) => id,
        Err(_) => when_due(handle.claim(1).expect("a place within a second")),
    }
}

/// One ID by the name of its code.
pub(crate) fn by_name(generator: Shared, code: &str) -> Id {
    when_due(generator.claim(black_box(code), 1).expect("a place within a second"))
}

fn by_block(generator: Shared, code: &'static str) -> impl FnMut() -> Id {
    let handle = generator.handle(code).expect("a valid code");
    let mut blocks: Blocks<Shared> = handle.into_blocks(BLOCK);
    move || tried(|| black_box(&mut blocks).next_id().ok())
}

/// Tries until there is one.
fn tried(mut next: impl FnMut() -> Option<Id>) -> Id {
    loop {
        match next() {
            Some(id) => return id,
            None => yield_now(),
        }
    }
}

fn when_due(mut claim: Claim) -> Id {
    if !claim.wait.is_zero() {
        sleep(claim.wait);
    }
    claim.ids.next().expect("a claim of one has one ID")
}
