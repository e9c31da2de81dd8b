//! IDs with a lease of the command's own.

use std::{sync::Arc, time::Duration};

use super::printer::{CLAIM, Printer};
use crate::{
    cli::{failure::Failure, output, store::with_store},
    config::Config,
    core::issue::{ClaimError, Run},
    keeper::{IssueError, Issuer, Keeper, KeeperSettings, NoObserver, Released},
    store::with_sources,
};

pub(super) fn issue(
    config: &Config,
    settings: &KeeperSettings,
    code: &str,
    patience: Duration,
    printer: Printer<'_>,
) -> Result<(), Failure> {
    with_store(config, async |store, clock| {
        let observer = Arc::new(NoObserver);
        let (mut keeper, issuer) = Keeper::start(settings.clone(), store, clock, observer);
        let print = async {
            if tokio::time::timeout(patience, issuer.leased()).await.is_err() {
                let reason = issuer.status().reason;
                let reason = reason.map_or_else(|| "unknown".into(), |reason| reason.to_string());
                return Err(Failure::Failed(format!("no lease within {patience:?}: {reason}")));
            }
            printer.print(CLAIM, async |count| claim(&issuer, code, count).await).await
        };
        let printed = tokio::select! {
            error = keeper.failed() => return Err(error.into()),
            printed = print => printed,
        };
        if keeper.release(config.store.timeout * 2).await == Released::GaveUp {
            output::error("the worker id could not be released; it is free after its ttl");
        }
        printed
    })
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
                    return Err(Failure::usage(error));
                }
                error => return Err(Failure::failed(error)),
            },
            Err(error) => return Err(Failure::Failed(with_sources(&error))),
        }
    }
}
