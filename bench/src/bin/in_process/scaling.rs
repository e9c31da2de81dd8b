//! Costs that grow: with the number of codes, the size of batches, and in memory.

use std::hint::black_box;

use raindrop_bench::{
    machine::{resident_memory, version_of},
    number::{grouped, significant},
    plot::Line,
    rounds::{Figures, Pace, Rounds, one_thread, per_item},
};

use crate::{
    embedded::{Embedded, by_handle, by_name, separate},
    peers::wide_snowid,
};

const CODES: [u32; 4] = [1, 10, 1_000, 100_000];
pub(crate) const MOST_CODES: u32 = CODES[CODES.len() - 1];
const BATCHES: [u32; 5] = [1, 10, 100, 1_000, 10_000];

/// The costs of two contestants at growing sizes.
pub(crate) struct Scaling {
    pub(crate) names: [String; 2],
    sizes: &'static [u32],
    figures: Figures,
}

impl Scaling {
    pub(crate) fn conditions(&self) -> String {
        self.figures.conditions()
    }

    fn nanos(&self, name: &str, size: u32) -> f64 {
        self.figures.nanos(&at(name, size))
    }

    /// Returns a row for each size: the size, and the cost of each contestant.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let costs = |size| self.names.each_ref().map(|name| significant(self.nanos(name, size)));
        let row = |&size: &u32| [vec![grouped(size.into())], costs(size).into()].concat();
        self.sizes.iter().map(row).collect()
    }

    /// Returns a line for each contestant.
    pub(crate) fn lines(&self) -> [Line; 2] {
        self.names.each_ref().map(|name| {
            let point = |&size: &u32| (f64::from(size), self.nanos(name, size));
            Line { name: name.replace('`', ""), points: self.sizes.iter().map(point).collect() }
        })
    }
}

/// Names a contestant at a size.
fn at(name: &str, size: u32) -> String {
    format!("{name} @ {size}")
}

/// Measures one ID of one code after the other, in an order that no cache can foresee.
pub(crate) fn by_codes(embedded: &Embedded, pace: Pace) -> Scaling {
    let names = ["a handle for each", "by name"].map(str::to_owned);
    let mut rounds = Rounds::new(pace);
    for count in CODES {
        let generator = separate(&embedded.cached_clock);
        let codes: Vec<_> = (0..count).map(code).collect();
        let mut handles: Vec<_> = codes.iter().map(|code| by_handle(generator, code)).collect();
        let mut next = shuffled(count);
        rounds.add(at(&names[0], count), one_thread(move || handles[next()]()));
        let mut next = shuffled(count);
        rounds.add(at(&names[1], count), one_thread(move || by_name(generator, &codes[next()])));
    }
    Scaling { names, sizes: &CODES, figures: rounds.run() }
}

/// Measures batches written into an array of numbers; an operation is one ID.
pub(crate) fn by_batch(embedded: &Embedded, pace: Pace) -> Scaling {
    let snowid = format!("snowid {}, `generate_batch`", version_of("snowid"));
    let names = ["Raindrop, claims of a handle".to_owned(), snowid];
    let mut rounds = Rounds::new(pace);
    let snowid = wide_snowid();
    for count in BATCHES {
        let mut handle = embedded.cached.handle("batches").expect("a valid code");
        let mut ids = vec![0; count as usize];
        let claim = one_thread(move || {
            let claim = handle.claim(count).expect("an unlimited layout");
            for (slot, id) in ids.iter_mut().zip(claim.ids) {
                *slot = id.get();
            }
            black_box(&mut ids)[0]
        });
        rounds.add(at(&names[0], count), per_item(count.into(), claim));
        let mut ids = vec![0; count as usize];
        let batch = one_thread(move || {
            snowid.generate_batch(&mut ids);
            black_box(&mut ids)[0]
        });
        rounds.add(at(&names[1], count), per_item(count.into(), batch));
    }
    Scaling { names, sizes: &BATCHES, figures: rounds.run() }
}

/// Returns the resident memory of [`MOST_CODES`] codes in bytes.
pub(crate) fn memory_of_codes(embedded: &Embedded) -> u64 {
    let generator = separate(&embedded.cached_clock);
    let resident = || resident_memory("self").expect("Linux reports it");
    let before = resident();
    for number in 0..MOST_CODES {
        by_name(generator, &code(number));
    }
    resident().saturating_sub(before)
}

fn code(number: u32) -> String {
    format!("customer-{number:06}")
}

/// Returns every index below `count`, over and over, in an order without a pattern.
fn shuffled(count: u32) -> impl FnMut() -> usize {
    let mut order: Vec<_> = (0..count).collect();
    // The mixing step of splitmix64 is a bijection.
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
