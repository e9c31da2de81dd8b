//! Loads measured in alternating rounds, as rows of a table and lines of a plot.

use raindrop_bench::{
    number::{grouped, significant},
    plot::Line,
    rounds::{Pace, median, order},
};

use super::{
    interference::BusyTime,
    load::{Load, Measured},
    process::{Cores, Process},
    responses::Protocol,
    support::{Result, warn},
};

/// The columns of [`Results::rows`].
pub(crate) const COLUMNS: [&str; 14] = [
    "server",
    "request",
    "requests/s",
    "IDs/s",
    "p50 µs",
    "p99 µs",
    "p999 µs",
    "CPU µs/request",
    "server busy",
    "generator busy",
    "requests/s ÷ axum",
    "CPU ÷ axum",
    "p99 ÷ axum",
    "failed",
];

/// A load, and its results in each round.
#[derive(Debug)]
pub(crate) struct Figures<'a> {
    pub(crate) load: Load<'a>,
    rounds: Vec<Measured>,
}

impl Figures<'_> {
    /// Returns the median over the rounds, if all requests succeeded.
    pub(crate) fn median(&self, of: impl Fn(&Measured) -> f64) -> Option<f64> {
        self.are_sound().then(|| median(self.rounds.iter().map(of)))
    }

    /// Returns the median of the ratios to another load in the same round, if all requests of both
    /// succeeded.
    fn ratio(&self, other: &Self, of: impl Fn(&Measured) -> f64) -> Option<f64> {
        let pairs = self.rounds.iter().zip(&other.rounds);
        (self.are_sound() && other.are_sound())
            .then(|| median(pairs.map(|(one, other)| of(one) / of(other))))
    }

    pub(crate) fn ids_per_second(&self) -> Option<f64> {
        Some(self.median(Measured::requests_per_second)? * self.load.requests.ids as f64)
    }

    fn are_sound(&self) -> bool {
        self.rounds.iter().all(Measured::is_sound)
    }

    /// Returns the row of [`COLUMNS`].
    fn row(&self, axum: Option<&Self>) -> Vec<String> {
        type Of = fn(&Measured) -> f64;
        let Load { server, what, requests, .. } = &self.load;
        let what = if requests.protocol == Protocol::Redis { "INCR" } else { what };
        let median = |of: Of, format: fn(f64) -> String| or_dash(self.median(of), format);
        let ratio = |of: Of| or_dash(axum.and_then(|axum| self.ratio(axum, of)), significant);
        let percent = |share| format!("{:.0} %", share * 100.0);
        vec![
            server.name.to_owned(),
            what.to_owned(),
            median(Measured::requests_per_second, grouped),
            or_dash(self.ids_per_second(), grouped),
            median(|measured| measured.latency(0.5), grouped),
            median(|measured| measured.latency(0.99), grouped),
            median(|measured| measured.latency(0.999), grouped),
            median(Measured::cpu_time, significant),
            median(Measured::server_busy, percent),
            median(Measured::generator_busy, percent),
            ratio(Measured::requests_per_second),
            ratio(Measured::cpu_time),
            ratio(|measured| measured.latency(0.99)),
            self.rounds.iter().map(|round| round.failures).sum::<u64>().to_string(),
        ]
    }
}

fn or_dash(figure: Option<f64>, format: impl Fn(f64) -> String) -> String {
    figure.map_or_else(|| "–".to_owned(), format)
}

/// The figures of several loads, measured in the same rounds.
#[derive(Debug)]
pub(crate) struct Results<'a> {
    figures: Vec<Figures<'a>>,
    /// How they were measured.
    pub(crate) conditions: String,
}

impl<'a> Results<'a> {
    /// Measures every load once in each round.
    pub(crate) fn measure(loads: Vec<Load<'a>>, pace: Pace, cores: Cores) -> Result<Self> {
        let mut servers: Vec<&Process> = loads.iter().map(|load| load.server).collect();
        servers.sort_by_key(|server| server.address);
        servers.dedup_by_key(|server| server.address);
        let mut figures: Vec<_> =
            loads.into_iter().map(|load| Figures { load, rounds: Vec::new() }).collect();
        let before = BusyTime::so_far(cores, &servers)?;
        for round in 0..pace.rounds {
            for at in order(round, figures.len()) {
                let Figures { load, rounds } = &mut figures[at];
                let measured = load.run(pace.time / 5, pace.time)?;
                if !measured.is_sound() {
                    let Load { server, what, .. } = load;
                    warn(&format!(
                        "{}, {what}: {} requests failed",
                        server.name, measured.failures
                    ));
                }
                rounds.push(measured);
            }
        }
        let interference = BusyTime::so_far(cores, &servers)?.interference(before);
        Ok(Self { figures, conditions: format!("{pace} {interference}") })
    }

    /// Returns the figures of a server for `what`, with this many requests at a time.
    pub(crate) fn find(&self, server: &str, what: &str, depth: usize) -> Option<&Figures<'a>> {
        self.figures.iter().find(|Figures { load, .. }| {
            load.server.name == server && load.what == what && load.requests.depth == depth
        })
    }

    /// Returns the median of the ratios of Raindrop's load `ours` to another server's load in the same
    /// round, if both were measured and all their requests succeeded.
    pub(crate) fn ratio(
        &self,
        ours: &str,
        (server, theirs): (&str, &str),
        depth: usize,
        of: impl Fn(&Measured) -> f64,
    ) -> Option<f64> {
        let theirs = self.find(server, theirs, depth)?;
        self.find("Raindrop", ours, depth)?.ratio(theirs, of)
    }

    /// Returns the rows of the loads with this many requests at a time. Ratios are to axum under
    /// the same load.
    pub(crate) fn rows(&self, depth: usize) -> Vec<Vec<String>> {
        let figures = self.figures.iter().filter(|each| each.load.requests.depth == depth);
        let row = |each: &Figures<'_>| each.row(self.find("axum", &each.load.what, depth));
        figures.map(row).collect()
    }

    /// Returns a line of points for each of these servers.
    pub(crate) fn lines(
        &self,
        servers: &[&Process],
        point: impl Fn(&Figures<'_>) -> Option<(f64, f64)>,
    ) -> Vec<Line> {
        let line = |server: &&Process| {
            let figures = self.figures.iter().filter(|each| each.load.server.name == server.name);
            Line { name: server.name.to_owned(), points: figures.filter_map(&point).collect() }
        };
        servers.iter().map(line).collect()
    }
}
