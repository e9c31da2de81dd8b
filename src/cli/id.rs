//! `raindrop id`: issues IDs. The command acquires a lease for itself or, in segment mode, a block
//! of numbers.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use super::{
    arguments::{code, encodings, idempotency_key, instant, namespace_of},
    codes::list::has_code,
    failure::Failure,
    output,
    store::with_store,
};
use crate::{
    config::{Config, LocatedCode, LogConfig, Mode},
    core::{
        clock::SystemClock,
        encoding::{Encoder, Encoding},
        host,
        id::Id,
        issue::{ClaimError, Run},
        segment::TextForm,
    },
    keeper::{
        Backfill, BackfillError, IdempotencyKey, IssueError, Issuer, Keeper, KeeperSettings,
        NoObserver, Released, SegmentIssuer, SegmentKeeper, SegmentSettings, UnavailableReason,
    },
    process::telemetry,
    server::unknown_segment_code,
    store::Store,
};

/// How long to wait for a lease or a block.
const PATIENCE: Duration = Duration::from_secs(15);
/// The size of a claim; less if the layout allows only less.
const CLAIM: u32 = 1_000;

#[derive(Debug, clap::Args)]
pub(super) struct IdArguments {
    /// The code, such as order.
    #[arg(value_parser = code)]
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
    /// Issue the number of this key, of a strict code in segment mode: each repetition prints the
    /// same number, as do requests with the header Idempotency-Key.
    #[arg(long, value_name = "KEY", value_parser = idempotency_key, conflicts_with_all = ["count", "at"])]
    idempotency_key: Option<IdempotencyKey>,
    /// Print one ID per line, or a JSON array of strings.
    #[arg(long, default_value = "lines")]
    format: Format,
    /// The encoding of the IDs; by default that of the code, or else decimal. Those of base62 and
    /// base64url may differ only in case.
    #[arg(long, value_name = "NAME", value_parser = encodings())]
    encoding: Option<Encoding>,
    /// Pad with zeros, so that texts sort as their IDs do; for decimal, hex, base32, base36 and
    /// base62-sorted.
    #[arg(long)]
    padded: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Lines,
    Json,
}

pub(super) fn run(config: &Config, arguments: &IdArguments) -> Result<(), Failure> {
    output::require_stdout()?;
    // Refuse an encoding that does not fit before the command leases or reserves.
    let IdArguments { code, namespace, at, encoding, padded, .. } = arguments;
    let located = config.codes.locate(code, namespace.as_deref());
    let LocatedCode { namespace, prefix, encoding: own } = located.map_err(Failure::usage)?;
    let encoding = encoding.unwrap_or(own);
    let mode = &namespace_of(config, namespace)?.mode;
    let layout = match mode {
        Mode::Snowflake { keeper, .. } => Some(&keeper.layout),
        Mode::Segment { .. } => None,
    };
    let encoder = Encoder::new(encoding, *padded, layout).map_err(Failure::usage)?;
    let prefix = prefix.unwrap_or_default();
    encoding.check_prefix(prefix).map_err(|error| {
        Failure::Usage(format!("--encoding {encoding}: code {code:?}: {error}"))
    })?;
    let issue = Issue { arguments, prefix, encoder, release_timeout: config.store.timeout * 2 };

    let level = if config.log.level == "info" { "warn" } else { config.log.level };
    let _logging = telemetry::start(&LogConfig { level, ..config.log })?;
    with_store(config, async |store, clock| match (mode, at) {
        (Mode::Snowflake { .. }, Some(_)) if config.store.url.is_memory() => Err(Failure::usage(
            "--at: memory: forgets which IDs of a past time were issued; use a persistent store",
        )),
        (Mode::Snowflake { keeper, .. }, Some(_)) if keeper.layout.backfill_per_tick() == 0 => {
            // Refuse it before the command leases.
            Err(BackfillError::NotReserved { namespace: namespace.to_owned() }.into())
        }
        (Mode::Snowflake { .. }, None) if arguments.idempotency_key.is_some() => {
            Err(Failure::Usage(format!(
                "--idempotency-key: namespace {namespace:?} is not in segment mode, so code {code:?} \
                 is not strict"
            )))
        }
        (Mode::Snowflake { keeper, .. }, _) => issue.leased(keeper, store, clock).await,
        (Mode::Segment { .. }, Some(_)) => Err(Failure::Usage(format!(
            "--at: namespace {namespace:?} is in segment mode and has no IDs for a past time"
        ))),
        (Mode::Segment { keeper }, None) => issue.reserved(keeper, store).await,
    })
}

/// Returns the label of the command's lease in the store. `worker.holder` is the label of the node,
/// which is another process.
fn holder() -> String {
    let host = host::name().unwrap_or_else(|| "unknown".to_owned());
    format!("cli {}@{host}", std::process::id())
}

/// Waits for a lease. While the keeper waits because the store may have been restored, the command
/// waits longer than [`PATIENCE`]: that wait ends in time, and would start from the beginning if
/// the command ran again.
async fn until_leased(issuer: &Issuer) -> Result<(), Failure> {
    while tokio::time::timeout(PATIENCE, issuer.leased()).await.is_err() {
        let reason = issuer.status().reason;
        if let Some(UnavailableReason::StaleStore { .. }) = reason {
            continue;
        }
        let reason = reason.map_or_else(|| "unknown".into(), |reason| reason.to_string());
        return Err(Failure::Failed(format!("no lease within {PATIENCE:?}: {reason}")));
    }
    Ok(())
}

/// The IDs to issue and their format.
struct Issue<'a> {
    arguments: &'a IdArguments,
    prefix: &'a str,
    encoder: Encoder<'a>,
    release_timeout: Duration,
}

impl Issue<'_> {
    /// Acquires a lease and issues IDs, also for a past time: the row of the lease shows whether
    /// the store was restored meanwhile.
    async fn leased(
        &self,
        settings: &KeeperSettings,
        store: Arc<dyn Store>,
        clock: Arc<SystemClock>,
    ) -> Result<(), Failure> {
        let observer = Arc::new(NoObserver);
        let settings = KeeperSettings { holder: holder(), ..settings.clone() };
        let (mut keeper, issuer) =
            Keeper::start(settings.clone(), Arc::clone(&store), clock, observer);
        let print = async {
            until_leased(&issuer).await?;
            let IdArguments { code, at, .. } = self.arguments;
            let Some(at_ms) = *at else {
                let claim = async |count| self.claim(&issuer, count).await;
                return self.print(CLAIM, claim, None).await;
            };
            let backfill = Backfill::new(settings, store, &issuer);
            // Claim all at once: backfill grants all or none.
            let claim = async |count| Ok(backfill.ids(code, count, at_ms).await?.into_iter());
            self.print(u32::MAX, claim, None).await
        };
        let printed = tokio::select! {
            error = keeper.failed() => return Err(error.into()),
            printed = print => printed,
        };
        if keeper.release(self.release_timeout).await == Released::GaveUp {
            output::error("the worker id could not be released; it is free after its ttl");
        }
        printed
    }

    /// Claims, and retries as long as the error says that a pause helps.
    async fn claim(&self, issuer: &Issuer, mut count: u32) -> Result<Run, Failure> {
        loop {
            match issuer.next_ids(&self.arguments.code, count).await {
                Err(IssueError::Refused(ClaimError::InvalidCount { largest, .. }))
                    if (1..count).contains(&largest) =>
                {
                    count = largest;
                }
                Err(IssueError::Refused(ClaimError::SequenceExhausted { retry_after })) => {
                    tokio::time::sleep(retry_after.max(Duration::from_millis(1))).await;
                }
                claimed => return Ok(claimed?),
            }
        }
    }

    /// Reserves a block, issues numbers of a segment code from it, and returns the unused ones.
    async fn reserved(
        &self,
        settings: &SegmentSettings,
        store: Arc<dyn Store>,
    ) -> Result<(), Failure> {
        let code = &self.arguments.code;
        // Serve only this code, so that the keeper reserves nothing for others.
        let mut settings = SegmentSettings { max_wait: PATIENCE, ..settings.clone() };
        settings.codes.retain(|name, _| name == code);
        let is_unknown = settings.codes.is_empty() && settings.on_demand(code).is_err();
        if is_unknown && !has_code(&*store, &settings.namespace, code).await? {
            // Refuse an unknown code before the store creates tables or a record.
            return Err(Failure::Usage(unknown_segment_code(code, &settings.namespace)));
        }
        let (mut keeper, issuers) =
            SegmentKeeper::start(vec![(settings, Arc::new(NoObserver))], store);
        let issuer = issuers.into_iter().next().expect("one namespace has one issuer");
        let claim = async |count| match issuer.next_ids(code, count).await {
            Err(IssueError::Refused(ClaimError::UnknownCode(_))) => {
                Err(Failure::Usage(unknown_segment_code(code, issuer.namespace())))
            }
            issued => Ok(issued?),
        };
        let print = async {
            issuer.learn(code).await?;
            let form = issuer.text_form(code);
            if let Some(form) = &form {
                self.check_form(form)?;
            }
            match &self.arguments.idempotency_key {
                Some(key) => self.print_number_of(&issuer, key, form).await,
                None => self.print(CLAIM, claim, form).await,
            }
        };
        let printed = tokio::select! {
            errors = keeper.failed() => {
                return Err(errors.into_iter().next().expect("something is wrong").into());
            }
            printed = print => printed,
        };
        let lost = keeper.release(self.release_timeout).await.lost;
        if lost > 0 {
            output::error(&format!("{lost} numbers could not be given back and are a gap"));
        }
        printed
    }

    /// Prints the number of an idempotency key.
    async fn print_number_of(
        &self,
        issuer: &SegmentIssuer,
        key: &IdempotencyKey,
        form: Option<TextForm>,
    ) -> Result<(), Failure> {
        let text = issuer.number_of_key(None, &self.arguments.code, key).await?.text;
        let id = text.parse().ok().and_then(Id::new).filter(|_| form.is_none());
        if let Some(id) = id {
            return self.print(1, async |_| Ok([id].into_iter()), None).await;
        }
        output::print(&match self.arguments.format {
            Format::Lines => format!("{text}\n"),
            Format::Json => format!("{}\n", serde_json::json!([text])),
        })
    }

    /// Refuses options that contradict the form of the code's texts.
    fn check_form(&self, form: &TextForm) -> Result<(), Failure> {
        let IdArguments { code, encoding, padded, .. } = self.arguments;
        if encoding.is_none() && !padded {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "--encoding and --padded: must be left out for code {code:?}, whose numbers are \
             written as {form}"
        )))
    }

    /// Prints IDs claim by claim, with at most `at_a_time` IDs in a claim.
    async fn print<Ids: ExactSizeIterator<Item = Id>>(
        &self,
        at_a_time: u32,
        mut claim: impl AsyncFnMut(u32) -> Result<Ids, Failure>,
        form: Option<TextForm>,
    ) -> Result<(), Failure> {
        let (mut separator, between, end) = match self.arguments.format {
            Format::Lines => ("", "\n", "\n"),
            Format::Json => ("[\"", "\",\"", "\"]\n"),
        };
        let mut left = self.arguments.count;
        while left > 0 {
            let ids = claim(left.min(at_a_time)).await?;
            left = left.saturating_sub(u32::try_from(ids.len()).unwrap_or(u32::MAX));
            let mut text = String::new();
            for id in ids {
                let id = match &form {
                    Some(form) => form.write(id.get()),
                    None => format!("{}{}", self.prefix, self.encoder.text(id)),
                };
                write!(text, "{separator}{id}").expect("a string takes any text");
                separator = between;
            }
            output::print(&text)?;
        }
        output::print(end)
    }
}
