//! What the value of a key may be, for the reader and for the JSON schema.

use std::time::Duration;

/// What the value of a key may be.
///
/// Relations between keys are not part of it: the functions that read a section check those.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Any text; the function that reads the key may allow less.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Number {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// A duration with its unit.
    Duration {
        /// The shortest.
        shortest: Duration,
        /// The longest.
        longest: Duration,
    },
    /// A size in bytes with its unit.
    Size {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// One of these words.
    Words(fn() -> Vec<&'static str>),
    /// One of these words, or the number of one, from 1.
    NumberedWords {
        /// The words.
        words: fn() -> Vec<&'static str>,
        /// The largest number.
        most: u64,
    },
    /// A list of texts, or one text with commas between them.
    List,
}
