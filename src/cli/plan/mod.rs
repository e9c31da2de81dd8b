//! `raindrop plan`: prints the capacity and the lifetime of a layout.

#[cfg(test)]
mod tests;
mod text;

use anstream::{AutoStream, ColorChoice, adapter::strip_str};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::{arguments::Overrides, failure::Failure, output};
use crate::{
    config::{FlagValue, Key},
    core::{
        clock::{Clock, SystemClock},
        namespace::DEFAULT_NAMESPACE,
    },
    plan::{PLAN_KEYS, Plan, PlanKey},
    server::NoFields,
};

const JSON: &str = "json";

#[derive(Debug)]
pub(super) struct PlanArguments {
    /// The flags of the layout. A flag that is left out has the default of its key.
    flags: Vec<FlagValue>,
    json: bool,
}

/// Not derived, so that each flag has the help text of its configuration key.
impl Args for PlanArguments {
    fn augment_args(command: Command) -> Command {
        let layout = PLAN_KEYS.map(|PlanKey { flag, key, .. }| {
            let help = Key::by_name(key).map_or("", |key| key.help.trim_end_matches('.'));
            let flag = Arg::new(key).long(flag.trim_start_matches('-')).help(help);
            flag.value_name("VALUE").allow_hyphen_values(true)
        });
        let json = Arg::new(JSON).long(JSON).action(ArgAction::SetTrue);
        command.args(layout).arg(json.help("Print JSON; docs/layouts/plan.md lists its keys"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PlanArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = PLAN_KEYS.into_iter().filter_map(|PlanKey { flag, key, .. }| {
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
        _ => output::print_styled(&text),
    }
}

/// Plans the layout of these flags or, without flags, the configured layout.
fn plan(overrides: Overrides, flags: Vec<FlagValue>) -> Result<Plan, Failure> {
    if !flags.is_empty() {
        return Ok(Plan::of_flags(flags)?);
    }
    let plan = Plan::configured(&overrides.load()?);
    plan.ok_or_else(|| Failure::usage(NoFields(DEFAULT_NAMESPACE)))
}
