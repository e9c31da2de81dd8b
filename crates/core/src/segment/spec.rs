//! The settings of a segment code, and the block of a reservation.

use std::fmt;

use super::TextForm;
use crate::{
    id::Id,
    lease::Token,
    violation::{Violation, Violations},
};

/// The numbers `remainder`, `remainder + increment`, `remainder + 2 · increment`, …
///
/// Two independent stores can share a code with increment 2 and the remainders 0 and 1, as in
/// tinyid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progression {
    increment: u64,
    remainder: u64,
}

impl Progression {
    /// The progression of all numbers.
    pub const ALL: Self = Self { increment: 1, remainder: 0 };

    /// Returns the number at an index.
    pub const fn number(self, index: u64) -> u64 {
        index * self.increment + self.remainder
    }

    /// Returns the index of the first number at or above this one.
    pub const fn index_at(self, number: u64) -> u64 {
        number.saturating_sub(self.remainder).div_ceil(self.increment)
    }

    /// Returns whether it has this number.
    pub const fn has(self, number: u64) -> bool {
        number % self.increment == self.remainder
    }

    /// Returns the difference between neighbours.
    pub const fn increment(self) -> u64 {
        self.increment
    }

    /// Returns the remainder of every number when it is divided by the increment.
    pub const fn remainder(self) -> u64 {
        self.remainder
    }
}

/// The word that marks a strict code in the text of its settings.
pub(super) const STRICT: &str = "strict";

/// The settings of a segment code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSpec {
    /// The lower bound of the first number; 1 by default.
    pub start: u64,
    /// The smallest step, in numbers; 1000 by default.
    pub min_step: u64,
    /// The largest step, in numbers; 1 000 000 by default.
    pub max_step: u64,
    /// The difference between neighbours, 1 by default.
    pub increment: u64,
    /// The remainder of every number when it is divided by the increment, 0 by default.
    pub remainder: u64,
    /// The largest number; [`Self::LARGEST_NUMBER`] by default, 2^53 − 1 for a code that JSON
    /// numbers carry.
    pub max: u64,
    /// How the numbers are written; plain by default. A library's caller writes them.
    pub text: Option<TextForm>,
    /// How many numbers of the code the store may lose in a fail-over at most: as many are skipped.
    /// `None` stands for what [`GapRule`](super::GapRule) says of all codes.
    pub failover_gap: Option<u64>,
    /// Whether the numbers ascend over all processes in real time; `false` by default. Then each
    /// claim waits for a write of the store.
    pub strict: bool,
}

impl Default for SegmentSpec {
    fn default() -> Self {
        Self {
            start: 1,
            min_step: 1_000,
            max_step: 1_000_000,
            increment: 1,
            remainder: 0,
            max: Self::LARGEST_NUMBER,
            text: None,
            failover_gap: None,
            strict: false,
        }
    }
}

impl SegmentSpec {
    /// 2^63 − 2, because stores keep one past the last number as a signed 64-bit integer.
    pub const LARGEST_NUMBER: u64 = Id::MAX.get() - 1;
    /// The largest step and increment, so that a block is a small part of all numbers.
    pub const LARGEST: u64 = 1 << 32;

    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// All violations at once, with keys such as `min_step`, without a section.
    pub fn check(&self) -> Result<(), Violations> {
        let mut violations = Vec::new();
        let mut check = |fits: bool, key: &str, value: u64, allowed: String| {
            if !fits {
                violations.push(Violation::new(key, value, allowed));
            }
        };
        let range = |low: u64, high: u64| format!("{low} to {high}");
        let in_range = |value: u64| (1..=Self::LARGEST).contains(&value);
        check(in_range(self.min_step), "min_step", self.min_step, range(1, Self::LARGEST));
        check(
            (self.min_step..=Self::LARGEST).contains(&self.max_step),
            "max_step",
            self.max_step,
            format!("{} (min_step) to {}", self.min_step, Self::LARGEST),
        );
        check(in_range(self.increment), "increment", self.increment, range(1, Self::LARGEST));
        check(
            self.remainder < self.increment,
            "remainder",
            self.remainder,
            format!("below {} (increment)", self.increment),
        );
        let largest = Self::LARGEST_NUMBER;
        check((1..=largest).contains(&self.max), "max", self.max, range(1, largest));
        check(self.start <= self.max, "start", self.start, range(0, self.max));
        if let Some(text) = self.text.filter(TextForm::has_rest) {
            let allowed = "without {*}, which only a series has".to_owned();
            violations.push(Violation::new("text", text, allowed));
        }
        if violations.is_empty() && self.first() > self.max {
            let Self { start, increment, remainder, max, .. } = self;
            let allowed = format!(
                "such that a number up to {max} (max) leaves {remainder} (remainder) when it is \
                 divided by {increment} (increment)"
            );
            violations.push(Violation::new("start", start, allowed));
        }
        if violations.is_empty()
            && let Some(gap) = self.failover_gap
            && gap >= self.count()
        {
            // The first fail-over would skip every number.
            let allowed = format!("below {}, the count of the code's numbers", self.count());
            violations.push(Violation::new("failover_gap", gap, allowed));
        }
        if violations.is_empty() { Ok(()) } else { Err(Violations(violations)) }
    }

    /// Returns the settings of a member of a series with these, whose name has this behind its last
    /// `:`; `None` if its texts would be too long.
    pub fn of_member(&self, rest: &str) -> Option<Self> {
        let Some(text) = &self.text else { return Some(*self) };
        Some(Self { text: Some(text.of_member(rest)?), ..*self })
    }

    /// Returns every setting that is a number, with its name in the configuration.
    pub(super) const fn fields(&self) -> [(&'static str, u64); 6] {
        [
            ("start", self.start),
            ("min_step", self.min_step),
            ("max_step", self.max_step),
            ("increment", self.increment),
            ("remainder", self.remainder),
            ("max", self.max),
        ]
    }

    /// Returns the setting of this name, if it is a number.
    pub(super) fn field_mut(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "start" => &mut self.start,
            "min_step" => &mut self.min_step,
            "max_step" => &mut self.max_step,
            "increment" => &mut self.increment,
            "remainder" => &mut self.remainder,
            "max" => &mut self.max,
            _ => return None,
        })
    }

    /// Returns the progression of the code's numbers.
    pub const fn progression(&self) -> Progression {
        Progression { increment: self.increment, remainder: self.remainder }
    }

    /// Returns whether the code may ever issue this number. `start` does not count: it may have been
    /// lower before.
    pub const fn allows(&self, number: u64) -> bool {
        number <= self.max && self.progression().has(number)
    }

    /// Returns how many numbers there are from the first of a new code to the largest.
    const fn count(&self) -> u64 {
        let progression = self.progression();
        progression.index_at(self.max + 1) - progression.index_at(self.start)
    }

    /// Returns the first number of a new code.
    pub const fn first(&self) -> u64 {
        let progression = self.progression();
        progression.number(progression.index_at(self.start))
    }
}

/// Writes every setting, such as `start=1 min_step=1000 …`.
impl fmt::Display for SegmentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.fields().into_iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            write!(f, "{blank}{name}={value}")?;
        }
        self.text.map_or(Ok(()), |text| write!(f, " text={text}"))?;
        self.failover_gap.map_or(Ok(()), |gap| write!(f, " failover_gap={gap}"))?;
        if self.strict { write!(f, " {STRICT}") } else { Ok(()) }
    }
}

/// The numbers of one reservation, `first <= number < end`. Of these, the numbers of the code's
/// progression belong to the process that reserved them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first number.
    pub first: u64,
    /// One past the last number.
    pub end: u64,
    /// The token that the reservation wrote.
    pub token: Token,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_series_has_the_rest_of_a_name_in_its_texts() {
        let series = SegmentSpec { text: "INV-{*}-{n}".parse().ok(), ..SegmentSpec::default() };
        let text = series.check().expect_err("a series").to_string();
        assert_eq!(text, "text = INV-{*}-{n}: must be without {*}, which only a series has");
        let member = series.of_member("paris").expect("short");
        assert_eq!((member.check(), member.text), (Ok(()), "INV-paris-{n}".parse().ok()));
        assert_eq!(series.of_member(&"x".repeat(60)), None);
        assert_eq!(SegmentSpec::default().of_member("x"), Some(SegmentSpec::default()));
    }

    #[test]
    fn odd_and_even_numbers_never_meet() {
        let spec =
            |remainder| SegmentSpec { increment: 2, remainder, start: 10, ..Default::default() };
        assert_eq!((spec(0).first(), spec(1).first()), (10, 11));
        let odd = spec(1).progression();
        assert_eq!((odd.number(5), odd.index_at(11), odd.index_at(12)), (11, 5, 6));
        assert_eq!(odd.index_at(0), 0);
        assert_eq!(Progression::ALL.index_at(7), 7);
    }

    #[test]
    fn every_setting_that_cannot_be_used_is_named() {
        let spec = SegmentSpec {
            start: 11,
            min_step: 0,
            max_step: 1 << 33,
            increment: 2,
            remainder: 2,
            max: 10,
            text: None,
            failover_gap: None,
            strict: false,
        };
        let violations = spec.check().expect_err("five").0;
        let keys: Vec<&str> = violations.iter().map(|violation| violation.key.as_str()).collect();
        assert_eq!(keys, ["min_step", "max_step", "remainder", "start"]);
        assert_eq!(SegmentSpec::default().check(), Ok(()));
        assert!(SegmentSpec { increment: 0, ..SegmentSpec::default() }.check().is_err());
    }

    #[test]
    fn every_bound_is_checked() {
        let refused = |change: fn(&mut SegmentSpec)| {
            let mut spec = SegmentSpec::default();
            change(&mut spec);
            let violations = spec.check().err().map_or_else(Vec::new, |violations| violations.0);
            violations.into_iter().map(|violation| violation.key).collect::<Vec<String>>()
        };
        let nothing: [&str; 0] = [];
        assert_eq!(SegmentSpec::LARGEST_NUMBER, (1 << 63) - 2);
        assert_eq!(SegmentSpec::LARGEST, 4_294_967_296);
        assert_eq!(refused(|spec| spec.max = SegmentSpec::LARGEST_NUMBER + 1), ["max"]);
        assert_eq!(refused(|spec| (spec.max, spec.start) = (0, 0)), ["max"]);
        assert_eq!(refused(|spec| (spec.max, spec.start) = (1, 1)), nothing);
        assert_eq!(refused(|spec| (spec.max, spec.start) = (1, 2)), ["start"]);
        let few = SegmentSpec { max: 12, increment: 10, remainder: 1, ..SegmentSpec::default() };
        assert_eq!(SegmentSpec { start: 11, ..few }.check(), Ok(()));
        let none = SegmentSpec { start: 12, ..few }.check().expect_err("the next one is 21").0;
        assert_eq!((none.len(), none[0].key.as_str()), (1, "start"));
        assert_eq!(refused(|spec| spec.increment = SegmentSpec::LARGEST), nothing);
        assert_eq!(refused(|spec| spec.increment = SegmentSpec::LARGEST + 1), ["increment"]);
        assert_eq!(refused(|spec| spec.max_step = SegmentSpec::LARGEST), nothing);
        assert_eq!(refused(|spec| spec.max_step = 999), ["max_step"]);
        assert_eq!(refused(|spec| spec.max_step = 1_000), nothing);
        assert_eq!(refused(|spec| spec.failover_gap = Some(0)), nothing);
        assert_eq!(refused(|spec| spec.failover_gap = Some(u64::MAX)), ["failover_gap"]);
    }

    #[test]
    fn gap_that_would_skip_every_number_is_refused() {
        let tens = SegmentSpec { increment: 10, remainder: 3, max: 43, ..SegmentSpec::default() };
        let with = |gap, spec| SegmentSpec { failover_gap: Some(gap), ..spec };
        assert_eq!(with(4, tens).check(), Ok(()), "43 is left of 3, 13, 23, 33, 43");
        let text = with(5, tens).check().expect_err("none is left").to_string();
        assert_eq!(text, "failover_gap = 5: must be below 5, the count of the code's numbers");
        let late = SegmentSpec { start: 33, ..tens };
        assert_eq!(with(1, late).check(), Ok(()));
        assert!(with(2, late).check().is_err(), "33 and 43");
        let one = SegmentSpec { start: 43, ..tens };
        assert_eq!(with(0, one).check(), Ok(()));
        assert!(with(1, one).check().is_err());
        let all = SegmentSpec { start: 0, ..SegmentSpec::default() };
        assert_eq!(with(SegmentSpec::LARGEST_NUMBER, all).check(), Ok(()));
        assert!(with(SegmentSpec::LARGEST_NUMBER + 1, all).check().is_err());
        // The bounds of the other settings come first.
        let bad = with(9, SegmentSpec { start: 50, ..tens }).check().expect_err("start").0;
        assert_eq!((bad.len(), bad[0].key.as_str()), (1, "start"));
    }

    #[test]
    fn progression_tells_its_increment_and_remainder() {
        let spec = SegmentSpec { increment: 7, remainder: 3, ..SegmentSpec::default() };
        let progression = spec.progression();
        assert_eq!((progression.increment(), progression.remainder()), (7, 3));
        assert_eq!((0..3).map(|index| progression.number(index)).collect::<Vec<_>>(), [3, 10, 17]);
        assert_eq!((progression.index_at(10), progression.index_at(11)), (1, 2));
        assert_eq!(spec.first(), 3);
    }

    #[test]
    fn numbers_of_another_remainder_or_above_the_largest_are_not_allowed() {
        let spec = SegmentSpec {
            start: 13,
            increment: 10,
            remainder: 3,
            max: 1_003,
            ..Default::default()
        };
        for (number, is_allowed) in
            [(0, false), (3, true), (4, false), (13, true), (1_003, true), (1_013, false)]
        {
            assert_eq!(spec.allows(number), is_allowed, "{number}");
        }
        assert!(SegmentSpec::default().allows(0), "the start may have been lower");
    }
}
