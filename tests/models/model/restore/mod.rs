//! Explores the rules of a store that is rolled back in place: backups that are restored under the
//! same identity, tables that are emptied, and clocks that are wrong when an epoch begins.

mod configuration;
mod mutants;
mod past;
mod process;
mod rename;
mod report;
mod search;
mod sound;
mod store;
mod time;
mod world;
