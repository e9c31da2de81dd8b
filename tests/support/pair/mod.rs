//! Runs two servers of one engine, of which one follows the other asynchronously: replication
//! stops, the primary is killed, and the pair fails over and back.

mod mysql;
mod postgres;
mod redis;
mod sentinel;

use std::{fmt, time::Duration};

use async_trait::async_trait;

use self::sentinel::Sentinel;
use super::{
    proxy::Proxy,
    server::{Engine, Server},
};

/// How long a busy machine may take for anything.
const PATIENCE: Duration = Duration::from_secs(300);

/// An engine with asynchronous replicas. Tests await it themselves, on one thread.
#[async_trait(?Send)]
pub(crate) trait Replicated: Engine {
    /// Starts a primary and its replica, each with a different identity.
    async fn start_pair(&self) -> [Server; 2];

    /// Makes an empty database and returns its address as a node knows it, whose user cannot write
    /// to a replica.
    async fn nodes_database(&self, primary: &Server) -> String;

    /// Stops replication: later writes of the primary do not reach the replica.
    async fn stop_replication(&self, primary: &Server, replica: &Server);

    /// Waits until the replica has the present state of the primary.
    async fn until_caught_up(&self, primary: &Server, replica: &Server);

    /// Makes a replica a primary.
    async fn promote(&self, replica: &Server);

    /// Gives a server that has ended the primary's data and makes it follow; its identity stays
    /// wherever the engine keeps it.
    async fn rejoin(&self, old: &Server, primary: &Server);

    /// Returns the token of a worker's row in the default namespace, at the address of a database.
    async fn token(&self, url: &str, worker: u64) -> String {
        let sql = format!("SELECT token FROM soc_raindrop_worker WHERE worker_id = {worker}");
        self.texts(url, &sql).await.pop().expect("the row")
    }

    /// Returns a Sentinel that watches the primary of this port and promotes the replica, if the
    /// engine has one.
    async fn sentinel(&self, _primary: u16) -> Option<Sentinel> {
        None
    }
}

/// The servers, and the address that leads to the primary.
pub(crate) struct Pair {
    engine: &'static dyn Replicated,
    servers: [Server; 2],
    /// The index of the primary.
    primary: usize,
    /// The address of the nodes' database on the first server.
    url: String,
    sentinel: Option<Sentinel>,
    pub(crate) proxy: Proxy,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Pair {
    pub(crate) async fn start(engine: &'static dyn Replicated) -> Self {
        let servers = engine.start_pair().await;
        let url = engine.nodes_database(&servers[0]).await;
        let proxy = Proxy::start(&url).await;
        Self { engine, servers, primary: 0, url, sentinel: None, proxy }
    }

    /// Like [`Self::start`], with a Sentinel if the engine has one.
    pub(crate) async fn start_watched(engine: &'static dyn Replicated) -> Self {
        let mut pair = Self::start(engine).await;
        pair.sentinel = engine.sentinel(pair.primary().port()).await;
        pair
    }

    /// Returns the address for nodes. It leads to the primary, and to the replica once the primary
    /// ended.
    pub(crate) fn url(&self) -> String {
        self.url_through(self.proxy.port())
    }

    /// Returns the same address through another port, of a proxy in front of [`Self::url`] for
    /// example.
    pub(crate) fn url_through(&self, port: u16) -> String {
        self.engine.through(&self.url, port)
    }

    /// Returns the token of a worker's row, as the primary has it.
    pub(crate) async fn token(&self, worker: u64) -> String {
        self.engine.token(&self.url_through(self.primary().port()), worker).await
    }

    /// Makes an empty database on the primary, for other nodes.
    pub(crate) async fn another_database(&self) -> String {
        self.primary().database().await
    }

    pub(crate) async fn until_caught_up(&self) {
        self.engine.until_caught_up(self.primary(), self.replica()).await;
    }

    pub(crate) async fn stop_replication(&self) {
        self.engine.stop_replication(self.primary(), self.replica()).await;
    }

    /// Cuts the nodes off and waits until the replica has everything, so that a fail-over loses
    /// nothing.
    pub(crate) async fn settle(&self) {
        self.proxy.disconnect();
        self.until_caught_up().await;
    }

    /// Kills the primary. The nodes' address leads to the replica, which takes no writes yet.
    pub(crate) fn kill_primary(&self) {
        self.primary().kill9();
        self.proxy.point_to(&self.url_through(self.replica().port()));
    }

    /// Makes the replica the primary.
    pub(crate) async fn promote(&mut self) {
        match &self.sentinel {
            Some(sentinel) => sentinel.until_primary_is(self.replica().port()).await,
            None => self.engine.promote(self.replica()).await,
        }
        self.primary = 1 - self.primary;
    }

    /// Makes the killed server follow the one that took its place, and waits until it has
    /// everything.
    pub(crate) async fn rejoin(&self) {
        self.engine.rejoin(self.replica(), self.primary()).await;
        self.until_caught_up().await;
    }

    fn primary(&self) -> &Server {
        &self.servers[self.primary]
    }

    fn replica(&self) -> &Server {
        &self.servers[1 - self.primary]
    }
}
