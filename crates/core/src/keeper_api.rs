//! What keepers need of the core, and nobody else: with these parts IDs can be issued twice.
//!
//! The methods of public types that only keepers and the service call are public too, and hidden from
//! this documentation.

pub use crate::{
    issue::grant::Grant,
    segment::cursor::{Denied, GiveBack, SegmentCursor},
};
