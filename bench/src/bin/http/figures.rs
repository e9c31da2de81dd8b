//! Loads measured in alternating rounds, and the figures of each.

use std::{fmt, time::Duration};

use raindrop_bench::rounds::{median, order};

use super::{
    interference::Worked,
    load::{Load, Measured},
    process::{Cores, Process},
    requests::Requests,
    tools::{Result, warn},
};

/// How long things are measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, time } = self;
        write!(
            f,
            "Medians over rounds of {:.1} s ({rounds} of them), whose order changes; ratios are \
             medians of the ratios within a round.",
            time.as_secs_f64()
        )
    }
}

/// One load of a table.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) server: &'a Process,
    /// What is asked for, in words.
    pub(crate) what: String,
    pub(crate) requests: Requests,
    pub(crate) connections: usize,
}

/// What a case showed: one entry for each round.
#[derive(Debug)]
pub(crate) struct Figures {
    rounds: Vec<Measured>,
    ids: usize,
}

/// Measures every case once in each round, and tells in words how much others interfered.
pub(crate) fn measure(
    cases: &[Case<'_>],
    pace: Pace,
    cores: Cores,
) -> Result<(Vec<Figures>, String)> {
    let mut figures: Vec<Figures> =
        cases.iter().map(|case| Figures { rounds: Vec::new(), ids: case.requests.ids }).collect();
    let mut servers: Vec<&Process> = cases.iter().map(|case| case.server).collect();
    servers.sort_by_key(|server| server.address);
    servers.dedup_by_key(|server| server.address);
    let before = Worked::so_far(cores, &servers)?;
    for round in 0..pace.rounds {
        for at in order(round, cases.len()) {
            let Case { server, what, requests, connections } = &cases[at];
            let load = Load { server, requests, connections: *connections };
            let measured = load.run(pace.time / 5, pace.time)?;
            let (name, failures, answers) = (server.name, measured.failures, measured.answers);
            if !measured.is_sound() {
                warn(&format!("{name}, {what}: {failures} requests failed, {answers} answers"));
            }
            figures[at].rounds.push(measured);
        }
    }
    Ok((figures, Worked::so_far(cores, &servers)?.interference(before)))
}

impl Figures {
    /// The median over the rounds; none when a request failed.
    pub(crate) fn median(&self, of: impl Fn(&Measured) -> f64) -> Option<f64> {
        self.are_sound().then(|| median(self.rounds.iter().map(of)))
    }

    /// The median over the rounds of the ratio to another case in the same round.
    pub(crate) fn ratio(&self, other: &Self, of: impl Fn(&Measured) -> f64) -> Option<f64> {
        let pairs = self.rounds.iter().zip(&other.rounds);
        (self.are_sound() && other.are_sound())
            .then(|| median(pairs.map(|(one, other)| of(one) / of(other))))
    }

    fn are_sound(&self) -> bool {
        self.rounds.iter().all(Measured::is_sound)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.rounds.iter().map(|round| round.failures).sum()
    }

    pub(crate) fn ids_per_second(&self) -> Option<f64> {
        self.median(requests_per_second).map(|requests| requests * self.ids as f64)
    }
}

pub(crate) fn requests_per_second(measured: &Measured) -> f64 {
    measured.answers as f64 / measured.time.as_secs_f64()
}

/// Microseconds of the server's processor time for each answer.
pub(crate) fn cpu(measured: &Measured) -> f64 {
    measured.server.as_secs_f64() * 1e6 / measured.answers as f64
}

/// The part of the time that the server was running.
pub(crate) fn server_busy(measured: &Measured) -> f64 {
    measured.server.as_secs_f64() / measured.time.as_secs_f64()
}

/// The part of the time that the load generator had something to do.
pub(crate) fn generator_busy(measured: &Measured) -> f64 {
    1.0 - measured.idle.as_secs_f64() / measured.time.as_secs_f64()
}

/// A quantile of the latency in microseconds.
pub(crate) fn latency(quantile: f64) -> impl Fn(&Measured) -> f64 {
    move |measured| measured.latency.value_at_quantile(quantile) as f64 / 1e3
}
