//! The length of a tick.

use std::{fmt, ops::RangeInclusive, str::FromStr};

/// The length of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// 1 ms.
    Millisecond,
    /// 10 ms, as in sonyflake.
    TenMilliseconds,
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
    pub const ALL: [Self; 6] = [
        Self::Millisecond,
        Self::TenMilliseconds,
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::Day,
    ];

    /// The units that treeyh/raindrop numbers from 1.
    const NUMBERED: [Self; 5] =
        [Self::Millisecond, Self::Second, Self::Minute, Self::Hour, Self::Day];

    /// Its name, its length in milliseconds, and the timestamp widths of configured layouts.
    const fn definition(self) -> (&'static str, i64, RangeInclusive<u32>) {
        match self {
            Self::Millisecond => ("millisecond", 1, 41..=55),
            Self::TenMilliseconds => ("10ms", 10, 39..=55),
            Self::Second => ("second", 1_000, 31..=55),
            Self::Minute => ("minute", 60_000, 25..=50),
            Self::Hour => ("hour", 3_600_000, 19..=45),
            Self::Day => ("day", 86_400_000, 15..=40),
        }
    }

    /// Its length in milliseconds.
    pub const fn millis(self) -> i64 {
        self.definition().1
    }

    /// Its name in configuration and layout records.
    pub const fn name(self) -> &'static str {
        self.definition().0
    }

    /// The timestamp widths of configured layouts, as in treeyh/raindrop if it has the unit.
    pub const fn timestamp_bits(self) -> RangeInclusive<u32> {
        self.definition().2
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
        let mut numbered = (1..).zip(Self::NUMBERED);
        let by_number = numbered.find(|(number, _)| number.to_string() == text);
        let by_name = || Self::ALL.into_iter().find(|unit| unit.name() == text);
        by_number.map(|(_, unit)| unit).or_else(by_name).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_by_name_and_by_number() {
        for unit in TimeUnit::ALL {
            assert_eq!(unit.name().parse(), Ok(unit));
        }
        for (number, name) in
            [("1", "millisecond"), ("2", "second"), ("3", "minute"), ("4", "hour"), ("5", "day")]
        {
            assert_eq!(number.parse(), name.parse::<TimeUnit>());
        }
        for text in ["", "0", "6", "Second", "ms", "01"] {
            assert_eq!(text.parse::<TimeUnit>(), Err(()), "{text:?}");
        }
    }
}
