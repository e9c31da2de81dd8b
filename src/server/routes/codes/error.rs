//! The problems of managing codes.

use std::time::Duration;

use crate::{
    keeper::{ManageError, RaiseError},
    server::response::{Problem, ProblemCode as P, RETRY_UNKNOWN, store_problem},
};

pub(super) fn manage_problem(error: ManageError, is_operator: bool) -> Problem {
    let code = match &error {
        ManageError::Store(error) | ManageError::Raise(RaiseError::Store(error)) => {
            return store_problem(error, is_operator);
        }
        ManageError::TooMany(_) => {
            let later = Duration::from_hours(1);
            return Problem::passing(P::TooManyCodes, error.to_string(), later);
        }
        ManageError::Vanished(_) => {
            return Problem::passing(P::StoreLost, error.to_string(), RETRY_UNKNOWN);
        }
        ManageError::InvalidCode(_) => P::InvalidCode,
        ManageError::Invalid(_) | ManageError::Raise(RaiseError::TooLarge { .. }) => {
            P::InvalidParameter
        }
        ManageError::Exists(_) => P::PreconditionFailed,
        ManageError::Raise(RaiseError::NoSuchCode(_)) => P::UnknownCode,
        _ => P::Conflict,
    };
    Problem::new(code, error.to_string())
}
