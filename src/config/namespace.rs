//! What belongs to one namespace: its mode, and what its mode is told.

use super::{
    EffectiveSetting, Host, HttpConfig, Source, issue,
    keys::{KEYS, Key, Scope},
    layout::{self, LayoutChoice},
    lease,
    reader::Reader,
    segment::{self, SegmentCodes, SegmentRead},
    worker,
};
use crate::{
    core::{
        instant::format_unix_ms_short, namespace::DEFAULT_NAMESPACE, worker_id::WorkerIdSource,
    },
    keeper::{KeeperSettings, SegmentSettings},
};

/// One namespace.
#[derive(Clone, Debug)]
pub struct NamespaceConfig {
    /// Its name.
    pub name: String,
    /// How its IDs are made.
    pub mode: Mode,
}

/// How IDs are made, and with what.
#[derive(Clone, Debug)]
pub enum Mode {
    /// By time and a worker id.
    Snowflake {
        /// What the keeper leases, and how IDs are issued.
        keeper: KeeperSettings,
        /// What a given worker id rests on without a store, continuing "unique only while"; none
        /// when any free one is leased.
        premise: Option<String>,
    },
    /// By counting.
    Segment {
        /// Which codes there are, and how their numbers are reserved.
        keeper: SegmentSettings,
    },
}

impl Mode {
    /// Its name in configuration.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Snowflake { .. } => SNOWFLAKE,
            Self::Segment { .. } => SEGMENT,
        }
    }
}

const SNOWFLAKE: &str = "snowflake";
const SEGMENT: &str = "segment";

/// A namespace as it was read, with what its keys came to.
#[derive(Debug)]
pub(super) struct NamespaceRead {
    pub(super) config: NamespaceConfig,
    pub(super) effective: Vec<EffectiveSetting>,
    /// Whether its worker id is given by hand or by source.
    pub(super) worker_is_given: bool,
    /// What codes it has, in segment mode.
    pub(super) segment: Option<SegmentCodes>,
}

/// Reads a namespace; none means `default`.
pub(super) fn read(
    reader: &mut Reader,
    name: Option<&str>,
    host: &Host,
    http: &HttpConfig,
) -> NamespaceRead {
    reader.enter(name);
    let names = [SNOWFLAKE, SEGMENT];
    let mode = reader
        .value("mode", names.join(" or "), |text| names.into_iter().find(|name| *name == text));
    let name = name.unwrap_or(DEFAULT_NAMESPACE);
    let read = if mode == SEGMENT {
        read_segment(reader, name)
    } else {
        read_snowflake(reader, name, host, http)
    };
    // A claim may wait for the lease, and then for its tick; or for a block.
    let max_wait = match &read.config.mode {
        Mode::Snowflake { keeper, .. } => keeper.issue.max_wait,
        Mode::Segment { keeper } => keeper.max_wait,
    };
    let answered = max_wait * 2 < http.request_timeout;
    reader.relate("issue.max_wait", "http.request_timeout", answered, "less than half of");
    reader.enter(None);
    read
}

fn read_segment(reader: &mut Reader, name: &str) -> NamespaceRead {
    let SegmentRead { settings, codes } = segment::read(reader, name);
    if name == DEFAULT_NAMESPACE {
        // What others inherit is checked where it stands.
        lease::read(reader);
    }
    // What stands at the top is the default of others, too.
    let is_shown =
        |key: &Key| segment::uses(key) || (name == DEFAULT_NAMESPACE && key.scope() != Scope::Own);
    let setting = |key: &Key| {
        let (value, source) = reader.shown(key.name);
        EffectiveSetting { key: reader.full_name(key.name), value, source }
    };
    NamespaceRead {
        effective: KEYS.iter().filter(|key| is_shown(key)).map(setting).collect(),
        config: NamespaceConfig { name: name.to_owned(), mode: Mode::Segment { keeper: settings } },
        worker_is_given: false,
        segment: Some(codes),
    }
}

fn read_snowflake(
    reader: &mut Reader,
    name: &str,
    host: &Host,
    http: &HttpConfig,
) -> NamespaceRead {
    // With a mode that cannot be read, nobody knows.
    let mode_is_known = !reader.is_bad("mode");
    let is_other = |key: &Key| key.section() == "segment" && mode_is_known;
    segment::reject_own(
        reader,
        is_other,
        "left out with mode = snowflake, which has no use for it",
    );
    let choice = layout::read(reader);
    let worker = worker::read(reader, &choice.layout, host);
    let issue = issue::read(reader);
    let lease = lease::read(reader);
    if name == DEFAULT_NAMESPACE {
        // What others inherit is checked where it stands.
        segment::read_section(reader);
    }
    let keeper = KeeperSettings {
        namespace: name.to_owned(),
        min_worker: *worker.ids.start(),
        max_worker: *worker.ids.end(),
        prefer_previous: worker.prefer_previous,
        issue,
        lease,
        backfill_from_ms: choice.backfill_from_ms,
        ..KeeperSettings::new(
            choice.layout.clone(),
            worker.holder.unwrap_or_else(|| host.holder(http.listen)),
        )
    };
    // What takes the place of a bad value must not be held against others.
    let is_bad = ["lease.", "worker."].iter().any(|section| reader.is_bad(section));
    if let (false, Err(violations)) = (is_bad, keeper.check()) {
        for violation in violations.0 {
            reader.violation(violation);
        }
    }
    let premise = worker.source.map(|source| WorkerIdSource::premise(&*source));
    NamespaceRead {
        effective: effective(reader, name, &choice, &keeper),
        config: NamespaceConfig {
            name: name.to_owned(),
            mode: Mode::Snowflake { keeper, premise },
        },
        worker_is_given: worker.is_given,
        segment: None,
    }
}

fn effective(
    reader: &Reader,
    name: &str,
    choice: &LayoutChoice,
    keeper: &KeeperSettings,
) -> Vec<EffectiveSetting> {
    let setting = |key: &Key| {
        let (mut value, mut source) = reader.shown(key.name);
        if let Some(resolved) = resolved(key.name, choice, keeper) {
            value = resolved;
            let preset = choice.preset.filter(|_| key.name.starts_with("layout."));
            if let (Source::Default, Some(preset)) = (&source, preset)
                && reader.is_given("layout.preset")
            {
                source = Source::Preset(preset.name());
            }
        }
        EffectiveSetting { key: reader.full_name(key.name), value, source }
    };
    // The service's keys are listed once, in their place among those of `default`.
    let is_own = |key: &Key| key.scope() != Scope::Service && key.section() != "segment";
    let is_shown = |key: &&Key| name == DEFAULT_NAMESPACE || is_own(key);
    KEYS.iter().filter(is_shown).map(setting).collect()
}

/// The value of a key whose default depends on others.
fn resolved(key: &str, choice: &LayoutChoice, keeper: &KeeperSettings) -> Option<String> {
    let layout = &choice.layout;
    let widths = layout.widths();
    let number = match key {
        "layout.preset" => return Some(choice.preset.map(|p| p.name().into()).unwrap_or_default()),
        "layout.time_unit" => return Some(layout.unit().name().into()),
        "layout.epoch" => return Some(format_unix_ms_short(layout.epoch_ms())),
        "worker.holder" => return Some(keeper.holder.clone()),
        "layout.timestamp_bits" => widths.timestamp.into(),
        "layout.worker_bits" => widths.worker.into(),
        "layout.data_center_bits" => widths.data_center.into(),
        "layout.data_center" => layout.data_center(),
        "layout.rollback_bits" => widths.rollback.into(),
        "layout.rollback_initial" => layout.rollback_initial().into(),
        "layout.reserved_bits" => widths.reserved.into(),
        "layout.reserved_value" => layout.reserved(),
        "layout.min_sequence" => layout.min_sequence(),
        "layout.max_sequence" => layout.max_sequence(),
        "worker.min_id" => keeper.min_worker,
        "worker.max_id" => keeper.max_worker,
        _ => return None,
    };
    Some(number.to_string())
}
