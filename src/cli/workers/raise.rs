//! `raindrop workers raise`.

use std::time::Duration;

use crate::{
    cli::{arguments::duration, failure::Failure, output::say},
    core::instant::format_unix_ms,
    keeper::{LeaseTimes, Operator},
};

/// The longest window of a lease.
const LONGEST: Duration = Duration::from_hours(24);

#[derive(Debug, clap::Args)]
pub(super) struct RaiseArguments {
    /// The largest lease.window of any node that used the store, such as 5m; by default the
    /// configured one.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    window: Option<Duration>,
}

impl RaiseArguments {
    pub(super) fn check(&self, lease: &LeaseTimes) -> Result<(), Failure> {
        let least = lease.window;
        match self.window {
            Some(window) if !(least..=LONGEST).contains(&window) => Err(Failure::Usage(format!(
                "--window {window:?}: must be lease.window ({least:?}) to {LONGEST:?}"
            ))),
            _ => Ok(()),
        }
    }
}

pub(super) async fn run(
    lease: &LeaseTimes,
    operator: &mut Operator,
    arguments: &RaiseArguments,
) -> Result<(), Failure> {
    let (window, origin) = match arguments.window {
        Some(window) => (window, "--window"),
        None => (lease.window, "lease.window of this configuration"),
    };
    say(&format!(
        "raising every mark to now + {window:?} ({origin}; must be the largest of any node) + {:?} \
         (lease.max_clock_skew). No node may have written to the store since it was restored",
        lease.max_clock_skew
    ))?;
    let raised = operator.raise(window).await?;
    say(&format!(
        "{} worker ids are free and start above everything that was ever leased; they issue IDs \
         from {} on",
        raised.rows,
        format_unix_ms(raised.due_ms)
    ))
}
