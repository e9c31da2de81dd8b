//! Issues IDs in your own process with a worker id that you assign: no database, no runtime.
//!
//! ```text
//! cargo run -p raindrop-core --example fixed_worker -- 7
//! ```
//!
//! IDs are unique only if no other process ever uses the same worker id. If you cannot ensure that,
//! lease a worker id as `own_service.rs` does.

#![expect(clippy::print_stdout, reason = "a program that prints IDs")]

use std::{error::Error, sync::Arc, thread};

use raindrop_core::{
    clock::SystemClock,
    issue::{Generator, IssueSettings},
    preset::Preset,
    worker_id::WorkerIdSource,
};

fn main() -> Result<(), Box<dyn Error>> {
    let number = std::env::args().nth(1).map_or(Ok(7), |text| text.parse())?;

    // The worker id must fit the layout: 0 to 511 in this one.
    let layout = Preset::Raindrop.spec().build()?;
    let worker = WorkerIdSource::Fixed(number).worker_id(&layout)?;
    let clock = Arc::new(SystemClock::default());
    let generator = Generator::with_worker(layout, worker, &IssueSettings::default(), clock)?;

    for _ in 0..10 {
        let claim = generator.claim("order", 1)?;
        // Zero unless the sequence of this millisecond is used up.
        thread::sleep(claim.wait);
        for id in claim.ids {
            println!("{id}");
        }
    }
    Ok(())
}
