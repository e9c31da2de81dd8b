//! The statements that nodes send to the store that they share.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use raindrop_bench::{
    number::{grouped, significant},
    report::Report,
};

use super::{
    client::Client,
    mariadb::Mariadb,
    process::{Cores, Process},
    requests::code_name,
    servers::raindrop,
    support::Result,
};

const NODES: [usize; 4] = [1, 2, 4, 8];
/// The first renewal follows 3 s after the lease begins, then come the regular ones.
pub(crate) const SETTLING: Duration = Duration::from_secs(10);
/// The interval between two batches of a node.
const INTERVAL: Duration = Duration::from_millis(10);
const BATCH: usize = 1000;
const CODES: usize = 64;

/// A store with its nodes.
struct Cluster {
    store: Process,
    nodes: Vec<(Process, Client)>,
    /// The statement count at the beginning.
    before: u64,
    ids: u64,
}

/// Counts the statements that a store receives while its nodes issue IDs, for clusters of all sizes
/// at the same time.
pub(crate) fn nodes(
    binary: &Path,
    cores: Cores,
    time: Duration,
    report: &mut Report,
) -> Result<()> {
    let mariadb = Mariadb::prepare()?;
    let on = [cores.server, cores.generator];
    let mut clusters = Vec::new();
    for size in NODES {
        let store = mariadb.start(cores)?;
        let reading = mariadb.statements_of_reading(&store)?;
        let url = format!("mysql://root@{}/raindrop", store.address);
        let mut nodes = Vec::new();
        for _ in 0..size {
            let node = raindrop(binary, &[("STORE__URL", &url)], cores, &on)?;
            let client = Client::new(node.address);
            nodes.push((node, client));
        }
        clusters.push(Cluster { store, nodes, before: reading, ids: 0 });
    }
    issue(&mut clusters, SETTLING)?;
    for cluster in &mut clusters {
        cluster.before += mariadb.statements(&cluster.store)?;
        cluster.ids = 0;
    }
    issue(&mut clusters, time)?;
    let mut rows = Vec::new();
    for cluster in &clusters {
        let statements = mariadb.statements(&cluster.store)? - cluster.before;
        let node_minutes = cluster.nodes.len() as f64 * time.as_secs_f64() / 60.0;
        rows.push(vec![
            cluster.nodes.len().to_string(),
            statements.to_string(),
            significant(statements as f64 / node_minutes),
            grouped(cluster.ids as f64),
        ]);
    }
    let conditions = format!(
        "One MariaDB {} for each row; default settings; {} s, in which every node issues {BATCH} \
         IDs every {} ms.",
        clusters[0].store.version,
        time.as_secs(),
        INTERVAL.as_millis()
    );
    let head = ["nodes", "statements", "statements per node and minute", "IDs issued"];
    report.section("Nodes on one MariaDB", &conditions, &head, &rows);
    Ok(())
}

fn issue(clusters: &mut [Cluster], time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    for turn in 0.. {
        let began = Instant::now();
        if began >= end {
            break;
        }
        let path = format!("/ids/{}?n={BATCH}", code_name(turn % CODES));
        for Cluster { nodes, ids, .. } in clusters.iter_mut() {
            for (_, client) in nodes {
                client.get(&path)?;
                *ids += BATCH as u64;
            }
        }
        thread::sleep(INTERVAL.saturating_sub(began.elapsed()));
    }
    Ok(())
}
