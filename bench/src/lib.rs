//! What both benchmarks share: rounds that alternate, a report with targets, and plots.

pub mod constants;
pub mod machine;
pub mod number;
pub mod plot;
pub mod report;
pub mod rounds;
