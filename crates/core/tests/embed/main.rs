//! The core as a library, through its public face only; also built without default features.

#[path = "../../../../tests/support/example.rs"]
mod example;
mod examples;

use std::{sync::Arc, thread};

use raindrop_core::{
    clock::{Clock, ManualClock, SystemClock},
    id::Id,
    issue::{ClaimError, Generator, IssueSettings},
    layout::{LayoutSpec, TimeUnit},
    preset::Preset,
    worker_id::{WorkerIdError, WorkerIdSource},
};

#[test]
fn a_generator_of_ones_own_issues_ascending_ids() {
    let layout = Preset::Raindrop.spec().build().expect("a preset is valid");
    let clock = Arc::new(SystemClock::default());
    let generator = Generator::with_worker(layout, 42, &IssueSettings::default(), clock)
        .expect("42 fits 9 bits");
    let mut last = Id::new(0).expect("an ID");
    for _ in 0..100 {
        let claim = generator.claim("order", 100).expect("within max_wait");
        thread::sleep(claim.wait);
        for id in claim.ids {
            assert!(id > last);
            assert_eq!(generator.layout().decompose(id).worker, 42);
            last = id;
        }
    }
}

#[test]
fn a_batch_is_also_a_few_ranges() {
    let layout = LayoutSpec { reserved_bits: 2, ..LayoutSpec::for_unit(TimeUnit::Millisecond) };
    let layout = layout.build().expect("valid");
    let clock = Arc::new(ManualClock::new(1_763_650_000_000));
    let settings = IssueSettings { codes_shared: false, ..IssueSettings::default() };
    let generator = Generator::with_worker(layout, 1, &settings, clock.clone()).expect("1 fits");
    let ids: Vec<Id> = generator.claim("a", 2_500).expect("waits").ids.collect();
    let ranges: Vec<_> = generator.claim("b", 2_500).expect("waits").ids.ranges().collect();
    let expanded: Vec<u64> = ranges
        .iter()
        .flat_map(|range| (0..range.count).map(|index| range.first.get() + index * range.step))
        .collect();
    assert_eq!(expanded, ids.iter().map(|id| id.get()).collect::<Vec<_>>());
    assert!(ranges.iter().all(|range| range.step == 4));
    assert_eq!(ranges.len(), 3);
    assert_eq!(clock.now_ms(), 1_763_650_000_000);
}

#[test]
fn errors_say_what_is_allowed() {
    let violations = LayoutSpec { worker_bits: 17, ..LayoutSpec::for_unit(TimeUnit::Day) }
        .build()
        .expect_err("17 is too wide");
    assert_eq!(violations.to_string(), "layout.worker_bits = 17: must be 3 to 16");
    let layout = Preset::JsSafe.spec().build().expect("a preset is valid");
    let clock = Arc::new(SystemClock::default());
    let generator = Generator::with_worker(layout, 31, &IssueSettings::default(), clock)
        .expect("31 fits 5 bits");
    assert!(matches!(generator.claim("no good", 1), Err(ClaimError::InvalidCode(_))));
}

#[test]
fn worker_ids_of_every_source_fit_the_layout() {
    let layout = Preset::Raindrop.spec().build().expect("a preset is valid");
    // The third one is the program's own: four worker ids for each rack, say.
    let rack = 7;
    let sources = [
        (WorkerIdSource::Fixed(5), 5),
        (WorkerIdSource::TrailingOrdinal("raindrop-0".into()), 0),
        (WorkerIdSource::Fixed(rack * 4), 28),
    ];
    for (source, expected) in sources {
        let worker = source.worker_id(&layout).expect("it fits");
        assert_eq!(worker, expected);
        assert!(source.premise().starts_with("no other process "));
        let clock = Arc::new(ManualClock::new(1_763_650_000_000));
        let settings = IssueSettings::default();
        let generator =
            Generator::with_worker(layout.clone(), worker, &settings, clock).expect("it fits");
        let id = generator.claim("order", 1).expect("idle").ids.next().expect("one");
        assert_eq!(layout.decompose(id).worker, expected);
    }
    assert!(WorkerIdSource::Fixed(800).worker_id(&layout).is_err());
    let unset = WorkerIdSource::EnvironmentVariable("RAINDROP_TEST_NOWHERE".into());
    assert!(matches!(unset.worker_id(&layout), Err(WorkerIdError::Missing(_))));
}
