//! Why a state file cannot be used.

use std::{io, path::PathBuf};

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// Another process holds its lock.
    #[error("store.state_file = {path:?}: another process uses this file; each needs its own")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file has other content, which was not changed.
    #[error(
        "store.state_file = {path:?}: the file is not a state file of Raindrop, and was not changed; \
         name a file that is empty or does not exist"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened, read or written.
    #[error("store.state_file = {path:?}: {source}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The reason why nothing in a file is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);
