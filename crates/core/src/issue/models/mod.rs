//! Issuing under loom: every interleaving of the threads of small programs, and every value that
//! a load may see, with the code that the service runs.
//!
//! `cargo test -p raindrop-core --features loom,planted --profile soak --lib models`
//!
//! Nothing is sampled and preemptions are not bounded. Reading the clock is a step like any other:
//! a thread may sleep after it for as long as the others like. Each model is also run with the
//! bugs that it is there to find, and must find them.

mod claims;
mod eviction;
mod handles;
mod recent_codes;
mod world;
