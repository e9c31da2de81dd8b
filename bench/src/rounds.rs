//! Contestants measured in alternating rounds of one run.
//!
//! Other work on the machine and changes of the clock rate affect all contestants of a round
//! alike, so only ratios within a run mean anything.

use std::{
    fmt, fs,
    hint::black_box,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How often and for how long each contestant is measured.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The number of rounds.
    pub rounds: usize,
    /// The time for one contestant in one round.
    pub time: Duration,
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Medians of {} rounds of {} ms in changing order; ratios are medians of the ratios \
             in each round.",
            self.rounds,
            self.time.as_millis()
        )
    }
}

/// Returns the order of `count` contestants in a round. Each round begins with another one, and
/// every other round is reversed, so that no contestant always follows the same one.
pub fn order(round: usize, count: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).map(|at| (at + round * count / 5) % count.max(1)).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Returns the median.
///
/// # Panics
///
/// If there are no values.
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

/// The time of some operations of one contestant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// From the start of the first operation to the end of the last.
    pub elapsed: Duration,
    /// How long its threads waited for a core, as far as the kernel reports it.
    pub waited: Duration,
}

impl Sample {
    fn is_disturbed(&self) -> bool {
        self.waited > self.elapsed / 50
    }
}

/// Repeats an operation on this thread.
pub fn one_thread<T>(mut operation: impl FnMut() -> T) -> impl FnMut(u64) -> Sample {
    move |times| repeat(times, &mut operation).1
}

/// Repeats an operation on two threads with a core each, which count together. `make` returns the
/// operation of the first (0) and of the second thread (1).
///
/// # Panics
///
/// If a thread cannot be pinned to a core that no other thread has.
pub fn two_threads<T, O: FnMut() -> T>(
    make: impl Fn(usize) -> O + Sync,
) -> impl FnMut(u64) -> Sample {
    assert!(cores().len() >= 2, "two threads need two cores");
    threads(2, make)
}

/// Repeats an operation on several threads, which count together. `make` returns the operation of a
/// thread by its number. With more threads than cores, they are spread over the cores, and that they
/// wait for each other is no disturbance.
///
/// # Panics
///
/// If a thread cannot be pinned to a core.
pub fn threads<T, O: FnMut() -> T>(
    count: usize,
    make: impl Fn(usize) -> O + Sync,
) -> impl FnMut(u64) -> Sample {
    let cores = cores();
    move |times| {
        let start = Barrier::new(count);
        let run = |thread: usize| {
            let mut own = CpuSet::new();
            own.set(cores[thread % cores.len()]);
            sched_setaffinity(None, &own).expect("a thread may choose among its cores");
            let mut operation = make(thread);
            start.wait();
            let (began, sample) = repeat(times / count as u64, &mut operation);
            (began, began + sample.elapsed, sample.waited)
        };
        let runs: Vec<_> = thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> =
                (0..count).map(|thread| scope.spawn(move || run(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it did not panic")).collect()
        });
        let began = runs.iter().map(|(began, ..)| *began).min().expect("a thread");
        let ended = runs.iter().map(|(_, ended, _)| *ended).max().expect("a thread");
        let waited = runs.iter().map(|(.., waited)| *waited).sum();
        let waited = if count > cores.len() { Duration::ZERO } else { waited };
        Sample { elapsed: ended - began, waited }
    }
}

/// Counts each operation of `measure` as `items` operations.
pub fn per_item(items: u64, mut measure: impl FnMut(u64) -> Sample) -> impl FnMut(u64) -> Sample {
    move |times| {
        let batches = times.div_ceil(items);
        let share = times as f64 / (batches * items) as f64;
        let Sample { elapsed, waited } = measure(batches);
        Sample { elapsed: elapsed.mul_f64(share), waited: waited.mul_f64(share) }
    }
}

/// Returns the cores that this process may use.
pub fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).expect("a thread knows its cores");
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
}

#[inline]
fn repeat<T>(times: u64, operation: &mut impl FnMut() -> T) -> (Instant, Sample) {
    let before = waited();
    let began = Instant::now();
    for _ in 0..times {
        black_box(operation());
    }
    let elapsed = began.elapsed();
    (began, Sample { elapsed, waited: waited().saturating_sub(before) })
}

/// Returns how long this thread has waited for a core so far.
fn waited() -> Duration {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = schedstat.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// How long disturbed samples are retaken.
const RETAKING: Duration = Duration::from_millis(60);

type Measure<'a> = Box<dyn FnMut(u64) -> Sample + 'a>;

/// Contestants that take turns.
pub struct Rounds<'a> {
    pace: Pace,
    contestants: Vec<(String, Measure<'a>)>,
}

impl fmt::Debug for Rounds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.contestants.iter().map(|(name, _)| name)).finish()
    }
}

impl<'a> Rounds<'a> {
    /// Starts without contestants.
    pub const fn new(pace: Pace) -> Self {
        Self { pace, contestants: Vec::new() }
    }

    /// Adds a contestant. `measure` repeats its operation the given number of times and returns the
    /// time; see [`one_thread`] and [`two_threads`].
    pub fn add(&mut self, name: impl Into<String>, measure: impl FnMut(u64) -> Sample + 'a) {
        self.contestants.push((name.into(), Box::new(measure)));
    }

    /// Measures all contestants. A sample during which other work used the core is retaken, for
    /// [`RETAKING`] at most.
    pub fn run(mut self) -> Figures {
        let Pace { rounds, time } = self.pace;
        let times: Vec<_> =
            self.contestants.iter_mut().map(|(_, measure)| calibrate(measure, time)).collect();
        let names = self.contestants.iter().map(|(name, _)| name.clone());
        let mut figures = Figures::new(self.pace, names);
        for round in 0..rounds {
            for at in order(round, self.contestants.len()) {
                let (sample, retaken) = undisturbed(&mut self.contestants[at].1, times[at]);
                figures.samples += 1;
                figures.retaken += retaken;
                figures.disturbed += usize::from(sample.is_disturbed());
                let each = sample.elapsed.as_secs_f64() * 1e9 / times[at] as f64;
                figures.nanos[at].1.push(each);
            }
        }
        figures
    }
}

/// Takes samples until one is undisturbed or [`RETAKING`] has passed; returns the last, and how
/// many were discarded.
fn undisturbed(measure: &mut Measure<'_>, times: u64) -> (Sample, usize) {
    let began = Instant::now();
    let mut retaken = 0;
    loop {
        let sample = measure(times);
        if !sample.is_disturbed() || began.elapsed() >= RETAKING {
            return (sample, retaken);
        }
        retaken += 1;
    }
}

/// Returns how many operations take about `time`.
fn calibrate(measure: &mut Measure<'_>, time: Duration) -> u64 {
    let mut times = 64;
    loop {
        let (sample, _) = undisturbed(measure, times);
        if sample.elapsed > time / 8 {
            let fitting = times as f64 * time.as_secs_f64() / sample.elapsed.as_secs_f64();
            return (fitting as u64).max(2);
        }
        times *= 4;
    }
}

/// The results of a run, in nanoseconds per operation.
#[derive(Debug)]
pub struct Figures {
    pace: Pace,
    /// The name of each contestant, with one value for each round.
    nanos: Vec<(String, Vec<f64>)>,
    samples: usize,
    retaken: usize,
    disturbed: usize,
}

impl Figures {
    fn new(pace: Pace, names: impl Iterator<Item = String>) -> Self {
        let nanos = names.map(|name| (name, Vec::new())).collect();
        Self { pace, nanos, samples: 0, retaken: 0, disturbed: 0 }
    }

    /// Returns the names of the contestants in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nanos.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the median of a contestant.
    ///
    /// # Panics
    ///
    /// If it did not take part.
    pub fn nanos(&self, name: &str) -> f64 {
        self.find(name).unwrap_or_else(|| panic!("{name:?} did not take part"))
    }

    /// Returns the median of a contestant, if it took part.
    pub fn find(&self, name: &str) -> Option<f64> {
        self.of(name).map(|nanos| median(nanos.iter().copied()))
    }

    /// Returns the median, over the rounds, of the ratio of one contestant to another, if both
    /// took part.
    pub fn ratio(&self, dividend: &str, divisor: &str) -> Option<f64> {
        let rounds = self.of(dividend)?.iter().zip(self.of(divisor)?);
        Some(median(rounds.map(|(dividend, divisor)| dividend / divisor)))
    }

    /// Describes the conditions of the measurement, and how much other work of the machine
    /// interfered.
    pub fn conditions(&self) -> String {
        let Self { pace, samples, retaken, disturbed, .. } = self;
        format!(
            "{pace} {samples} samples; {retaken} were retaken because other work used the core, \
             {disturbed} remained disturbed."
        )
    }

    fn of(&self, name: &str) -> Option<&[f64]> {
        let (_, nanos) = self.nanos.iter().find(|(contestant, _)| contestant == name)?;
        Some(nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_have_all_contestants_in_changing_order() {
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
        let pace = Pace { rounds: 3, time: Duration::ZERO };
        let mut figures = Figures::new(pace, ["a", "b"].map(str::to_owned).into_iter());
        figures.nanos[0].1 = vec![2.0, 40.0, 6.0];
        figures.nanos[1].1 = vec![1.0, 10.0, 3.0];
        assert_eq!((figures.nanos("a"), figures.ratio("a", "b")), (6.0, Some(2.0)));
        assert_eq!(figures.ratio("a", "c"), None);
    }
}
