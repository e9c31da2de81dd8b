//! Logs when a store begins to fail and when it answers again, and not every failed call.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::status::StoreFailure;

/// Logs when calls of the store for one purpose begin to fail, fail in another way, or succeed
/// again; not every attempt in between. Failures whose texts differ only in numbers count as the
/// same: the text for an expired certificate says for how many seconds it has been expired.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Option<StoreFailure>>);

impl FailureLog {
    pub(crate) fn failed(&self, namespace: &str, error: &StoreFailure) {
        let mut last = self.last();
        if last.as_ref().is_none_or(|last| without_numbers(last) != without_numbers(error)) {
            tracing::warn!(namespace, %error, "store failed");
        }
        *last = Some(error.clone());
    }

    pub(crate) fn succeeded(&self, namespace: &str) {
        if self.last().take().is_some() {
            tracing::info!(namespace, "store answers again");
        }
    }

    /// Returns whether the last attempt failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.last().is_some()
    }

    fn last(&self) -> MutexGuard<'_, Option<StoreFailure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the text of a failure without its numbers.
fn without_numbers(failure: &StoreFailure) -> String {
    failure.to_string().replace(|letter: char| letter.is_ascii_digit(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_alone_make_no_other_failure() {
        let text = |text: &'static str| without_numbers(&StoreFailure::of_kind(text));
        assert_eq!(text("expired (9 seconds ago)"), text("expired (25 seconds ago)"));
        assert_ne!(text("expired (9 seconds ago)"), text("refused (9 seconds ago)"));
    }
}
