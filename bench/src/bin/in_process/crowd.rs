//! More threads than cores on one code.

use std::time::Duration;

use raindrop_bench::{
    number::significant,
    report::{Limit::AtLeast, Report},
    rounds::{Figures, Pace, Rounds, threads},
};

use crate::embedded::{Embedded, by_handle, by_name};

const THREADS: [usize; 3] = [2, 4, 8];
/// A sample has to span many turns of the scheduler.
const PACE: Pace = Pace { rounds: 11, time: Duration::from_millis(60) };

/// A way to issue, whose name has the number of threads.
type Name = fn(usize) -> String;

fn handles(threads: usize) -> String {
    format!("a handle in each of {threads} threads")
}

fn names(threads: usize) -> String {
    format!("by name in {threads} threads")
}

/// Measures threads that share one code, with the cached clock.
pub(crate) fn measure(embedded: &Embedded) -> Figures {
    let cached = embedded.cached;
    let mut rounds = Rounds::new(PACE);
    for count in THREADS {
        rounds.add(handles(count), threads(count, move |_| by_handle(cached, "crowd")));
        rounds.add(names(count), threads(count, move |_| move || by_name(cached, "crowd")));
    }
    rounds.run()
}

/// Writes the table and the targets.
pub(crate) fn write(report: &mut Report, figures: &Figures) {
    let ways: [Name; 2] = [handles, names];
    let row = |name: Name, count| {
        let (name, two) = (name(count), name(2));
        let throughput = figures.ratio(&two, &name)?;
        let nanos = significant(figures.nanos(&name));
        Some(vec![name, nanos, format!("{}x", significant(throughput))])
    };
    let rows: Vec<_> = ways
        .into_iter()
        .flat_map(|name| THREADS.into_iter().filter_map(move |count| row(name, count)))
        .collect();
    let conditions = format!(
        "All threads share two cores and count together; cached clock. {}",
        figures.conditions()
    );
    let head = ["operation", "ns", "throughput ÷ two threads"];
    report.section("Many threads on one code", &conditions, &head, &rows);
    for name in ways {
        for count in [4, 8] {
            let throughput = figures.ratio(&name(2), &name(count));
            let what = format!("{}: throughput ÷ two threads", name(count));
            report.target(&what, throughput, AtLeast(0.9), "x");
        }
    }
}
