//! `raindrop parse`: prints the fields of IDs.

use std::io::{self, BufRead, BufReader, IsTerminal, Read};

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{
    arguments::{Overrides, encodings, keeper_of},
    failure::Failure,
    output,
};
use crate::{
    config::Config,
    core::{
        clock::{Clock, SystemClock},
        encoding::Encoding,
        preset::NamedLayout,
    },
    server::ParsedId,
};

/// The most text that is kept back before it is printed, in bytes.
const AT_ONCE: usize = 64 << 10;

#[derive(Debug, clap::Args)]
pub(super) struct ParseArguments {
    /// The IDs; - or none reads them from standard input, one per line.
    ///
    /// The fields of one are printed as JSON for people; those of several, or from standard input, as
    /// one JSON object per line. Of several, those that cannot be read are named on standard error,
    /// and the exit code is 1.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// A preset, or the layout of another system; by default the configured layout.
    #[arg(long, value_name = "NAME", value_parser = layouts())]
    layout: Option<NamedLayout>,
    /// The namespace; by default that of the ID's prefix, or else default.
    #[arg(long, value_name = "NAME", conflicts_with = "layout")]
    namespace: Option<String>,
    /// The encoding of the IDs.
    #[arg(long, value_name = "NAME", default_value_t, value_parser = encodings())]
    encoding: Encoding,
}

fn layouts() -> impl TypedValueParser<Value = NamedLayout> {
    PossibleValuesParser::new(NamedLayout::names())
        .map(|name| NamedLayout::by_name(&name).expect("a possible value"))
}

pub(super) fn run(overrides: Overrides, arguments: &ParseArguments) -> Result<(), Failure> {
    let ids: Vec<&str> = arguments.ids.iter().map(String::as_str).collect();
    if ids.is_empty() && io::stdin().is_terminal() {
        let text = "ID: must be given, or - to read IDs from standard input, one per line";
        return Err(Failure::Usage(text.into()));
    }
    let config = match arguments.layout {
        Some(_) => None,
        None => Some(overrides.load()?),
    };
    let parser = Parser { arguments, config, clock: SystemClock::default() };
    match ids[..] {
        [] | ["-"] => parser.print_lines(io::stdin().lock()),
        [id] => output::print_json(&parser.parse(id)?),
        _ => parser.print_all(&ids),
    }
}

struct Parser<'a> {
    arguments: &'a ParseArguments,
    /// None where the layout is named.
    config: Option<Config>,
    clock: SystemClock,
}

impl Parser<'_> {
    fn parse(&self, id: &str) -> Result<ParsedId, Failure> {
        let now_ms = self.clock.now_ms();
        let read = |text: &str, layout| {
            let as_usage = |error| Failure::Usage(format!("ID {text:?}: {error}"));
            self.arguments.encoding.decode(text, layout).map_err(as_usage)
        };
        let parsed = match (&self.arguments.layout, &self.config) {
            (Some(named), _) => ParsedId::of_named(read(id, named.layout())?, named, now_ms),
            (None, config) => {
                let config = config.as_ref().expect("it is loaded unless a layout is named");
                let namespace = self.arguments.namespace.as_deref();
                let located = config.codes.locate_text(id, namespace, |_| true);
                let located = located.map_err(Failure::usage)?;
                let layout = &keeper_of(config, located.namespace)?.layout;
                let id = read(located.text, Some(layout))?;
                ParsedId::of_namespace(id, layout, located.namespace, now_ms)
            }
        };
        parsed.map_err(Failure::failed)
    }

    /// Prints the fields of each of these.
    fn print_all(&self, ids: &[&str]) -> Result<(), Failure> {
        let (mut text, mut bad) = (String::new(), 0_u64);
        for id in ids {
            match self.parse(id) {
                Ok(parsed) => text += &json_line(&parsed),
                Err(failure) => {
                    output::error(failure.text());
                    bad += 1;
                }
            }
        }
        output::print(&text)?;
        unless_bad(bad, ids.len() as u64)
    }

    /// Prints the fields of the ID in each line. Whatever was read is answered before more is waited
    /// for.
    fn print_lines(&self, input: impl Read) -> Result<(), Failure> {
        let mut input = BufReader::new(input);
        let (mut text, mut line) = (String::new(), Vec::new());
        let (mut number, mut bad, mut all) = (0_u64, 0_u64, 0_u64);
        loop {
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            number += 1;
            let id = String::from_utf8_lossy(&line);
            if id.trim().is_empty() {
                continue;
            }
            all += 1;
            match self.parse(id.trim()) {
                Ok(parsed) => text += &json_line(&parsed),
                Err(failure) => {
                    output::error(&format!("line {number}: {}", failure.text()));
                    bad += 1;
                }
            }
            if input.buffer().is_empty() || text.len() > AT_ONCE {
                if !output::print_unless_closed(&text)? {
                    return Ok(());
                }
                text.clear();
            }
        }
        output::print(&text)?;
        unless_bad(bad, all)
    }
}

fn json_line(parsed: &ParsedId) -> String {
    serde_json::to_string(parsed).expect("texts and numbers are always JSON") + "\n"
}

fn unless_bad(bad: u64, all: u64) -> Result<(), Failure> {
    match bad {
        0 => Ok(()),
        _ => Err(Failure::Failed(format!("{bad} of {all} IDs could not be parsed"))),
    }
}
