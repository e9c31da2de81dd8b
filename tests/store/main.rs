//! Tests that every store keeps the same promises, each engine on a real database.

#[path = "../support/mod.rs"]
mod support;

mod backend;
mod columns;
mod conformance;
mod corrupt_rows;
mod epochs;
mod fleet;
mod foreign;
mod grants;
mod hosts;
mod idempotency;
mod kubernetes;
mod late;
mod managed_codes;
mod mariadb;
mod outage;
mod poolers;
mod postgres;
mod redis;
mod segment_epochs;
mod segments;
mod sessions;
mod slow;
mod split;
mod sql;
mod sqlite;
mod statements;
mod tls;
