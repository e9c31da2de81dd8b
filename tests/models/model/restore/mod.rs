//! The rules of a store that goes back in place: backups that are put back under the same identity,
//! tables that are emptied, and clocks that are wrong when an epoch begins.

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
