//! `make bench`: the generator in this process, beside the limits of the machine and its peers.
//!
//! `--plots FOLDER` also draws the results, and keeps the tables in `bench/results`.

mod contestants;
mod crowd;
mod embedded;
mod json_array;
mod leased;
mod machine;
mod peers;
mod plots;
mod scaling;
mod snowdon_layouts;
mod tables;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use raindrop_bench::{
    report::{Part, Report},
    rounds::{Figures, Pace, Rounds},
};

use self::{
    contestants::{Contestant, Measure},
    embedded::Embedded,
    scaling::Scaling,
};

/// All results.
struct Found {
    contestants: Vec<Contestant>,
    one_thread: Figures,
    two_threads: Figures,
    one_thread_12: Figures,
    two_threads_12: Figures,
    crowd: Figures,
    json_arrays: Figures,
    codes: Scaling,
    batches: Scaling,
    /// Of [`scaling::MOST_CODES`] codes, in bytes.
    memory: u64,
}

/// Samples are short, since other work seldom leaves a core alone for long.
const ONE_THREAD: Pace = Pace { rounds: 31, time: Duration::from_millis(5) };
/// Two threads need both cores at the same time, and their speed varies more.
const TWO_THREADS: Pace = Pace { rounds: 61, time: Duration::from_millis(2) };
/// Where the clock limits there is little to disturb, but a sample has to span many ticks.
const TWELVE_BITS: Pace = Pace { rounds: 5, time: Duration::from_millis(50) };

fn main() -> ExitCode {
    let plots = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => None,
        [flag, folder] if flag == "--plots" => Some(PathBuf::from(folder)),
        _ => return failed("usage: in_process [--plots FOLDER]"),
    };
    let found = measure();
    let mut report = Report::new(Part::InProcess);
    tables::write(&mut report, &found);
    let written = report.finish(plots.is_some()).and_then(|()| match plots {
        Some(folder) => plots::draw(&folder, &found),
        None => Ok(()),
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

#[expect(clippy::print_stderr, reason = "errors go to standard error")]
fn failed(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}

fn measure() -> Found {
    let embedded = Embedded::new();
    // First, while the allocator has no freed memory to reuse.
    let memory = scaling::memory_of_codes(&embedded);
    let mut contestants = Vec::from(machine::contestants(&embedded));
    contestants.extend(embedded.contestants());
    contestants.extend(peers::contestants());
    let mut run = |pace, measure: fn(&mut Contestant) -> &mut Option<Measure>| {
        let mut rounds = Rounds::new(pace);
        for contestant in &mut contestants {
            if let Some(measure) = measure(contestant).take() {
                rounds.add(contestant.name.clone(), measure);
            }
        }
        rounds.run()
    };
    Found {
        one_thread: run(ONE_THREAD, |contestant| &mut contestant.unlimited.one),
        two_threads: run(TWO_THREADS, |contestant| &mut contestant.unlimited.two),
        one_thread_12: run(TWELVE_BITS, |contestant| &mut contestant.twelve_bits.one),
        two_threads_12: run(TWELVE_BITS, |contestant| &mut contestant.twelve_bits.two),
        crowd: crowd::measure(&embedded),
        json_arrays: json_array::measure(&embedded, ONE_THREAD),
        codes: scaling::by_codes(&embedded, ONE_THREAD),
        batches: scaling::by_batch(&embedded, ONE_THREAD),
        memory,
        contestants,
    }
}
