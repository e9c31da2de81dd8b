//! Injects faults on real processes: the tests collect every ID, and none may come twice.

#![expect(clippy::print_stdout, reason = "the figures of a run are part of its result")]

#[path = "../support/mod.rs"]
mod support;

// First by its name, so that it waits while the other tests work.
mod another_store;
mod away;
mod clocks;
mod cluster;
mod collected;
mod command;
mod day_ticks;
mod every_fault;
mod failover;
mod layouts;
mod lifecycle;
mod load;
mod log_level;
mod logging;
mod lost_writes;
mod migrating;
mod namespaces;
mod operators;
mod overload;
mod parsing;
mod past;
mod questions;
mod remote;
mod report;
mod restarts;
mod restored;
mod secrets;
mod segments;
mod service;
mod service_manager;
mod state_files;
mod tls;
mod tokens;
mod unsafe_stores;
mod workers;
