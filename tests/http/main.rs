//! The HTTP contract: through the real router, and through a real listener.

mod accepted;
mod bounds;
mod cors;
mod documents;
mod encodings;
mod health;
mod issuing;
mod metrics;
mod migrating;
mod namespaces;
mod parsing;
mod past;
mod problems;
mod segments;
mod serving;
mod support;
