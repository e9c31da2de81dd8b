//! Computes what a layout offers, for `/plan` and `raindrop plan`, and the table that configures
//! it.

mod facts;
#[cfg(test)]
mod tests;

pub(crate) use self::facts::{Field, Part, Plan, scarce_ids};
use crate::{
    config::{Config, ConfigError, FlagValue, Mode},
    core::{
        instant::{format_unix_ms_for_reading, format_unix_ms_short},
        layout::{FieldOrder, Layout, Widths},
        preset::Preset,
    },
};

const PRESET: &str = "layout.preset";
const EPOCH: &str = "layout.epoch";

/// A setting of the layout that a plan can change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanKey {
    /// The query parameter.
    pub(crate) parameter: &'static str,
    /// The flag of the command line.
    pub(crate) flag: &'static str,
    /// The configuration key that both set.
    pub(crate) key: &'static str,
}

const fn key(parameter: &'static str, flag: &'static str, key: &'static str) -> PlanKey {
    PlanKey { parameter, flag, key }
}

/// Every setting that a plan can change.
pub(crate) const PLAN_KEYS: [PlanKey; 14] = [
    key("preset", "--preset", PRESET),
    key("epoch", "--epoch", EPOCH),
    key("time_unit", "--time-unit", "layout.time_unit"),
    key("order", "--order", "layout.order"),
    key("timestamp_bits", "--timestamp-bits", "layout.timestamp_bits"),
    key("data_center_bits", "--data-center-bits", "layout.data_center_bits"),
    key("data_center", "--data-center", "layout.data_center"),
    key("worker_bits", "--worker-bits", "layout.worker_bits"),
    key("rollback_bits", "--rollback-bits", "layout.rollback_bits"),
    key("rollback_initial", "--rollback-initial", "layout.rollback_initial"),
    key("reserved_bits", "--reserved-bits", "layout.reserved_bits"),
    key("reserved_value", "--reserved-value", "layout.reserved_value"),
    key("min_sequence", "--min-sequence", "layout.min_sequence"),
    key("max_sequence", "--max-sequence", "layout.max_sequence"),
];

impl Plan {
    /// Plans a layout with these settings. All others have their defaults.
    ///
    /// # Errors
    ///
    /// Every problem at once, with the names of the flags.
    pub(crate) fn of_flags(mut flags: Vec<FlagValue>) -> Result<Self, ConfigError> {
        let given = |key| flags.iter().find(|flag| flag.key == key);
        let chosen = given(PRESET).and_then(|flag| Some((flag, Preset::by_name(&flag.value)?)));
        let preset = chosen.map(|(_, preset)| preset);
        if let (Some((flag, preset)), None) = (chosen, given(EPOCH)) {
            // Name the epoch: a preset whose timestamp has run out is an error without one.
            let value = format_unix_ms_short(preset.spec().epoch_ms);
            let flag = flag.flag;
            flags.push(FlagValue { flag, key: EPOCH, value });
        }
        Ok(Self::of("of these flags", preset, Config::plan(flags)?))
    }

    /// Plans the layout of the namespace `default`; `None` if that is in segment mode.
    pub(crate) fn configured(config: &Config) -> Option<Self> {
        let preset = config.effective.iter().find(|setting| setting.key == PRESET);
        let preset = preset.and_then(|setting| Preset::by_name(&setting.value));
        match &config.namespaces.first()?.mode {
            Mode::Snowflake { keeper, .. } => {
                Some(Self::of("as configured", preset, keeper.clone()))
            }
            Mode::Segment { .. } => None,
        }
    }
}

/// Returns the `[layout]` table that gives exactly this layout.
fn layout_table(layout: &Layout, preset: Option<Preset>) -> String {
    let epoch = format!("epoch = \"{}\"", format_unix_ms_for_reading(layout.epoch_ms()));
    let mut lines = vec!["[layout]".to_owned()];
    if let Some(preset) = preset {
        lines.push(format!("preset = \"{}\"", preset.name()));
        let has_its_epoch = preset.spec().epoch_ms == layout.epoch_ms();
        // A preset whose timestamp has run out needs an explicit epoch.
        if !has_its_epoch || preset.check_own_epoch().is_err() {
            lines.push(epoch);
        }
    } else {
        let Widths { timestamp, data_center, worker, rollback, reserved, .. } = layout.widths();
        lines.extend([
            format!("time_unit = \"{}\"", layout.unit().name()),
            epoch,
            format!("timestamp_bits = {timestamp}"),
            format!("data_center_bits = {data_center}"),
            format!("worker_bits = {worker}"),
            format!("rollback_bits = {rollback}"),
            format!("reserved_bits = {reserved}"),
            format!("min_sequence = {}", layout.min_sequence()),
            format!("max_sequence = {}", layout.max_sequence()),
        ]);
        if layout.order() != FieldOrder::default() {
            lines.push(format!("order = \"{}\"", layout.order().name()));
        }
    }
    let constants = [
        ("data_center", layout.data_center()),
        ("rollback_initial", u64::from(layout.rollback_initial())),
        ("reserved_value", layout.reserved()),
    ];
    let set = constants.into_iter().filter(|(_, value)| *value > 0);
    lines.extend(set.map(|(key, value)| format!("{key} = {value}")));
    lines.join("\n") + "\n"
}
