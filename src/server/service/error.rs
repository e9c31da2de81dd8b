//! The errors with which the service ends.

use std::collections::BTreeSet;

use crate::{
    config::ConfigError,
    keeper::{KeeperError, StateFileError},
    server::listener::TlsError,
    store::with_sources,
};

/// Why the service could not start, or stopped without being told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Keepers gave up: as configuration and store are, no retry gets them a lease or a block.
    #[error("{}", in_lines(.0))]
    Keepers(Vec<KeeperError>),
    /// The tokens of `auth.tokens_file` cannot be used.
    #[error("{0}")]
    Tokens(ConfigError),
    /// The certificates of `http.tls` cannot be used.
    #[error("{0}")]
    Tls(TlsError),
    /// The file of `store.state_file` cannot be used.
    #[error("{0}")]
    StateFile(StateFileError),
    /// Reading a file took too long, for example on a dead network mount.
    #[error("the file of {key}: {reason}")]
    NotRead {
        /// The key that names it.
        key: &'static str,
        /// Why it was not read.
        reason: String,
    },
    /// The process cannot listen to SIGHUP, the signal that reloads files.
    #[error("SIGHUP cannot be listened to")]
    Hangup(#[source] std::io::Error),
    /// The listener cannot be used.
    #[error("the listener cannot be used")]
    Listener(#[source] std::io::Error),
    /// A background task failed that cannot be restarted. That is a defect; only a new process
    /// helps.
    #[error("the background task {task} failed: {reason}")]
    Task {
        /// Its name, as in the label `task` of `raindrop_task_failures_total`.
        task: &'static str,
        /// How it failed.
        reason: String,
    },
}

fn in_lines(errors: &[KeeperError]) -> String {
    // A fault of the store is an error of every keeper; equal texts are shown once.
    let lines: BTreeSet<String> = errors.iter().map(|error| with_sources(error)).collect();
    Vec::from_iter(lines).join("\n")
}
