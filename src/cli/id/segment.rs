//! Numbers of a segment code: a block is reserved, and what is unused is given back.

use std::sync::Arc;

use super::{CLAIM, Printer, WITHIN};
use crate::{
    cli::{Failure, output},
    config::Config,
    core::{clock::SystemClock, issue::ClaimError},
    keeper::{IssueError, NoObserver, SegmentIssuer, SegmentKeeper, SegmentSettings},
    store::{self, with_sources},
};

pub(super) async fn issue(
    config: &Config,
    settings: &SegmentSettings,
    code: &str,
    printer: Printer<'_>,
) -> Result<(), Failure> {
    let settings = only(settings, code)?;
    let clock = Arc::new(SystemClock::default());
    let store = store::connect(&config.store, clock).await?;
    let (mut keeper, issuers) =
        SegmentKeeper::start(vec![(settings, Arc::new(NoObserver))], Arc::clone(&store));
    let issuer = issuers.into_iter().next().expect("one namespace has one issuer");
    let printed = tokio::select! {
        errors = keeper.failed() => {
            let error = errors.into_iter().next().expect("something is wrong");
            return Err(error.into());
        }
        printed = print(&issuer, code, printer) => printed,
    };
    let given_back = keeper.release(config.store.timeout * 2).await;
    store.close().await;
    if given_back.lost > 0 {
        output::error(&format!(
            "{} numbers could not be given back and are a gap",
            given_back.lost
        ));
    }
    printed
}

/// The namespace with this code alone, so that nothing is reserved for others.
fn only(settings: &SegmentSettings, code: &str) -> Result<SegmentSettings, Failure> {
    let mut settings = settings.clone();
    settings.max_wait = WITHIN;
    settings.codes.retain(|name, _| name == code);
    if settings.codes.is_empty() && settings.auto_create.is_none() {
        return Err(Failure::Usage(ClaimError::UnknownCode(code.to_owned()).to_string()));
    }
    Ok(settings)
}

async fn print(
    issuer: &SegmentIssuer,
    code: &str,
    mut printer: Printer<'_>,
) -> Result<(), Failure> {
    while printer.left > 0 {
        let numbers = issuer.next_ids(code, printer.left.min(CLAIM)).await;
        printer.print(numbers.map_err(|error| match error {
            IssueError::Refused(ClaimError::InvalidCode(_)) => Failure::Usage(error.to_string()),
            error => Failure::Failed(with_sources(&error)),
        })?)?;
    }
    printer.close()
}
