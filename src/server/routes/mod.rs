//! One file for each endpoint: its handler, and its description for the API document.

pub(super) mod about;
pub(super) mod bounds;
pub(super) mod cluster;
pub(super) mod codes;
mod conditional;
pub(super) mod console;
mod content_negotiation;
pub(super) mod health;
pub(super) mod ids;
pub(super) mod log;
pub(super) mod metrics;
pub(super) mod parse;
pub(super) mod plan;
