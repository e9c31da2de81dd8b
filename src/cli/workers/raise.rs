//! `raindrop workers raise`.

use std::time::Duration;

use serde::Serialize;

use super::Target;
use crate::{
    cli::{confirm::Confirmation, failure::Failure},
    core::instant::format_unix_ms_or_year,
    keeper::{KeeperSettings, LeaseTimes, OperatorError, RaisePreview},
};

/// The longest window of a lease.
const LONGEST_WINDOW: Duration = Duration::from_hours(24);

/// Checks the window of the argument.
pub(super) fn check_window(lease: &LeaseTimes, window: Option<Duration>) -> Result<(), Failure> {
    let least = lease.window;
    match window {
        Some(window) if !(least..=LONGEST_WINDOW).contains(&window) => Err(Failure::Usage(
            format!("--window {window:?}: must be lease.window ({least:?}) to {LONGEST_WINDOW:?}"),
        )),
        _ => Ok(()),
    }
}

/// The document that `raindrop workers raise --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    /// Whether the new epoch has begun.
    done: bool,
    namespace: &'a str,
    /// How many worker ids were held: their holders issue until their leases are used up. Null if
    /// the store was not used yet.
    held: Option<u64>,
    /// The instant from which new leases issue IDs; null if the store was not used before, and the
    /// command did not use it either.
    issued_from: Option<String>,
}

/// Where `--barrier` puts the barrier.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Barrier {
    /// As far ahead of the clocks as leases reach.
    Now,
}

pub(super) async fn raise(
    target: &mut Target<'_>,
    window: Option<Duration>,
    barrier: Option<Barrier>,
    confirmation: &Confirmation,
) -> Result<(), Failure> {
    let lease = target.settings.lease;
    let (window, origin) = match window {
        Some(window) => (window, "--window"),
        None => (lease.window, "lease.window of this configuration"),
    };
    let place = target.place();
    let (effect, presumed, preview) = if target.is_unused().await? {
        if barrier.is_some() {
            let namespace = target.settings.namespace.clone();
            return Err(OperatorError::NoRecord { namespace }.into());
        }
        let sum = sum(&lease, window, origin);
        let effect =
            format!("{place}: the store has not been used yet\nno node gets a lease before {sum}");
        (effect, NOT_WRITTEN, None)
    } else if let Some(Barrier::Now) = barrier {
        let preview = target.operator.preview_lower_barrier(window).await?;
        (format!("{place}: {}", lowers(&preview)), NOTHING_LOST, Some(preview))
    } else {
        let preview = target.operator.preview_raise(window).await?;
        let sum = sum(&lease, window, origin);
        let effect = raises(&preview, target.settings, window, &sum);
        (format!("{place}: {effect}"), NOT_WRITTEN, Some(preview))
    };
    let report = target.report;
    let document = |done, due_ms: Option<i64>| Document {
        done,
        namespace: &target.settings.namespace,
        held: preview.map(|preview| preview.held),
        issued_from: due_ms.map(format_unix_ms_or_year),
    };
    report.print(&format!("{effect}\n{presumed}\n"))?;
    if !confirmation.is_given()? {
        return report.document(&document(false, preview.map(|preview| preview.due_ms)));
    }
    let (due_ms, done) = match barrier {
        Some(Barrier::Now) => {
            (target.operator.lower_barrier(window).await?, "the barrier is lowered")
        }
        None => (
            target.operator.raise(window).await?,
            "every new lease starts above everything that was ever leased",
        ),
    };
    report.say(&format!("{done}; IDs are issued from {} on", format_unix_ms_or_year(due_ms)))?;
    report.document(&document(true, Some(due_ms)))
}

/// The premise of a raise.
const NOT_WRITTEN: &str = "no node may have written to the store since it was restored";
/// The premises of lowering the barrier, and the consequence if they are untrue.
const NOTHING_LOST: &str = "\
the clocks must be right now, and the store must have lost no write that a process made while a clock was \
ahead, be it by a fail-over, a restore or a crash: no store can tell
if it lost one, IDs that were issued by that clock are issued again when that time comes";

/// Returns the terms from which the barrier is computed.
fn sum(lease: &LeaseTimes, window: Duration, origin: &str) -> String {
    let skew = lease.max_clock_skew;
    let reach = window + 2 * skew;
    format!(
        "{reach:?} from now: {window:?} ({origin}; must be the largest of any node) + twice \
         {skew:?} (lease.max_clock_skew)"
    )
}

/// Says what a raise would do.
fn raises(
    preview: &RaisePreview,
    settings: &KeeperSettings,
    window: Duration,
    sum: &str,
) -> String {
    let KeeperSettings { lease, layout, .. } = settings;
    // A barrier is the beginning of a tick.
    let tick = Duration::from_millis(layout.unit().millis().unsigned_abs());
    let longest = window + 2 * lease.max_clock_skew + tick;
    let RaisePreview { now_ms, due_ms, far_ms, .. } = preview;
    let wait = Duration::from_secs(due_ms.saturating_sub(*now_ms).max(0).unsigned_abs() / 1_000);
    let because = if far_ms.is_some() {
        format!(
            "{wait:?} from now: that is where an epoch put the barrier which began by a clock that \
             was ahead; --barrier now lowers it"
        )
    } else if wait > longest {
        format!(
            "{wait:?} from now: the record holds a longer lease.window, or a later barrier, than \
             this command has"
        )
    } else {
        sum.to_owned()
    };
    let due = format_unix_ms_or_year(*due_ms);
    format!(
        "begins a new epoch\nno node gets a new lease before {due}, {because}\n{}",
        holders(preview)
    )
}

/// Says what lowering the barrier would do.
fn lowers(preview: &RaisePreview) -> String {
    let RaisePreview { due_ms, far_ms, .. } = preview;
    let before = far_ms.map_or_else(String::new, |far_ms| {
        format!(
            " instead of {}, where an epoch put it that began by a clock that was ahead",
            format_unix_ms_or_year(far_ms)
        )
    });
    format!(
        "begins a new epoch and lowers the barrier\nnew leases begin at {}{before}\nworker ids that \
         were leased under that clock stay as far ahead: their marks are not lowered\n{}",
        format_unix_ms_or_year(*due_ms),
        holders(preview)
    )
}

/// Says what becomes of the leases in hand.
fn holders(RaisePreview { held, .. }: &RaisePreview) -> String {
    format!(
        "{held} worker ids are held: their holders issue IDs until their leases are used up, and \
         then wait"
    )
}
