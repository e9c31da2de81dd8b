//! Every key with its default: the one list behind loading, `raindrop config` and `.env.example`.

/// Whom a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole service.
    Service,
    /// Each namespace; the value at the top is the default of all.
    Inherited,
    /// Each namespace; the value at the top is that of the namespace `default`.
    Own,
}

impl Scope {
    /// The scope of a key by its section.
    pub(super) fn of(key: &str) -> Self {
        match section_of(key) {
            "mode" | "layout" => Self::Own,
            "worker" | "issue" | "lease" | "rollback" | "segment" | "codes" => Self::Inherited,
            _ => Self::Service,
        }
    }
}

fn section_of(key: &str) -> &str {
    key.split_once('.').map_or(key, |(section, _)| section)
}

/// One configuration key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its dotted name, `http.listen` for example.
    pub name: &'static str,
    /// Its default; `None` when it is unset unless given.
    pub default: Option<&'static str>,
    /// What it means, in one line.
    pub help: &'static str,
}

impl Key {
    /// The environment variable of this key.
    pub fn variable(&self) -> String {
        variable(self.name)
    }

    /// Whom this key is for.
    pub fn scope(&self) -> Scope {
        Scope::of(self.name)
    }

    /// The first part of its name, `http` for example.
    pub(super) fn section(&self) -> &'static str {
        section_of(self.name)
    }

    /// The key of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }
}

/// The environment variable of a dotted name.
pub(super) fn variable(name: &str) -> String {
    format!("RAINDROP__{}", name.replace('.', "__").to_uppercase())
}

const fn key(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { name, default: Some(default), help }
}

const fn unset(name: &'static str, help: &'static str) -> Key {
    Key { name, default: None, help }
}

/// Every key, in the order of [`Config`](super::Config).
pub const KEYS: &[Key] = &[
    key(
        "mode",
        "snowflake",
        "snowflake, or segment for plain increasing numbers (docs/segments.md).",
    ),
    key(
        "layout.preset",
        "raindrop",
        "A named layout (docs/layouts.md); excludes unit, widths and sequence bounds.",
    ),
    key("layout.time_unit", "millisecond", "millisecond, second, minute, hour or day (or 1 to 5)."),
    key("layout.epoch", "2025-01-01T00:00:00Z", "Start of the layout's time, RFC 3339."),
    key("layout.timestamp_bits", "41", "By default the unit's smallest: 41, 31, 25, 19 or 15."),
    key("layout.worker_bits", "9", "3 to 10."),
    key("layout.data_center_bits", "0", "0 to 10."),
    key("layout.data_center", "0", "The data centre of this node."),
    key("layout.rollback_bits", "1", "0 to 3: r bits give 2^r lanes for clocks that step back."),
    key("layout.rollback_initial", "0", "The lane that new worker ids use first."),
    key("layout.reserved_bits", "0", "0 to 5 constant low bits."),
    key("layout.reserved_value", "0", "The constant in the reserved bits."),
    key("layout.min_sequence", "0", "The first sequence number of a tick."),
    key(
        "layout.max_sequence",
        "4095",
        "The last sequence number; by default the largest that fits.",
    ),
    unset(
        "layout.backfill_from",
        "The earliest time for ?at=, RFC 3339; by default the first start (docs/layouts.md).",
    ),
    unset("worker.id", "The only worker id to use; excludes min_id, max_id and source."),
    unset("worker.source", "Where the worker id comes from: ip, or hostname (trailing digits)."),
    key("worker.min_id", "1", "The smallest worker id that this node may lease."),
    key("worker.max_id", "511", "The largest worker id; by default the layout's largest."),
    key(
        "worker.prefer_previous",
        "false",
        "Whether to prefer the worker id that this holder had last.",
    ),
    unset("worker.holder", "The node's label in the store; {ip}:{port}#{mac} by default."),
    key(
        "store.url",
        "sqlite://raindrop.db",
        "Where worker ids are leased: sqlite, mysql, postgres, redis or memory.",
    ),
    unset("store.url_file", "A file that contains the URL; excludes store.url."),
    unset("store.password_file", "A file that contains the URL's password."),
    key("store.worker_table", "soc_raindrop_worker", "The table of worker rows."),
    key("store.segment_table", "soc_raindrop_segment", "The table of segment codes."),
    key("store.max_connections", "2", "Maximum number of connections to the store."),
    key("store.timeout", "3s", "Time-out for connecting and for each statement."),
    key("issue.borrow_ahead", "0", "How far ahead of the clock IDs may be issued without waiting."),
    key("issue.max_wait", "1s", "The longest time that a caller waits for its tick."),
    key(
        "issue.sequence_spread_bits",
        "3",
        "Low sequence bits that continue from tick to tick at low rates.",
    ),
    key("lease.window", "5m", "How long a node can issue without the store."),
    key("lease.ttl", "90s", "How long a crashed node's worker id stays held."),
    key("lease.renew", "30s", "How often a node renews its lease."),
    key("lease.max_clock_skew", "10s", "How far a node's clock may be ahead of the store's."),
    key("rollback.hold", "1s", "How far the clock may step back before the policy applies."),
    key("rollback.policy", "rotate", "rotate (another lane), swap (another worker) or wait."),
    key("segment.min_step", "1000", "The fewest numbers that a code reserves at a time."),
    key("segment.max_step", "1000000", "The most numbers that a code reserves at a time."),
    key("segment.target_duration", "60s", "How long a reserved block should last."),
    key(
        "segment.auto_create",
        "false",
        "Whether the first request for an unknown code creates it.",
    ),
    key("codes.max", "100000", "Maximum number of codes that have a cursor at a time."),
    key("codes.shared", "false", "Whether IDs are also unique across codes."),
    unset("codes.allow", "The codes that are served, comma-separated; all by default."),
    key("http.listen", "127.0.0.1:8080", "Address and port to listen on."),
    unset("http.admin_listen", "Address and port for /metrics, detailed /health and /cluster."),
    key("http.max_batch", "10000", "The largest n for /ids."),
    key("http.cors_origins", "*", "Origins from which browsers may call, comma-separated, or *."),
    key("http.request_timeout", "10s", "How long a request may take before it gets 408."),
    key("http.max_connections", "10000", "Maximum number of open connections."),
    key("http.max_in_flight", "4096", "Maximum number of ID requests in flight; others get 503."),
    key("http.drain_delay", "0s", "How long a stopping node keeps serving after it turns unready."),
    key(
        "http.shutdown_timeout",
        "10s",
        "How long open requests and the release may take after that.",
    ),
    unset("auth.tokens_file", "A file of tokens that requests need (docs/security.md)."),
    key("log.level", "info", "off, error, warn, info, debug or trace."),
    key("log.format", "text", "text or json."),
];
