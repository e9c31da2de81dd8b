//! How throughput and cost grow with connections, batches and codes.

use raindrop_bench::{
    plot::{Axis, Line, lines},
    report::Report,
};

use super::{
    comparison::Servers,
    figures::{Case, Figures, Pace, measure, requests_per_second},
    process::{Cores, Process},
    requests::Requests,
    servers::{BATCHES, CONSTANT_ID, constant_ids},
    tables::{COLUMNS, row},
    tools::Result,
};

const CONNECTIONS: [usize; 4] = [1, 8, 64, 512];
const CODES: [usize; 4] = [1, 10, 1000, 100_000];

/// Raindrop and the bare axum handler, at growing numbers of something.
#[derive(Debug)]
pub(crate) struct Growth<'a> {
    title: &'static str,
    at: Vec<usize>,
    /// Raindrop and the handler in turn, or Raindrop alone.
    cases: Vec<Case<'a>>,
    figures: Vec<Figures>,
    conditions: String,
}

impl<'a> Growth<'a> {
    pub(crate) fn by_connections(servers: &'a Servers, pace: Pace, cores: Cores) -> Result<Self> {
        let cases = CONNECTIONS.into_iter().flat_map(|connections| {
            let what = format!("/id, connections: {connections}");
            let constant = Requests::constant(1, 1, CONSTANT_ID);
            [(&servers.raindrop, Requests::id(1)), (&servers.axum, constant)].map(
                |(server, requests)| Case { server, what: what.clone(), requests, connections },
            )
        });
        Self::run("By connections", &CONNECTIONS, cases.collect(), "", pace, cores)
    }

    /// `wide` has so long a sequence that no batch waits for a tick.
    pub(crate) fn by_batch(
        wide: &'a Process,
        axum: &'a Process,
        pace: Pace,
        cores: Cores,
    ) -> Result<Self> {
        let cases = BATCHES.into_iter().flat_map(|n| {
            let what = format!("/ids?n={n}");
            let constant = Requests::constant(1, n, &constant_ids(n));
            [(wide, Requests::many(1, n)), (axum, constant)].map(|(server, requests)| Case {
                server,
                what: what.clone(),
                requests,
                connections: 64,
            })
        });
        let words = "64 connections; Raindrop has 18 bits of sequence; the handler's IDs/s are those that its bytes could hold.";
        Self::run("By batch size", &BATCHES, cases.collect(), words, pace, cores)
    }

    pub(crate) fn by_codes(servers: &'a Servers, pace: Pace, cores: Cores) -> Result<Self> {
        let cases = CODES.into_iter().map(|codes| {
            let what = format!("/id, codes: {codes}");
            let requests = Requests::one(16, codes);
            Case { server: &servers.raindrop, what, requests, connections: 64 }
        });
        let words = "64 connections, 16 requests at a time, codes in turn.";
        Self::run("By codes", &CODES, cases.collect(), words, pace, cores)
    }

    fn run(
        title: &'static str,
        at: &[usize],
        cases: Vec<Case<'a>>,
        words: &str,
        pace: Pace,
        cores: Cores,
    ) -> Result<Self> {
        let (figures, interference) = measure(&cases, pace, cores)?;
        let conditions = format!("{words} {pace} {interference}.");
        let conditions = conditions.trim_start().to_owned();
        Ok(Self { title, at: at.to_vec(), cases, figures, conditions })
    }

    /// Beside the handler at the same place.
    pub(crate) fn report(&self, report: &mut Report) {
        let each = self.cases.len() / self.at.len();
        let rows = self.cases.iter().zip(&self.figures).enumerate().map(|(at, (case, figures))| {
            let axum = (each == 2).then(|| &self.figures[at / 2 * 2 + 1]);
            row(case, figures, axum)
        });
        report.section(self.title, &self.conditions, &COLUMNS, &rows.collect::<Vec<_>>());
    }

    /// Requests a second.
    pub(crate) fn plot_requests(&self) -> String {
        let y = Axis::Linear("thousand requests/s");
        let drawn = self.lines(|figures| Some(figures.median(requests_per_second)? / 1e3));
        lines("Throughput of /id by connections, one core", "connections", y, &drawn)
    }

    /// IDs a second.
    pub(crate) fn plot_ids(&self) -> String {
        let y = Axis::Logarithmic("million IDs/s");
        let drawn = self.lines(|figures| Some(figures.ids_per_second()? / 1e6));
        lines("Throughput of /ids by batch size, one core", "n", y, &drawn)
    }

    fn lines(&self, value: impl Fn(&Figures) -> Option<f64>) -> Vec<Line> {
        let line = |which: usize| {
            let places = self.at.iter().zip(self.figures.iter().skip(which).step_by(2));
            let points = places.filter_map(|(at, figures)| Some((*at as f64, value(figures)?)));
            Line { name: self.cases[which].server.name.to_owned(), points: points.collect() }
        };
        [0, 1].map(line).into()
    }
}
