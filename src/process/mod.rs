//! The process around the service: its clock, log, signals and memory limit.

pub(crate) mod clock;
pub(crate) mod hangup;
mod log_writer;
pub(crate) mod memory_limit;
pub mod shutdown;
pub mod telemetry;
