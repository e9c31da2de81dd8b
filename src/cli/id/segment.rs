//! Numbers of a segment code, from a block of the command's own; gives the unused ones back.

use std::{sync::Arc, time::Duration};

use super::printer::{CLAIM, Printer};
use crate::{
    cli::{failure::Failure, output, store::with_store},
    config::Config,
    core::issue::ClaimError,
    keeper::{IssueError, NoObserver, SegmentKeeper, SegmentSettings},
    store::with_sources,
};

pub(super) fn issue(
    config: &Config,
    settings: &SegmentSettings,
    code: &str,
    patience: Duration,
    printer: Printer<'_>,
) -> Result<(), Failure> {
    // This code alone, so that nothing is reserved for others.
    let mut settings = settings.clone();
    settings.max_wait = patience;
    settings.codes.retain(|name, _| name == code);
    if settings.codes.is_empty() && settings.auto_create.is_none() {
        return Err(Failure::usage(ClaimError::UnknownCode(code.to_owned())));
    }
    with_store(config, async |store, _| {
        let (mut keeper, issuers) =
            SegmentKeeper::start(vec![(settings, Arc::new(NoObserver))], store);
        let issuer = issuers.into_iter().next().expect("one namespace has one issuer");
        let claim = async |count| {
            issuer.next_ids(code, count).await.map_err(|error| match error {
                IssueError::Refused(ClaimError::InvalidCode(_)) => Failure::usage(error),
                error => Failure::Failed(with_sources(&error)),
            })
        };
        let printed = tokio::select! {
            errors = keeper.failed() => {
                return Err(errors.into_iter().next().expect("something is wrong").into());
            }
            printed = printer.print(CLAIM, claim) => printed,
        };
        let lost = keeper.release(config.store.timeout * 2).await.lost;
        if lost > 0 {
            output::error(&format!("{lost} numbers could not be given back and are a gap"));
        }
        printed
    })
}
