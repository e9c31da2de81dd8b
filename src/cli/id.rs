//! `raindrop id`: IDs with a lease of the command's own.

use std::{sync::Arc, time::Duration};

use super::{Failure, keeper_of, output, parse::encoding};
use crate::{
    core::{
        clock::SystemClock,
        encoding::{Encoder, Encoding},
        issue::{ClaimError, Run},
    },
    keeper::{IssueError, Issuer, Keeper, KeeperSettings, NoObserver, Released},
    server::{config::Config, telemetry},
    store,
    store::with_sources,
};

/// How long a lease is waited for.
const LEASE_WITHIN: Duration = Duration::from_secs(15);
/// How many IDs are claimed at a time; every layout of practical use gives as many.
const CLAIM: u32 = 1_000;

#[derive(Debug, clap::Args)]
pub(super) struct IdArguments {
    /// The code, such as order.
    code: String,
    /// The namespace; the code's own, or default.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// How many.
    #[arg(short = 'n', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
    /// One ID per line, or a JSON array of strings.
    #[arg(long, default_value = "lines")]
    format: Format,
    /// How IDs are written: decimal, hex, base32, base36, base62, base64url or friendly.
    #[arg(long, value_name = "NAME", default_value_t, value_parser = encoding)]
    encoding: Encoding,
    /// Pad with zeros so that texts sort as their IDs: decimal, hex, base32 and base36.
    #[arg(long)]
    padded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Lines,
    Json,
}

/// How IDs are printed.
struct Texts<'a> {
    prefix: &'a str,
    encoder: Encoder<'a>,
}

pub(super) fn run(config: &Config, arguments: &IdArguments) -> Result<(), Failure> {
    // What cannot be written is refused before a worker id is leased.
    let IdArguments { code, namespace, encoding, padded, .. } = arguments;
    let located = config.codes.locate(code, namespace.as_deref());
    let (namespace, prefix) = located.map_err(|error| Failure::Usage(error.to_string()))?;
    let settings = keeper_of(config, namespace)?;
    let encoder = Encoder::new(*encoding, *padded, &settings.layout);
    let encoder = encoder.map_err(|error| Failure::Usage(error.to_string()))?;
    let texts = Texts { prefix: prefix.map_or("", |prefix| &**prefix), encoder };

    let mut log = config.log;
    if log.level == "info" {
        log.level = "warn";
    }
    telemetry::start(&log);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(issue(config, settings.clone(), arguments, &texts));
    runtime.shutdown_background();
    result
}

async fn issue(
    config: &Config,
    settings: KeeperSettings,
    arguments: &IdArguments,
    texts: &Texts<'_>,
) -> Result<(), Failure> {
    let clock = Arc::new(SystemClock::default());
    let store = store::connect(&config.store, clock.clone()).await?;
    let observer = Arc::new(NoObserver);
    let (mut keeper, issuer) = Keeper::start(settings, store.clone(), clock, observer);
    let printed = tokio::select! {
        error = keeper.failed() => return Err(error.into()),
        printed = print(&issuer, arguments, texts) => printed,
    };
    let released = keeper.release(config.store.timeout * 2).await;
    store.close().await;
    if released == Released::GaveUp {
        output::error("the worker id could not be given back; it comes free after its ttl");
    }
    printed
}

async fn print(issuer: &Issuer, arguments: &IdArguments, texts: &Texts<'_>) -> Result<(), Failure> {
    if tokio::time::timeout(LEASE_WITHIN, issuer.leased()).await.is_err() {
        let trouble = issuer.status().trouble;
        let why = trouble.map_or_else(|| "nobody says why".into(), |why| why.to_string());
        return Err(Failure::Failed(format!("no lease within {LEASE_WITHIN:?}: {why}")));
    }
    let mut left = arguments.count;
    let (open, between, close) = match arguments.format {
        Format::Lines => ("", "\n", "\n"),
        Format::Json => ("[\"", "\",\"", "\"]\n"),
    };
    let mut separator = open;
    while left > 0 {
        let run = claim(issuer, &arguments.code, left.min(CLAIM)).await?;
        left = left.saturating_sub(u32::try_from(run.len()).unwrap_or(u32::MAX));
        let mut text = String::new();
        for id in run {
            text.push_str(separator);
            text.push_str(texts.prefix);
            texts.encoder.encode_into(&mut text, id);
            separator = between;
        }
        output::print(&text)?;
    }
    Ok(output::print(close)?)
}

/// Claims, and tries again while there is no more than a pause to wait for.
async fn claim(issuer: &Issuer, code: &str, mut count: u32) -> Result<Run, Failure> {
    loop {
        match issuer.next_ids(code, count).await {
            Ok(run) => return Ok(run),
            Err(IssueError::Refused(error)) => match error {
                ClaimError::InvalidCount { largest, .. } if (1..count).contains(&largest) => {
                    count = largest;
                }
                ClaimError::SequenceExhausted { retry_after } => {
                    tokio::time::sleep(retry_after.max(Duration::from_millis(1))).await;
                }
                ClaimError::InvalidCode(_) | ClaimError::UnknownCode(_) => {
                    return Err(Failure::Usage(error.to_string()));
                }
                error => return Err(Failure::Failed(error.to_string())),
            },
            Err(error) => return Err(Failure::Failed(with_sources(&error))),
        }
    }
}
