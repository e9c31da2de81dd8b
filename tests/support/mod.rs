//! What several test binaries share.
#![allow(clippy::allow_attributes, dead_code, reason = "no binary uses everything")]

pub(crate) mod debian;
pub(crate) mod faketime;
pub(crate) mod hung_log;
pub(crate) mod mariadb;
pub(crate) mod poll;
pub(crate) mod postgres;
pub(crate) mod programs;
pub(crate) mod proxy;
pub(crate) mod redis;
pub(crate) mod server;
mod watched;

/// A port on 127.0.0.1 that nobody uses just now.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}
