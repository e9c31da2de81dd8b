//! What clients may take of the memory, by default. docs/http.md has the sum.

use crate::{config::HttpConfig, process::memory_limit::memory_limit};

/// The most connections of clients where memory has no limit.
const MOST_CONNECTIONS: u64 = 10_000;

/// The memory of a connection in KiB: what the kernel receives and sends for it, the part of a
/// request that is read or what the requests of HTTP/2 take, and its task. docs/http.md has the sum
/// of everything.
const OF_CONNECTION: u64 = 32 + 16 + 56 + 8;

/// What TLS keeps beside that: its keys, and a record in each direction.
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
