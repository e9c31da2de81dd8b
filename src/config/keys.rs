//! The table of keys with their defaults and forms, on which loading, `raindrop config`, its JSON
//! schema, `.env.example` and `docs/settings.md` are based.

use std::time::Duration;

use super::{form::Form, namespace::MODES, service::LOG_LEVELS};
use crate::{
    core::{
        encoding::Encoding,
        issue::RollbackPolicy,
        layout::{FieldOrder, TimeUnit},
        preset::Preset,
        segment::SegmentSpec,
    },
    store::{Failover, TlsMode},
};

/// The prefix of environment variables that set keys.
pub(super) const KEY_PREFIX: &str = "RAINDROP__";
/// The table of namespaces: `namespaces.orders.lease.ttl` is `lease.ttl` of `orders`.
pub(super) const NAMESPACES: &str = "namespaces";
/// The table of layouts to read IDs by: `layouts.old.epoch` is the epoch of the layout `old`.
pub(super) const LAYOUTS: &str = "layouts";
/// The keys of such a layout.
pub(super) const LAYOUT_FIELDS: [&str; 2] = ["layout", "epoch"];
/// The list of codes.
pub(super) const CODES: &str = "code";
/// The fields of an entry of that list.
pub(super) const CODE_FIELDS: [&str; 4] = ["name", "namespace", "prefix", "encoding"];
/// The fields of an entry for a code of a segment namespace.
pub(super) const SEGMENT_CODE_FIELDS: [&str; 9] = [
    "start",
    "min_step",
    "max_step",
    "increment",
    "remainder",
    "js_safe",
    "text",
    "failover_gap",
    "strict",
];
/// The key without which every client gets IDs.
pub(super) const TOKENS_FILE: &str = "auth.tokens_file";

/// One configuration key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The dotted name, such as `http.listen`.
    pub name: &'static str,
    /// The default; `None` if the key is unset by default.
    pub default: Option<&'static str>,
    /// The meaning, in one line.
    pub help: &'static str,
    /// What its value may be.
    pub form: Form,
}

impl Key {
    const fn with(self, form: Form) -> Self {
        Self { form, ..self }
    }

    const fn boolean(self) -> Self {
        self.with(Form::Boolean)
    }

    const fn number(self, least: u64, most: u64) -> Self {
        self.with(Form::Number { least, most })
    }

    const fn duration(self, shortest: Duration, longest: Duration) -> Self {
        self.with(Form::Duration { shortest, longest })
    }

    const fn size(self, least: u64, most: u64) -> Self {
        self.with(Form::Size { least, most })
    }

    const fn words(self, words: fn() -> Vec<&'static str>) -> Self {
        self.with(Form::Words(words))
    }

    const fn list(self) -> Self {
        self.with(Form::List)
    }

    /// Returns the key of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }
}

/// Returns the first part of a dotted name.
pub(super) fn section_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(section, _)| section)
}

/// Returns whether a key applies to the whole service, and not to a namespace.
pub(super) fn is_of_service(key: &str) -> bool {
    matches!(section_of(key), "store" | "http" | "auth" | "log")
}

/// Returns whether the top-level value of a key is the default of every namespace. The top-level
/// value of any other key of namespaces applies to the namespace `default` only.
pub(super) fn is_inherited(key: &str) -> bool {
    matches!(section_of(key), "worker" | "issue" | "lease" | "rollback" | "segment" | "codes")
}

/// Returns whether an empty value of this environment variable is a value. An empty value of any
/// other variable leaves its key unset.
pub(super) fn may_be_empty(name: &str) -> bool {
    name == variable("http.cors_origins")
}

/// Splits `namespaces.orders.lease.ttl` into `orders` and `lease.ttl`; other names are unchanged.
pub(super) fn split_namespace(name: &str) -> (Option<&str>, &str) {
    match name.strip_prefix(NAMESPACES).and_then(|rest| rest.strip_prefix('.')) {
        Some(inner) => {
            let (namespace, rest) = inner.split_once('.').unwrap_or((inner, ""));
            (Some(namespace), rest)
        }
        None => (None, name),
    }
}

/// Splits `layouts.old.epoch` into `old` and `epoch`; `None` for other names.
pub(super) fn split_layout(name: &str) -> Option<(&str, &str)> {
    let inner = name.strip_prefix(LAYOUTS)?.strip_prefix('.')?;
    Some(inner.split_once('.').unwrap_or((inner, "")))
}

/// Returns whether a table of this name contains keys, and is not itself a value.
pub(super) fn is_section(name: &str) -> bool {
    let (namespace, rest) = split_namespace(name);
    let is_namespace = namespace.is_some() && rest.is_empty();
    let has_keys =
        |key: &Key| key.name.strip_prefix(rest).is_some_and(|inner| inner.starts_with('.'));
    let is_layout = name == LAYOUTS || split_layout(name).is_some_and(|(_, key)| key.is_empty());
    name == NAMESPACES || is_namespace || is_layout || KEYS.iter().any(has_keys)
}

/// Returns the environment variable of a dotted name.
pub(super) fn variable(name: &str) -> String {
    format!("{KEY_PREFIX}{}", name.replace('.', "__").to_uppercase())
}

const fn key(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { name, default: Some(default), help, form: Form::Text }
}

const fn unset(name: &'static str, help: &'static str) -> Key {
    Key { name, default: None, help, form: Form::Text }
}

const ZERO: Duration = Duration::ZERO;
const MILLISECOND: Duration = Duration::from_millis(1);
const TENTH: Duration = Duration::from_millis(100);
const HALF: Duration = Duration::from_millis(500);
const SECOND: Duration = Duration::from_secs(1);
const TEN_SECONDS: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// The largest number of the widest sequence: 45 bits, beside 15 of days and 3 of worker ids.
const LARGEST_SEQUENCE: u64 = (1 << 45) - 1;

/// Every key, in the order of [`Config`](super::Config).
pub const KEYS: &[Key] = &[
    key("mode", "snowflake", "snowflake, or segment: plain increasing numbers for each code.").words(|| MODES.to_vec()),
    key("layout.preset", "raindrop", "A named layout; excludes unit, widths and sequence bounds.").words(|| Preset::ALL.map(Preset::name).to_vec()),
    key(
        "layout.time_unit",
        "millisecond",
        "millisecond, 10ms, second, minute, hour or day (or 1 to 5).",
    ).with(Form::NumberedWords {
        words: || TimeUnit::ALL.map(TimeUnit::name).to_vec(),
        most: 5,
    }),
    key("layout.epoch", "2025-01-01T00:00:00Z", "Start of the layout's time, RFC 3339."),
    key(
        "layout.timestamp_bits",
        "41",
        "Width; by default the unit's minimum: 41, 39, 31, 25, 19, 15.",
    ).number(15, 55),
    key("layout.order", "time-worker-sequence", "Order of the fields; or time-sequence-worker.").words(|| FieldOrder::ALL.map(FieldOrder::name).to_vec()),
    key("layout.worker_bits", "9", "Width, 3 to 16.").number(3, 16),
    key("layout.data_center_bits", "0", "Width, 0 to 10.").number(0, 10),
    key("layout.data_center", "0", "The data centre of this node.").number(0, 1023),
    key("layout.rollback_bits", "1", "Width, 0 to 3: r bits give each worker id 2^r lanes.").number(0, 3),
    key("layout.rollback_initial", "0", "The lane that new worker ids use first.").number(0, 7),
    key("layout.reserved_bits", "0", "Width, 0 to 5, of the constant low bits.").number(0, 5),
    key("layout.reserved_value", "0", "The constant in the reserved bits.").number(0, 31),
    key("layout.min_sequence", "0", "The first sequence number of a tick.").number(0, LARGEST_SEQUENCE),
    key("layout.max_sequence", "4095", "The last one; by default the largest that fits.").number(0, LARGEST_SEQUENCE),
    unset("layout.backfill_from", "The earliest time for ?at=; by default the first start."),
    unset("worker.id", "The only worker id to use; not together with min_id, max_id or source.").number(0, 65_535),
    unset("worker.source", "Where the worker id comes from: ip, or hostname (trailing digits).").words(|| vec!["ip", "hostname"]),
    key("worker.min_id", "1", "The smallest worker id that this node may lease.").number(0, 65_535),
    key("worker.max_id", "511", "The largest worker id; by default the layout's largest.").number(0, 65_535),
    key("worker.prefer_previous", "false", "Whether to prefer this holder's last worker id.").boolean(),
    unset("worker.holder", "The node's label in the store; {ip}:{port}#{mac} by default."),
    key(
        "store.url",
        "sqlite://raindrop.db",
        "The store: sqlite, mysql, postgres, redis, kubernetes, memory; several hosts: a,b.",
    ),
    unset("store.url_file", "A file that contains the URL; not together with store.url."),
    unset("store.password_file", "A file that contains the URL's password."),
    key("store.worker_table", "soc_raindrop_worker", "The table of worker rows."),
    key("store.segment_table", "soc_raindrop_segment", "The table of segment codes and backfills."),
    unset("store.id", "The id that the store must have; raindrop config --store-id prints it."),
    key("store.max_connections", "2", "Maximum number of connections to the store.").number(1, 100),
    key(
        "store.timeout",
        "3s",
        "Time-out for each statement; connecting and logging in may take three times as long.",
    ).duration(TENTH, TEN_SECONDS),
    key("store.failover", "auto", "auto, or lossless if a fail-over never loses writes.").words(|| Failover::ALL.map(Failover::name).to_vec()),
    unset("store.state_file", "A file that keeps the lease for a restart while the store is away."),
    unset("store.tls", "verify, require, prefer or off; by default as the URL says, or prefer.").words(|| TlsMode::ALL.map(TlsMode::name).to_vec()),
    unset("store.tls_ca_file", "A PEM file of authorities for verify; well-known ones by default."),
    key("issue.borrow_ahead", "0", "How far ahead of the clock IDs may be issued without waiting.").duration(ZERO, HOUR),
    key("issue.max_wait", "1s", "The longest time that a caller waits for its tick.").duration(ZERO, HOUR),
    key("issue.sequence_spread_bits", "3", "Low sequence bits that do not restart in each tick.").number(0, 20),
    key("lease.window", "5m", "How long a node can issue without the store.").duration(SECOND, DAY),
    key("lease.ttl", "90s", "How long after a renewal a crashed node's worker id stays held.").duration(HALF, HOUR),
    key(
        "lease.renew",
        "30s",
        "How often a node renews its lease; with store.state_file at least 10s.",
    ).duration(TENTH, HOUR),
    key("lease.max_clock_skew", "10s", "How far a node's clock may be ahead of the store's.").duration(TENTH, HOUR),
    key(
        "lease.stale_wait",
        "45s",
        "How long leases wait in a store where nobody renewed for as long; 0 is never.",
    ).duration(ZERO, DAY),
    key("rollback.hold", "1s", "How far the clock may step back before the policy applies.").duration(ZERO, HOUR),
    key("rollback.policy", "rotate", "rotate (another lane), swap (another worker id) or wait.").words(|| RollbackPolicy::ALL.map(RollbackPolicy::name).to_vec()),
    key("segment.min_step", "1000", "The fewest numbers that a code reserves at a time.").number(1, SegmentSpec::LARGEST),
    key("segment.max_step", "1000000", "The most numbers that a code reserves at a time.").number(1, SegmentSpec::LARGEST),
    key("segment.target_duration", "60s", "How long a reserved block should last.").duration(SECOND, DAY),
    unset(
        "segment.failover_gap",
        "Numbers skipped after a fail-over; by default 100 large blocks.",
    ).number(0, SegmentSpec::LARGEST_NUMBER),
    key("segment.auto_create", "false", "Whether a first request creates an unknown code.").boolean(),
    key("codes.max", "100000", "Maximum number of codes with sequences of their own.").number(1, 10_000_000),
    key(
        "codes.max_per_client",
        "10000",
        "New codes per client and tick; by default a tenth of max.",
    ).number(1, 10_000_000),
    key("codes.shared", "true", "One sequence for all codes, so that no two get equal IDs.").boolean(),
    unset("codes.allow", "The codes that are served, comma-separated; all by default.").list(),
    key("http.listen", "127.0.0.1:8080", "Address and port to listen on."),
    unset("http.admin_listen", "Address and port for /metrics, detailed /health and /cluster."),
    unset("http.admin_hosts", "Domain names under which the admin listener answers.").list(),
    key(
        "http.admin_changes",
        "false",
        "Whether the admin listener takes changes without tokens: /cluster/release, /codes and /log.",
    ).boolean(),
    key("http.max_batch", "10000", "The largest n for /ids.").number(1, 100_000),
    key("http.max_range", "1000000", "The largest up_to for /ids; a layout may allow less.").number(1, 100_000_000),
    key("http.cors_origins", "*", "Origins whose pages may call, comma-separated; * or none.").list(),
    key("http.request_timeout", "10s", "How long a request may take before it gets 408.").duration(TENTH, HOUR),
    unset(
        "http.max_connections",
        "Open connections; one of HTTP/2 counts as eight. By default 10000, or what half the memory holds.",
    ).number(1, 1_000_000),
    key("http.idle_timeout", "75s", "How long a connection may wait for the next request's head.").duration(SECOND, HOUR),
    key("http.max_in_flight", "4096", "Maximum number of ID requests in flight; others get 503.").number(1, 1_000_000),
    unset("http.max_unsent", "Memory for unread responses, 64MiB for example; by default 1/8.").size(1 << 20, 1 << 40),
    key("http.console", "true", "Whether the console is served, the pages at / and /docs.").boolean(),
    unset("http.tls.cert_file", "PEM file of the certificate chain; turns on TLS."),
    unset("http.tls.key_file", "PEM file of the certificate's private key."),
    unset("http.tls.client_ca_file", "PEM file of the CAs that sign certificates of clients."),
    unset("http.tls.client_crl_file", "PEM file of revocation lists, one of each CA in the chain."),
    key("http.max_connections_per_ip", "0", "Open connections of a client address; 0: no limit.").number(0, 1_000_000),
    key("http.max_requests_per_ip", "0", "Requests per second and client address; 0: no limit.").number(0, 1_000_000),
    unset("http.trusted_proxies", "Networks of proxies whose X-Forwarded-For counts.").list(),
    key("http.drain_delay", "0s", "How long a stopping node keeps serving once it is unready.").duration(ZERO, HOUR),
    key("http.shutdown_timeout", "10s", "How long requests and the release may then take.").duration(TENTH, HOUR),
    unset(TOKENS_FILE, "The token file; if set, requests need a token (docs/security.md)."),
    key("auth.max_requests_per_token", "0", "Requests per second and token; 0: no limit.").number(0, 1_000_000),
    key("log.level", "info", "off, error, warn, info, debug or trace.").words(|| LOG_LEVELS.to_vec()),
    key("log.format", "text", "text or json.").words(|| vec!["text", "json"]),
    key("log.requests", "errors", "Requests that get a line: off, errors, slow or all.").words(|| vec!["off", "errors", "slow", "all"]),
    key(
        "log.slow_after",
        "1s",
        "With log.requests = slow, responses that took at least this long get a line.",
    ).duration(MILLISECOND, HOUR),
];

/// What is known of the fields of a `[[code]]` entry, for the JSON schema.
pub(super) const CODE_KEYS: &[Key] = &[
    unset("name", "The code."),
    key("namespace", "default", "The namespace that issues for the code."),
    unset("prefix", "The text before each ID, ORD- for example."),
    key("encoding", "decimal", "How IDs are written where a request does not say it.")
        .words(|| Encoding::ALL.map(Encoding::name).to_vec()),
    key("start", "1", "The first number of a code that the store does not know yet.")
        .number(0, SegmentSpec::LARGEST_NUMBER),
    unset("min_step", "The fewest numbers that the code reserves at a time.")
        .number(1, SegmentSpec::LARGEST),
    unset("max_step", "The most numbers that the code reserves at a time.")
        .number(1, SegmentSpec::LARGEST),
    key("increment", "1", "The difference between neighbours.").number(1, SegmentSpec::LARGEST),
    key("remainder", "0", "The remainder of every number when divided by increment.")
        .number(0, SegmentSpec::LARGEST - 1),
    key("js_safe", "false", "Whether the numbers end at 2^53 - 1.").boolean(),
    unset("text", "How the numbers are written, INV-{n:06} for example."),
    unset("failover_gap", "Numbers of the code skipped after a fail-over.")
        .number(0, SegmentSpec::LARGEST_NUMBER),
    key("strict", "false", "Whether the numbers ascend over all nodes in real time.").boolean(),
];

/// The keys of a layout to read IDs by, for the JSON schema.
pub(super) const LAYOUT_KEYS: &[Key] = &[
    unset("layout", "Its fields, time:41@1ms,worker:10,sequence:12 for example."),
    key("epoch", "1970-01-01T00:00:00Z", "Start of its time, RFC 3339."),
];
