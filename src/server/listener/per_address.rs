//! Counts the connections of each client address.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ipnet::IpNet;

use crate::{config::HttpConfig, server::clients};

/// The open connections by client address.
#[derive(Debug, Default)]
pub(in crate::server) struct PerAddress {
    /// None without a limit; then there is nothing to count.
    most: Option<usize>,
    /// Those whose connections are not counted, since each has many clients.
    proxies: Vec<IpNet>,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One of an address's connections, until it is dropped.
#[derive(Debug)]
pub(super) struct OfAddress {
    all: Arc<PerAddress>,
    subscriber: IpAddr,
}

/// An address has as many connections as it may have.
#[derive(Debug)]
pub(super) struct TooMany;

impl PerAddress {
    pub(in crate::server) fn new(http: &HttpConfig) -> Self {
        let most = http.max_connections_per_ip.map(|most| most.get() as usize);
        Self { most, proxies: http.trusted_proxies.clone(), open: Mutex::default() }
    }

    /// Counts a connection; `None` where it does not count, as that of a trusted proxy.
    pub(super) fn begin(self: &Arc<Self>, peer: IpAddr) -> Result<Option<OfAddress>, TooMany> {
        let Some(most) = self.most else { return Ok(None) };
        if clients::is_in(peer.to_canonical(), &self.proxies) {
            return Ok(None);
        }
        let subscriber = clients::subscriber(peer);
        let mut open = self.open();
        let count = open.entry(subscriber).or_default();
        if *count >= most {
            return Err(TooMany);
        }
        *count += 1;
        Ok(Some(OfAddress { all: Arc::clone(self), subscriber }))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let mut open = self.all.open();
        if let Some(count) = open.get_mut(&self.subscriber) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.subscriber);
            }
        }
    }
}
