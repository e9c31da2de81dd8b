//! `raindrop codes`: lists codes, as a table or as JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use tokio::time::Instant;

use super::CodesArguments;
use crate::{
    cli::{
        failure::Failure,
        output::{error, print, print_json, table},
    },
    config::Config,
    core::{code::is_valid_code, instant::format_unix_ms, segment::SegmentSpec},
    keeper::{CodeKind, CodeManager, CodeView, SegmentSettings},
    server::{CodeDocument, unknown_namespace},
    store::{ListedSegment, Store, StoreError},
};

pub(super) const HEADINGS: [&str; 8] =
    ["NAMESPACE", "CODE", "KIND", "NEXT", "LEFT", "STEP", "WRITTEN", "RATE"];

/// A code as `GET /codes` shows it, with the rate of `--rate-over`.
#[derive(Debug, Serialize)]
struct Code {
    #[serde(flatten)]
    document: CodeDocument,
    /// How many numbers a second were reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
}

/// The document that `raindrop codes --json` prints.
#[derive(Debug, Serialize)]
struct Document {
    codes: Vec<Code>,
}

/// Prints the codes of one namespace, or of all.
pub(super) async fn list(
    config: &Config,
    store: Arc<dyn Store>,
    CodesArguments { namespace, rate_over, json, .. }: &CodesArguments,
) -> Result<(), Failure> {
    let (namespace, rate_over) = (namespace.as_deref(), *rate_over);
    let mut codes = views(config, &store).await?;
    if let Some(namespace) = namespace {
        check_namespace(config, &codes, namespace)?;
    }
    if codes.is_empty() && !json {
        let has_segments = config.segments().next().is_some();
        let why = if has_segments { "" } else { ": no configured namespace is in segment mode" };
        error(&format!("the store has no segment codes{why}"));
        return Ok(());
    }
    let (mut before, mut elapsed) = (BTreeMap::new(), Duration::ZERO);
    if let Some(pause) = rate_over {
        let start = Instant::now();
        tokio::time::sleep(pause).await;
        before = codes.iter().map(|(code, _)| (key(code), code.next)).collect();
        codes = views(config, &store).await?;
        elapsed = start.elapsed();
    }
    codes.retain(|(code, _)| namespace.is_none_or(|namespace| code.namespace == namespace));
    if *json {
        let code = |(listed, view): (ListedSegment, Option<CodeView>)| Code {
            rate: rate_of(&listed, &before, elapsed),
            document: CodeDocument::stored(view.unwrap_or(CodeView {
                listed,
                kind: CodeKind::Unserved,
                spec: None,
            })),
        };
        return print_json(&Document { codes: codes.into_iter().map(code).collect() });
    }
    let line = |(code, view): &(ListedSegment, Option<CodeView>)| {
        line(code, view.as_ref(), rate_of(code, &before, elapsed))
    };
    let lines: Vec<[String; 8]> = codes.iter().map(line).collect();
    print(&table(HEADINGS, &lines))
}

/// Returns every code of the store. Codes of configured namespaces have their settings and kind.
async fn views(
    config: &Config,
    store: &Arc<dyn Store>,
) -> Result<Vec<(ListedSegment, Option<CodeView>)>, Failure> {
    let listed = read(&**store).await?;
    let mut known = BTreeMap::new();
    for settings in config.segments() {
        let manager = CodeManager::new(Arc::clone(store), settings.clone());
        known.insert(settings.namespace.as_str(), manager);
    }
    let with_view = |listed: ListedSegment| {
        let manager = known.get(listed.namespace.as_str());
        let view = manager.and_then(|manager| manager.view(listed.clone()));
        (listed, view)
    };
    Ok(listed.into_iter().map(with_view).collect())
}

/// Returns the codes of the store. Returns none if the store has no segment table, and does not
/// create it.
pub(super) async fn read(store: &dyn Store) -> Result<Vec<ListedSegment>, Failure> {
    let mut codes = match store.list_segments().await {
        Err(StoreError::Vanished(_)) => Vec::new(),
        codes => codes?,
    };
    // Skip rows of backfill, which are in the same table as `code@tick`.
    codes.retain(|listed| is_valid_code(&listed.code));
    Ok(codes)
}

/// Returns whether the store has a code.
pub(in crate::cli) async fn has_code(
    store: &dyn Store,
    namespace: &str,
    code: &str,
) -> Result<bool, Failure> {
    match store.segments_in(namespace, code..=code, 1).await {
        Err(StoreError::Vanished(_)) => Ok(false),
        found => Ok(!found?.is_empty()),
    }
}

/// Returns the settings of a code that the store has. Writes nothing.
pub(in crate::cli) async fn spec_in_store(
    store: Arc<dyn Store>,
    namespace: &SegmentSettings,
    code: &str,
) -> Result<Option<SegmentSpec>, Failure> {
    match CodeManager::new(store, namespace.clone()).get(code).await {
        Err(StoreError::Vanished(_)) => Ok(None),
        found => Ok(found?.and_then(|view| view.spec)),
    }
}

/// Refuses a namespace that is neither configured nor in the store.
fn check_namespace(
    config: &Config,
    codes: &[(ListedSegment, Option<CodeView>)],
    namespace: &str,
) -> Result<(), Failure> {
    let configured = config.segments().map(|settings| &settings.namespace);
    let known: BTreeSet<&String> =
        configured.chain(codes.iter().map(|(code, _)| &code.namespace)).collect();
    if known.iter().any(|known| *known == namespace) {
        return Ok(());
    }
    if config.namespaces.iter().any(|known| known.name == namespace) {
        return Err(Failure::Usage(format!("namespace {namespace:?} is not in segment mode")));
    }
    Err(Failure::Usage(unknown_namespace(namespace, known.into_iter())))
}

fn key(listed: &ListedSegment) -> (String, String) {
    (listed.namespace.clone(), listed.code.clone())
}

/// Returns how many numbers were reserved per second; `None` for a code whose next number is lower
/// than before, because a node returned numbers.
fn rate_of(
    listed: &ListedSegment,
    before: &BTreeMap<(String, String), u64>,
    elapsed: Duration,
) -> Option<f64> {
    rate_between(before.get(&key(listed)).copied(), listed.next, elapsed)
}

/// Returns how many numbers were reserved per second between two next numbers, like [`rate_of`].
#[expect(clippy::cast_precision_loss, reason = "a rate needs no digits")]
pub(super) fn rate_between(before: Option<u64>, now: u64, elapsed: Duration) -> Option<f64> {
    Some(now.checked_sub(before?)? as f64 / elapsed.as_secs_f64())
}

fn line(listed: &ListedSegment, view: Option<&CodeView>, rate: Option<f64>) -> [String; 8] {
    let left = view.and_then(|view| view.left().map(|left| left.to_string()));
    let unknown = || "-".to_owned();
    let is_fresh = listed.step == 0;
    [
        listed.namespace.clone(),
        listed.code.clone(),
        view.map_or_else(unknown, |view| view.kind.name().to_owned()),
        listed.next.to_string(),
        left.unwrap_or_else(unknown),
        if is_fresh { unknown() } else { listed.step.to_string() },
        if is_fresh { unknown() } else { format_unix_ms(listed.updated_ms) },
        rate.map_or_else(unknown, |rate| format!("{rate:.1}/s")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        core::{clock::SystemClock, lease::Token},
        store::{MemoryStore, NewSegment, SegmentStore},
    };

    fn listed(code: &str, next: u64, step: u64) -> ListedSegment {
        let (namespace, code) = ("numbers".into(), code.into());
        let (updated_ms, created_ms) = (1_763_650_000_000, 0);
        ListedSegment {
            namespace,
            code,
            next,
            step,
            updated_ms,
            created_ms,
            epoch: Token::UNUSED,
            settings: None,
        }
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
                let (listed, spec) = (code.clone(), Some(odd));
                let view = CodeView { listed, kind: CodeKind::Managed, spec };
                let view = (code.code == "order").then_some(&view);
                line(code, view, rate_of(code, &before, Duration::from_secs(4)))
            })
            .collect();
        assert_eq!(
            table(HEADINGS, &lines),
            "NAMESPACE  CODE   KIND     NEXT  LEFT  STEP  WRITTEN                   RATE\n\
             numbers    order  managed  3001  3500  2000  2025-11-20T14:46:40.000Z  500.0/s\n\
             numbers    user   -        400   -     100   2025-11-20T14:46:40.000Z  -\n\
             numbers    x      -        1     -     -     -                         -\n"
        );
    }
}
