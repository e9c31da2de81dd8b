//! IDs with a lease of the command's own.

use std::{sync::Arc, time::Duration};

use super::{CLAIM, Printer, WITHIN};
use crate::{
    cli::{Failure, output},
    config::Config,
    core::{
        clock::SystemClock,
        issue::{ClaimError, Run},
    },
    keeper::{IssueError, Issuer, Keeper, KeeperSettings, NoObserver, Released},
    store::{self, with_sources},
};

pub(super) async fn issue(
    config: &Config,
    settings: KeeperSettings,
    code: &str,
    printer: Printer<'_>,
) -> Result<(), Failure> {
    let clock = Arc::new(SystemClock::default());
    let store = store::connect(&config.store, clock.clone()).await?;
    let observer = Arc::new(NoObserver);
    let (mut keeper, issuer) = Keeper::start(settings, store.clone(), clock, observer);
    let printed = tokio::select! {
        error = keeper.failed() => return Err(error.into()),
        printed = print(&issuer, code, printer) => printed,
    };
    let released = keeper.release(config.store.timeout * 2).await;
    store.close().await;
    if released == Released::GaveUp {
        output::error("the worker id could not be given back; it comes free after its ttl");
    }
    printed
}

async fn print(issuer: &Issuer, code: &str, mut printer: Printer<'_>) -> Result<(), Failure> {
    if tokio::time::timeout(WITHIN, issuer.leased()).await.is_err() {
        let reason = issuer.status().reason;
        let why = reason.map_or_else(|| "nobody says why".into(), |why| why.to_string());
        return Err(Failure::Failed(format!("no lease within {WITHIN:?}: {why}")));
    }
    while printer.left > 0 {
        printer.print(claim(issuer, code, printer.left.min(CLAIM)).await?)?;
    }
    printer.close()
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
