//! `make bench`: the generator in this process, beside the limits of the machine and its peers.
//!
//! `--plots FOLDER` also draws what was found, and puts the tables beside the plots.

mod growth;
mod leased;
mod limits;
mod ours;
mod peers;
mod plots;
mod snowdon_layouts;
mod tables;
mod writing;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use raindrop_bench::{
    report::{Part, Report},
    rounds::{Figures, Rounds},
};

use self::{ours::Ours, peers::Peer};

/// Everything that was measured.
struct Found {
    peers: Vec<Peer>,
    alone: Figures,
    paired: Figures,
    capped: Figures,
    capped_paired: Figures,
    writing: Figures,
    codes: Figures,
    batches: Figures,
    /// What 100 000 codes take, in bytes.
    memory: u64,
}

/// Short samples: other work seldom leaves a core alone for long.
const ALONE: Pace = Pace { rounds: 31, sample: Duration::from_millis(5) };
/// Two threads need both cores at a time, and are as quick as chance has it.
const PAIRED: Pace = Pace { rounds: 61, sample: Duration::from_millis(2) };
/// Where the clock limits there is little to disturb, but a sample is to span many ticks.
const CAPPED: Pace = Pace { rounds: 5, sample: Duration::from_millis(50) };

/// How often and how long a contestant is measured.
#[derive(Clone, Copy)]
struct Pace {
    rounds: usize,
    sample: Duration,
}

impl Pace {
    fn rounds<'a>(self) -> Rounds<'a> {
        Rounds::new(self.rounds, self.sample)
    }
}

fn main() -> ExitCode {
    let plots = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => None,
        [flag, folder] if flag == "--plots" => Some(PathBuf::from(folder)),
        _ => return failed("usage: in_process [--plots FOLDER]"),
    };
    let found = measure();
    let mut report = Report::new(Part::InProcess);
    if let Some(folder) = &plots {
        report.copy_into(folder);
    }
    tables::write(&mut report, &found);
    let written = report.finish().and_then(|()| match plots {
        Some(folder) => plots::draw(&folder, &found),
        None => Ok(()),
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

#[expect(clippy::print_stderr, reason = "a command tells what failed")]
fn failed(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}

fn measure() -> Found {
    let ours = Ours::new();
    // First, while the allocator has nothing that it could use again.
    let memory = growth::memory_of_codes(&ours);
    let mut peers = peers::all();

    let mut alone = ALONE.rounds();
    limits::add_alone(&mut alone, &ours);
    ours.add_alone(&mut alone);
    add(&mut alone, &mut peers, |peer| peer.unthrottled.take());

    let mut paired = PAIRED.rounds();
    limits::add_paired(&mut paired, &ours);
    ours.add_paired(&mut paired);
    add(&mut paired, &mut peers, |peer| peer.unthrottled_paired.take());

    let mut capped = CAPPED.rounds();
    ours.add_capped(&mut capped);
    add(&mut capped, &mut peers, |peer| peer.capped.take());

    let mut capped_paired = CAPPED.rounds();
    ours.add_capped_paired(&mut capped_paired);
    add(&mut capped_paired, &mut peers, |peer| peer.capped_paired.take());

    Found {
        alone: alone.run(),
        paired: paired.run(),
        capped: capped.run(),
        capped_paired: capped_paired.run(),
        writing: writing::measure(&ours, ALONE.rounds()),
        codes: growth::by_codes(&ours, ALONE.rounds()),
        batches: growth::by_batch(&ours, ALONE.rounds()),
        peers,
        memory,
    }
}

fn add(
    rounds: &mut Rounds<'_>,
    peers: &mut [Peer],
    mut take: impl FnMut(&mut Peer) -> Option<peers::Measure>,
) {
    for peer in peers {
        if let Some(measure) = take(peer) {
            rounds.add(peer.name.clone(), measure);
        }
    }
}
