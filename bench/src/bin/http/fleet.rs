//! Many nodes that start at once on one store.

use std::{
    collections::HashSet,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use raindrop_bench::{number::significant, report::Report};

use super::{
    client::Client,
    mariadb::Mariadb,
    nodes::SETTLING,
    process::{Cores, Process},
    servers::raindrop_program,
    support::Result,
};

/// The default layout has 511 worker ids.
const NODES: [usize; 3] = [100, 300, 500];
/// The time for all nodes of a fleet to become ready.
const PATIENCE: Duration = Duration::from_secs(120);
/// The interval between two looks at a node that is not ready.
const INTERVAL: Duration = Duration::from_millis(5);

/// Measures how long fleets take to start, and counts their statements while they hold leases.
pub(crate) fn fleet(
    binary: &Path,
    cores: Cores,
    time: Duration,
    report: &mut Report,
) -> Result<()> {
    let mariadb = Mariadb::prepare()?;
    let mut rows = Vec::new();
    for size in NODES {
        let store = mariadb.start(cores)?;
        let reading = mariadb.statements_of_reading(&store)?;
        let began = Instant::now();
        let nodes = start(binary, &store, size, cores)?;
        let spawned = began.elapsed();
        wait_until_ready(&nodes, began + PATIENCE)?;
        let ready = began.elapsed();
        thread::sleep(SETTLING);
        let before = mariadb.statements(&store)? + reading;
        thread::sleep(time);
        let statements = mariadb.statements(&store)? - before;
        let node_minutes = size as f64 * time.as_secs_f64() / 60.0;
        rows.push(vec![
            size.to_string(),
            significant(spawned.as_secs_f64()),
            significant(ready.as_secs_f64()),
            significant(statements as f64 / node_minutes),
        ]);
    }
    let conditions = format!(
        "One MariaDB for each row, with its nodes as processes on the same two cores; the time \
         counts from the start of the first process. Statements of {} s in which nobody asks for \
         IDs.",
        time.as_secs()
    );
    let head = [
        "nodes",
        "all processes started, s",
        "all nodes ready, s",
        "statements per node and minute",
    ];
    report.section("Many nodes on one MariaDB", &conditions, &head, &rows);
    Ok(())
}

fn start(binary: &Path, store: &Process, size: usize, cores: Cores) -> Result<Vec<Process>> {
    let url = format!("mysql://root@{}/raindrop", store.address);
    let mut taken = HashSet::new();
    let mut nodes = Vec::with_capacity(size);
    while nodes.len() < size {
        let program = raindrop_program(binary, &[("STORE__URL", &url)])?;
        // A port is free until its node listens.
        if taken.insert(program.address()) {
            nodes.push(program.start(cores, &[cores.server, cores.generator], |_| Ok(()))?);
        }
    }
    Ok(nodes)
}

fn wait_until_ready(nodes: &[Process], deadline: Instant) -> Result<()> {
    for node in nodes {
        let client = Client::new(node.address);
        while let Err(error) = client.get("/readyz") {
            if Instant::now() >= deadline {
                return Err(format!("a node is not ready after {PATIENCE:?}: {error}").into());
            }
            thread::sleep(INTERVAL);
        }
    }
    Ok(())
}
