//! The `segment` section, and which codes a segment namespace has.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use super::{
    CodeConfig, Mode, issue,
    keys::{KEYS, Key, Scope},
    namespace::NamespaceRead,
    reader::Reader,
};
use crate::{core::segment::SegmentSpec, keeper::SegmentSettings};

/// What a segment namespace uses beside the `segment` section.
const USED: [&str; 5] = ["mode", "issue.max_wait", "codes.max", "codes.shared", "codes.allow"];

/// A segment namespace as it was read, before its codes are.
#[derive(Debug)]
pub(super) struct SegmentRead {
    pub(super) settings: SegmentSettings,
    pub(super) codes: SegmentCodes,
}

/// What codes a segment namespace has beside those with an entry.
#[derive(Debug)]
pub(super) struct SegmentCodes {
    /// What a code is unless its entry says otherwise.
    pub(super) spec: SegmentSpec,
    pub(super) allow: Option<BTreeSet<String>>,
}

/// Whether a key of a namespace has a meaning in segment mode.
pub(super) fn uses(key: &Key) -> bool {
    USED.contains(&key.name) || key.section() == "segment"
}

pub(super) fn read(reader: &mut Reader, name: &str) -> SegmentRead {
    reject_own(reader, |key| !uses(key), "left out with mode = segment, which has no use for it");
    let Section { spec, target_duration, auto_create } = read_section(reader);
    let issue = issue::read(reader);
    if issue.codes_shared {
        let allowed = "false with mode = segment, where each code counts by itself";
        reader.reject("codes.shared", allowed);
    }
    let allow = issue.codes_allow;
    let settings = SegmentSettings {
        auto_create: (auto_create && allow.is_none()).then_some(spec),
        codes_max: issue.codes_max,
        target_duration,
        max_wait: issue.max_wait,
        ..SegmentSettings::new(name)
    };
    SegmentRead { settings, codes: SegmentCodes { spec, allow } }
}

/// What the `segment` section says.
#[derive(Debug)]
pub(super) struct Section {
    spec: SegmentSpec,
    target_duration: Duration,
    auto_create: bool,
}

pub(super) fn read_section(reader: &mut Reader) -> Section {
    let steps = 1..=SegmentSpec::LARGEST;
    let min_step = reader.number("segment.min_step", steps.clone());
    let max_step: u64 = reader.number("segment.max_step", steps);
    let in_order = min_step <= max_step;
    reader.relate("segment.max_step", "segment.min_step", in_order, "at least");
    let max_step = max_step.max(min_step);
    let target = Duration::from_secs(1)..=Duration::from_hours(24);
    Section {
        spec: SegmentSpec { min_step, max_step, ..SegmentSpec::default() },
        target_duration: reader.duration("segment.target_duration", target),
        auto_create: reader.boolean("segment.auto_create"),
    }
}

/// Notes the keys that the namespace gives by itself and that are like this. What stands at the
/// top for every namespace may be meant for others.
pub(super) fn reject_own(reader: &mut Reader, is_bad: impl Fn(&Key) -> bool, allowed: &str) {
    let scopes: &[Scope] = match reader.is_in_namespace() {
        true => &[Scope::Own, Scope::Inherited],
        false => &[Scope::Own],
    };
    for key in KEYS.iter().filter(|key| scopes.contains(&key.scope()) && is_bad(key)) {
        if reader.is_own(key.name) {
            reader.reject(key.name, allowed);
        }
    }
}

/// Adds the codes that `codes.allow` names, once those with an entry are read, and checks that
/// there are some, and not too many.
pub(super) fn complete(
    reader: &mut Reader,
    namespaces: &mut [NamespaceRead],
    entries: &HashMap<&str, &CodeConfig>,
) {
    for NamespaceRead { config, segment, .. } in namespaces {
        let (Mode::Segment { keeper }, Some(segment)) = (&mut config.mode, segment) else {
            continue;
        };
        reader.enter(Some(&config.name));
        for code in segment.allow.iter().flatten() {
            // One with an entry belongs where that says.
            if !entries.contains_key(code.as_str()) {
                keeper.codes.insert(code.clone(), segment.spec);
            }
        }
        if keeper.codes.is_empty() && keeper.auto_create.is_none() {
            reader.reject(
                "segment.auto_create",
                format!("true, unless codes.allow or [[code]] names codes of {:?}", config.name),
            );
        }
        if keeper.codes.len() > keeper.codes_max && !reader.is_bad("codes.max") {
            reader.reject("codes.max", format!("at least {}, the codes given", keeper.codes.len()));
        }
        reader.enter(None);
    }
}
