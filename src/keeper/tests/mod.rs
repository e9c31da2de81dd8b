//! Keepers over a faulty memory store, under paused time.

mod backfill;
mod clocks;
mod crowd;
mod durability;
mod explorer;
mod failovers;
mod faulty_store;
mod issuing;
mod lease_writes;
mod leases;
mod managed_codes;
mod operator_writes;
mod operators;
mod outages;
mod panics;
mod preparing;
mod previews;
mod recovery;
mod releases;
mod segment_codes;
mod segment_status;
mod segments;
mod settings;
mod state_files;
mod unknown_outcomes;
mod world;
