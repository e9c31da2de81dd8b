//! What belongs to one namespace: its mode, and what its mode is told.

use super::{
    EffectiveSetting, Host, HttpConfig, Source, issue,
    keys::{KEYS, Key, Scope},
    layout::{self, LayoutChoice},
    lease,
    reader::Reader,
    worker,
};
use crate::{
    core::{instant::format_unix_ms_short, worker_id::WorkerIdSource},
    keeper::KeeperSettings,
    server::DEFAULT_NAMESPACE,
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
}

/// A namespace as it was read, with what its keys came to.
#[derive(Debug)]
pub(super) struct NamespaceRead {
    pub(super) config: NamespaceConfig,
    pub(super) effective: Vec<EffectiveSetting>,
    /// Whether its worker id is given by hand or by source.
    pub(super) worker_is_given: bool,
}

/// Reads a namespace; none means `default`.
pub(super) fn read(
    reader: &mut Reader,
    name: Option<&str>,
    host: &Host,
    http: &HttpConfig,
) -> NamespaceRead {
    reader.enter(name);
    reader.value("mode", "snowflake", |text| (text == "snowflake").then_some(()));
    let choice = layout::read(reader);
    let worker = worker::read(reader, &choice.layout, host);
    let issue = issue::read(reader);
    let lease = lease::read(reader);
    // A claim may wait for the lease, and then for its tick.
    let answered = issue.max_wait * 2 < http.request_timeout;
    reader.relate("issue.max_wait", "http.request_timeout", answered, "less than half of");

    let name = name.unwrap_or(DEFAULT_NAMESPACE).to_owned();
    let keeper = KeeperSettings {
        namespace: name.clone(),
        min_worker: *worker.ids.start(),
        max_worker: *worker.ids.end(),
        prefer_previous: worker.prefer_previous,
        issue,
        lease,
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
    let effective = effective(reader, &name, &choice, &keeper);
    reader.enter(None);
    let premise = worker.source.map(|source| WorkerIdSource::premise(&*source));
    NamespaceRead {
        config: NamespaceConfig { name, mode: Mode::Snowflake { keeper, premise } },
        effective,
        worker_is_given: worker.is_given,
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
    let is_shown = |key: &&Key| name == DEFAULT_NAMESPACE || key.scope() != Scope::Service;
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
