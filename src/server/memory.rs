//! What clients may take of the memory, by default. docs/http.md has the sum.

use crate::{config::HttpConfig, process::memory_limit::memory_limit};

/// The most connections of clients where memory has no limit.
const MOST_CONNECTIONS: u64 = 10_000;

/// What the kernel keeps for a connection, in KiB: what it has received, and what it sends.
const IN_KERNEL: u64 = 32 + 16;

/// The memory of a connection of HTTP/1 in KiB, in the kernel, for the part of a request that is
/// read, and for its task. docs/http.md has the sum of everything.
const OF_CONNECTION: u64 = IN_KERNEL + 56 + 8;

/// The memory of a connection of HTTP/2 in KiB: its buffers, header tables and a head of which a
/// part has come, and a hundred requests that wait, of 7 KiB each. tests/faults/overload/heads.rs
/// measures it.
const OF_HTTP2: u64 = IN_KERNEL + 96 + 700;

/// The places of clients that a connection of HTTP/2 takes, of which one of HTTP/1 takes one.
pub(super) const HTTP2_PLACES: u64 = OF_HTTP2.div_ceil(OF_CONNECTION);

/// What TLS keeps beside that, in KiB: its keys, and a record in each direction.
const OF_TLS: u64 = 48;

/// How many connections clients may have: as configured, or as many as half of the memory holds.
pub(crate) fn most_connections(http: &HttpConfig) -> usize {
    let each = (OF_CONNECTION + if http.tls.is_some() { OF_TLS } else { 0 }) * 1024;
    let fit = |memory: u64| (memory / 2 / each).clamp(64, MOST_CONNECTIONS);
    let fit = memory_limit().map_or(MOST_CONNECTIONS, fit);
    http.max_connections.unwrap_or(usize::try_from(fit).expect("few"))
}

/// The bytes that unsent responses may take where memory has no limit.
const MAX_UNSENT: u64 = 128 << 20;

/// The bytes that unsent responses may take: as configured, or an eighth of the memory, within
/// bounds, since open connections and codes take more.
pub(super) fn max_unsent(http: &HttpConfig) -> u64 {
    let eighth = |memory: u64| (memory / 8).clamp(4 << 20, 1 << 30);
    http.max_unsent.unwrap_or_else(|| memory_limit().map_or(MAX_UNSENT, eighth))
}

/// The bytes that the decoded heads of HTTP/2 may take where memory has no limit.
const MAX_HEADS: u64 = 32 << 20;

/// The bytes that the decoded heads of HTTP/2 may take: they are dropped as soon as their handlers
/// have run, so that a small part of the memory suffices.
pub(super) fn max_heads() -> u64 {
    let part = |memory: u64| (memory / 32).clamp(1 << 20, MAX_HEADS);
    memory_limit().map_or(MAX_HEADS, part)
}
