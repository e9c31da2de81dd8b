//! Responses: bodies, problems, and the memory that unsent responses take.

pub(super) mod body;
mod problem;

pub use self::problem::{Problem, ProblemCode};
pub(super) use self::{
    body::{Reservation, UnsentBudget},
    problem::{Document, RETRY_UNKNOWN, retry_after_seconds, shortened, store_problem, store_text},
};
