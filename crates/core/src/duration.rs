//! Durations such as `5m`, `500ms` and `1h30m`.

use std::time::Duration;

use jiff::fmt::friendly::SpanParser;

/// Parses a duration. `0` needs no unit; any other bare number is refused, since it could mean
/// seconds or milliseconds.
pub fn parse(text: &str) -> Option<Duration> {
    match text.trim() {
        "0" => Some(Duration::ZERO),
        text => SpanParser::new().parse_unsigned_duration(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_units() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("500ms", 500),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("90s", 90_000),
            ("1.5s", 1_500),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "300", "-5s", "5s ago", "5 parsecs", "soon", "PT5M"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
