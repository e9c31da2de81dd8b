//! Faults on real processes: every ID is collected, and none may come twice.

#![expect(clippy::print_stdout, reason = "the figures of a run are part of its result")]

#[path = "../support/mod.rs"]
mod support;

mod clocks;
mod cluster;
mod collected;
mod command;
mod layouts;
mod lifecycle;
mod namespaces;
mod operators;
mod outage;
mod service;
