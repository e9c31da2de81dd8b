//! The parts of this crate that only a keeper may use: misused, they issue IDs twice.
//!
//! A program that embeds Raindrop needs none of them. Other methods that only the keeper and the
//! service call are public, too, but hidden from this documentation.

pub use crate::{
    issue::grant::Grant,
    segment::cursor::{Denied, GiveBack, SegmentCursor},
};
