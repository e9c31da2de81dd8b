//! `raindrop workers raise`.

use std::time::Duration;

use super::Target;
use crate::{
    cli::{
        confirm::Confirmation,
        failure::Failure,
        output::{print, say},
    },
    core::instant::format_unix_ms,
    keeper::{LeaseTimes, RaisePreview},
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

pub(super) async fn raise(
    target: &mut Target<'_>,
    window: Option<Duration>,
    confirmation: &Confirmation,
) -> Result<(), Failure> {
    let lease = target.settings.lease;
    let (window, origin) = match window {
        Some(window) => (window, "--window"),
        None => (lease.window, "lease.window of this configuration"),
    };
    let reach = window + 2 * lease.max_clock_skew;
    let sum = format!(
        "{reach:?} from now: {window:?} ({origin}; must be the largest of any node) + twice {:?} \
         (lease.max_clock_skew)",
        lease.max_clock_skew
    );
    let place = target.place();
    let effect = if target.is_unused().await? {
        format!("{place}: the store has not been used yet\nno node gets a lease before {sum}")
    } else {
        let RaisePreview { held, due_ms } = target.operator.preview_raise(window).await?;
        format!(
            "{place}: begins a new epoch\nno node gets a new lease before {}, {sum}\n{held} worker \
             ids are held: their holders issue IDs until their leases are used up, and then wait",
            format_unix_ms(due_ms),
        )
    };
    print(&format!("{effect}\nno node may have written to the store since it was restored\n"))?;
    if !confirmation.is_given()? {
        return Ok(());
    }
    let due_ms = target.operator.raise(window).await?;
    say(&format!(
        "every new lease starts above everything that was ever leased; IDs are issued from {} on",
        format_unix_ms(due_ms)
    ))
}
