//! What the log says of a store that fails.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::status::StoreFailure;

/// Says when calls of the store for one purpose begin to fail, or fail in another way, and when they
/// succeed again; not every try between.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Option<StoreFailure>>);

impl FailureLog {
    pub(crate) fn failed(&self, namespace: &str, error: &StoreFailure) {
        let mut last = self.last();
        if last.as_ref() != Some(error) {
            tracing::warn!(namespace, %error, "store failed");
            *last = Some(error.clone());
        }
    }

    pub(crate) fn succeeded(&self, namespace: &str) {
        if self.last().take().is_some() {
            tracing::info!(namespace, "store answers again");
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<StoreFailure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
