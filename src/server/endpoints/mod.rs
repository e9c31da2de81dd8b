//! One file per endpoint.

pub(super) mod answer;
mod asked;
pub(super) mod bounds;
pub(super) mod health;
pub(super) mod id;
pub(super) mod ids;
pub(super) mod metrics;
pub(super) mod parse;
mod past;
mod texts;
