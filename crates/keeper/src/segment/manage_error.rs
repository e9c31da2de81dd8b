//! Why a code was not changed.

use raindrop_core::{
    code::CODE_PATTERN,
    segment::{TextForm, UnreadableSettings},
    violation::Violations,
};
use raindrop_store::StoreError;

/// Why a code was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManageError {
    /// The name is not a valid code.
    #[error("code {0:?}: must match {CODE_PATTERN}")]
    InvalidCode(String),
    /// The settings contradict each other or the code's next number.
    #[error("{0}")]
    Invalid(Violations),
    /// The configuration lists the code.
    #[error("code {0:?} is in the configuration and is changed there")]
    Configured(String),
    /// The code is already managed, and the caller wanted to create it.
    #[error("code {0:?} exists already")]
    Exists(String),
    /// No operator manages the code.
    #[error("code {0:?} is not managed: create it first")]
    NotManaged(String),
    /// The code was retired, which is permanent.
    #[error("code {0:?} is retired for good")]
    Retired(String),
    /// A change would give the numbers of a managed code another distance or remainder.
    #[error(
        "code {code:?}: increment and remainder stay {increment} and {remainder}, because numbers \
         in use have them; create another code"
    )]
    FixedProgression {
        /// The code.
        code: String,
        /// Its increment.
        increment: u64,
        /// Its remainder.
        remainder: u64,
    },
    /// A change would write the numbers of a code in use in another form.
    #[error(
        "code {code:?}: its numbers stay {}, because issued ones are written so; only zeros in front \
         may be added later; create another code",
        .form.map_or_else(|| "plain".to_owned(), |form| form.to_string())
    )]
    FixedText {
        /// The code.
        code: String,
        /// The present form; `None` for plain numbers.
        form: Option<TextForm>,
    },
    /// A change would make a code in use strict, while nodes may have numbers in hand, or no longer
    /// strict.
    #[error(
        "code {code:?}: strict stays {is_strict}, because nodes already issue its numbers so; create \
         another code"
    )]
    FixedOrder {
        /// The code.
        code: String,
        /// Whether it is strict.
        is_strict: bool,
    },
    /// The namespace has as many codes as `codes.max` allows.
    #[error("the namespace has {0} codes, as many as codes.max allows")]
    TooMany(usize),
    /// The store has settings of the code, but not its next number.
    #[error("code {0:?}: its next number is missing from the store; restore it from a backup")]
    Vanished(String),
    /// A newer version wrote the settings.
    #[error("code {code:?}: its settings in the store cannot be read: {reason}")]
    Unreadable {
        /// The code.
        code: String,
        /// Why.
        reason: UnreadableSettings,
    },
    /// Other processes kept changing the code.
    #[error("code {0:?} is being changed by others; try again")]
    Contended(String),
    /// The next number was not raised.
    #[error(transparent)]
    Raise(#[from] RaiseError),
    /// The store failed. The change may have been made, and can be repeated.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a code was not raised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaiseError {
    /// The next number would be larger than the largest number.
    #[error("code {code:?}: the next number is {next} and cannot be raised by {by}")]
    TooLarge {
        /// The code.
        code: String,
        /// Its next number.
        next: u64,
        /// The count of numbers by which the operator wanted to raise it.
        by: u64,
    },
    /// The store has no such code.
    #[error("code {0:?} is not in the store")]
    NoSuchCode(String),
    /// The store failed. The code may have been raised.
    #[error(transparent)]
    Store(#[from] StoreError),
}
