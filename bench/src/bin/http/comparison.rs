//! Raindrop beside bare servers, one request at a time and pipelined, with the targets.

use raindrop_bench::{
    plot::{Bar, bars},
    report::Report,
};

use super::{
    figures::{Case, Figures, Pace, cpu, latency, measure, requests_per_second},
    load::Measured,
    process::{Cores, Process},
    requests::Requests,
    servers::{CONSTANT_ID, constant_ids},
    tables::{COLUMNS, mebibytes, row},
    tools::Result,
};

/// Connections of the load generator.
const CONNECTIONS: usize = 64;
/// Requests that a connection sends at once when they are pipelined.
const DEEP: usize = 16;
/// What is asked of Redis.
const INCREMENT: &str = "INCR";
/// Of `/ids`.
const BATCHES: [usize; 2] = [10, 1000];

/// Everything that is compared.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) raindrop: Process,
    pub(crate) axum: Process,
    pub(crate) hyper: Process,
    pub(crate) nginx: Option<Process>,
    pub(crate) redis: Option<Process>,
}

impl Servers {
    fn all(&self) -> impl Iterator<Item = &Process> {
        let ours = [&self.raindrop, &self.axum, &self.hyper];
        ours.into_iter().chain(&self.nginx).chain(&self.redis)
    }

    /// A case of `/id` for each server, then one of each batch.
    fn cases(&self, depth: usize) -> Vec<Case<'_>> {
        let case = |server, what: &str, requests| Case {
            server,
            what: what.to_owned(),
            requests,
            connections: CONNECTIONS,
        };
        let constant = |ids, path: &str| Requests::constant(depth, ids, path);
        let mut cases = vec![case(&self.raindrop, "/id", Requests::id(depth))];
        let bare = [&self.axum, &self.hyper].into_iter().chain(&self.nginx);
        for server in bare.clone() {
            cases.push(case(server, "/id", constant(1, CONSTANT_ID)));
        }
        if let Some(redis) = &self.redis {
            cases.push(case(redis, INCREMENT, Requests::increments(depth)));
        }
        for n in BATCHES {
            let what = format!("/ids?n={n}");
            cases.push(case(&self.raindrop, &what, Requests::many(depth, n)));
            // nginx takes no constant as long as 1000 IDs.
            for server in bare.clone().take(if n > 10 { 2 } else { 3 }) {
                cases.push(case(server, &what, constant(n, &constant_ids(n))));
            }
        }
        cases
    }
}

/// What was compared.
#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    servers: &'a Servers,
    cases: Vec<Case<'a>>,
    figures: Vec<Figures>,
    interference: String,
}

impl<'a> Comparison<'a> {
    pub(crate) fn run(servers: &'a Servers, pace: Pace, cores: Cores) -> Result<Self> {
        let mut cases = servers.cases(1);
        cases.extend(servers.cases(DEEP));
        let (figures, interference) = measure(&cases, pace, cores)?;
        Ok(Self { servers, cases, figures, interference })
    }

    /// The figures of a server.
    fn of(&self, server: &Process, what: &str, depth: usize) -> Option<&Figures> {
        let mut both = self.cases.iter().zip(&self.figures);
        let found = both.find(|(case, _)| {
            case.server.name == server.name && case.what == what && case.requests.depth == depth
        });
        found.map(|(_, figures)| figures)
    }

    pub(crate) fn report(&self, pace: Pace, report: &mut Report) -> Result<()> {
        let left_out = [("nginx", &self.servers.nginx), ("Redis", &self.servers.redis)];
        let left_out = left_out.iter().filter(|(_, server)| server.is_none());
        let left_out: String = left_out
            .map(|(name, _)| format!(" {name} could not be had and is left out."))
            .collect();
        let conditions =
            format!("{CONNECTIONS} connections. {pace} {}.{left_out}", self.interference);
        for (title, depth) in [("One request at a time", 1), ("16 requests at a time", DEEP)] {
            report.section(title, &conditions, &COLUMNS, &self.rows(depth));
        }
        let mut rows = Vec::new();
        for server in self.servers.all() {
            let memory = mebibytes(server.memory()?);
            rows.push(vec![server.name.to_owned(), server.version.clone(), memory]);
        }
        let conditions = "Resident memory after everything above.";
        report.section("Servers", conditions, &["server", "version", "MiB"], &rows);
        Ok(())
    }

    fn rows(&self, depth: usize) -> Vec<Vec<String>> {
        let both = self.cases.iter().zip(&self.figures);
        let both = both.filter(|(case, _)| case.requests.depth == depth);
        let row = |(case, figures): (&Case<'_>, &Figures)| {
            // What Redis does stands for one ID.
            let what = if case.what == INCREMENT { "/id" } else { &case.what };
            row(case, figures, self.of(&self.servers.axum, what, depth))
        };
        both.map(row).collect()
    }

    pub(crate) fn judge(&self, report: &mut Report) {
        let Servers { raindrop, axum, hyper, .. } = self.servers;
        let mut judge = |what: &str, target: Target, (path, depth), other: &Process, of: Of<'_>| {
            let both = self.of(raindrop, path, depth).zip(self.of(other, path, depth));
            match (both.and_then(|(ours, theirs)| ours.ratio(theirs, of)), target) {
                (Some(ratio), Target::AtMost(most)) => report.target_at_most(what, ratio, most),
                (Some(ratio), Target::AtLeast(least)) => report.target_at_least(what, ratio, least),
                (None, _) => report.target(what, "no figure: requests were not answered", false),
            }
        };
        let (id, batch) = (("/id", 1), ("/ids?n=1000", 1));
        let most = Target::AtMost;
        judge("/id, CPU time per request beside the axum handler", most(1.1), id, axum, &cpu);
        judge(
            "/id, pipelined throughput beside the axum handler",
            Target::AtLeast(0.9),
            ("/id", DEEP),
            axum,
            &requests_per_second,
        );
        judge("/id, p99 beside the axum handler", most(1.1), id, axum, &latency(0.99));
        judge("/id, CPU time per request beside hyper", most(1.35), id, hyper, &cpu);
        let what = "/ids?n=1000, CPU time per request beside the axum handler of that length";
        judge(what, most(1.15), batch, axum, &cpu);
    }

    /// The percentiles of `/id`, server by server.
    pub(crate) fn plot(&self) -> String {
        let percentiles = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];
        let mut drawn = Vec::new();
        for server in self.servers.all() {
            let what = if server.name == "Redis" { INCREMENT } else { "/id" };
            let Some(figures) = self.of(server, what, 1) else { continue };
            for (kind, (name, quantile)) in percentiles.into_iter().enumerate() {
                let Some(value) = figures.median(latency(quantile)) else { continue };
                drawn.push(Bar { label: format!("{}, {name}", server.name), value, kind });
            }
        }
        let title =
            format!("Latency of one ID, {CONNECTIONS} connections, one request at a time each");
        bars(&title, "µs", &percentiles.map(|(name, _)| name), &drawn)
    }
}

/// What is taken of a run.
type Of<'a> = &'a dyn Fn(&Measured) -> f64;

#[derive(Clone, Copy)]
enum Target {
    AtMost(f64),
    AtLeast(f64),
}
