//! Why a code was not changed.

use raindrop_core::{code::CODE_PATTERN, segment::UnreadableSettings, violation::Violations};
use raindrop_store::StoreError;

/// Why a code was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManageError {
    /// The name is no code.
    #[error("code {0:?}: must match {CODE_PATTERN}")]
    InvalidCode(String),
    /// The settings contradict each other, or the code's next number.
    #[error("{0}")]
    Invalid(Violations),
    /// The configuration lists the code.
    #[error("code {0:?} is in the configuration and is changed there")]
    Configured(String),
    /// The code is managed already, and was to be a new one.
    #[error("code {0:?} exists already")]
    Exists(String),
    /// Nobody manages the code.
    #[error("code {0:?} is not managed: create it first")]
    NotManaged(String),
    /// The code was retired, which is permanent.
    #[error("code {0:?} is retired for good")]
    Retired(String),
    /// The numbers of a managed code keep their distance.
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
    /// Others changed the code again and again.
    #[error("code {0:?} is being changed by others; try again")]
    Contended(String),
    /// The next number was not raised.
    #[error(transparent)]
    Raise(#[from] RaiseError),
    /// The store fails; the change may have been made. It can be repeated.
    #[error(transparent)]
    Store(#[from] StoreError),
}

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
