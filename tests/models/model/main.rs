//! Explores the lease protocol to the end, as a state machine: `make model-test`.
//!
//! A state is the rows of the store, the writes that are under way, and the knowledge of each
//! process. The functions of the service make every decision of a process. The tests add what the
//! world may do between two steps of a process. `RAINDROP_MODEL=large` explores larger worlds.

mod clock_ahead;
mod cluster;
mod configuration;
mod failover;
mod grant;
mod issued;
mod long_window;
mod process;
mod recovery;
mod rename;
mod report;
mod restore;

mod mutants;
mod segments;
mod sound;
