//! Derives from the memory limit how many connections, unsent responses and decoded heads clients
//! may cause.
//!
//! A setting wins over its default here. The figures for one connection are sums of the parts that
//! docs/http/memory.md lists; change both together. Nothing is enforced here:
//! `listener::places` enforces the number of connections, `response::body` the bytes of
//! responses, and `listener::heads` those of decoded heads. tests/faults/overload measures whether
//! the process stays within its limit.

use crate::{config::HttpConfig, process::memory_limit};

/// The largest number of clients' connections, and the default if the process has no memory limit.
const MOST_CONNECTIONS: u64 = 10_000;

/// KiB of received bytes that the kernel holds for a connection.
const KERNEL_RECEIVED: u64 = 32;

/// KiB of bytes to send that the kernel holds for a connection.
const KERNEL_TO_SEND: u64 = 16;

/// KiB for what is read of a request of HTTP/1.
const HTTP1_REQUEST: u64 = 56;

/// KiB for the task of a connection of HTTP/1.
const HTTP1_TASK: u64 = 8;

/// KiB of HTTP/2's buffers, header tables and an incomplete head.
const HTTP2_BUFFERS: u64 = 96;

/// KiB of 100 requests of HTTP/2 that wait, of 7 KiB each.
const HTTP2_REQUESTS: u64 = 100 * 7;

/// KiB of a connection of HTTP/1.
const HTTP1_CONNECTION: u64 = KERNEL_RECEIVED + KERNEL_TO_SEND + HTTP1_REQUEST + HTTP1_TASK;

/// KiB of a connection of HTTP/2. tests/faults/overload/heads.rs measures it.
const HTTP2_CONNECTION: u64 = KERNEL_RECEIVED + KERNEL_TO_SEND + HTTP2_BUFFERS + HTTP2_REQUESTS;

/// The number of places that a connection of HTTP/2 takes; one of HTTP/1 takes one.
pub(super) const HTTP2_PLACES: u64 = HTTP2_CONNECTION.div_ceil(HTTP1_CONNECTION);

/// KiB that TLS adds to a connection: its keys, and one record in each direction.
const TLS_CONNECTION: u64 = 48;

/// Returns how many connections clients may have open: `http.max_connections`, or as many as fit
/// into half of the memory limit.
pub(crate) fn most_connections(http: &HttpConfig) -> usize {
    let each = (HTTP1_CONNECTION + if http.tls.is_some() { TLS_CONNECTION } else { 0 }) * 1024;
    let fit = |memory: u64| (memory / 2 / each).clamp(64, MOST_CONNECTIONS);
    let fit = memory_limit().map_or(MOST_CONNECTIONS, fit);
    http.max_connections.unwrap_or(usize::try_from(fit).expect("few"))
}

/// The bytes of unsent responses if the process has no memory limit.
const MAX_UNSENT: u64 = 128 << 20;

/// Returns the bytes that unsent responses may take: `http.max_unsent`, or an eighth of the memory
/// limit, but from 4 MiB to 1 GiB.
pub(super) fn max_unsent(http: &HttpConfig) -> u64 {
    let eighth = |memory: u64| (memory / 8).clamp(4 << 20, 1 << 30);
    http.max_unsent.unwrap_or_else(|| memory_limit().map_or(MAX_UNSENT, eighth))
}

/// The largest budget of decoded heads of HTTP/2 in bytes, and the default without a memory limit.
const MAX_HEADS: u64 = 32 << 20;

/// Returns the bytes that decoded heads of HTTP/2 may take. A small part of the memory suffices,
/// because a head is dropped as soon as its handler has read it.
pub(super) fn max_heads() -> u64 {
    let part = |memory: u64| (memory / 32).clamp(1 << 20, MAX_HEADS);
    memory_limit().map_or(MAX_HEADS, part)
}
