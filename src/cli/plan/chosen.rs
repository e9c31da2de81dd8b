//! Which layout is planned: by flags, a preset, or as configured.

use std::time::Duration;

use crate::{
    cli::{Failure, keeper_of},
    config::{Config, ConfigError},
    core::{
        instant::parse_unix_ms,
        layout::{Layout, LayoutSpec, TimeUnit},
        namespace::DEFAULT_NAMESPACE,
        preset::Preset,
        violation::Violations,
    },
    keeper::LeaseTimes,
};

/// A preset or widths of one's own; the configured layout when none is given.
#[derive(Debug, Default, clap::Args)]
pub(super) struct LayoutArguments {
    /// A preset's layout.
    #[arg(long, value_name = "NAME", value_parser = preset)]
    pub(super) preset: Option<Preset>,
    /// Where ticks begin, RFC 3339.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    pub(super) epoch: Option<i64>,
    #[command(flatten)]
    pub(super) widths: Widths,
}

/// Widths of one's own; what is left out is as in the configuration's defaults.
#[derive(Debug, Default, PartialEq, Eq, clap::Args)]
#[group(id = "widths", multiple = true, conflicts_with = "preset")]
pub(super) struct Widths {
    /// millisecond, second, minute, hour, day, or 1 to 5.
    #[arg(long, value_name = "UNIT", value_parser = unit)]
    pub(super) time_unit: Option<TimeUnit>,
    /// Width of the timestamp.
    #[arg(long, value_name = "BITS")]
    pub(super) timestamp_bits: Option<u32>,
    /// Width of the data centre.
    #[arg(long, value_name = "BITS")]
    pub(super) data_center_bits: Option<u32>,
    /// Width of the worker id.
    #[arg(long, value_name = "BITS")]
    pub(super) worker_bits: Option<u32>,
    /// Width of the rollback field.
    #[arg(long, value_name = "BITS")]
    pub(super) rollback_bits: Option<u32>,
    /// Width of the constant at the end.
    #[arg(long, value_name = "BITS")]
    pub(super) reserved_bits: Option<u32>,
    /// The first sequence number of a tick.
    #[arg(long, value_name = "NUMBER")]
    pub(super) min_sequence: Option<u64>,
    /// The last sequence number of a tick.
    #[arg(long, value_name = "NUMBER")]
    pub(super) max_sequence: Option<u64>,
}

/// A layout and what is planned with it.
#[derive(Debug)]
pub(super) struct Chosen {
    /// The preset's name, or where the layout comes from.
    pub(super) title: String,
    pub(super) preset: Option<Preset>,
    pub(super) layout: Layout,
    pub(super) min_worker: u64,
    pub(super) max_worker: u64,
    pub(super) window: Duration,
}

impl LayoutArguments {
    pub(super) fn choose(
        self,
        load: impl FnOnce() -> Result<Config, ConfigError>,
    ) -> Result<Chosen, Failure> {
        let spec = match self.preset {
            Some(preset) => preset.spec(),
            None if self.widths == Widths::default() && self.epoch.is_none() => {
                return configured(&load()?);
            }
            None => self.widths.spec(),
        };
        let spec = LayoutSpec { epoch_ms: self.epoch.unwrap_or(spec.epoch_ms), ..spec };
        let layout = spec.build().map_err(|violations| Failure::Usage(as_flags(&violations)))?;
        Ok(Chosen {
            title: self.preset.map_or("of these flags".into(), |preset| preset.name().into()),
            preset: self.preset,
            min_worker: 1,
            max_worker: layout.largest_worker(),
            window: LeaseTimes::default().window,
            layout,
        })
    }
}

impl Widths {
    fn spec(&self) -> LayoutSpec {
        let default = LayoutSpec::for_unit(self.time_unit.unwrap_or(TimeUnit::Millisecond));
        LayoutSpec {
            timestamp_bits: self.timestamp_bits,
            data_center_bits: self.data_center_bits.unwrap_or(default.data_center_bits),
            worker_bits: self.worker_bits.unwrap_or(default.worker_bits),
            rollback_bits: self.rollback_bits.unwrap_or(default.rollback_bits),
            reserved_bits: self.reserved_bits.unwrap_or(default.reserved_bits),
            min_sequence: self.min_sequence.unwrap_or(default.min_sequence),
            max_sequence: self.max_sequence,
            ..default
        }
    }
}

fn configured(config: &Config) -> Result<Chosen, Failure> {
    let keeper = keeper_of(config, DEFAULT_NAMESPACE)?;
    let preset = config
        .effective()
        .iter()
        .find(|setting| setting.key == "layout.preset")
        .and_then(|setting| Preset::by_name(&setting.value));
    Ok(Chosen {
        title: preset.map_or("as configured".into(), |preset| preset.name().into()),
        preset,
        layout: keeper.layout.clone(),
        min_worker: keeper.min_worker,
        max_worker: keeper.max_worker,
        window: keeper.lease.window,
    })
}

/// Violations name keys of the configuration; here they are flags.
fn as_flags(violations: &Violations) -> String {
    let flag = |key: &str| format!("--{}", key.trim_start_matches("layout.").replace('_', "-"));
    let lines = violations.0.iter().map(|violation| {
        let shown = violation.to_string();
        match violation.key.as_str() {
            "layout" => shown,
            key => shown.replacen(key, &flag(key), 1),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn preset(name: &str) -> Result<Preset, String> {
    let names = || format!("must be one of {}", Preset::ALL.map(Preset::name).join(", "));
    Preset::by_name(name).ok_or_else(names)
}

fn instant(text: &str) -> Result<i64, String> {
    let form = || "must be an RFC 3339 instant such as 2025-01-01T00:00:00Z".into();
    parse_unix_ms(text).ok_or_else(form)
}

fn unit(text: &str) -> Result<TimeUnit, String> {
    let names =
        || format!("must be one of {}, or 1 to 5", TimeUnit::ALL.map(TimeUnit::name).join(", "));
    text.parse().map_err(|()| names())
}
