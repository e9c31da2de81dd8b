//! Explores the rules of fail-overs: a store that goes back to any prefix of its history, twice,
//! with writes under way to both servers.

mod configuration;
mod issued;
mod mutants;
mod process;
mod rename;
mod report;
mod sound;
mod store;
mod world;
