//! One file for each endpoint: its route, and what answers it.

pub(super) mod bounds;
pub(super) mod cluster;
pub(super) mod document;
pub(super) mod health;
pub(super) mod ids;
pub(super) mod metrics;
pub(super) mod parse;
