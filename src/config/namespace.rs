//! Reads a namespace: its mode and the settings of that mode.

use std::{collections::BTreeSet, time::Duration};

use super::{
    duration,
    keys::{KEYS, is_inherited, is_of_service, section_of},
    layout,
    reader::{DEFAULT, Place, Reader},
    service::HttpConfig,
    store::STATE_FILE,
    worker::{self, Host},
};
use crate::{
    core::{
        code::{CODE_PATTERN, is_valid_code, series_of_name},
        instant::parse_unix_ms,
        issue::{IssueSettings, RollbackPolicy},
        namespace::DEFAULT_NAMESPACE,
        preset::Preset,
        segment::SegmentSpec,
        violation::{Violation, Violations},
    },
    keeper::{KeeperSettings, LeaseTimes, SegmentSettings},
};

/// One namespace.
#[derive(Clone, Debug)]
pub struct NamespaceConfig {
    /// Its name.
    pub name: String,
    /// How its IDs are made.
    pub mode: Mode,
}

/// How IDs are made, and the settings for it.
#[derive(Clone, Debug)]
pub enum Mode {
    /// IDs are composed of time, worker id and sequence.
    Snowflake {
        /// The lease, and how IDs are issued.
        keeper: KeeperSettings,
        /// The premise under which an assigned worker id is unique without a store, as a phrase
        /// that follows "unique only while"; `None` if the node leases any free worker id.
        premise: Option<String>,
    },
    /// Numbers are counted from 1.
    Segment {
        /// The codes, and how their numbers are reserved.
        keeper: SegmentSettings,
    },
}

impl Mode {
    /// Returns the name of the mode in the configuration.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Snowflake { .. } => SNOWFLAKE,
            Self::Segment { .. } => SEGMENT,
        }
    }
}

const SNOWFLAKE: &str = "snowflake";
const SEGMENT: &str = "segment";
pub(super) const MODES: [&str; 2] = [SNOWFLAKE, SEGMENT];

/// The keys that segment mode uses beside the `segment` section.
const USED_BY_SEGMENT: [&str; 6] =
    ["mode", "issue.max_wait", "codes.max", "codes.max_per_client", SHARED, "codes.allow"];

/// In segment mode this key may only be `false`; its default does not apply.
const SHARED: &str = "codes.shared";

/// Returns whether a mode uses a key of namespaces.
fn uses(mode: &str, key: &str) -> bool {
    let is_of_segment = section_of(key) == "segment";
    if mode == SEGMENT { is_of_segment || USED_BY_SEGMENT.contains(&key) } else { !is_of_segment }
}

/// A namespace whose `[[code]]` entries are not read yet.
#[derive(Debug)]
pub(super) struct NamespaceRead {
    pub(super) config: NamespaceConfig,
    /// The only codes that the namespace serves, if the configuration lists them.
    pub(super) allow: Option<BTreeSet<String>>,
    /// The settings in segment mode of a code without an entry, and the sources of its smallest and
    /// largest step.
    pub(super) spec: SegmentSpec,
    pub(super) step_sources: [String; 2],
}

pub(super) fn read(
    reader: &mut Reader,
    name: &str,
    host: &Host,
    http: &HttpConfig,
) -> NamespaceRead {
    reader.enter(Place::of_namespace(name));
    let mode = |text: &str| MODES.into_iter().find(|mode| *mode == text);
    let mode = reader.value("mode", MODES.join(" or "), mode);
    if !reader.is_bad("mode") {
        reject_unused(reader, mode);
    }
    // Read every section in either mode, because other namespaces inherit top-level values.
    let issue = read_issue(reader);
    let lease = read_lease(reader);
    let (spec, segment) = read_segment(reader, name, &issue, http);
    let (allow, max_wait) = (issue.codes_allow.clone(), issue.max_wait);
    let mode = if mode == SEGMENT {
        if issue.codes_shared && reader.is_own(SHARED) {
            let allowed = "false with mode = segment: each code has numbers of its own";
            reader.reject(SHARED, allowed);
        }
        show(reader, name, SEGMENT, None);
        Mode::Segment { keeper: segment }
    } else {
        read_snowflake(reader, name, issue, lease, host, http)
    };
    // A claim may wait twice for `issue.max_wait`: for the lease, and then for its tick.
    let answered = max_wait * 2 < http.request_timeout;
    reader.relate("issue.max_wait", "http.request_timeout", answered, "less than half of");
    let step_sources = ["segment.min_step", "segment.max_step"].map(|key| reader.shown(key).1);
    reader.enter(Place::Top);
    let config = NamespaceConfig { name: name.to_owned(), mode };
    NamespaceRead { config, allow, spec, step_sources }
}

/// Reads the `issue`, `rollback` and `codes` sections.
fn read_issue(reader: &mut Reader) -> IssueSettings {
    let codes_max = reader.number("codes.max");
    let policies = RollbackPolicy::ALL.map(RollbackPolicy::name).join(", ");
    IssueSettings {
        borrow_ahead: reader.duration("issue.borrow_ahead"),
        max_wait: reader.duration("issue.max_wait"),
        sequence_spread_bits: reader.number("issue.sequence_spread_bits"),
        hold: reader.duration("rollback.hold"),
        rollback: reader.value("rollback.policy", policies, RollbackPolicy::by_name),
        codes_max,
        codes_max_per_client: read_share(reader, codes_max),
        codes_shared: reader.boolean(SHARED),
        codes_allow: reader.list("codes.allow").map(|codes| {
            let is_name = |name: &String| is_valid_code(name) || series_of_name(name).is_some();
            if codes.is_empty() || !codes.iter().all(is_name) {
                let allowed =
                    format!("codes that match {CODE_PATTERN}, or series such as invoice:*");
                reader.reject("codes.allow", allowed);
            }
            codes.into_iter().collect()
        }),
    }
}

/// Reads how many new codes a client may have. The default is a tenth of `codes.max`, but at least
/// 100 of them, or all if there are fewer.
fn read_share(reader: &mut Reader, codes_max: usize) -> usize {
    let key = "codes.max_per_client";
    let share = if reader.is_given(key) {
        reader.number(key)
    } else {
        (codes_max / 10).max(100).min(codes_max)
    };
    reader.resolve(key, share);
    share
}

fn read_lease(reader: &mut Reader) -> LeaseTimes {
    let renew = reader.duration("lease.renew");
    LeaseTimes {
        window: reader.duration("lease.window"),
        ttl: reader.duration("lease.ttl"),
        renew,
        max_clock_skew: reader.duration("lease.max_clock_skew"),
        stale_wait: read_stale_wait(reader, renew),
    }
}

/// Reads how long a start waits before it trusts a store that no holder wrote to lately. The
/// default is one and a half times `lease.renew`.
fn read_stale_wait(reader: &mut Reader, renew: Duration) -> Duration {
    let key = "lease.stale_wait";
    let wait =
        if reader.is_given(key) { reader.duration(key) } else { renew.saturating_mul(3) / 2 };
    reader.resolve(key, duration::format(wait));
    wait
}

/// Reads the `segment` section: the settings of a code without an entry, and those of the
/// namespace.
fn read_segment(
    reader: &mut Reader,
    name: &str,
    issue: &IssueSettings,
    http: &HttpConfig,
) -> (SegmentSpec, SegmentSettings) {
    let min_step = reader.number("segment.min_step");
    let max_step: u64 = reader.number("segment.max_step");
    let in_order = min_step <= max_step;
    reader.relate("segment.max_step", "segment.min_step", in_order, "at least");
    let max_step = max_step.max(min_step);
    let spec = SegmentSpec { min_step, max_step, ..SegmentSpec::default() };
    let creates = reader.boolean("segment.auto_create") && issue.codes_allow.is_none();
    let target_duration = reader.duration("segment.target_duration");
    let settings = SegmentSettings {
        failover_gap: reader.given_in_range("segment.failover_gap"),
        largest_claim: u64::from(http.max_batch),
        defaults: spec,
        auto_create: creates.then_some(spec),
        codes_max: issue.codes_max,
        codes_max_per_client: issue.codes_max_per_client,
        target_duration,
        max_wait: issue.max_wait,
        ..SegmentSettings::new(name)
    };
    (spec, settings)
}

/// Rejects keys of the namespace itself that its mode does not use. Top-level values for every
/// namespace may be meant for others.
fn reject_unused(reader: &mut Reader, mode: &str) {
    for key in KEYS.iter().map(|key| key.name).filter(|key| !uses(mode, key)) {
        let is_its_own = reader.is_in_namespace() || !is_inherited(key);
        if is_its_own && !is_of_service(key) && reader.is_own(key) {
            reader.reject(key, format!("left out: mode = {mode} does not use it"));
        }
    }
}

fn read_snowflake(
    reader: &mut Reader,
    name: &str,
    issue: IssueSettings,
    lease: LeaseTimes,
    host: &Host,
    http: &HttpConfig,
) -> Mode {
    let (layout, preset) = layout::read(reader);
    note_codes(reader, name, &issue);
    let backfill_from_ms = reader.given("layout.backfill_from", layout::INSTANT, parse_unix_ms);
    let (workers, premise) = worker::read(reader, &layout, host);
    let keeper = KeeperSettings {
        namespace: name.to_owned(),
        min_worker: *workers.start(),
        max_worker: *workers.end(),
        prefer_previous: reader.boolean("worker.prefer_previous"),
        issue,
        lease,
        backfill_from_ms,
        ..KeeperSettings::new(layout, read_holder(reader, host, http))
    };
    if let Err(mut violations) = keeper.check() {
        // Skip violations that only the default in the place of a bad value causes.
        violations.0.retain(|Violation { key, .. }| {
            !reader.is_bad(match section_of(key) {
                "layout" | "worker" => "layout",
                _ => "lease",
            })
        });
        reader.violations(violations);
    }
    // `check` does not see the file, which is opened later.
    if reader.is_given(STATE_FILE)
        && let Some(violation) = keeper.lease.check_with_state_file()
    {
        reader.violations(Violations(vec![violation]));
    }
    show(reader, name, SNOWFLAKE, preset);
    Mode::Snowflake { keeper, premise }
}

/// Notes the consequences of one sequence for all codes, or of one for each.
fn note_codes(reader: &mut Reader, name: &str, issue: &IssueSettings) {
    if !issue.codes_shared {
        reader.notes.push(format!(
            "namespace {name}: codes.shared = false: each code has a sequence of its own, and IDs \
             of two codes may be equal; an ID is unique together with its code"
        ));
        return;
    }
    for key in ["codes.max", "codes.max_per_client"] {
        if reader.is_given(key) {
            let (value, source) = reader.shown(key);
            reader.notes.push(format!(
                "namespace {name}: {key} = {value} ({source}) has no effect: all codes share one \
                 sequence (codes.shared = true)"
            ));
        }
    }
}

fn read_holder(reader: &mut Reader, host: &Host, http: &HttpConfig) -> String {
    // The narrowest column for it in any store.
    let fits = |text: &str| {
        let has_control = text.chars().any(char::is_control);
        ((1..=128).contains(&text.chars().count()) && !has_control).then(|| text.to_owned())
    };
    let allowed = "1 to 128 characters, none of them a control character";
    let holder = reader.given("worker.holder", allowed, fits);
    let holder = holder.unwrap_or_else(|| host.holder(http.listen));
    reader.resolve("worker.holder", &holder);
    holder
}

/// Shows the keys of a namespace that its mode uses. At the top level, also shows the keys of the
/// service and the keys that other namespaces inherit.
fn show(reader: &mut Reader, name: &str, mode: &str, preset: Option<Preset>) {
    let is_top = name == DEFAULT_NAMESPACE;
    for key in KEYS {
        let is_for_all = is_of_service(key.name) || is_inherited(key.name);
        let is_used = !is_of_service(key.name) && uses(mode, key.name);
        let is_used = is_used && (mode, key.name) != (SEGMENT, SHARED);
        if is_used || (is_top && is_for_all) {
            let is_of_preset = section_of(key.name) == "layout" && key.default.is_some();
            let preset = preset.filter(|_| is_of_preset && reader.is_given("layout.preset"));
            let default = preset.map(|preset| format!("preset {}", preset.name()));
            reader.show(key.name, default.as_deref().unwrap_or(DEFAULT));
        }
    }
}
