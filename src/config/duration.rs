//! Durations in messages.

use std::time::Duration;

use jiff::fmt::friendly::{Spacing, SpanPrinter};

pub(crate) use crate::core::duration::parse;

/// The form of a duration, for error messages.
pub(crate) const FORM: &str = "a duration with its unit such as 500ms, 5m or 1h30m";

/// Formats a duration so that [`parse`] reads it back.
pub(crate) fn format(duration: Duration) -> String {
    SpanPrinter::new().spacing(Spacing::None).unsigned_duration_to_string(&duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_durations_can_be_parsed() {
        for text in ["0s", "500ms", "5m", "1h30m", "1m30s"] {
            assert_eq!(format(parse(text).expect("a duration")), text);
        }
    }
}
