//! Creates the record of a namespace.

use raindrop_store::{LayoutRecord, Store, StoreError};

use crate::support::{
    observer::{Observer, StoreOperation},
    store_call::store_call,
};

/// Creates a record unless there is one. Returns the stored one.
pub(crate) async fn create_record(
    store: &dyn Store,
    observer: &dyn Observer,
    namespace: &str,
    record: &LayoutRecord,
) -> Result<LayoutRecord, StoreError> {
    let created = store.create_record(namespace, record);
    let stored = store_call(store, observer, StoreOperation::Prepare, created).await?;
    // Another process may have changed the record since, but kept the epoch, which this process
    // began.
    let is_ours = stored.history.epoch() == record.history.epoch();
    if is_ours && record.history.has_failed_over() {
        tracing::warn!(namespace, "layout record was gone: written again with a new epoch");
        observer.epoch_changed();
    }
    Ok(stored)
}

/// Returns the error for a record that other processes changed before each attempt to follow it.
pub(crate) fn contended() -> StoreError {
    StoreError::Refused("other nodes keep changing the layout record".into())
}
