//! Single requests, outside of the measured load.

use std::{net::SocketAddr, time::Duration};

use ureq::Agent;

use super::support::{Result, context};

/// A client of one server, which keeps its connection open.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    address: SocketAddr,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let timeout = Some(Duration::from_secs(5));
        let config = Agent::config_builder().proxy(None).timeout_global(timeout).build();
        Self { agent: config.new_agent(), address }
    }

    /// Returns the body of a response that is not an error.
    pub(crate) fn get(&self, path: &str) -> Result<String> {
        let response = self.agent.get(format!("http://{}{path}", self.address)).call();
        let body = response.and_then(|mut response| response.body_mut().read_to_string());
        Ok(body.map_err(context(path))?)
    }
}
