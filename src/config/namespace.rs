//! A namespace: its mode and settings.

use std::collections::BTreeSet;

use super::{
    host::Host,
    http::HttpConfig,
    issue,
    keys::{KEYS, Key, Scope},
    layout::{self, LayoutChoice},
    lease,
    reader::{Place, Reader},
    segment,
    source::Source,
    worker,
};
use crate::{
    core::{
        issue::IssueSettings, namespace::DEFAULT_NAMESPACE, preset::Preset, segment::SegmentSpec,
        violation::Violation,
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
    /// By time and worker id.
    Snowflake {
        /// The lease, and how IDs are issued.
        keeper: KeeperSettings,
        /// The condition under which a given worker id is unique without a store, continuing
        /// "unique only while"; `None` when any free one is leased.
        premise: Option<String>,
    },
    /// By counting.
    Segment {
        /// The codes, and how their numbers are reserved.
        keeper: SegmentSettings,
    },
}

impl Mode {
    /// Returns its name in the configuration.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Snowflake { .. } => SNOWFLAKE,
            Self::Segment { .. } => SEGMENT,
        }
    }
}

const SNOWFLAKE: &str = "snowflake";
const SEGMENT: &str = "segment";

/// The keys that segment mode uses beside the `segment` section.
const USED_BY_SEGMENT: [&str; 5] =
    ["mode", "issue.max_wait", "codes.max", "codes.shared", "codes.allow"];

/// Whether a mode uses a key of namespaces.
fn uses(mode: &str, key: &Key) -> bool {
    let is_of_segment = key.section() == "segment";
    if mode == SEGMENT {
        is_of_segment || USED_BY_SEGMENT.contains(&key.name)
    } else {
        !is_of_segment
    }
}

/// A namespace whose `[[code]]` entries are not read yet.
#[derive(Debug)]
pub(super) struct NamespaceRead {
    pub(super) config: NamespaceConfig,
    /// The only codes that it serves, if they are listed.
    pub(super) allow: Option<BTreeSet<String>>,
    /// What a code is in segment mode unless its entry says otherwise, and the sources of its
    /// smallest and largest step.
    pub(super) spec: SegmentSpec,
    pub(super) step_sources: [Source; 2],
}

pub(super) fn read(
    reader: &mut Reader,
    name: &str,
    host: &Host,
    http: &HttpConfig,
) -> NamespaceRead {
    reader.enter(Place::of_namespace(name));
    let modes = [SNOWFLAKE, SEGMENT];
    let mode = reader
        .value("mode", modes.join(" or "), |text| modes.into_iter().find(|mode| *mode == text));
    if !reader.is_bad("mode") {
        reject_unused(reader, mode);
    }
    // Each section in each mode: other namespaces inherit what stands at the top level.
    let issue = issue::read(reader);
    let lease = lease::read(reader);
    let segment = segment::read(reader);
    let (allow, max_wait) = (issue.codes_allow.clone(), issue.max_wait);
    let mode = if mode == SEGMENT {
        if issue.codes_shared {
            let allowed = "false with mode = segment: each code has numbers of its own";
            reader.reject("codes.shared", allowed);
        }
        let keeper = SegmentSettings {
            auto_create: (segment.auto_create && allow.is_none()).then_some(segment.spec),
            codes_max: issue.codes_max,
            target_duration: segment.target_duration,
            max_wait,
            ..SegmentSettings::new(name)
        };
        show(reader, name, SEGMENT, None);
        Mode::Segment { keeper }
    } else {
        read_snowflake(reader, name, issue, lease, host, http)
    };
    // A claim may wait for the lease, and then for its tick; or for a block.
    let answered = max_wait * 2 < http.request_timeout;
    reader.relate("issue.max_wait", "http.request_timeout", answered, "less than half of");
    let step_sources = ["segment.min_step", "segment.max_step"].map(|key| reader.shown(key).1);
    reader.enter(Place::Top);
    let config = NamespaceConfig { name: name.to_owned(), mode };
    NamespaceRead { config, allow, spec: segment.spec, step_sources }
}

/// Notes the keys that the namespace itself gives and its mode does not use. What stands at the
/// top level for every namespace may be meant for others.
fn reject_unused(reader: &mut Reader, mode: &str) {
    for key in KEYS.iter().filter(|key| !uses(mode, key)) {
        let is_its_own = match key.scope() {
            Scope::Service => false,
            Scope::Inherited => reader.is_in_namespace(),
            Scope::Own => true,
        };
        if is_its_own && reader.is_own(key.name) {
            reader.reject(key.name, format!("left out: mode = {mode} does not use it"));
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
    let LayoutChoice { layout, preset, backfill_from_ms } = layout::read(reader);
    let worker = worker::read(reader, &layout, host, http.listen);
    let keeper = KeeperSettings {
        namespace: name.to_owned(),
        min_worker: *worker.ids.start(),
        max_worker: *worker.ids.end(),
        prefer_previous: worker.prefer_previous,
        issue,
        lease,
        backfill_from_ms,
        ..KeeperSettings::new(layout, worker.holder)
    };
    if let Err(mut violations) = keeper.check() {
        // The default that takes the place of a bad value must not be held against other keys.
        violations.0.retain(|Violation { key, .. }| {
            !reader.is_bad(match key.split('.').next() {
                Some("layout" | "worker") => "layout",
                _ => "lease",
            })
        });
        reader.violations(violations);
    }
    show(reader, name, SNOWFLAKE, preset);
    Mode::Snowflake { keeper, premise: worker.premise }
}

/// Shows the keys of a namespace: those that its mode uses; at the top level also those of the
/// service and those that others inherit.
fn show(reader: &mut Reader, name: &str, mode: &str, preset: Option<Preset>) {
    let is_top = name == DEFAULT_NAMESPACE;
    for key in KEYS {
        let is_shown = match key.scope() {
            Scope::Service => is_top,
            Scope::Inherited => is_top || uses(mode, key),
            Scope::Own => uses(mode, key),
        };
        if is_shown {
            let is_of_preset = key.section() == "layout" && key.default.is_some();
            let preset = preset.filter(|_| is_of_preset && reader.is_given("layout.preset"));
            let default = preset.map_or(Source::Default, |preset| Source::Preset(preset.name()));
            reader.show(key.name, default);
        }
    }
}
