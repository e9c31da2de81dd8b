//! Throughput and cost by connections, batch size and codes.

use raindrop_bench::{
    bare_server::COPIED,
    plot::{Axis, lines},
    report::{Limit::AtMost, Report},
    rounds::Pace,
};

use super::{
    load::{Load, Measured},
    process::{Cores, Process},
    requests::Requests,
    results::{COLUMNS, Results},
    servers::{BATCHES, CONSTANT_ID, constant_ids},
    support::Result,
};

const CONNECTIONS: [usize; 4] = [1, 8, 64, 512];
/// The suffix of requests whose response axum copies first.
const COPIES: &str = ", copied";
const CODES: [usize; 4] = [1, 10, 1000, 100_000];

/// Measures `/id` from 1 to 512 connections, and returns the plot.
pub(crate) fn by_connections(
    raindrop: &Process,
    axum: &Process,
    pace: Pace,
    cores: Cores,
    report: &mut Report,
) -> Result<String> {
    let loads = CONNECTIONS.into_iter().flat_map(|connections| {
        let constant = Requests::constant(1, 1, CONSTANT_ID);
        [(raindrop, Requests::id(1)), (axum, constant)].map(|(server, requests)| {
            let what = format!("/id, connections: {connections}");
            Load { server, what, requests, connections }
        })
    });
    let results = Results::measure(loads.collect(), pace, cores)?;
    report.section("By connections", &results.conditions, &COLUMNS, &results.rows(1));
    let what = "/id, connections: 1";
    let ratio = |of: fn(&Measured) -> f64| results.ratio(what, ("axum", what), 1, of);
    let one = "/id, one connection:";
    let cpu = ratio(Measured::cpu_time);
    report.target(&format!("{one} CPU time per request ÷ axum"), cpu, AtMost(1.25), "x");
    let p99 = ratio(|measured| measured.latency(0.99));
    report.target(&format!("{one} p99 ÷ axum"), p99, AtMost(1.25), "x");
    let many = results.find("Raindrop", "/id, connections: 512", 1);
    let spread = |measured: &Measured| measured.latency(0.99) / measured.latency(0.5);
    let spread = many.and_then(|figures| figures.median(spread));
    report.target("/id, 512 connections: p99 ÷ p50", spread, AtMost(4.0), "x");
    let drawn = results.lines(&[raindrop, axum], |each| {
        let requests = each.median(Measured::requests_per_second)?;
        Some((each.load.connections as f64, requests / 1e3))
    });
    let y = Axis::Linear("thousand requests/s");
    Ok(lines("Throughput of /id by connections, one core", "connections", y, &drawn))
}

/// Measures `/ids` from 1 to 10 000 IDs, and returns the plot. `raindrop` needs so long a sequence
/// that no batch waits for a tick.
pub(crate) fn by_batch(
    raindrop: &Process,
    axum: &Process,
    pace: Pace,
    cores: Cores,
    report: &mut Report,
) -> Result<String> {
    let loads = BATCHES.into_iter().flat_map(|n| {
        let constant = |path: &str| Requests::constant(1, n, path);
        let path = constant_ids(n);
        [
            (raindrop, "", Requests::many(1, n)),
            (axum, "", constant(&path)),
            (axum, COPIES, constant(&format!("{COPIED}{path}"))),
        ]
        .map(|(server, how, requests)| {
            let what = format!("/ids?n={n}{how}");
            Load { server, what, requests, connections: 64 }
        })
    });
    let results = Results::measure(loads.collect(), pace, cores)?;
    let conditions = format!(
        "64 connections. Raindrop has 18 bits of sequence; the IDs/s of axum are those that its \
         bytes could hold; where it copies its constant for each response, it does the least that \
         responses with new content cost. {}",
        results.conditions
    );
    report.section("By batch size", &conditions, &COLUMNS, &results.rows(1));
    let what = "/ids?n=10000";
    for how in ["", COPIES] {
        let axum = ("axum", &*format!("{what}{how}"));
        let ratio = results.ratio(what, axum, 1, Measured::cpu_time);
        let what = format!("{what}: CPU time per request ÷ axum{how}");
        report.target(&what, ratio, AtMost(1.25), "x");
    }
    let drawn = results.lines(&[raindrop, axum], |each| {
        let is_plain = !each.load.what.ends_with(COPIES);
        is_plain.then_some((each.load.requests.ids as f64, each.ids_per_second()? / 1e6))
    });
    let y = Axis::Logarithmic("million IDs/s");
    Ok(lines("Throughput of /ids by batch size, one core", "n", y, &drawn))
}

/// Measures `/id` with 1 to 100 000 codes.
pub(crate) fn by_codes(
    raindrop: &Process,
    pace: Pace,
    cores: Cores,
    report: &mut Report,
) -> Result<()> {
    const DEPTH: usize = 16;
    let loads = CODES.into_iter().map(|codes| {
        let what = format!("/id, codes: {codes}");
        Load { server: raindrop, what, requests: Requests::one(DEPTH, codes), connections: 64 }
    });
    let results = Results::measure(loads.collect(), pace, cores)?;
    let conditions = format!(
        "64 connections with {DEPTH} requests at a time; the codes take turns. {}",
        results.conditions
    );
    report.section("By codes", &conditions, &COLUMNS, &results.rows(DEPTH));
    Ok(())
}
