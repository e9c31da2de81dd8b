//! A change of a code's settings, by HTTP or by command.

use super::{SegmentSpec, TextForm};
use crate::{
    id::Id,
    violation::{Violation, Violations},
};

/// New values for settings of a code. A setting that is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecChange {
    /// The lower bound of numbers that are reserved from now on.
    pub start: Option<u64>,
    /// The smallest step.
    pub min_step: Option<u64>,
    /// The largest step.
    pub max_step: Option<u64>,
    /// The difference between neighbours.
    pub increment: Option<u64>,
    /// The remainder of every number when it is divided by the increment.
    pub remainder: Option<u64>,
    /// The largest number.
    pub max: Option<u64>,
    /// `true` lowers a largest number above 2^53 − 1 to 2^53 − 1. `false` raises a largest number
    /// of exactly 2^53 − 1 to [`SegmentSpec::LARGEST_NUMBER`], unless [`Self::max`] sets another
    /// one.
    pub js_safe: Option<bool>,
    /// How the numbers are written.
    pub text: Option<TextForm>,
    /// How many numbers of the code the store may lose in a fail-over at most.
    pub failover_gap: Option<u64>,
    /// Whether the numbers ascend over all nodes.
    pub strict: Option<bool>,
}

impl SpecChange {
    /// Changes the settings, and checks the result.
    ///
    /// # Errors
    ///
    /// All violations at once, with keys such as `min_step`, without a section.
    pub fn apply(&self, spec: &mut SegmentSpec) -> Result<(), Violations> {
        for (given, setting) in [
            (self.start, &mut spec.start),
            (self.min_step, &mut spec.min_step),
            (self.max_step, &mut spec.max_step),
            (self.increment, &mut spec.increment),
            (self.remainder, &mut spec.remainder),
            (self.max, &mut spec.max),
        ] {
            *setting = given.unwrap_or(*setting);
        }
        spec.text = self.text.or(spec.text);
        spec.failover_gap = self.failover_gap.or(spec.failover_gap);
        spec.strict = self.strict.unwrap_or(spec.strict);
        let safe = Id::MAX_JS_SAFE.get();
        if self.max.is_none() {
            match self.js_safe {
                Some(true) => spec.max = spec.max.min(safe),
                Some(false) if spec.max == safe => spec.max = SegmentSpec::LARGEST_NUMBER,
                _ => {}
            }
        }
        let mut violations = spec.check().err().map_or_else(Vec::new, |violations| violations.0);
        if self.js_safe == Some(true) && spec.max > safe {
            let allowed = format!("at most {safe} with js_safe");
            violations.push(Violation::new("max", spec.max, allowed));
        }
        if spec.strict {
            if spec.failover_gap.is_none() {
                let allowed = "given with strict: how many numbers the store may lose in a \
                               fail-over, 0 if it loses none";
                violations.push(Violation::new("failover_gap", "none", allowed.to_owned()));
            }
            for (key, given) in [("min_step", self.min_step), ("max_step", self.max_step)] {
                if let Some(value) = given {
                    let allowed = "left out with strict: such a code has no blocks".to_owned();
                    violations.push(Violation::new(key, value, allowed));
                }
            }
        }
        if violations.is_empty() { Ok(()) } else { Err(Violations(violations)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAFE: u64 = Id::MAX_JS_SAFE.get();
    const LARGEST: u64 = SegmentSpec::LARGEST_NUMBER;

    #[test]
    fn js_safe_only_lowers_the_largest_number_and_undoes_only_that() {
        for (before, js_safe, max, after) in [
            (LARGEST, Some(true), None, SAFE),
            (SAFE, Some(true), None, SAFE),
            (999, Some(true), None, 999),
            (LARGEST, Some(true), Some(999), 999),
            (999, Some(true), Some(SAFE), SAFE),
            (SAFE, Some(false), None, LARGEST),
            (999, Some(false), None, 999),
            (SAFE + 1, Some(false), None, SAFE + 1),
            (999, Some(false), Some(SAFE), SAFE),
            (SAFE, None, None, SAFE),
            (SAFE, None, Some(LARGEST), LARGEST),
        ] {
            let mut spec = SegmentSpec { max: before, ..SegmentSpec::default() };
            let change = SpecChange { max, js_safe, ..SpecChange::default() };
            assert_eq!(change.apply(&mut spec), Ok(()), "{change:?}");
            assert_eq!(spec.max, after, "{change:?} of {before}");
        }
    }

    #[test]
    fn given_settings_replace_the_present_ones() {
        let mut spec = SegmentSpec { start: 3, ..SegmentSpec::default() };
        assert_eq!(SpecChange::default().apply(&mut spec), Ok(()));
        assert_eq!(spec, SegmentSpec { start: 3, ..SegmentSpec::default() });
        let change = SpecChange {
            start: Some(7),
            min_step: Some(10),
            max_step: Some(20),
            increment: Some(4),
            remainder: Some(1),
            text: "INV-{n:06}".parse().ok(),
            failover_gap: Some(5),
            strict: Some(false),
            ..SpecChange::default()
        };
        assert_eq!(change.apply(&mut spec), Ok(()));
        let max = LARGEST;
        let (min_step, max_step, increment, remainder) = (10, 20, 4, 1);
        let text = change.text;
        assert!(text.is_some());
        let (start, failover_gap, strict) = (7, Some(5), false);
        assert_eq!(
            spec,
            SegmentSpec {
                start,
                min_step,
                max_step,
                increment,
                remainder,
                max,
                text,
                failover_gap,
                strict
            }
        );
        assert_eq!(SpecChange::default().apply(&mut spec), Ok(()));
        assert_eq!(spec.failover_gap, Some(5), "kept");
    }

    #[test]
    fn strict_code_has_no_steps() {
        let strict =
            SpecChange { strict: Some(true), failover_gap: Some(0), ..SpecChange::default() };
        let mut spec = SegmentSpec::default();
        assert_eq!(strict.apply(&mut spec), Ok(()));
        assert!(spec.strict);
        let gapless = SpecChange { strict: Some(true), ..SpecChange::default() };
        let text = gapless.apply(&mut SegmentSpec::default()).expect_err("no gap").to_string();
        assert!(text.starts_with("failover_gap = none: must be given with strict"), "{text}");
        let steps = SpecChange { min_step: Some(1), max_step: Some(2), ..SpecChange::default() };
        let text = steps.apply(&mut spec).expect_err("two").to_string();
        assert!(text.starts_with("min_step = 1: must be left out with strict"), "{text}");
        assert!(text.contains("max_step = 2: must be left out with strict"), "{text}");
    }

    #[test]
    fn every_violation_is_named() {
        let change = SpecChange {
            min_step: Some(0),
            max: Some(SAFE + 1),
            js_safe: Some(true),
            ..SpecChange::default()
        };
        let text = change.apply(&mut SegmentSpec::default()).expect_err("two").to_string();
        assert!(text.starts_with("min_step = 0: must be 1 to 4294967296; "), "{text}");
        let said = "max = 9007199254740992: must be at most 9007199254740991 with js_safe";
        assert!(text.ends_with(said), "{text}");
        let safe = SpecChange { start: Some(SAFE + 1), js_safe: Some(true), ..Default::default() };
        let text = safe.apply(&mut SegmentSpec::default()).expect_err("beyond").to_string();
        assert_eq!(text, "start = 9007199254740992: must be 0 to 9007199254740991");
    }
}
