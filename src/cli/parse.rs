//! `raindrop parse`: prints the fields of IDs, and the numbers of texts of a code.

use std::io::{self, BufRead, BufReader, IsTerminal, Read};

use super::{
    arguments::{Overrides, code, encodings, instant, keeper_of, namespace_of},
    codes::list::spec_in_store,
    failure::Failure,
    output,
    store::with_store,
};
use crate::{
    config::{Config, LocatedText, Mode},
    core::{
        clock::{Clock, SystemClock},
        encoding::{Encoding, InvalidId},
        id::Id,
        layout::{Layout, TooLong},
        preset::{NamedLayout, UnknownLayout},
        segment::SegmentSpec,
    },
    server::{CodeNumber, ForeignUuid, ParsedId, ParsedText, no_texts},
};

/// The largest amount of output that is buffered, in bytes.
const AT_ONCE: usize = 64 << 10;

#[derive(Debug, clap::Args)]
pub(super) struct ParseArguments {
    /// The IDs; - or none reads them from standard input, one per line.
    ///
    /// The fields of one are printed as JSON for people; those of several, or from standard input,
    /// as one JSON object per line. Of several, those that cannot be read are named on standard
    /// error, and the exit code is 2.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// A preset, the layout of another system, a name of [layouts.NAME] in the configuration, or
    /// a description such as time:39@10ms,sequence:8,worker:16; by default the namespace's layout.
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<String>,
    /// Replaces the epoch of --layout; a description has 1970-01-01T00:00:00Z by default.
    #[arg(long, value_name = "INSTANT", value_parser = instant, requires = "layout")]
    epoch: Option<i64>,
    /// Reads texts of this segment code, such as INV-000017, and prints their numbers.
    #[arg(long, value_name = "CODE", value_parser = code, conflicts_with_all = ["layout", "encoding"])]
    code: Option<String>,
    /// The namespace; by default that of the ID's prefix or of the code, or else default.
    #[arg(long, value_name = "NAME", conflicts_with = "layout")]
    namespace: Option<String>,
    /// The encoding of the IDs.
    #[arg(long, value_name = "NAME", default_value_t, value_parser = encodings())]
    encoding: Encoding,
}

pub(super) fn run(overrides: Overrides, arguments: &ParseArguments) -> Result<(), Failure> {
    let ids: Vec<&str> = arguments.ids.iter().map(String::as_str).collect();
    if ids.is_empty() && io::stdin().is_terminal() {
        let text = "ID: must be given, or - to read IDs from standard input, one per line";
        return Err(Failure::Usage(text.into()));
    }
    let by = match (&arguments.layout, &arguments.code) {
        (Some(text), _) => ReadBy::Layout(find(overrides, text, arguments.epoch)?),
        (None, Some(code)) => find_code(&overrides.load()?, code, arguments.namespace.as_deref())?,
        (None, None) => ReadBy::Namespace(Box::new(overrides.load()?)),
    };
    let parser = Parser { arguments, by, clock: SystemClock::default() };
    match ids[..] {
        [] | ["-"] => parser.print_lines(io::stdin().lock()),
        [id] => output::print_json(&parser.parse(id)?),
        _ => parser.print_all(&ids),
    }
}

/// Finds a layout. It reads the configuration only for a name that is not built in.
fn find(overrides: Overrides, text: &str, epoch_ms: Option<i64>) -> Result<NamedLayout, Failure> {
    let found = match NamedLayout::find(text, epoch_ms, &[]) {
        Err(UnknownLayout::Name(_)) => {
            NamedLayout::find(text, epoch_ms, &overrides.load()?.layouts)
        }
        found => found,
    };
    found.map_err(|error| Failure::Usage(format!("--layout {text:?}: {error}")))
}

/// Finds the settings of a code whose numbers are written as texts. It reads the store only for a
/// code that the configuration does not list.
fn find_code(config: &Config, code: &str, requested: Option<&str>) -> Result<ReadBy, Failure> {
    let namespace = config.codes.locate(code, requested).map_err(Failure::usage)?.namespace;
    let mut spec = None;
    if let Mode::Segment { keeper } = &namespace_of(config, namespace)?.mode {
        spec = keeper.codes.get(code).copied();
        if spec.is_none() {
            with_store(config, async |store, _| {
                let stored = spec_in_store(store, keeper, code).await?;
                spec = stored.or_else(|| keeper.member_spec(code));
                Ok(())
            })?;
        }
    }
    let Some(spec) = spec.filter(|spec| spec.text.is_some()) else {
        let hint = match requested {
            Some(_) => "",
            None => "; a managed code of another namespace needs --namespace",
        };
        return Err(Failure::Usage(no_texts(code, namespace, hint)));
    };
    let (code, namespace) = (code.to_owned(), namespace.to_owned());
    Ok(ReadBy::Code(Box::new(CodeOfTexts { code, namespace, spec })))
}

/// The layouts by which IDs are read, or the code whose texts they are.
enum ReadBy {
    Layout(NamedLayout),
    Namespace(Box<Config>),
    Code(Box<CodeOfTexts>),
}

/// A code whose numbers are written as texts.
struct CodeOfTexts {
    code: String,
    namespace: String,
    spec: SegmentSpec,
}

struct Parser<'a> {
    arguments: &'a ParseArguments,
    by: ReadBy,
    clock: SystemClock,
}

impl Parser<'_> {
    fn parse(&self, text: &str) -> Result<ParsedText, Failure> {
        let now_ms = self.clock.now_ms();
        match &self.by {
            ReadBy::Layout(named) => {
                let fields = |id| ParsedId::of_named(id, named, now_ms);
                self.read(text, text, named.layout(), fields)
            }
            ReadBy::Namespace(config) => {
                let namespace = self.arguments.namespace.as_deref();
                let located = config.codes.locate_text(text, namespace, |_| true);
                let located = located.map_err(Failure::usage)?;
                let LocatedText { namespace, prefix, text: digits } = located;
                self.arguments.encoding.check_prefix(prefix).map_err(Failure::usage)?;
                let layout = &keeper_of(config, namespace)?.layout;
                let fields = |id| ParsedId::of_namespace(id, layout, namespace, now_ms);
                self.read(text, digits, Some(layout), fields)
            }
            ReadBy::Code(read_by) => {
                let CodeOfTexts { code, namespace, spec } = &**read_by;
                let number = CodeNumber::read(text, code, namespace, spec);
                let number = number.expect("the code has a form of texts");
                number.map(ParsedText::CodeNumber).map_err(Failure::usage)
            }
        }
    }

    /// Reads the digits of a text, which follow its prefix.
    fn read(
        &self,
        text: &str,
        digits: &str,
        layout: Option<&Layout>,
        fields: impl FnOnce(Id) -> Result<ParsedId, TooLong>,
    ) -> Result<ParsedText, Failure> {
        let id = match self.arguments.encoding.decode(digits, layout) {
            Ok(id) => id,
            Err(InvalidId::ForeignUuid { version, unix_ms }) => {
                let uuid = ForeignUuid::new(version, unix_ms);
                output::error(&format!("ID {text:?}: {}", uuid.warning()));
                return Ok(ParsedText::ForeignUuid(uuid));
            }
            Err(error) => return Err(Failure::Usage(format!("ID {digits:?}: {error}"))),
        };
        let parsed = fields(id).map_err(Failure::usage)?;
        if let Some(warning) = parsed.warning() {
            output::error(&format!("ID {text:?}: {warning}"));
        }
        Ok(ParsedText::Id(Box::new(parsed)))
    }

    /// Prints the fields of each of these IDs.
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

    /// Prints the fields of the ID in each line. It prints the results of all complete lines before
    /// it waits for more input.
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

fn json_line(parsed: &ParsedText) -> String {
    serde_json::to_string(parsed).expect("texts and numbers are always JSON") + "\n"
}

fn unless_bad(bad: u64, all: u64) -> Result<(), Failure> {
    match bad {
        0 => Ok(()),
        _ => Err(Failure::Usage(format!("{bad} of {all} IDs could not be parsed"))),
    }
}
