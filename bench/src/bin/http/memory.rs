//! What Raindrop's memory is, at rest and with many codes.

use std::{path::Path, thread, time::Duration};

use raindrop_bench::report::Report;

use super::{
    client::Client, process::Cores, requests::code_name, servers::raindrop, tables::mebibytes,
    tools::Result,
};

const CODES: usize = 100_000;
const MIB: u64 = 1 << 20;

/// Reads the memory of a Raindrop of its own.
pub(crate) fn memory(binary: &Path, cores: Cores, report: &mut Report) -> Result<()> {
    let server = raindrop(binary, &[], cores, &[cores.server])?;
    // What its start still had to do is done by then.
    thread::sleep(Duration::from_secs(2));
    let rest = server.memory()?;
    let mut client = Client::connect(server.address)?;
    for code in 0..CODES {
        client.get(&format!("/id/{}", code_name(code)))?;
    }
    let metrics = String::from_utf8(client.get("/metrics")?.to_vec())?;
    let gauge = format!("raindrop_codes{{namespace=\"default\"}} {CODES}");
    if !metrics.lines().any(|line| line == gauge) {
        return Err(format!("the metrics do not say {gauge:?}").into());
    }
    let used = server.memory()?;
    let rows = [("at rest, ready", rest), ("100 000 codes used", used)]
        .map(|(what, bytes)| vec![what.to_owned(), mebibytes(bytes)]);
    let conditions = "Resident; a new Raindrop with SQLite and the default settings.";
    report.section("Memory", conditions, &["Raindrop", "MiB"], &rows);
    let more = used.saturating_sub(rest);
    let figure = |bytes| format!("{} MiB", mebibytes(bytes));
    report.target("memory at rest: below 15 MiB", &figure(rest), rest < 15 * MIB);
    report.target("100 000 codes: below 30 MiB more", &figure(more), more < 30 * MIB);
    Ok(())
}
