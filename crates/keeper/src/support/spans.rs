//! Spans of the keeper's work, for traces.
//!
//! The keeper only makes them; whoever runs it decides by their target whether they are recorded.

/// The target of every span. A span is made only where the subscriber of the program enables this
/// target at the level `DEBUG`.
pub const SPANS: &str = "raindrop_spans";
