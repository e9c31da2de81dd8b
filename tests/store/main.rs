//! Every store keeps the same promises; each engine is run on a real database.

#[path = "../support/mod.rs"]
mod support;

mod conformance;
mod garbage;
mod late;
mod mariadb;
mod outage;
mod postgres;
mod redis;
mod segments;
mod site;
mod sql;
mod sqlite;
