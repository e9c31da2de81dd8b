//! Runs Redis Sentinel, which promotes a replica when it finds that the primary is away.

use std::{ffi::OsString, fs, path::PathBuf};

use super::PATIENCE;
use crate::support::{
    free_port, poll,
    redis::{self, try_run},
    watched::Watched,
};

/// Its name for the servers that it watches.
const GROUP: &str = "raindrop";

/// A Sentinel for one pair.
#[derive(Debug)]
pub(crate) struct Sentinel {
    /// The program, which ends when this value is dropped.
    _program: Watched,
    address: String,
}

impl Sentinel {
    /// Watches the primary of this port, and waits until it knows the replica.
    pub(super) async fn start(primary: u16) -> Self {
        let (program, port) = (Watched::new("TERM"), free_port());
        let file = program.folder().join("sentinel.conf");
        fs::write(&file, configuration(port, primary, program.folder().to_owned()))
            .expect("a configuration");
        let words = [redis::program().into(), OsString::from(file), "--sentinel".into()];
        program.run(&words);
        let sentinel = Self { _program: program, address: format!("redis://127.0.0.1:{port}") };
        poll::until(PATIENCE, "Sentinel finds the replica", async || {
            let fields = sentinel.fields().await?;
            (fields.chunks(2).any(|field| *field == ["num-slaves", "1"])).then_some(())
        })
        .await;
        sentinel
    }

    /// Waits until it has made the server of this port the primary.
    pub(super) async fn until_primary_is(&self, port: u16) {
        poll::until(PATIENCE, "Sentinel promotes the replica", async || {
            let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", GROUP];
            let address: Vec<String> = try_run(&self.address, &words).await.ok()?;
            (address.get(1) == Some(&port.to_string())).then_some(())
        })
        .await;
    }

    /// Returns its view of the primary: names and values in turn.
    async fn fields(&self) -> Option<Vec<String>> {
        try_run(&self.address, &["SENTINEL", "MASTER", GROUP]).await.ok()
    }
}

/// Returns its configuration. Replication may have stopped ten times as long as the primary is away
/// before a replica is no candidate any more.
fn configuration(port: u16, primary: u16, folder: PathBuf) -> String {
    format!(
        "port {port}\n\
         bind 127.0.0.1\n\
         dir {}\n\
         sentinel monitor {GROUP} 127.0.0.1 {primary} 1\n\
         sentinel down-after-milliseconds {GROUP} 1000\n\
         sentinel failover-timeout {GROUP} 1000\n",
        folder.display()
    )
}
