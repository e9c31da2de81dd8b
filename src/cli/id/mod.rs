//! `raindrop id`: issues IDs with a lease or a block of the command's own.

mod lease;
mod past;
mod printer;
mod segment;

use std::time::Duration;

use self::printer::{Format, Printer};
use super::{
    arguments::{encodings, instant},
    failure::Failure,
    load::namespace_of,
};
use crate::{
    config::{Config, Mode},
    core::encoding::{Encoder, Encoding},
    server::telemetry,
};

/// How long to wait for a lease or a block.
const PATIENCE: Duration = Duration::from_secs(15);

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

pub(super) fn run(config: &Config, arguments: &IdArguments) -> Result<(), Failure> {
    // An encoding that does not fit is refused before anything is leased or reserved.
    let IdArguments { code, namespace, encoding, padded, .. } = arguments;
    let located = config.codes.locate(code, namespace.as_deref());
    let (namespace, prefix) = located.map_err(Failure::usage)?;
    let mode = &namespace_of(config, namespace)?.mode;
    let layout = match mode {
        Mode::Snowflake { keeper, .. } => Some(&keeper.layout),
        Mode::Segment { .. } => None,
    };
    let encoder = Encoder::new(*encoding, *padded, layout).map_err(Failure::usage)?;
    let prefix = prefix.map_or("", |prefix| &**prefix);
    let printer = Printer::new(arguments.count, arguments.format, prefix, encoder);

    let mut log = config.log;
    if log.level == "info" {
        log.level = "warn";
    }
    let _logging = telemetry::start(&log)?;
    match (mode, arguments.at) {
        (Mode::Snowflake { keeper, .. }, Some(at_ms)) => {
            past::issue(config, keeper, code, at_ms, printer)
        }
        (Mode::Snowflake { keeper, .. }, None) => {
            lease::issue(config, keeper, code, PATIENCE, printer)
        }
        (Mode::Segment { .. }, Some(_)) => Err(Failure::Usage(format!(
            "--at: namespace {namespace:?} is in segment mode and has no IDs for a past time"
        ))),
        (Mode::Segment { keeper }, None) => segment::issue(config, keeper, code, PATIENCE, printer),
    }
}
