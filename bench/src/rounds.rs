//! Contestants measured in alternating rounds of one run.
//!
//! A machine that is shared or that changes its pace disturbs all contestants of a round alike,
//! so only ratios inside a run mean anything.

use std::{
    collections::BTreeMap,
    fmt, fs,
    hint::black_box,
    ops::Add,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The order of `count` contestants in a round: each round begins elsewhere, and every other one
/// goes backwards, so that no contestant always follows the same one.
pub fn order(round: usize, count: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).map(|at| (at + round * count / 5) % count.max(1)).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// The middle of what was measured.
///
/// # Panics
///
/// If nothing was.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

/// What one contestant took in one round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// From the first operation's start to the last one's end.
    pub elapsed: Duration,
    /// How long its threads were ready to run while others ran, as far as the system tells.
    pub displaced: Duration,
}

impl Sample {
    /// The part of it that `part` of `whole` operations take.
    #[must_use]
    pub fn scaled(self, part: u64, whole: u64) -> Self {
        let of = |time: Duration| time.mul_f64(part as f64 / whole as f64);
        Self { elapsed: of(self.elapsed), displaced: of(self.displaced) }
    }

    fn is_disturbed(&self) -> bool {
        self.displaced > self.elapsed / 50
    }
}

/// Repeats an operation on this thread.
pub fn alone<T>(mut operation: impl FnMut() -> T) -> impl FnMut(u64) -> Sample {
    move |times| repeated(times, &mut operation).1
}

/// Repeats an operation on two threads with a core each; the operations count together. `make`
/// gives the operation of the first (0) and of the second thread (1).
///
/// # Panics
///
/// If a thread cannot be given a core of its own.
pub fn in_pairs<T, O: FnMut() -> T>(make: impl Fn(usize) -> O + Sync) -> impl FnMut(u64) -> Sample {
    let cores = cores();
    assert!(cores.len() >= 2, "two threads need two cores");
    move |times| {
        let start = Barrier::new(2);
        let one = |thread: usize| {
            let mut own = CpuSet::new();
            own.set(cores[thread]);
            sched_setaffinity(None, &own).expect("a thread may choose among its cores");
            let mut operation = make(thread);
            start.wait();
            let (began, sample) = repeated(times / 2, &mut operation);
            (began, began + sample.elapsed, sample.displaced)
        };
        let (first, second) = thread::scope(|scope| {
            let one = &one;
            let [first, second] = [0, 1].map(|thread| scope.spawn(move || one(thread)));
            (first.join().expect("it did not panic"), second.join().expect("it did not panic"))
        });
        let elapsed = first.1.max(second.1) - first.0.min(second.0);
        Sample { elapsed, displaced: first.2.add(second.2) }
    }
}

/// The cores that this process may use.
pub fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).expect("a thread knows its cores");
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
}

#[inline]
fn repeated<T>(times: u64, operation: &mut impl FnMut() -> T) -> (Instant, Sample) {
    let before = displaced();
    let began = Instant::now();
    for _ in 0..times {
        black_box(operation());
    }
    let elapsed = began.elapsed();
    (began, Sample { elapsed, displaced: displaced().saturating_sub(before) })
}

/// How long this thread has waited for a core so far.
fn displaced() -> Duration {
    let told = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = told.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// How long it may take to get an undisturbed sample.
const PATIENCE: Duration = Duration::from_millis(60);

type Measure<'a> = Box<dyn FnMut(u64) -> Sample + 'a>;

/// Contestants that take turns.
pub struct Rounds<'a> {
    rounds: usize,
    sample: Duration,
    contestants: Vec<(String, Measure<'a>)>,
}

impl fmt::Debug for Rounds<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.contestants.iter().map(|(name, _)| name);
        formatter.debug_list().entries(names).finish()
    }
}

impl<'a> Rounds<'a> {
    /// No contestants yet; each will be measured in so many rounds, for about `sample` in each.
    pub const fn new(rounds: usize, sample: Duration) -> Self {
        Self { rounds, sample, contestants: Vec::new() }
    }

    /// Adds a contestant, which performs its operation so many times and tells what that took:
    /// see [`alone`] and [`in_pairs`].
    pub fn add(&mut self, name: impl Into<String>, measure: impl FnMut(u64) -> Sample + 'a) {
        self.contestants.push((name.into(), Box::new(measure)));
    }

    /// Measures all of them. A sample during which other work had the core is taken again, for
    /// [`PATIENCE`] at most.
    pub fn run(mut self) -> Figures {
        let sample = self.sample;
        let times: Vec<_> =
            self.contestants.iter_mut().map(|(_, measure)| calibrate(measure, sample)).collect();
        let mut figures = Figures::default();
        for round in 0..self.rounds {
            for at in order(round, self.contestants.len()) {
                let (name, measure) = &mut self.contestants[at];
                let (taken, repeated) = undisturbed(measure, times[at]);
                figures.repeated += repeated;
                figures.samples += 1;
                figures.disturbed += usize::from(taken.is_disturbed());
                let each = taken.elapsed.as_secs_f64() * 1e9 / times[at] as f64;
                figures.nanos.entry(name.clone()).or_default().push(each);
            }
        }
        figures
    }
}

/// A sample during which no other work had the core, if there is one in time, and how many were
/// thrown away for it.
fn undisturbed(measure: &mut Measure<'_>, times: u64) -> (Sample, usize) {
    let began = Instant::now();
    let mut repeated = 0;
    loop {
        let taken = measure(times);
        if !taken.is_disturbed() || began.elapsed() >= PATIENCE {
            return (taken, repeated);
        }
        repeated += 1;
    }
}

/// How many operations take about `sample`.
fn calibrate(measure: &mut Measure<'_>, sample: Duration) -> u64 {
    let mut times = 64;
    loop {
        let (taken, _) = undisturbed(measure, times);
        if taken.elapsed > sample / 8 {
            let fitting = times as f64 * sample.as_secs_f64() / taken.elapsed.as_secs_f64();
            return (fitting as u64).max(2);
        }
        times *= 4;
    }
}

/// What a run found, in nanoseconds for each operation.
#[derive(Debug, Default)]
pub struct Figures {
    nanos: BTreeMap<String, Vec<f64>>,
    samples: usize,
    repeated: usize,
    disturbed: usize,
}

impl Figures {
    /// The median of a contestant.
    ///
    /// # Panics
    ///
    /// If there is none of this name.
    pub fn nanos(&self, name: &str) -> f64 {
        median(self.of(name).iter().copied())
    }

    /// The median of a contestant, if it took part.
    pub fn find(&self, name: &str) -> Option<f64> {
        self.nanos.get(name).map(|nanos| median(nanos.iter().copied()))
    }

    /// The median over the rounds of how many times `dividend` is of `divisor`.
    ///
    /// # Panics
    ///
    /// If there is none of such a name.
    pub fn ratio(&self, dividend: &str, divisor: &str) -> f64 {
        let rounds = self.of(dividend).iter().zip(self.of(divisor));
        median(rounds.map(|(dividend, divisor)| dividend / divisor))
    }

    /// How much the rest of the machine interfered, in words.
    pub fn disturbance(&self) -> String {
        let Self { samples, repeated, disturbed, .. } = self;
        format!(
            "{samples} samples; {repeated} were taken again because other work had the core, \
             {disturbed} stayed so."
        )
    }

    fn of(&self, name: &str) -> &[f64] {
        self.nanos.get(name).unwrap_or_else(|| panic!("nobody is called {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_takes_part_in_every_round_in_changing_order() {
        let orders: Vec<_> = (0..5).map(|round| order(round, 10)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        }
        assert!(orders.iter().enumerate().all(|(at, order)| !orders[..at].contains(order)));
    }

    #[test]
    fn medians_and_ratios_are_taken_round_by_round() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        let of = |nanos: [f64; 3]| nanos.to_vec();
        let nanos = [("a", of([2.0, 40.0, 6.0])), ("b", of([1.0, 10.0, 3.0]))];
        let nanos = nanos.map(|(name, nanos)| (name.to_owned(), nanos)).into();
        let figures = Figures { nanos, ..Figures::default() };
        assert_eq!((figures.nanos("a"), figures.ratio("a", "b")), (6.0, 2.0));
    }
}
