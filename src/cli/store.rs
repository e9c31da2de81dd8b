//! Runs the work of a command with the store.

use std::sync::Arc;

use tokio::runtime::Builder;

use super::{failure::Failure, output};
use crate::{
    config::Config,
    core::clock::SystemClock,
    store::{self, Store},
};

/// Runs the work of a command on a runtime, and drops the runtime without waiting for background
/// tasks: a store that hangs must not delay the end of the process.
pub(super) fn block_on(
    mut runtime: Builder,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let runtime = runtime.enable_all().build()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

/// Runs the work of a command with the configured store, unless the store has not the configured
/// id, and closes the store. If that created a file, prints its path: in another folder, the same
/// command would create another file.
pub(super) fn with_store(
    config: &Config,
    work: impl AsyncFnOnce(Arc<dyn Store>, Arc<SystemClock>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    block_on(Builder::new_current_thread(), async {
        let clock = Arc::new(SystemClock::default());
        let missing = config.store.url.sqlite_file().filter(|file| !file.exists());
        let store = store::connect(&config.store, clock.clone())?;
        let result = match store::check_store_id(&*store, &config.store).await {
            Ok(()) => work(Arc::clone(&store), clock).await,
            Err(error) => Err(error.into()),
        };
        store.close().await;
        if let Some(made) = missing.filter(|file| file.exists()) {
            output::error(&format!("created the store {}", made.display()));
        }
        result
    })
}
