//! `make bench-http`: the service beside bare servers, nginx and Redis, each on one core, with the
//! load generator on another.

mod client;
mod comparison;
mod fleet;
mod http2;
mod interference;
mod load;
mod mariadb;
mod memory;
mod nodes;
mod process;
mod requests;
mod responses;
mod results;
mod scaling;
mod servers;
mod support;

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};
use raindrop_bench::{
    report::{Part, Report},
    rounds::Pace,
};

use self::{
    comparison::Servers,
    interference::Priority,
    process::Cores,
    support::{Result, warn},
};

/// Measures Raindrop's HTTP service beside bare servers.
#[derive(Debug, Parser)]
struct Arguments {
    /// The release binary of Raindrop.
    #[arg(long, value_name = "FILE")]
    raindrop: PathBuf,
    /// The number of rounds of the comparison.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// The number of rounds by connections, batch size and codes.
    #[arg(long, default_value_t = 3)]
    growth_rounds: usize,
    /// The time for each load in a round, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 800)]
    time: u64,
    /// For how many seconds the statements at a shared store are counted.
    #[arg(long, value_name = "S", default_value_t = 60)]
    store_time: u64,
    /// Measures only these parts, with their targets.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Measure>,
    /// Draws the plots into this folder, and keeps the tables in `bench/results` if all parts are
    /// measured.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measure {
    /// Raindrop beside all other servers.
    Comparison,
    /// `/id` from 1 to 512 connections.
    Connections,
    /// `/ids` from 1 to 10 000 IDs.
    Batches,
    /// `/id` with 1 to 100 000 codes.
    Codes,
    /// Memory at rest and with 100 000 codes.
    Memory,
    /// Statements at a store that 1 to 8 nodes share.
    Nodes,
    /// The start of 100 to 500 nodes at once, and their statements.
    Fleet,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let wanted = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let mut report = Report::new(Part::Http);
    let cores = Cores::take()?;
    let _priority = Priority::raise();
    let time = Duration::from_millis(arguments.time);
    let pace = Pace { rounds: arguments.growth_rounds, time };
    let binary = &arguments.raindrop;

    let raindrop = servers::raindrop(binary, &[], cores, &[cores.server])?;
    let constants = servers::constants(&raindrop)?;
    let servers = Servers {
        raindrop,
        axum: servers::bare("axum", "bare_axum", &constants, cores)?,
        hyper: servers::bare("hyper", "bare_hyper", &constants, cores)?,
        nginx: servers::nginx(&constants, cores)?,
        redis: servers::redis(cores)?,
    };
    let Servers { raindrop, axum, .. } = &servers;
    let draw = |name: &str, plot: String| -> Result<()> {
        let Some(folder) = &arguments.plots else { return Ok(()) };
        fs::create_dir_all(folder)?;
        Ok(fs::write(folder.join(name), plot)?)
    };
    if wanted(Measure::Comparison) {
        let pace = Pace { rounds: arguments.rounds, time };
        let plot = comparison::compare(&servers, pace, cores, &mut report)?;
        draw("latency.svg", plot)?;
    }
    if wanted(Measure::Connections) {
        let pace = Pace { rounds: arguments.rounds, time };
        let plot = scaling::by_connections(raindrop, axum, pace, cores, &mut report)?;
        draw("throughput-by-connections.svg", plot)?;
    }
    if wanted(Measure::Batches) {
        // With 12 bits of sequence a claim of 10 000 waits for its third millisecond.
        let settings = [("LAYOUT__WORKER_BITS", "3")];
        let wide = servers::raindrop(binary, &settings, cores, &[cores.server])?;
        let plot = scaling::by_batch(&wide, axum, pace, cores, &mut report)?;
        draw("throughput-by-batch.svg", plot)?;
    }
    if wanted(Measure::Codes) {
        scaling::by_codes(raindrop, pace, cores, &mut report)?;
    }
    // The remaining parts run without them.
    drop(servers);

    if wanted(Measure::Memory) {
        memory::memory(binary, cores, &mut report)?;
    }
    if wanted(Measure::Nodes) {
        let time = Duration::from_secs(arguments.store_time);
        nodes::nodes(binary, cores, time, &mut report)?;
    }
    if wanted(Measure::Fleet) {
        let time = Duration::from_secs(arguments.store_time);
        fleet::fleet(binary, cores, time, &mut report)?;
    }
    Ok(report.finish(arguments.plots.is_some() && arguments.only.is_empty())?)
}
