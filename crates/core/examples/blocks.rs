//! An endless iterator that claims IDs in blocks.
//!
//! ```text
//! cargo run -p raindrop-core --example blocks
//! ```
//!
//! A block costs one claim, whatever its size. An ID carries the time at which its block was
//! claimed, not the time at which it is returned. `Blocks::max_age` bounds the difference: the rest
//! of a block that has become too old is discarded.

#![expect(clippy::print_stdout, reason = "a program that prints IDs")]

use std::{error::Error, sync::Arc, thread, time::Duration};

use raindrop_core::{
    clock::{Clock, SystemClock},
    id::Id,
    issue::{ClaimError, Generator, IssueSettings, Run},
    preset::Preset,
};

/// IDs of one code, ascending.
struct Blocks<'a> {
    generator: &'a Generator,
    clock: &'a dyn Clock,
    code: &'a str,
    /// How many IDs to claim at a time.
    size: u32,
    /// The maximum age of an ID when it is returned.
    max_age: Duration,
    /// The rest of the current block, and the steady clock's time at its claim.
    block: Option<(Run, Duration)>,
}

impl Iterator for Blocks<'_> {
    type Item = Result<Id, ClaimError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((ids, claimed)) = &mut self.block
            && self.clock.steady().saturating_sub(*claimed) <= self.max_age
            && let Some(id) = ids.next()
        {
            return Some(Ok(id));
        }
        Some(self.claim())
    }
}

impl Blocks<'_> {
    /// Claims the next block and returns its first ID.
    fn claim(&mut self) -> Result<Id, ClaimError> {
        let claimed = self.clock.steady();
        let claim = self.generator.claim(self.code, self.size)?;
        // A block that does not fit into the current millisecond extends into the following ones.
        // Wait until the last of them has begun before you use the block.
        thread::sleep(claim.wait);
        let mut ids = claim.ids;
        let first = ids.next().expect("a claim has at least one ID");
        self.block = Some((ids, claimed));
        Ok(first)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(SystemClock::default());
    let layout = Preset::Raindrop.spec().build()?;
    let settings = IssueSettings::default();
    let generator = Generator::with_worker(layout, 7, &settings, clock.clone())?;
    let ids = Blocks {
        generator: &generator,
        clock: &*clock,
        code: "order",
        size: 1_000,
        max_age: Duration::from_secs(1),
        block: None,
    };
    for id in ids.take(10_000) {
        println!("{}", id?);
    }
    Ok(())
}
