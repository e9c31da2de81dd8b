//! The process around the service: its clock, log, signals, memory limit, and the files that it
//! reads and follows.

pub(crate) mod clock;
pub(crate) mod file_watch;
pub(crate) mod hangup;
mod log_writer;
pub(crate) mod memory_limit;
pub(crate) mod reading;
pub mod shutdown;
pub mod telemetry;
