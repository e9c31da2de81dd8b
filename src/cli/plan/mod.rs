//! `raindrop plan`: what a layout offers, and for how long.

mod facts;
#[cfg(test)]
mod tests;
mod text;

use anstream::{AutoStream, ColorChoice, adapter::strip_str};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use self::facts::Plan;
use super::{
    arguments::{Overrides, keeper_of},
    failure::Failure,
    output,
};
use crate::{
    config::{Config, FlagValue, Inputs, Key},
    core::{
        clock::{Clock, SystemClock},
        instant::format_unix_ms_short,
        namespace::DEFAULT_NAMESPACE,
        preset::Preset,
    },
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
const JSON: &str = "json";

#[derive(Debug)]
pub(super) struct PlanArguments {
    /// The given flags of the layout. Those that are left out have the configuration's defaults.
    flags: Vec<FlagValue>,
    json: bool,
}

/// By hand, so that the flags of the layout have the help of their keys.
impl Args for PlanArguments {
    fn augment_args(command: Command) -> Command {
        let layout = FLAGS.map(|(flag, key)| {
            let help = Key::by_name(key).map_or("", |key| key.help.trim_end_matches('.'));
            let flag = Arg::new(key).long(flag.trim_start_matches('-')).help(help);
            flag.value_name("VALUE").allow_hyphen_values(true)
        });
        let json = Arg::new(JSON).long(JSON).action(ArgAction::SetTrue);
        command.args(layout).arg(json.help("Print JSON; docs/layouts.md lists its keys"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PlanArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = FLAGS.into_iter().filter_map(|(flag, key)| {
            let value = matches.get_one::<String>(key)?.clone();
            Some(FlagValue { flag, key, value })
        });
        Ok(Self { flags: given.collect(), json: matches.get_flag(JSON) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(super) fn run(overrides: Overrides, arguments: PlanArguments) -> Result<(), Failure> {
    let plan = plan(overrides, arguments.flags)?;
    if arguments.json {
        return output::print_json(&plan);
    }
    let text = text::render(&plan, SystemClock::default().now_ms());
    match AutoStream::choice(&std::io::stdout()) {
        ColorChoice::Never => output::print(&strip_str(&text).to_string()),
        _ => output::print(&text),
    }
}

/// Plans the layout of these flags, or else the configured one.
fn plan(overrides: Overrides, mut flags: Vec<FlagValue>) -> Result<Plan, Failure> {
    let (title, preset, config) = if flags.is_empty() {
        let config = overrides.load()?;
        let preset = config.effective.iter().find(|setting| setting.key == PRESET);
        let preset = preset.and_then(|setting| Preset::by_name(&setting.value));
        ("as configured", preset, config)
    } else {
        let value = |key| flags.iter().find(|flag| flag.key == key).map(|flag| &flag.value);
        let preset = value(PRESET).and_then(|name| Preset::by_name(name));
        if let (Some(preset), None) = (preset, value(EPOCH)) {
            // Named, so that a layout can be drawn whose time has run out.
            let value = format_unix_ms_short(preset.spec().epoch_ms);
            flags.push(FlagValue { flag: "--preset", key: EPOCH, value });
        }
        ("of these flags", preset, Config::load(&Inputs { flags, ..Inputs::default() })?)
    };
    Ok(Plan::of(title, preset, keeper_of(&config, DEFAULT_NAMESPACE)?.clone()))
}
