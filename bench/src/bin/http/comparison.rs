//! Raindrop beside bare servers, one request at a time and pipelined, with the targets.

use raindrop_bench::{
    machine::mebibytes,
    number::significant,
    plot::{Bar, bars},
    report::{Limit::AtMost, Report},
    rounds::Pace,
};

use super::{
    load::{Load, Measured},
    process::{Cores, Process},
    requests::Requests,
    results::{COLUMNS, Results},
    servers::{CONSTANT_ID, constant_ids},
    support::Result,
};

const CONNECTIONS: usize = 64;
/// The requests that a connection sends at once if they are pipelined.
const PIPELINED: usize = 16;
/// `/id` over HTTP/2; a connection has one stream for each request of a batch.
const OVER_HTTP2: &str = "/id over HTTP/2";
/// The compared batch sizes of `/ids`.
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

    /// Returns a load of `/id` for each server, then loads of each batch size.
    fn loads(&self, depth: usize) -> Vec<Load<'_>> {
        let load = |server, what: &str, requests| {
            let what = what.to_owned();
            Load { server, what, requests, connections: CONNECTIONS }
        };
        let constant = |ids, path: &str| Requests::constant(depth, ids, path);
        let mut loads = vec![load(&self.raindrop, "/id", Requests::id(depth))];
        let bare = [&self.axum, &self.hyper].into_iter().chain(&self.nginx);
        loads.extend(bare.clone().map(|server| load(server, "/id", constant(1, CONSTANT_ID))));
        // A Redis counter stands for one ID.
        let redis = self.redis.iter();
        loads.extend(redis.map(|redis| load(redis, "/id", Requests::increments(depth))));
        let over_http2 = Requests::over_http2(depth, 1, |_| CONSTANT_ID.to_owned());
        loads.push(load(&self.raindrop, OVER_HTTP2, Requests::id_over_http2(depth)));
        loads.push(load(&self.axum, OVER_HTTP2, over_http2));
        for n in BATCHES {
            let what = format!("/ids?n={n}");
            loads.push(load(&self.raindrop, &what, Requests::many(depth, n)));
            // nginx takes no constant as long as 1000 IDs.
            for server in bare.clone().take(if n > 10 { 2 } else { 3 }) {
                loads.push(load(server, &what, constant(n, &constant_ids(n))));
            }
        }
        loads
    }
}

/// Compares all servers, and returns the plot.
pub(crate) fn compare(
    servers: &Servers,
    pace: Pace,
    cores: Cores,
    report: &mut Report,
) -> Result<String> {
    let loads = [1, PIPELINED].map(|depth| servers.loads(depth));
    let results = Results::measure(loads.into_iter().flatten().collect(), pace, cores)?;
    let missing = [("nginx", &servers.nginx), ("Redis", &servers.redis)];
    let missing = missing.iter().filter(|(_, server)| server.is_none());
    let missing: String = missing.map(|(name, _)| format!(" Without {name}: not found.")).collect();
    let conditions = format!("{CONNECTIONS} connections. {}{missing}", results.conditions);
    for (title, depth) in [("One request at a time", 1), ("16 requests at a time", PIPELINED)] {
        report.section(title, &conditions, &COLUMNS, &results.rows(depth));
    }
    let row = |server: &Process| {
        let memory = significant(mebibytes(server.memory()?));
        Ok(vec![server.name.to_owned(), server.version.clone(), memory])
    };
    let rows = servers.all().map(row).collect::<Result<Vec<_>>>()?;
    let conditions = "Resident memory after all of the above.";
    report.section("Servers", conditions, &["server", "version", "MiB"], &rows);
    targets(&results, report);
    Ok(plot(servers, &results))
}

fn targets(results: &Results<'_>, report: &mut Report) {
    type Of = fn(&Measured) -> f64;
    let cpu: (&str, Of) = ("CPU time per request", Measured::cpu_time);
    let p99: (&str, Of) = ("p99", |measured| measured.latency(0.99));
    for ((name, of), what) in [(cpu, "/id"), (p99, "/id"), (cpu, "/ids?n=1000")] {
        let ratio = results.ratio(what, ("axum", what), 1, of);
        report.target(&format!("{what}: {name} ÷ axum"), ratio, AtMost(1.25), "x");
    }
}

/// Draws the percentiles of `/id`, server by server.
fn plot(servers: &Servers, results: &Results<'_>) -> String {
    let percentiles = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];
    let mut drawn = Vec::new();
    for server in servers.all() {
        let Some(figures) = results.find(server.name, "/id", 1) else { continue };
        for (kind, (name, quantile)) in percentiles.into_iter().enumerate() {
            let value = figures.median(|measured| measured.latency(quantile));
            let label = format!("{}, {name}", server.name);
            drawn.extend(value.map(|value| Bar { label, value, kind }));
        }
    }
    let title = format!("Latency of one ID, {CONNECTIONS} connections, one request at a time each");
    bars(&title, "µs", &percentiles.map(|(name, _)| name), &drawn)
}
