//! What requests say of a code.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};
use utoipa::ToSchema;

use crate::{
    core::{id::Id, segment::SegmentSpec},
    server::{
        params::invalid,
        problem::{Problem, ProblemCode},
    },
};

/// Settings of a code; those that are left out have their defaults, or stay.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingsBody {
    /// The lower bound of the numbers from now on; as a text beyond 2^53.
    #[schema(value_type = Option<u64>, minimum = 0, example = 1)]
    start: Option<Number>,
    /// The smallest block that a node reserves, in numbers.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 4_294_967_296_u64, example = 1000)]
    min_step: Option<Number>,
    /// The largest block that a node reserves, in numbers.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 4_294_967_296_u64, example = 1_000_000)]
    max_step: Option<Number>,
    /// The difference between neighbours; fixed once the code exists.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 4_294_967_296_u64, example = 1)]
    increment: Option<Number>,
    /// The remainder of every number when it is divided by the increment; fixed like that.
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 4_294_967_295_u64, example = 0)]
    remainder: Option<Number>,
    /// The largest number; as a text beyond 2^53.
    #[schema(value_type = Option<u64>, minimum = 1)]
    max: Option<Number>,
    /// Whether every number is exact as a JSON number, so that `max` is at most 2^53 - 1.
    js_safe: Option<bool>,
}

/// By how much, or to which number: one of the two.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RaiseBody {
    /// How many numbers are skipped.
    #[schema(value_type = Option<u64>, minimum = 1, example = 100_000)]
    by: Option<Number>,
    /// The least next number.
    #[schema(value_type = Option<u64>, minimum = 0)]
    to: Option<Number>,
}

/// How far a code is raised.
pub(super) enum Amount {
    By(u64),
    To(u64),
}

/// A number as a JSON number or as a text, which is exact beyond 2^53.
#[derive(Clone, Copy, Debug)]
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or a text of one")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let number = if is_number { text.parse().ok() } else { None };
                number.map(Number).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}

impl SettingsBody {
    /// Refuses settings that contradict each other.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if let (Some(true), Some(Number(max))) = (self.js_safe, self.max)
            && max > Id::MAX_JS_SAFE.get()
        {
            let largest = Id::MAX_JS_SAFE;
            return Err(invalid(format!("max = {max}: must be at most {largest} with js_safe")));
        }
        Ok(())
    }

    /// Returns these settings, checked, over others.
    pub(super) fn over(&self, mut spec: SegmentSpec) -> Result<SegmentSpec, Problem> {
        self.check()?;
        self.change(&mut spec);
        match spec.check() {
            Ok(()) => Ok(spec),
            Err(violations) => {
                let lines = violations.0.iter().map(ToString::to_string);
                Err(invalid(lines.collect::<Vec<_>>().join("\n")))
            }
        }
    }

    /// Changes what is given.
    pub(super) fn change(&self, spec: &mut SegmentSpec) {
        let numbers = [
            (self.start, &mut spec.start),
            (self.min_step, &mut spec.min_step),
            (self.max_step, &mut spec.max_step),
            (self.increment, &mut spec.increment),
            (self.remainder, &mut spec.remainder),
            (self.max, &mut spec.max),
        ];
        for (given, setting) in numbers {
            if let Some(Number(given)) = given {
                *setting = given;
            }
        }
        let safe = Id::MAX_JS_SAFE.get();
        match self.js_safe {
            Some(true) => spec.max = spec.max.min(safe),
            // What js_safe had lowered.
            Some(false) if self.max.is_none() && spec.max == safe => {
                spec.max = SegmentSpec::LARGEST_NUMBER;
            }
            _ => {}
        }
    }
}

impl RaiseBody {
    pub(super) fn amount(self) -> Result<Amount, Problem> {
        let end = SegmentSpec::LARGEST_NUMBER;
        match (self.by, self.to) {
            (Some(Number(by)), None) if (1..=end).contains(&by) => Ok(Amount::By(by)),
            (None, Some(Number(to))) if to <= end => Ok(Amount::To(to)),
            (Some(Number(by)), None) => Err(invalid(format!("by = {by}: must be 1 to {end}"))),
            (None, Some(Number(to))) => Err(invalid(format!("to = {to}: must be 0 to {end}"))),
            _ => Err(Problem::new(
                ProblemCode::InvalidParameter,
                "the body: must have one of by and to",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over_defaults(json: &str) -> Result<SegmentSpec, String> {
        let body: SettingsBody = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let problem = |problem: Problem| {
            assert_eq!(problem.code(), ProblemCode::InvalidParameter);
            format!("{problem:?}")
        };
        body.over(SegmentSpec::default()).map_err(problem)
    }

    #[test]
    fn settings_are_numbers_or_texts_of_numbers() {
        let default = SegmentSpec::default();
        assert_eq!(over_defaults("{}"), Ok(default));
        let given = over_defaults(r#"{"start":"9007199254740993","min_step":5,"js_safe":false}"#);
        let start = 9_007_199_254_740_993;
        assert_eq!(given, Ok(SegmentSpec { start, min_step: 5, ..default }));
        let safe = over_defaults(r#"{"js_safe":true}"#).expect("fits");
        assert_eq!(safe.max, Id::MAX_JS_SAFE.get());
        let given = over_defaults(r#"{"js_safe":true,"max":999}"#).expect("fits");
        assert_eq!(given.max, 999);
        for (json, said) in [
            (r#"{"colour":1}"#, "colour"),
            (r#"{"start":"1x"}"#, "1x"),
            (r#"{"start":-1}"#, "-1"),
            (r#"{"start":1.5}"#, "1.5"),
            (r#"{"start":"99999999999999999999"}"#, "99999999999999999999"),
            (r#"{"min_step":0,"increment":0}"#, "increment"),
            (r#"{"js_safe":true,"max":"9007199254740992"}"#, "9007199254740991"),
            ("[1]", "invalid"),
        ] {
            let error = over_defaults(json).expect_err(json);
            assert!(error.contains(said), "{json}: {error}");
        }
    }

    #[test]
    fn a_code_that_is_not_js_safe_any_more_reaches_to_the_end() {
        let mut spec = SegmentSpec { max: Id::MAX_JS_SAFE.get(), ..SegmentSpec::default() };
        let body: SettingsBody = serde_json::from_str(r#"{"js_safe":false}"#).expect("JSON");
        body.change(&mut spec);
        assert_eq!(spec.max, SegmentSpec::LARGEST_NUMBER);
    }
}
