//! The parts that both benchmarks share: alternating rounds, a report with targets, and plots.

pub mod bare_server;
pub mod machine;
pub mod number;
pub mod plot;
pub mod report;
pub mod rounds;
