//! `make bench-http`: the service beside bare servers and other sources of numbers, each on one
//! core, the load generator on another.

mod answer;
mod client;
mod comparison;
mod figures;
mod growth;
mod interference;
mod load;
mod mariadb;
mod memory;
mod nodes;
mod process;
mod requests;
mod servers;
mod tables;
mod tools;

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};
use raindrop_bench::report::{Part, Report};

use comparison::{Comparison, Servers};
use figures::Pace;
use growth::Growth;
use interference::Priority;
use process::Cores;
use servers::Lengths;
use tools::{Result, warn};

/// Raindrop's HTTP service beside bare servers.
#[derive(Debug, Parser)]
struct Arguments {
    /// Raindrop, built for release.
    #[arg(long, value_name = "FILE")]
    raindrop: PathBuf,
    /// How often everything is compared.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// How often what grows is measured.
    #[arg(long, default_value_t = 3)]
    growth_rounds: usize,
    /// For how many milliseconds a server is measured in a round.
    #[arg(long, value_name = "MS", default_value_t = 800)]
    time: u64,
    /// For how many seconds the statements that a shared store gets are counted.
    #[arg(long, value_name = "S", default_value_t = 60)]
    store_time: u64,
    /// Only these parts, and none of the targets of others.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Measure>,
    /// The folder to draw plots into, and to put the tables into if they are all measured.
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
    if let Some(folder) = &arguments.plots
        && arguments.only.is_empty()
    {
        report.copy_into(folder);
    }
    let cores = Cores::take()?;
    let _priority = Priority::raise();
    let time = Duration::from_millis(arguments.time);
    let pace = Pace { rounds: arguments.rounds, time };
    let growth_pace = Pace { rounds: arguments.growth_rounds, time };

    let raindrop = servers::raindrop(&arguments.raindrop, &[], cores, &[cores.server])?;
    let lengths = Lengths::of(&raindrop)?;
    let servers = Servers {
        raindrop,
        axum: servers::bare("axum", "bare_axum", &lengths, cores)?,
        hyper: servers::bare("hyper", "bare_hyper", &lengths, cores)?,
        nginx: servers::nginx(&lengths, cores)?,
        redis: servers::redis(cores)?,
    };
    let plot = |name: &str, drawing: String| -> Result<()> {
        let Some(folder) = &arguments.plots else { return Ok(()) };
        fs::create_dir_all(folder)?;
        Ok(fs::write(folder.join(name), drawing)?)
    };
    if wanted(Measure::Comparison) {
        let comparison = Comparison::run(&servers, pace, cores)?;
        comparison.report(pace, &mut report)?;
        comparison.judge(&mut report);
        plot("latency.svg", comparison.plot())?;
    }
    if wanted(Measure::Connections) {
        let growth = Growth::by_connections(&servers, growth_pace, cores)?;
        growth.report(&mut report);
        plot("throughput-by-connections.svg", growth.plot_requests())?;
    }
    if wanted(Measure::Batches) {
        // With 12 bits of sequence a claim of 10 000 waits for its third millisecond.
        let settings = [("LAYOUT__WORKER_BITS", "3")];
        let wide = servers::raindrop(&arguments.raindrop, &settings, cores, &[cores.server])?;
        let growth = Growth::by_batch(&wide, &servers.axum, growth_pace, cores)?;
        growth.report(&mut report);
        plot("throughput-by-batch.svg", growth.plot_ids())?;
    }
    if wanted(Measure::Codes) {
        Growth::by_codes(&servers, growth_pace, cores)?.report(&mut report);
    }
    // The rest has the machine for itself.
    drop(servers);

    if wanted(Measure::Memory) {
        memory::memory(&arguments.raindrop, cores, &mut report)?;
    }
    if wanted(Measure::Nodes) {
        let time = Duration::from_secs(arguments.store_time);
        nodes::nodes(&arguments.raindrop, cores, time, &mut report)?;
    }
    Ok(report.finish()?)
}
