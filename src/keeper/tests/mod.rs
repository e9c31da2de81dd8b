//! Keepers over a faulty memory store, under paused time.

mod backfill;
mod clocks;
mod crowd;
mod durability;
mod explorer;
mod faulty_store;
mod leases;
mod operators;
mod outages;
mod panics;
mod recovery;
mod releases;
mod segments;
mod unknown_outcomes;
mod world;
