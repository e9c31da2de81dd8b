//! The HTTP contract: through the real router, and through a real listener.

mod admin;

mod api;
mod auth;
mod bounds;
mod clients;
#[cfg(feature = "sqlite")]
mod code_changes;
mod codes;
mod connection_limits;
mod connections;
mod console;
mod corpus;
mod cors;
mod document_numbers;
mod documents;
mod embedded_ids;
mod encodings;
#[cfg(feature = "sqlite")]
#[path = "../support/example.rs"]
mod example;
#[cfg(feature = "sqlite")]
mod examples;
#[path = "../support/frames.rs"]
mod frames;
mod health;
mod hosts;
mod http2;
mod issuing;
mod log_lines;
mod matrix;
mod metrics;
mod migrating;
mod namespaces;
mod parsing;
mod past;
mod plan;
mod problems;
mod properties;
mod request_log;
mod segments;
mod series;
mod serving;
mod strict;
mod supervision;
mod support;
#[path = "../support/corpus.rs"]
mod test_corpus;
mod tokens;
mod unread;
