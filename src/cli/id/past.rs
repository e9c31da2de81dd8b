//! IDs for a past time.

use std::sync::Arc;

use super::printer::Printer;
use crate::{
    cli::{failure::Failure, store::with_store},
    config::Config,
    keeper::{Backfill, KeeperSettings, NoObserver},
};

const FORGETS: &str = "--at: memory: forgets which IDs of a past time were issued; use a \
                       persistent store";

pub(super) fn issue(
    config: &Config,
    settings: &KeeperSettings,
    code: &str,
    at_ms: i64,
    printer: Printer<'_>,
) -> Result<(), Failure> {
    if config.store.url == "memory:" {
        return Err(Failure::usage(FORGETS));
    }
    with_store(config, async |store, _| {
        let backfill = Backfill::new(settings.clone(), store, Arc::new(NoObserver));
        // All at once: a request gets all that it asks for, or none.
        let claim = async |count| Ok(backfill.ids(code, count, at_ms).await?.into_iter());
        printer.print(u32::MAX, claim).await
    })
}
