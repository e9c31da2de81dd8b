//! The code that several test binaries share.
#![allow(clippy::allow_attributes, dead_code, reason = "no binary uses everything")]

mod carried;
pub(crate) mod faketime;
pub(crate) mod frames;
pub(crate) mod guardian;
pub(crate) mod hung_log;
pub(crate) mod kubernetes;
pub(crate) mod mariadb;
pub(crate) mod mysql;
pub(crate) mod pair;
pub(crate) mod pgbouncer;
pub(crate) mod poll;
pub(crate) mod postgres;
pub(crate) mod programs;
pub(crate) mod proxy;
pub(crate) mod redis;
pub(crate) mod server;
pub(crate) mod splitter;
pub(crate) mod tls;
mod watched;

use std::{
    net::TcpListener,
    ops::Range,
    sync::{
        LazyLock,
        atomic::{AtomicU16, Ordering},
    },
};

/// A password or token that tests plant; no process may show it.
pub(crate) const PLANTED: &str = "planted-secret-7QxV2mZr";

/// Below the ports of outgoing connections, which come and go all the time.
const PORTS: Range<u16> = 10_000..30_000;

/// Returns a port on 127.0.0.1 where no process listens, and which no other test of this process
/// gets.
pub(crate) fn free_port() -> u16 {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(rand::random()));
    let count = PORTS.end - PORTS.start;
    (0..count)
        .map(|_| PORTS.start + NEXT.fetch_add(1, Ordering::Relaxed) % count)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}
