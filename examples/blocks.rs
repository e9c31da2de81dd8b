//! An endless iterator of IDs that claims them in blocks.
//!
//! ```text
//! cargo run --example blocks --no-default-features
//! ```
//!
//! A block costs one claim, however large it is. An ID bears the time at which its block was
//! claimed, so the last ID of a block is as much older than its use as the block took to use up;
//! `Blocks::max_age` bounds that. What is left of a block that became too old is never used.

#![expect(clippy::print_stdout, reason = "a program that prints IDs")]

use std::{error::Error, sync::Arc, thread, time::Duration};

use raindrop::core::{
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
    /// How many IDs are claimed at a time.
    size: u32,
    /// How old an ID may be when it is handed out.
    max_age: Duration,
    /// What is left of the present block, and when it was claimed on the steady clock.
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
    /// The first ID of the next block.
    fn claim(&mut self) -> Result<Id, ClaimError> {
        let claimed = self.clock.steady();
        let claim = self.generator.claim(self.code, self.size)?;
        // A block that does not fit what is left of this millisecond reaches into the next ones,
        // and is used when the last of them has begun.
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
