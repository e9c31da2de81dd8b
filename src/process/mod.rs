//! The process around the service: its build, clock, log and its level, signals, memory limit, and
//! the files that it reads and follows.

pub(crate) mod build;
pub(crate) mod clock;
pub(crate) mod file_watch;
pub(crate) mod hangup;
pub(crate) mod log_level;
mod log_writer;
pub(crate) mod memory_limit;
pub(crate) mod reading;
pub mod service_manager;
pub mod shutdown;
pub mod telemetry;
#[cfg(feature = "otel")]
pub(crate) mod traces;
