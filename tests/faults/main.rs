//! Faults on real processes: every ID is collected, and none may come twice.

#[path = "../support/mod.rs"]
mod support;

mod cluster;
mod collected;
mod command;
mod layouts;
mod lifecycle;
mod outage;
mod service;
