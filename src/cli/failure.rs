//! Why a command failed, and with which exit code.

use std::fmt::Display;

use crate::{
    config::ConfigError,
    keeper::{BackfillError, KeeperError, OperatorError, RaiseError},
    store::{StoreError, with_sources},
};

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Exit code 1.
    Failed(String),
    /// Exit code 2: the usage, configuration or tables must change first.
    Usage(String),
}

impl Failure {
    pub(super) fn failed(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }

    pub(super) fn usage(error: impl Display) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Usage(format!("the configuration cannot be used:\n{error}"))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let text = with_sources(&error);
        if error.is_permanent() { Self::Usage(text) } else { Self::Failed(text) }
    }
}

impl From<KeeperError> for Failure {
    fn from(error: KeeperError) -> Self {
        match error {
            KeeperError::Store(error) => error.into(),
            error @ KeeperError::TaskFailed { .. } => Self::failed(error),
            error @ (KeeperError::Layout(_) | KeeperError::Settings(_)) => Self::usage(error),
        }
    }
}

impl From<OperatorError> for Failure {
    fn from(error: OperatorError) -> Self {
        match error {
            OperatorError::Store(error) => error.into(),
            error @ (OperatorError::WorkerOutOfRange { .. } | OperatorError::Layout(_)) => {
                Self::usage(error)
            }
            error => Self::failed(error),
        }
    }
}

impl From<BackfillError> for Failure {
    fn from(error: BackfillError) -> Self {
        match error {
            BackfillError::Store(error) => error.into(),
            error @ (BackfillError::Refused(_)
            | BackfillError::NotReserved { .. }
            | BackfillError::CountedOtherwise { .. }) => Self::usage(error),
            error => Self::failed(error),
        }
    }
}

impl From<RaiseError> for Failure {
    fn from(error: RaiseError) -> Self {
        match error {
            RaiseError::Store(error) => error.into(),
            error => Self::failed(error),
        }
    }
}
