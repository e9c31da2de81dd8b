//! What becomes dearer: more codes, larger batches, more memory.

use std::{fs, hint::black_box};

use raindrop_bench::{
    machine::version_of,
    rounds::{Figures, Rounds, alone},
};
use snowid::{SnowID, SnowIDConfig};

use crate::ours::{Ours, by_handle, by_name, generator, unthrottled};

/// So many codes are in use.
pub(crate) const CODES: [u32; 4] = [1, 10, 1_000, 100_000];
/// So many IDs are claimed at a time.
pub(crate) const BATCHES: [u32; 5] = [1, 10, 100, 1_000, 10_000];

pub(crate) const BATCH: &str = "Raindrop, claims of a handle";

/// The peer that hands out batches.
pub(crate) fn batch_peer() -> String {
    format!("snowid {}, `generate_batch`", version_of("snowid"))
}

/// The name of a contestant at a size.
pub(crate) fn at(name: &str, size: u32) -> String {
    format!("{name} @ {size}")
}

pub(crate) const NAMED: &str = "by name";
pub(crate) const HANDLE: &str = "a handle for each";

/// One ID of one code after the other, in no order that a cache could foresee.
pub(crate) fn by_codes(ours: &Ours, mut rounds: Rounds<'_>) -> Figures {
    for count in CODES {
        let generator = generator(unthrottled(), &ours.cached_clock);
        let names = names(count);
        let mut handles: Vec<_> = names.iter().map(|name| by_handle(generator, name)).collect();
        let mut order = in_turn(count);
        rounds.add(at(HANDLE, count), alone(move || handles[order()]()));
        let mut order = in_turn(count);
        rounds.add(at(NAMED, count), alone(move || by_name(generator, &names[order()])));
    }
    rounds.run()
}

/// Batches written into an array of numbers; an operation is one ID.
pub(crate) fn by_batch(ours: &Ours, mut rounds: Rounds<'_>) -> Figures {
    let wide = SnowIDConfig::builder().node_bits(6).expect("6 to 16 bits").build();
    let snowid: &SnowID = Box::leak(Box::new(SnowID::with_config(1, wide).expect("node 1 of 64")));
    for count in BATCHES {
        let each = u64::from(count);
        let per_id = move |mut measure: Box<dyn FnMut(u64) -> _>| {
            move |times: u64| {
                let batches = times.div_ceil(each);
                let taken: raindrop_bench::rounds::Sample = measure(batches);
                taken.scaled(times, batches * each)
            }
        };
        let mut handle = ours.cached.handle("batches").expect("a valid code");
        let mut ids = vec![0; count as usize];
        let ours = alone(move || {
            let claim = handle.claim(count).expect("an unthrottled layout");
            for (slot, id) in ids.iter_mut().zip(claim.ids) {
                *slot = id.get();
            }
            black_box(&mut ids)[0]
        });
        rounds.add(at(BATCH, count), per_id(Box::new(ours)));
        let mut ids = vec![0; count as usize];
        let theirs = alone(move || {
            snowid.generate_batch(&mut ids);
            black_box(&mut ids)[0]
        });
        rounds.add(at(&batch_peer(), count), per_id(Box::new(theirs)));
    }
    rounds.run()
}

/// The resident memory that 100 000 codes take, in bytes.
pub(crate) fn memory_of_codes(ours: &Ours) -> u64 {
    let count = CODES[CODES.len() - 1];
    let generator = generator(unthrottled(), &ours.cached_clock);
    let before = resident();
    for code in 0..count {
        by_name(generator, &name(code));
    }
    resident().saturating_sub(before)
}

/// The memory of this process that is resident, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a VmRSS line");
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number of kB");
    kibibytes * 1024
}

fn name(code: u32) -> String {
    format!("customer-{code:06}")
}

fn names(count: u32) -> Vec<String> {
    (0..count).map(name).collect()
}

/// Every index below `count`, over and over, in an order without a pattern.
fn in_turn(count: u32) -> impl FnMut() -> usize {
    let mut order: Vec<_> = (0..count).collect();
    // splitmix64's mixing step: no two numbers give the same.
    order.sort_unstable_by_key(|index| {
        let mut mixed = u64::from(*index).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    });
    let mut next = 0;
    move || {
        next = if next + 1 == order.len() { 0 } else { next + 1 };
        order[next] as usize
    }
}
