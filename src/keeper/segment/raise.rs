//! Raises the next number of a code, for a store that went back in time.

use crate::{
    core::segment::SegmentSpec,
    keeper::random::{Random, system_random},
    store::{Reservation, Reserved, Store, StoreError},
};

/// Why a code was not raised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaiseError {
    /// The next number would be beyond the largest.
    #[error("code {code:?}: the next number is {next} and cannot be raised by {by}")]
    TooLarge {
        /// The code.
        code: String,
        /// Its next number.
        next: u64,
        /// By how much it was to be raised.
        by: u64,
    },
    /// The store has no such code.
    #[error("code {0:?} is not in the store")]
    NoSuchCode(String),
    /// The store fails; the code may have been raised.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Raises the next number of a code by a reservation whose numbers nobody uses, and returns the
/// next number. Safe at any time: it only leaves a gap.
///
/// # Errors
///
/// See [`RaiseError`].
pub async fn raise_code(
    store: &dyn Store,
    namespace: &str,
    code: &str,
    by: u64,
) -> Result<u64, RaiseError> {
    let token = Random(system_random()).fresh_token();
    let end = SegmentSpec::LARGEST_NUMBER + 1;
    let reservation = Reservation { by, end, token, or_begin_at: None };
    match store.reserve(namespace, code, &reservation).await? {
        Reserved::From(first) => Ok(first + by),
        Reserved::Refused { next } => Err(RaiseError::TooLarge { code: code.to_owned(), next, by }),
        Reserved::NoSuchCode => Err(RaiseError::NoSuchCode(code.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        core::clock::ManualClock,
        store::{MemoryStore, NewSegment, SegmentStore},
    };

    #[tokio::test]
    async fn code_is_never_raised_beyond_the_largest_number() {
        let store = MemoryStore::new(Arc::new(ManualClock::new(0)));
        let new = [NewSegment { code: "order".into(), first: 7 }];
        store.create_segments("numbers", &new).await.expect("made");
        let raise = async |code, by| raise_code(&store, "numbers", code, by).await;
        assert_eq!(raise("order", 1_000).await.expect("raised"), 1_007);
        let error = raise("order", SegmentSpec::LARGEST_NUMBER).await.expect_err("too large");
        assert!(matches!(error, RaiseError::TooLarge { next: 1_007, .. }), "{error}");
        // One past the largest number is the next one where all were handed out.
        let end = SegmentSpec::LARGEST_NUMBER + 1;
        assert_eq!(raise("order", end - 1_007).await.expect("raised"), end);
        let error = raise("order", 1).await.expect_err("too large");
        assert!(matches!(error, RaiseError::TooLarge { .. }), "{error}");
        let error = raise("other", 1).await.expect_err("not there");
        assert!(matches!(error, RaiseError::NoSuchCode(_)), "{error}");
    }
}
