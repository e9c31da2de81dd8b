//! The layout to plan: given by flags, or else configured.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::facts::Plan;
use crate::{
    cli::{
        failure::Failure,
        load::{Overrides, keeper_of},
    },
    config::{Config, FlagValue, Inputs, Key},
    core::{instant::format_unix_ms_short, namespace::DEFAULT_NAMESPACE, preset::Preset},
};

/// The flags, and the keys of the configuration that they set.
const FLAGS: [(&str, &str); 10] = [
    ("--preset", PRESET),
    ("--epoch", EPOCH),
    ("--time-unit", "layout.time_unit"),
    ("--timestamp-bits", "layout.timestamp_bits"),
    ("--data-center-bits", "layout.data_center_bits"),
    ("--worker-bits", "layout.worker_bits"),
    ("--rollback-bits", "layout.rollback_bits"),
    ("--reserved-bits", "layout.reserved_bits"),
    ("--min-sequence", "layout.min_sequence"),
    ("--max-sequence", "layout.max_sequence"),
];
const PRESET: &str = "layout.preset";
const EPOCH: &str = "layout.epoch";

/// The given flags. Those that are left out have the configuration's defaults.
#[derive(Debug)]
pub(super) struct LayoutFlags(Vec<FlagValue>);

impl FromArgMatches for LayoutFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = FLAGS.into_iter().filter_map(|(flag, key)| {
            let value = matches.get_one::<String>(key)?.clone();
            Some(FlagValue { flag, key, value })
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for LayoutFlags {
    fn augment_args(command: Command) -> Command {
        command.args(FLAGS.map(|(flag, key)| {
            let help = Key::by_name(key).map_or("", |key| key.help.trim_end_matches('.'));
            let flag = Arg::new(key).long(flag.trim_start_matches('-')).help(help);
            flag.value_name("VALUE").allow_hyphen_values(true)
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl LayoutFlags {
    /// Plans the layout of these flags, or else the configured one.
    pub(super) fn plan(self, overrides: Overrides) -> Result<Plan, Failure> {
        let Self(mut flags) = self;
        if flags.is_empty() {
            let config = overrides.load()?;
            let preset = config.effective().iter().find(|setting| setting.key == PRESET);
            let preset = preset.and_then(|setting| Preset::by_name(&setting.value));
            let keeper = keeper_of(&config, DEFAULT_NAMESPACE)?.clone();
            return Ok(Plan::of("as configured", preset, keeper));
        }
        let value = |key| flags.iter().find(|flag| flag.key == key).map(|flag| &flag.value);
        let preset = value(PRESET).and_then(|name| Preset::by_name(name));
        if let (Some(preset), None) = (preset, value(EPOCH)) {
            // Named, so that a layout can be drawn whose time has run out.
            let value = format_unix_ms_short(preset.spec().epoch_ms);
            flags.push(FlagValue { flag: "--preset", key: EPOCH, value });
        }
        let config = Config::load(&Inputs { flags, ..Inputs::default() })?;
        let keeper = keeper_of(&config, DEFAULT_NAMESPACE)?.clone();
        Ok(Plan::of("of these flags", preset, keeper))
    }
}
