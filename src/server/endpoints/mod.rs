//! One file per endpoint.

pub(super) mod answer;
pub(super) mod asked;
pub(super) mod bounds;
pub(super) mod cluster;
pub(super) mod document;
pub(super) mod health;
mod id;
mod ids;
pub(super) mod issue;
pub(super) mod metrics;
pub(super) mod parse;
mod past;
mod texts;
