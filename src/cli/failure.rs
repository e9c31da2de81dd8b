//! Why a command failed, and with which exit code.

use std::fmt::Display;

use crate::{
    config::ConfigError,
    core::{issue::ClaimError, visible::visible},
    keeper::{
        BackfillError, IssueError, KeeperError, ManageError, OperatorError, RaiseError,
        StateFileError,
    },
    server::ServeError,
    store::{StoreError, with_sources},
};

/// Why a command failed, in one line unless the variant says otherwise.
#[derive(Debug)]
pub(super) enum Failure {
    /// Exit code 1.
    Failed(String),
    /// Exit code 2: the usage, configuration or tables must change first.
    Usage(String),
    /// Exit code 2, with a line for each problem. Untrusted texts in it are escaped already.
    Problems(String),
    /// The log has the text already, since its lines are for programs.
    Logged(Box<Self>),
}

impl Failure {
    pub(super) fn failed(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }

    /// Returns the text of the report.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Failed(text) | Self::Usage(text) | Self::Problems(text) => text,
            Self::Logged(failure) => failure.text(),
        }
    }

    /// Returns the exit code of the process.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) | Self::Problems(_) => 2,
            Self::Logged(failure) => failure.exit_code(),
        }
    }

    /// Adds the place of the failure to the text.
    pub(super) fn at(self, place: &str) -> Self {
        match self {
            Self::Failed(text) => Self::Failed(format!("{place}: {text}")),
            Self::Usage(text) => Self::Usage(format!("{place}: {text}")),
            Self::Problems(text) => Self::Problems(format!("{place}: {text}")),
            logged @ Self::Logged(_) => logged,
        }
    }

    /// Makes a failure of usage with a heading and a line for each problem.
    pub(super) fn problems<T: AsRef<str>>(
        heading: &str,
        problems: impl IntoIterator<Item = T>,
    ) -> Self {
        let lines =
            problems.into_iter().map(|problem| format!("\n  {}", visible(problem.as_ref())));
        Self::Problems(heading.to_owned() + &lines.collect::<String>())
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
        Self::Problems(format!("the configuration cannot be used:\n{error}"))
    }
}

impl From<StateFileError> for Failure {
    fn from(error: StateFileError) -> Self {
        match error {
            StateFileError::Foreign { .. } => Self::usage(error),
            _ => Self::failed(error),
        }
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            // The text has a line for each keeper, already escaped.
            error @ ServeError::Keepers(_) => Self::Problems(error.to_string()),
            error @ ServeError::Tls(_) => Self::usage(error),
            ServeError::Tokens(error) => error.into(),
            ServeError::StateFile(error) => error.into(),
            error => Self::Failed(with_sources(&error)),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let text = with_sources(&error);
        if error.is_permanent() { Self::Usage(text) } else { Self::Failed(text) }
    }
}

impl From<IssueError> for Failure {
    fn from(error: IssueError) -> Self {
        let text = with_sources(&error);
        match error {
            IssueError::Refused(
                ClaimError::InvalidCode(_)
                | ClaimError::UnknownCode(_)
                | ClaimError::RetiredCode(_)
                | ClaimError::NoIdempotencyKeys { .. },
            ) => Self::Usage(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<BackfillError> for Failure {
    fn from(error: BackfillError) -> Self {
        match error {
            BackfillError::Store(error) => error.into(),
            error @ (BackfillError::NoLease(_)
            | BackfillError::NotRenewed { .. }
            | BackfillError::EpochEnded { .. }
            | BackfillError::Unconfirmed { .. }) => Self::failed(error),
            error => Self::usage(error),
        }
    }
}

/// Implements conversions of errors that may come from the store. The variants in brackets become
/// failures of usage (2), all others failures (1).
macro_rules! failures {
    ($($error:ident [$($usage:pat),*])+) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                match error {
                    $error::Store(error) => error.into(),
                    $($usage => Self::usage(error),)*
                    _ => Self::failed(error),
                }
            }
        }
    )+};
}

failures! {
    KeeperError [KeeperError::Layout(_), KeeperError::Settings(_)]
    OperatorError [
        OperatorError::WorkerOutOfRange { .. },
        OperatorError::NoRow { .. },
        OperatorError::OtherLanes { .. },
        OperatorError::NoRecord { .. },
        OperatorError::Layout(_),
        OperatorError::UnreadableLayout(_),
        OperatorError::UnreadableMove(_)
    ]
    ManageError [
        ManageError::InvalidCode(_),
        ManageError::Raise(RaiseError::TooLarge { .. } | RaiseError::NoSuchCode(_)),
        ManageError::Invalid(_),
        ManageError::Configured(_),
        ManageError::Exists(_),
        ManageError::NotManaged(_),
        ManageError::Retired(_),
        ManageError::FixedProgression { .. },
        ManageError::TooMany(_),
        ManageError::Vanished(_),
        ManageError::Unreadable { .. }
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_only_after_a_change_is_usage() {
        let code = || "order".to_owned();
        let (at_ms, first_ms, now_ms) = (1, 2, 3);
        let usage: [Failure; 7] = [
            IssueError::Refused(ClaimError::RetiredCode(code())).into(),
            BackfillError::OutOfRange { at_ms, first_ms, now_ms, can_be_opened: false }.into(),
            ManageError::Raise(RaiseError::NoSuchCode(code())).into(),
            ManageError::TooMany(1).into(),
            ManageError::Vanished(code()).into(),
            OperatorError::NoRow { worker: 1 }.into(),
            OperatorError::NoRecord { namespace: "default".into() }.into(),
        ];
        for failure in usage {
            assert!(matches!(failure, Failure::Usage(_)), "{failure:?}");
        }
        let reason = "not read within 5s".to_owned();
        let later: [Failure; 4] = [
            ServeError::NotRead { key: "http.tls", reason }.into(),
            IssueError::Refused(ClaimError::NoLease).into(),
            ManageError::Contended(code()).into(),
            OperatorError::Contended.into(),
        ];
        for failure in later {
            assert!(matches!(failure, Failure::Failed(_)), "{failure:?}");
        }
    }
}
