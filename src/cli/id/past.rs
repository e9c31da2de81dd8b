//! IDs for a past time.

use std::sync::Arc;

use super::Printer;
use crate::{
    cli::Failure,
    config::Config,
    core::clock::SystemClock,
    keeper::{Backfill, BackfillError, KeeperSettings, NoObserver},
    store,
};

const FORGETS: &str = "--at: memory: forgets which IDs of a past time were issued; use a \
                       persistent store";

pub(super) async fn issue(
    config: &Config,
    settings: KeeperSettings,
    code: &str,
    at_ms: i64,
    mut printer: Printer<'_>,
) -> Result<(), Failure> {
    if config.store.url == "memory:" {
        return Err(Failure::Usage(FORGETS.into()));
    }
    let store = store::connect(&config.store, Arc::new(SystemClock::default())).await?;
    let backfill = Backfill::new(settings, Arc::clone(&store), Arc::new(NoObserver));
    let ids = backfill.ids(code, printer.left, at_ms).await;
    store.close().await;
    printer.print(ids?.into_iter())?;
    printer.close()
}

impl From<BackfillError> for Failure {
    fn from(error: BackfillError) -> Self {
        match error {
            BackfillError::Store(error) => error.into(),
            error @ (BackfillError::Refused(_)
            | BackfillError::NotReserved { .. }
            | BackfillError::CountedOtherwise { .. }) => Self::Usage(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}
