//! The lease protocol as a state machine, explored to the end: `make model-test`.
//!
//! A state is the rows of the store, the writes that are under way and what each process knows.
//! What a process decides is decided by the functions that the service runs; the tests add what
//! the world may do between two of its steps. `RAINDROP_MODEL=large` explores larger worlds.

mod clock_ahead;
mod cluster;
mod configuration;
mod failover;
mod grant;
mod issued;
mod process;
mod recovery;
mod report;
mod restore;

mod mutants;
mod segments;
mod sound;
