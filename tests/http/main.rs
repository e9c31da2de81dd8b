//! The HTTP contract: through the real router, and through a real listener.

mod accepted;
mod cors;
mod health;
mod issuing;
mod metrics;
mod parsing;
mod problems;
mod serving;
mod support;
