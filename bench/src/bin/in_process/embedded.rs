//! Raindrop as a program embeds it.

use std::{
    hint::black_box,
    sync::Arc,
    thread::{sleep, yield_now},
};

use raindrop_core::{
    clock::{CachedClock, Clock, Recent, SystemClock},
    id::Id,
    issue::{Blocks, Claim, CodeHandle, Generator, IssueSettings},
    layout::{Layout, LayoutSpec, TimeUnit},
    preset::Preset,
};

use crate::{
    contestants::{Contestant, Group, Threads},
    leased,
};

pub(crate) const BLOCKS: &str = "block iterator, cached clock";
pub(crate) const SEGMENT: &str = "segment handle (plain numbers)";
pub(crate) const HANDLE_CACHED: &str = "handle, cached clock";
pub(crate) const NAME_CACHED: &str = "by name, cached clock";
pub(crate) const HANDLE_SYSTEM: &str = "handle, system clock";

/// How many IDs the block iterator claims at a time.
pub(crate) const BLOCK: u32 = 1024;

/// The codes of two threads that share no sequence.
const CODES: [&str; 2] = ["left", "right"];

type Shared = &'static Generator;

/// Returns a layout whose ticks hold more IDs than this machine can issue: the clock never limits.
pub(crate) fn unlimited() -> Layout {
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

/// Returns a generator that lives as long as this process.
fn generator(layout: Layout, settings: &IssueSettings, clock: &Arc<dyn Clock>) -> Shared {
    let generator = Generator::with_worker(layout, 0, settings, Arc::clone(clock));
    Box::leak(Box::new(generator.expect("worker 0 fits")))
}

/// Returns a generator whose codes have separate sequences, and whose clock never limits.
pub(crate) fn separate(clock: &Arc<dyn Clock>) -> Shared {
    let settings = IssueSettings { codes_shared: false, ..IssueSettings::default() };
    generator(unlimited(), &settings, clock)
}

/// The clocks, and a generator with each.
pub(crate) struct Embedded {
    pub(crate) cached_clock: Arc<dyn Clock>,
    system_clock: Arc<dyn Clock>,
    pub(crate) cached: Shared,
    system: Shared,
    /// With the default layout: 12 bits of sequence.
    pub(crate) default_layout: Shared,
}

impl Embedded {
    pub(crate) fn new() -> Self {
        let system_clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let cached_clock: Arc<dyn Clock> =
            Arc::new(CachedClock::start().expect("a thread for the clock"));
        let settings = IssueSettings::default();
        Self {
            cached: generator(unlimited(), &settings, &cached_clock),
            system: generator(unlimited(), &settings, &system_clock),
            default_layout: generator(Preset::Raindrop.layout(), &settings, &cached_clock),
            cached_clock,
            system_clock,
        }
    }

    /// Returns the reading that the cached clock keeps.
    pub(crate) fn recent(&self) -> Recent {
        self.cached_clock.recent().expect("a cached clock keeps one")
    }

    /// Returns every way to get an ID, in the order of the report.
    pub(crate) fn contestants(&self) -> [Contestant; 10] {
        let Self { cached, system, default_layout, .. } = *self;
        let ours = |name, threads| Contestant::new(Group::Raindrop, name, threads);
        let handle = |generator| Threads::both(move |_| by_handle(generator, "order"));
        let named = |generator| Threads::shared(move || by_name(generator, "user"));
        let apart = |clock| {
            let generator = separate(clock);
            // Codes that are created one after the other may be neighbours in memory.
            for code in CODES {
                by_name(generator, code);
            }
            Threads::two(move |thread| by_handle(generator, CODES[thread]))
        };
        let mut segment = leased::segment();
        let issuer = leased::issuer(unlimited(), &self.cached_clock);
        let leased_handle = || issuer.handle("order").expect("a valid code");
        let (mut leased, mut leased_blocks) = (leased_handle(), leased_handle().into_blocks(BLOCK));
        [
            ours(BLOCKS, Threads::both(move |_| by_block(cached, "blocks"))),
            ours(
                "block iterator with a leased worker id, cached clock",
                Threads::one(move || {
                    let id = black_box(&mut leased_blocks).next_id();
                    id.unwrap_or_else(|_| retry(|| leased_blocks.next_id().ok()))
                }),
            ),
            ours(SEGMENT, Threads::one(move || segment.try_next_id().expect("a block in hand"))),
            Contestant {
                twelve_bits: handle(default_layout),
                ..ours(HANDLE_CACHED, handle(cached))
            },
            ours(
                "handle with a leased worker id, cached clock",
                Threads::one(move || {
                    leased.try_next_id().unwrap_or_else(|| retry(|| leased.try_next_id()))
                }),
            ),
            ours(NAME_CACHED, named(cached)),
            ours(HANDLE_SYSTEM, handle(system)),
            ours("by name, system clock", named(system)),
            ours("a handle for each of two codes apart, cached clock", apart(&self.cached_clock)),
            ours("a handle for each of two codes apart, system clock", apart(&self.system_clock)),
        ]
    }
}

/// Returns single IDs through a handle. If its thread loses the core after reading the clock, the
/// code can be ahead of that reading: then, as at the end of a full tick, it waits.
pub(crate) fn by_handle(generator: Shared, code: &str) -> impl FnMut() -> Id + use<> {
    let mut handle: CodeHandle<Shared> = generator.handle(code).expect("a valid code");
    move || match handle.try_next_id() {
        Ok(id) => id,
        Err(_) => wait_for_one(&mut handle),
    }
}

#[cold]
#[inline(never)]
fn wait_for_one(handle: &mut CodeHandle<Shared>) -> Id {
    when_due(handle.claim(1).expect("a place within a second"))
}

/// Returns one ID, looking up the code by its name.
pub(crate) fn by_name(generator: Shared, code: &str) -> Id {
    when_due(generator.claim(black_box(code), 1).expect("a place within a second"))
}

fn by_block(generator: Shared, code: &'static str) -> impl FnMut() -> Id {
    let handle = generator.handle(code).expect("a valid code");
    let mut blocks: Blocks<Shared> = handle.into_blocks(BLOCK);
    move || {
        let id = black_box(&mut blocks).next_id();
        id.unwrap_or_else(|_| retry(|| blocks.next_id().ok()))
    }
}

#[cold]
#[inline(never)]
fn retry(mut next: impl FnMut() -> Option<Id>) -> Id {
    loop {
        yield_now();
        if let Some(id) = next() {
            return id;
        }
    }
}

fn when_due(mut claim: Claim) -> Id {
    if !claim.wait.is_zero() {
        sleep(claim.wait);
    }
    claim.ids.next().expect("a claim of one has one ID")
}
