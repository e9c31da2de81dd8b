//! The length of a tick.

use std::{fmt, ops::RangeInclusive, str::FromStr};

/// The length of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// 1 ms.
    Millisecond,
    /// 1 s.
    Second,
    /// 60 s.
    Minute,
    /// 3 600 s.
    Hour,
    /// 86 400 s, from midnight UTC.
    Day,
}

impl TimeUnit {
    /// Every unit, shortest first.
    pub const ALL: [Self; 5] =
        [Self::Millisecond, Self::Second, Self::Minute, Self::Hour, Self::Day];

    /// Its length in milliseconds.
    pub const fn millis(self) -> i64 {
        match self {
            Self::Millisecond => 1,
            Self::Second => 1_000,
            Self::Minute => 60_000,
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
        }
    }

    /// Its name in configuration and layout records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Millisecond => "millisecond",
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    /// The timestamp widths of configured layouts, as in treeyh/raindrop.
    pub const fn timestamp_bits(self) -> RangeInclusive<u32> {
        match self {
            Self::Millisecond => 41..=55,
            Self::Second => 31..=55,
            Self::Minute => 25..=50,
            Self::Hour => 19..=45,
            Self::Day => 15..=40,
        }
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TimeUnit {
    type Err = ();

    /// Reads a name, or treeyh/raindrop's number: 1 (millisecond) to 5 (day).
    fn from_str(text: &str) -> Result<Self, ()> {
        let by_number = ["1", "2", "3", "4", "5"].iter().position(|number| *number == text);
        let by_name = || Self::ALL.iter().position(|unit| unit.name() == text);
        by_number.or_else(by_name).map(|index| Self::ALL[index]).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_by_name_and_by_number() {
        for (index, unit) in TimeUnit::ALL.into_iter().enumerate() {
            assert_eq!(unit.name().parse(), Ok(unit));
            assert_eq!((index + 1).to_string().parse(), Ok(unit));
        }
        for text in ["", "0", "6", "Second", "ms", "01"] {
            assert_eq!(text.parse::<TimeUnit>(), Err(()), "{text:?}");
        }
    }
}
