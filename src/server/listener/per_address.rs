//! Limits the open connections of each client address.

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
    /// `None` without a limit: then nothing is counted.
    most: Option<usize>,
    /// Trusted proxies: their connections are not limited, since each carries many clients.
    proxies: Vec<IpNet>,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A counted connection of an address, until this is dropped.
#[derive(Debug)]
pub(super) struct OfAddress {
    all: Arc<PerAddress>,
    subscriber: IpAddr,
}

/// The address has reached its limit.
#[derive(Debug)]
pub(super) struct TooMany;

impl PerAddress {
    pub(in crate::server) fn new(http: &HttpConfig) -> Self {
        let most = http.max_connections_per_ip.map(|most| most.get() as usize);
        Self { most, proxies: http.trusted_proxies.clone(), open: Mutex::default() }
    }

    /// Counts a connection. Returns `None` if connections from this address have no limit.
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
