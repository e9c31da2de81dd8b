//! `raindrop workers raise`.

use std::time::Duration;

use super::Target;
use crate::{
    cli::{confirm::Confirmation, failure::Failure, output::say},
    core::instant::format_unix_ms,
    keeper::{LeaseTimes, RaisePreview},
};

/// The longest window of a lease.
const LONGEST_WINDOW: Duration = Duration::from_hours(24);

/// Checks a window that is given.
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
    let skew = lease.max_clock_skew;
    let sum = format!(
        "now + {window:?} ({origin}; must be the largest of any node) + {skew:?} \
         (lease.max_clock_skew)"
    );
    let place = target.place();
    let effect = if target.is_unused().await? {
        format!(
            "{place}: the store has not been used yet. Creates every worker id, with its marks at \
             {sum}\nno node gets a lease for {:?}",
            window + skew
        )
    } else {
        let RaisePreview { rows, held, due_ms } = target.operator.preview_raise(window).await?;
        format!(
            "{place}: frees {rows} worker ids, of which {held} are held, and raises every mark to \
             {sum}\nno node gets a new lease before {}, {:?} from now; nodes that hold one issue \
             IDs until it is used up, and then wait",
            format_unix_ms(due_ms),
            window + skew,
        )
    };
    say(&format!("{effect}\nno node may have written to the store since it was restored"))?;
    if !confirmation.is_given()? {
        return Ok(());
    }
    let raised = target.operator.raise(window).await?;
    say(&format!(
        "{} worker ids are free and start above everything that was ever leased; they issue IDs \
         from {} on",
        raised.rows,
        format_unix_ms(raised.due_ms)
    ))
}
