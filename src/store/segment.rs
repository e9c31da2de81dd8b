//! Where the next numbers of segment codes are kept.

use std::fmt::Debug;

use async_trait::async_trait;

use super::StoreError;
use crate::core::lease::Token;

/// A code that is to exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSegment {
    /// Its name; any text of at most [`Self::LONGEST`] bytes.
    pub code: String,
    /// Its first number.
    pub first: u64,
}

impl NewSegment {
    /// The longest name, in bytes.
    pub const LONGEST: usize = 96;
}

/// Numbers that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// By how much the next number rises.
    pub by: u64,
    /// The next number must not rise above this, at most 2^63 − 1. With 0 every reservation is
    /// refused, and the answer only tells where the next number stands.
    pub end: u64,
    /// A fresh random token.
    pub token: Token,
    /// Where the code begins if it is not there: then it is made by the same statement.
    pub or_begin_at: Option<u64>,
}

/// What a reservation gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// The numbers from here on, as many as were asked for.
    From(u64),
    /// The next number is this one, too close to the end. Nothing changed.
    Refused {
        /// The next number.
        next: u64,
    },
    /// There is no such code, and it was not to be made.
    NoSuchCode,
}

/// A code with its next number: for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSegment {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub code: String,
    /// The number that the next reservation begins with.
    pub next: u64,
    /// By how much the last reservation raised it.
    pub step: u64,
    /// When that was, Unix ms of the store's clock.
    pub updated_ms: i64,
}

/// Keeps the next number of each segment code.
///
/// After an error of [`Self::reserve`] the numbers may have been reserved: they are a gap then.
#[async_trait]
pub trait SegmentStore: Debug + Send + Sync {
    /// What names the table of segments: with another one, numbers would begin anew.
    fn segment_table(&self) -> &str;

    /// Creates or checks the table of segments, after [`Store::prepare`](super::Store::prepare).
    /// Safe to repeat, and to run on many nodes at once.
    async fn prepare_segments(&self) -> Result<(), StoreError>;

    /// Inserts the codes that are missing and leaves the others as they are. Safe to repeat.
    async fn create_segments(
        &self,
        namespace: &str,
        codes: &[NewSegment],
    ) -> Result<(), StoreError>;

    /// Raises the next number of a code, in one atomic statement.
    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved, StoreError>;

    /// Lowers the next number of a code to `from` if its token is still `reserved`, which the
    /// reservation that `from` belongs to wrote, and writes a fresh token; `false` when it is not.
    async fn give_back(
        &self,
        namespace: &str,
        code: &str,
        reserved: Token,
        from: u64,
        token: Token,
    ) -> Result<bool, StoreError>;

    /// Every code, by namespace and name: for people.
    async fn segments(&self) -> Result<Vec<ListedSegment>, StoreError>;
}
