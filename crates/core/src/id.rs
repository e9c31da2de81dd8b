//! The type of IDs, and what it is in JSON, in columns of databases and in API documents.
//!
//! | feature | makes [`Id`] |
//! |---|---|
//! | `serde` | decimal text in self-describing formats such as JSON, TOML and YAML (not XML elements), and a number in binary ones; with `id::as_number` always a number |
//! | `sqlx` | a `BIGINT` of MySQL, MariaDB and PostgreSQL, and an `INTEGER` of SQLite, with sqlx 0.9 |
//! | `sqlx-postgres` | the same, and `Vec<Id>` and `&[Id]` a `BIGINT[]` of PostgreSQL |
//! | `utoipa` | a schema of OpenAPI, with utoipa 6 |
//!
//! All are off by default, and `raindrop-keeper` has features of the same names. Without them,
//! `Display` and `FromStr` are decimal text, and [`Id::new`] and [`Id::get`] the number.

use std::fmt;

#[cfg(feature = "serde")]
pub use self::serde::as_number;

#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(all(test, feature = "serde"))]
mod tests;
#[cfg(feature = "utoipa")]
mod utoipa;

/// A 63-bit ID, which is never negative as a signed 64-bit integer.
///
/// IDs of one namespace are unique, and their numeric order follows time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

impl Id {
    /// The largest ID, 2^63 − 1.
    pub const MAX: Self = Self(i64::MAX as u64);
    /// The largest integer that JSON numbers carry exactly in every language, 2^53 − 1.
    pub const MAX_JS_SAFE: Self = Self((1 << 53) - 1);

    /// Returns the ID with this number, or `None` above 2^63 − 1.
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// Makes an ID of a number that a layout composed, which fits into 63 bits.
    pub(crate) const fn from_composed(number: u64) -> Self {
        debug_assert!(number <= Self::MAX.0);
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns whether JSON numbers carry this ID exactly in every language (below 2^53).
    pub const fn is_js_safe(self) -> bool {
        self.0 <= Self::MAX_JS_SAFE.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
