//! `raindrop codes`: lists the codes of segment mode, or raises them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    arguments::duration,
    failure::Failure,
    output::{print, say, table},
    store::{listed, with_store},
};
use crate::{
    config::Config,
    core::{code::is_valid_code, instant::format_unix_ms, segment::SegmentSpec},
    keeper::{SegmentSettings, raise_code},
    store::{ListedSegment, Store},
};

const HEADINGS: [&str; 7] = ["NAMESPACE", "CODE", "NEXT", "LEFT", "STEP", "WRITTEN", "RATE"];

#[derive(Debug, clap::Args)]
pub(super) struct CodesArguments {
    /// Read twice, this far apart, and show how many numbers a second were reserved in between.
    /// Nodes reserve about once in segment.target_duration: choose several times that.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    rate_over: Option<Duration>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Raise the next numbers of codes, before any node uses a restored backup.
    ///
    /// A backup has old next numbers: nodes that started from them would repeat numbers that were
    /// issued since. Skipped numbers are only a gap.
    ///
    /// Safe if no node has reserved from the restored store before, and --by is more than any code
    /// reserved since the backup.
    Raise {
        /// How much to add to each next number.
        #[arg(long, value_name = "NUMBERS", value_parser = clap::value_parser!(u64).range(1..=SegmentSpec::LARGEST_NUMBER))]
        by: u64,
        /// The namespace.
        #[arg(long, value_name = "NAME")]
        namespace: String,
        /// The codes; by default all of the namespace.
        #[arg(value_name = "CODE")]
        codes: Vec<String>,
    },
}

pub(super) fn run(config: &Config, arguments: &CodesArguments) -> Result<(), Failure> {
    with_store(config, async |store, _| match &arguments.command {
        None => list(config, &*store, arguments.rate_over).await,
        Some(Command::Raise { by, namespace, codes }) => {
            raise(&*store, *by, namespace, codes).await
        }
    })
}

async fn raise(
    store: &dyn Store,
    by: u64,
    namespace: &str,
    codes: &[String],
) -> Result<(), Failure> {
    let listed = read(store).await?;
    let of_namespace = listed.iter().filter(|listed| listed.namespace == namespace);
    let known: Vec<String> = of_namespace.map(|listed| listed.code.clone()).collect();
    if known.is_empty() {
        let namespaces = listed.iter().map(|listed| listed.namespace.as_str());
        let namespaces = Vec::from_iter(BTreeSet::from_iter(namespaces)).join(", ");
        return Err(Failure::Usage(format!(
            "namespace {namespace:?} has no codes in the store; namespaces with codes: {namespaces}"
        )));
    }
    // Refuses a bad one before any is changed.
    if let Some(unknown) = codes.iter().find(|code| !known.contains(code)) {
        let known = known.join(", ");
        return Err(Failure::Usage(format!(
            "code {unknown:?} is not in namespace {namespace:?}; there are: {known}"
        )));
    }
    for code in if codes.is_empty() { &known } else { codes } {
        let next = raise_code(store, namespace, code, by).await?;
        say(&format!("{namespace} {code}: the next number is {next}"))?;
    }
    Ok(())
}

async fn list(
    config: &Config,
    store: &dyn Store,
    rate_over: Option<Duration>,
) -> Result<(), Failure> {
    let mut codes = read(store).await?;
    let (mut before, mut elapsed) = (BTreeMap::new(), Duration::ZERO);
    if let Some(pause) = rate_over {
        let start = Instant::now();
        tokio::time::sleep(pause).await;
        before = codes.iter().map(|code| (key(code), code.next)).collect();
        codes = read(store).await?;
        elapsed = start.elapsed();
    }
    let line =
        |code: &ListedSegment| line(code, spec_of(config, code), rate_of(code, &before, elapsed));
    let lines: Vec<[String; 7]> = codes.iter().map(line).collect();
    print(&table(HEADINGS, &lines))
}

/// Returns the codes of the store.
async fn read(store: &dyn Store) -> Result<Vec<ListedSegment>, Failure> {
    let mut codes = listed(store.segments().await)?;
    // What was issued for past ticks is kept in the same table, as `code@tick`.
    codes.retain(|listed| is_valid_code(&listed.code));
    Ok(codes)
}

fn key(listed: &ListedSegment) -> (String, String) {
    (listed.namespace.clone(), listed.code.clone())
}

/// Returns the numbers reserved a second; `None` for a code whose next number went back, since
/// some of its numbers were given back.
#[expect(clippy::cast_precision_loss, reason = "a rate needs no digits")]
fn rate_of(
    listed: &ListedSegment,
    before: &BTreeMap<(String, String), u64>,
    elapsed: Duration,
) -> Option<f64> {
    let reserved = listed.next.checked_sub(*before.get(&key(listed))?)?;
    Some(reserved as f64 / elapsed.as_secs_f64())
}

/// Returns the settings of the code, if this configuration has it.
fn spec_of<'a>(config: &'a Config, listed: &ListedSegment) -> Option<&'a SegmentSpec> {
    let is_its = |settings: &&SegmentSettings| settings.namespace == listed.namespace;
    let settings = config.segments().find(is_its)?;
    settings.codes.get(&listed.code).or(settings.auto_create.as_ref())
}

fn line(listed: &ListedSegment, spec: Option<&SegmentSpec>, rate: Option<f64>) -> [String; 7] {
    let left = spec.map(|spec| {
        let progression = spec.progression();
        let end = progression.index_at(spec.max.saturating_add(1));
        end.saturating_sub(progression.index_at(listed.next)).to_string()
    });
    let unknown = || "-".to_owned();
    let is_fresh = listed.step == 0;
    [
        listed.namespace.clone(),
        listed.code.clone(),
        listed.next.to_string(),
        left.unwrap_or_else(unknown),
        if is_fresh { unknown() } else { listed.step.to_string() },
        if is_fresh { unknown() } else { format_unix_ms(listed.updated_ms) },
        rate.map_or_else(unknown, |rate| format!("{rate:.1}/s")),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        core::clock::SystemClock,
        store::{MemoryStore, NewSegment, SegmentStore},
    };

    fn listed(code: &str, next: u64, step: u64) -> ListedSegment {
        let (namespace, code) = ("numbers".into(), code.into());
        ListedSegment { namespace, code, next, step, updated_ms: 1_763_650_000_000, created_ms: 0 }
    }

    #[tokio::test]
    async fn shares_of_past_ticks_are_no_codes() {
        let store = MemoryStore::new(Arc::new(SystemClock::default()));
        let new = |code: &str| NewSegment { code: code.to_owned(), first: 1 };
        let both = [new("order"), new("order@123")];
        store.create_segments("numbers", &both).await.expect("memory does not fail");
        let listed = read(&store).await.expect("memory does not fail");
        assert_eq!(listed.iter().map(|listed| &listed.code).collect::<Vec<_>>(), ["order"]);
    }

    #[test]
    fn codes_are_shown_with_what_is_left_and_their_rate() {
        let odd = SegmentSpec { increment: 2, remainder: 1, max: 10_000, ..SegmentSpec::default() };
        let before = [listed("order", 1_001, 1_000), listed("user", 500, 100)];
        let before = before.iter().map(|code| (key(code), code.next)).collect();
        let after = [listed("order", 3_001, 2_000), listed("user", 400, 100), listed("x", 1, 0)];
        let lines: Vec<_> = after
            .iter()
            .map(|code| {
                let spec = (code.code == "order").then_some(&odd);
                line(code, spec, rate_of(code, &before, Duration::from_secs(4)))
            })
            .collect();
        assert_eq!(
            table(HEADINGS, &lines),
            "NAMESPACE  CODE   NEXT  LEFT  STEP  WRITTEN                   RATE\n\
             numbers    order  3001  3500  2000  2025-11-20T14:46:40.000Z  500.0/s\n\
             numbers    user   400   -     100   2025-11-20T14:46:40.000Z  -\n\
             numbers    x      1     -     -     -                         -\n"
        );
    }
}
