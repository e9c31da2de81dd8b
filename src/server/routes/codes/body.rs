//! The JSON bodies of requests that change a code.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    core::segment::{SegmentSpec, SpecChange},
    server::{extract::invalid, response::Problem},
};

/// Settings of a code; those that are left out have their defaults, or stay.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::server) struct SettingsBody {
    /// The lower bound of the numbers from now on; as a text beyond 2^53.
    #[schema(value_type = u64, required = false, minimum = 0, example = 1)]
    start: Option<Number>,
    /// The smallest block that a node reserves, in numbers.
    #[schema(value_type = u64, required = false, minimum = 1, maximum = 4_294_967_296_u64, example = 1000)]
    min_step: Option<Number>,
    /// The largest block that a node reserves, in numbers.
    #[schema(value_type = u64, required = false, minimum = 1, maximum = 4_294_967_296_u64, example = 1_000_000)]
    max_step: Option<Number>,
    /// The difference between neighbours; fixed once the code exists.
    #[schema(value_type = u64, required = false, minimum = 1, maximum = 4_294_967_296_u64, example = 1)]
    increment: Option<Number>,
    /// The remainder of every number when it is divided by the increment; fixed like that.
    #[schema(value_type = u64, required = false, minimum = 0, maximum = 4_294_967_295_u64, example = 0)]
    remainder: Option<Number>,
    /// The largest number; as a text beyond 2^53.
    #[schema(value_type = u64, required = false, minimum = 1)]
    max: Option<Number>,
    /// True lowers a larger `max` to 2^53 - 1, exact as a JSON number; false undoes just that.
    #[schema(nullable = false)]
    js_safe: Option<bool>,
}

/// How far to raise the next number: `by` or `to`, one of the two.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::server) struct RaiseBody {
    /// The count of numbers to skip.
    #[schema(value_type = u64, required = false, minimum = 1, example = 100_000)]
    by: Option<Number>,
    /// The least next number.
    #[schema(value_type = u64, required = false, minimum = 0)]
    to: Option<Number>,
}

/// How far a request raises a code.
pub(super) enum Amount {
    By(u64),
    To(u64),
}

/// A number as a JSON number or as a text, which is exact beyond 2^53.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Value")]
struct Number(u64);

impl TryFrom<Value> for Number {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let number = match &value {
            Value::String(text) if is_digits(text) => text.parse().ok(),
            value => value.as_u64(),
        };
        number.map(Self).ok_or_else(|| {
            let found = match value {
                Value::Array(_) => "a list".to_owned(),
                Value::Object(_) => "an object".to_owned(),
                value => value.to_string(),
            };
            format!("invalid value: {found}, expected a whole number, or a text of one")
        })
    }
}

impl From<SettingsBody> for SpecChange {
    fn from(body: SettingsBody) -> Self {
        let number = |given: Option<Number>| given.map(|Number(number)| number);
        Self {
            start: number(body.start),
            min_step: number(body.min_step),
            max_step: number(body.max_step),
            increment: number(body.increment),
            remainder: number(body.remainder),
            max: number(body.max),
            js_safe: body.js_safe,
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
            _ => Err(invalid("the body: must have one of by and to")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<SpecChange, String> {
        let body: SettingsBody = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Ok(body.into())
    }

    #[test]
    fn settings_are_numbers_or_texts_of_numbers() {
        assert_eq!(read("{}"), Ok(SpecChange::default()));
        let all = r#"{"start":"9007199254740993","min_step":2,"max_step":3,"increment":4,
                      "remainder":5,"max":"6","js_safe":false}"#;
        let change = SpecChange {
            start: Some(9_007_199_254_740_993),
            min_step: Some(2),
            max_step: Some(3),
            increment: Some(4),
            remainder: Some(5),
            max: Some(6),
            js_safe: Some(false),
        };
        assert_eq!(read(all), Ok(change));
        for (json, said) in [
            (r#"{"colour":1}"#, "colour"),
            (r#"{"start":"1x"}"#, "1x"),
            (r#"{"start":-1}"#, "-1"),
            (r#"{"start":1.5}"#, "1.5"),
            (r#"{"start":"99999999999999999999"}"#, "99999999999999999999"),
            ("[1]", "invalid"),
        ] {
            let error = read(json).expect_err(json);
            assert!(error.contains(said), "{json}: {error}");
        }
    }
}
