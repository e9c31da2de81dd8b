//! Instants as Unix milliseconds, and their RFC 3339 text.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, civil::DateTime};

const DATE_0: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The length of the mean Gregorian year in milliseconds.
pub const YEAR_MS: i64 = 31_556_952_000;

/// Returns a duration in whole milliseconds.
#[doc(hidden)]
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Formats an instant as RFC 3339 in UTC with milliseconds, `2026-11-20T15:11:02.123Z`; outside the
/// years -9999 to 9999 as `unix_ms:<number>`.
pub fn format_unix_ms(unix_ms: i64) -> String {
    match Timestamp::from_millisecond(unix_ms) {
        Ok(instant) => format!("{instant:.3}"),
        Err(_) => format!("unix_ms:{unix_ms}"),
    }
}

/// Formats an instant as [`format_unix_ms`] does, without zeros at the end of the fraction.
pub fn format_unix_ms_short(unix_ms: i64) -> String {
    match Timestamp::from_millisecond(unix_ms) {
        Ok(instant) => instant.to_string(),
        Err(_) => format!("unix_ms:{unix_ms}"),
    }
}

/// Formats an instant as [`format_unix_ms_short`] does, so that [`parse_unix_ms`] can read the text
/// again. That holds even at both ends of the calendar, for an instant that was floored to a unit
/// of time.
pub fn format_unix_ms_for_reading(unix_ms: i64) -> String {
    let text = format_unix_ms_short(unix_ms.max(Timestamp::MIN.as_millisecond()));
    let last_day = || DATE_0.checked_add(SignedDuration::from_millis(unix_ms)).ok();
    let is_beyond = unix_ms > Timestamp::MAX.as_millisecond();
    last_day().filter(|_| is_beyond).map_or(text, |date_time| format!("{date_time}Z"))
}

/// Formats an instant for people: as [`format_unix_ms_short`] does, or `the year 37703` after 9999.
pub fn format_unix_ms_or_year(unix_ms: i64) -> String {
    far_year(unix_ms).unwrap_or_else(|| format_unix_ms_short(unix_ms))
}

/// Returns `the year 37703` if the instant is after the year 9999, where dates end.
pub fn far_year(unix_ms: i64) -> Option<String> {
    let is_far = unix_ms > 0 && Timestamp::from_millisecond(unix_ms).is_err();
    is_far.then(|| format!("the year {}", 1970 + unix_ms / YEAR_MS))
}

/// Reads an RFC 3339 instant with an offset (`2025-01-01T00:00:00Z`) as Unix milliseconds, floored;
/// `None` if the text is not such an instant.
pub fn parse_unix_ms(text: &str) -> Option<i64> {
    let Ok(instant) = text.parse::<Timestamp>() else { return parse_last_day(text) };
    let millisecond = instant.as_millisecond();
    let before_it = Timestamp::from_millisecond(millisecond).is_ok_and(|floor| floor > instant);
    Some(millisecond - i64::from(before_it))
}

/// Reads an instant of 9999-12-31. Part of that day, which often means "for ever", is outside the
/// range of jiff's timestamps.
fn parse_last_day(text: &str) -> Option<i64> {
    let date_time: DateTime =
        text.strip_prefix("9999-12-31T").and(text.strip_suffix('Z'))?.parse().ok()?;
    let since_1970 = date_time.duration_since(DATE_0);
    i64::try_from(since_1970.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_with_milliseconds_and_read_back() {
        assert_eq!(format_unix_ms(1_735_689_600_000), "2025-01-01T00:00:00.000Z");
        assert_eq!(format_unix_ms_short(1_735_689_600_000), "2025-01-01T00:00:00Z");
        assert_eq!(parse_unix_ms("2025-01-01T08:00:00.1239+08:00"), Some(1_735_689_600_123));
        assert_eq!(parse_unix_ms("1969-12-31T23:59:59.9999Z"), Some(-1));
        assert_eq!(parse_unix_ms("9999-12-31T23:59:59.999Z"), Some(253_402_300_799_999));
        for text in ["2025-01-01", "", "9999-12-31T", "9999-12-31T25:00:00Z", "9999-12-31Z"] {
            assert_eq!(parse_unix_ms(text), None, "{text:?}");
        }
        for text in ["9999-12-31T23:59:59.999Z", "9999-12-31T00:00:00Z", "2025-01-01T00:00:00Z"] {
            let unix_ms = parse_unix_ms(text).expect("an instant");
            assert_eq!(format_unix_ms_for_reading(unix_ms), text);
        }
        // Floored to its day, as layouts do.
        let first_ms = parse_unix_ms("-009999-01-02T12:00:00Z").expect("an instant");
        let floored = format_unix_ms_for_reading(first_ms - 43_200_000);
        assert!(parse_unix_ms(&floored).is_some_and(|unix_ms| unix_ms < first_ms), "{floored}");
        assert_eq!(format_unix_ms(i64::MAX), format!("unix_ms:{}", i64::MAX));
        assert_eq!(format_unix_ms_or_year(1_735_689_600_000), "2025-01-01T00:00:00Z");
        assert_eq!(format_unix_ms_or_year(1_127_635_479_000_000), "the year 37703");
        assert_eq!(format_unix_ms_or_year(i64::MIN), format!("unix_ms:{}", i64::MIN));
    }
}
