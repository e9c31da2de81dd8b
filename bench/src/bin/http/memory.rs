//! Raindrop's memory, at rest and with many codes.

use std::{path::Path, thread, time::Duration};

use raindrop_bench::{
    machine::mebibytes,
    number::significant,
    report::{Limit::Below, Report},
};

use super::{
    client::Client, process::Cores, requests::code_name, servers::raindrop, support::Result,
};

const CODES: usize = 100_000;

/// Starts a Raindrop for this measurement only, and measures it.
pub(crate) fn memory(binary: &Path, cores: Cores, report: &mut Report) -> Result<()> {
    let server = raindrop(binary, &[], cores, &[cores.server])?;
    // By then its start is complete.
    thread::sleep(Duration::from_secs(2));
    let rest = server.memory()?;
    let client = Client::new(server.address);
    for code in 0..CODES {
        client.get(&format!("/id/{}", code_name(code)))?;
    }
    let gauge = format!("raindrop_codes{{id_namespace=\"default\"}} {CODES}");
    if !client.get("/metrics")?.lines().any(|line| line == gauge) {
        return Err(format!("the metrics lack {gauge:?}").into());
    }
    let used = server.memory()?;
    let rows = [("at rest, ready", rest), ("100 000 codes in use", used)]
        .map(|(what, bytes)| vec![what.to_owned(), significant(mebibytes(bytes))]);
    let conditions = "Resident; a new Raindrop with SQLite and the default settings.";
    report.section("Memory", conditions, &["Raindrop", "MiB"], &rows);
    let more = mebibytes(used.saturating_sub(rest));
    report.target("memory at rest", Some(mebibytes(rest)), Below(15.0), " MiB");
    report.target("additional memory of 100 000 codes", Some(more), Below(30.0), " MiB");
    Ok(())
}
