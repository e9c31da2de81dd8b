//! Stores of idempotency keys: which number the request with a key got.
//!
//! A key is claimed before its number is reserved, so that of two processes with the same key only
//! one reserves. Its text is written once, after the number was reserved, and never changes.
//! Processes answer only with a text that an acknowledged write found or wrote. Why that gives no key
//! two numbers is argued in `docs/safety/strict.md`. Tests: tests/store/idempotency.rs.

use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;
use raindrop_core::lease::Token;

use super::Result;
#[cfg(feature = "kubernetes")]
use super::StoreError;

/// The text of a number, and the key of the request that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyText {
    /// The key: visible ASCII characters, at most [`Self::LONGEST_KEY`].
    pub key: String,
    /// The number as its client gets it, at most [`Self::LONGEST_TEXT`] bytes; never empty.
    pub text: String,
}

impl KeyText {
    /// The longest key, in bytes.
    pub const LONGEST_KEY: usize = 255;
    /// The longest text, in bytes.
    pub const LONGEST_TEXT: usize = 128;
}

/// The state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It has no number yet, and this owner is to reserve one.
    Owned,
    /// It has no number yet, and another owner is to reserve one.
    Busy,
    /// The text of its number, which is final.
    Finished(String),
}

/// Keeps the text of the number that was issued for each idempotency key of a code.
#[async_trait]
pub trait IdempotencyStore: Debug + Send + Sync {
    /// Returns whether this store keeps keys.
    fn keeps_keys(&self) -> bool {
        true
    }

    /// Claims keys for an owner: those that are missing, and those that another owner has not
    /// finished within `patience` by the store's clock. Returns the state of each key in their
    /// order, as an acknowledged write found it. `keys` are distinct.
    async fn claim_keys(
        &self,
        namespace: &str,
        code: &str,
        keys: &[&str],
        owner: Token,
        patience: Duration,
    ) -> Result<Vec<KeyState>>;

    /// Writes the texts of keys that are this owner's and have none yet, in one atomic statement.
    /// Returns the state of each key in their order. A state with another text may be one that only
    /// a read has shown.
    async fn finish_keys(
        &self,
        namespace: &str,
        code: &str,
        owner: Token,
        texts: &[KeyText],
    ) -> Result<Vec<KeyState>>;

    /// Deletes keys that were created longer ago than this by the store's clock, at most
    /// [`KEYS_AT_ONCE`] of them. Returns how many.
    async fn delete_old_keys(&self, age: Duration) -> Result<u64>;
}

/// How long a store keeps a key at least, from its first request on.
pub const KEYS_KEPT: Duration = Duration::from_hours(30 * 24);

/// The most keys that [`IdempotencyStore::delete_old_keys`] deletes at once.
pub const KEYS_AT_ONCE: u64 = 1_000;

/// Returns the error of a store that keeps no keys.
#[cfg(feature = "kubernetes")]
pub(super) fn keeps_none() -> StoreError {
    StoreError::Unusable("the Kubernetes API keeps no idempotency keys: use a database".to_owned())
}
