//! `raindrop id`: issues IDs with a lease or a block of the command's own.

mod lease;
mod past;
mod segment;

use std::time::Duration;

use super::{Failure, block_on, namespace_of, output, parse::encodings};
use crate::{
    config::{Config, Mode},
    core::{
        encoding::{Encoder, Encoding},
        id::Id,
        instant::parse_unix_ms,
    },
    server::telemetry,
};

/// How long to wait for a lease or a block.
const WITHIN: Duration = Duration::from_secs(15);
/// How many IDs are claimed at a time; every layout of practical use gives as many.
const CLAIM: u32 = 1_000;

#[derive(Debug, clap::Args)]
pub(super) struct IdArguments {
    /// The code, such as order.
    code: String,
    /// The namespace; by default the code's own, or else default.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// The number of IDs.
    #[arg(short = 'n', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
    /// Issue IDs for this past instant (RFC 3339), from the sequence numbers that the layout
    /// reserves.
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    at: Option<i64>,
    /// Print one ID per line, or a JSON array of strings.
    #[arg(long, default_value = "lines")]
    format: Format,
    /// The encoding of the IDs.
    #[arg(long, value_name = "NAME", default_value_t, value_parser = encodings())]
    encoding: Encoding,
    /// Pad with zeros, so that texts sort as their IDs do; for decimal, hex, base32 and base36.
    #[arg(long)]
    padded: bool,
}

fn instant(text: &str) -> Result<i64, String> {
    parse_unix_ms(text)
        .ok_or_else(|| "must be an RFC 3339 instant such as 2020-02-29T12:00:00Z".to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Lines,
    Json,
}

pub(super) fn run(config: &Config, arguments: &IdArguments) -> Result<(), Failure> {
    // An encoding that does not fit is refused before anything is leased or reserved.
    let IdArguments { code, namespace, encoding, padded, .. } = arguments;
    let located = config.codes.locate(code, namespace.as_deref());
    let (namespace, prefix) = located.map_err(|error| Failure::Usage(error.to_string()))?;
    let mode = &namespace_of(config, namespace)?.mode;
    let layout = match mode {
        Mode::Snowflake { keeper, .. } => Some(&keeper.layout),
        Mode::Segment { .. } => None,
    };
    let encoder = Encoder::new(*encoding, *padded, layout);
    let encoder = encoder.map_err(|error| Failure::Usage(error.to_string()))?;
    let printer = Printer::new(arguments, prefix.map_or("", |prefix| &**prefix), encoder);

    let mut log = config.log;
    if log.level == "info" {
        log.level = "warn";
    }
    let _logging = telemetry::start(&log)?;
    block_on(async {
        match mode {
            Mode::Snowflake { keeper, .. } => match arguments.at {
                Some(at_ms) => past::issue(config, keeper.clone(), code, at_ms, printer).await,
                None => lease::issue(config, keeper.clone(), code, printer).await,
            },
            Mode::Segment { .. } if arguments.at.is_some() => Err(Failure::Usage(format!(
                "--at: namespace {namespace:?} is in segment mode and has no IDs for a past time"
            ))),
            Mode::Segment { keeper } => segment::issue(config, keeper, code, printer).await,
        }
    })
}

/// Prints IDs, claim by claim.
struct Printer<'a> {
    prefix: &'a str,
    encoder: Encoder<'a>,
    /// How many IDs are still wanted.
    left: u32,
    separator: &'static str,
    between: &'static str,
    end: &'static str,
}

impl<'a> Printer<'a> {
    fn new(arguments: &IdArguments, prefix: &'a str, encoder: Encoder<'a>) -> Self {
        let (separator, between, end) = match arguments.format {
            Format::Lines => ("", "\n", "\n"),
            Format::Json => ("[\"", "\",\"", "\"]\n"),
        };
        Self { prefix, encoder, left: arguments.count, separator, between, end }
    }

    fn print(&mut self, ids: impl ExactSizeIterator<Item = Id>) -> Result<(), Failure> {
        self.left = self.left.saturating_sub(u32::try_from(ids.len()).unwrap_or(u32::MAX));
        let mut text = String::new();
        for id in ids {
            text.push_str(self.separator);
            text.push_str(self.prefix);
            self.encoder.encode_into(&mut text, id);
            self.separator = self.between;
        }
        Ok(output::print(&text)?)
    }

    fn close(self) -> Result<(), Failure> {
        Ok(output::print(self.end)?)
    }
}
