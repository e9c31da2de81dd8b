//! The settings of a code as people give and read them: one list for HTTP and the command line.
//!
//! `config/code_entries.rs` reads them from the configuration, and `SegmentSpec` of core checks and
//! stores them.

use std::{num::ParseIntError, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{
    core::{
        id::Id,
        segment::{InvalidTextForm, SegmentSpec, SpecChange, TextForm},
    },
    server::extract::given,
};

/// Settings of a code; those that are left out have their defaults, or stay.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
#[schema(as = SettingsBody)]
pub(crate) struct GivenSettings {
    /// The lower bound of the numbers from now on.
    #[arg(long, value_name = "NUMBER")]
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = u64, required = false, minimum = 0, example = 1)]
    start: Option<Number>,
    /// The smallest block that a node reserves, in numbers.
    #[arg(long, value_name = "NUMBERS")]
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = u64, required = false, minimum = 1, maximum = 4_294_967_296_u64, example = 1000)]
    min_step: Option<Number>,
    /// The largest block that a node reserves, in numbers.
    #[arg(long, value_name = "NUMBERS")]
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = u64, required = false, minimum = 1, maximum = 4_294_967_296_u64, example = 1_000_000)]
    max_step: Option<Number>,
    /// The difference between neighbours; fixed once the code exists.
    #[arg(long, value_name = "NUMBER")]
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = u64, required = false, minimum = 1, maximum = 4_294_967_296_u64, example = 1)]
    increment: Option<Number>,
    /// The remainder of every number when it is divided by the increment; fixed like that.
    #[arg(long, value_name = "NUMBER")]
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = u64, required = false, minimum = 0, maximum = 4_294_967_295_u64, example = 0)]
    remainder: Option<Number>,
    /// The largest number.
    #[arg(long, value_name = "NUMBER")]
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = u64, required = false, minimum = 1)]
    max: Option<Number>,
    /// True lowers a larger `max` to 2^53 - 1, exact as a JSON number; false undoes just that.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    js_safe: Option<bool>,
    /// The form of the numbers as texts, such as `INV-{n:06}`; later only its padding may grow.
    #[arg(long, value_name = "FORM")]
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, max_length = 64, example = "INV-{n:06}")]
    text: Option<Form>,
    /// The most numbers that a fail-over may lose, which are skipped then; 0 if it loses none.
    #[arg(long, value_name = "NUMBERS")]
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = u64, required = false, minimum = 0, example = 0)]
    failover_gap: Option<Number>,
    /// Whether the numbers ascend over all nodes, without a block in hand; fixed once the code exists.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    strict: Option<bool>,
}

/// The settings of a code; there are none of an `unserved` one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Settings)]
pub(super) struct ShownSettings {
    /// The lower bound of the code's numbers.
    #[schema(required = false)]
    start: String,
    /// The smallest block that a node reserves, in numbers.
    #[schema(required = false)]
    min_step: u64,
    /// The largest block that a node reserves, in numbers.
    #[schema(required = false)]
    max_step: u64,
    /// The difference between neighbours.
    #[schema(required = false)]
    increment: u64,
    /// The remainder of every number when it is divided by the increment.
    #[schema(required = false)]
    remainder: u64,
    /// The largest number.
    #[schema(required = false)]
    max: String,
    /// Whether every number is exact as a JSON number.
    #[schema(required = false)]
    js_safe: bool,
    /// The form of the numbers as texts; absent where they are plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "INV-{n:06}")]
    text: Option<String>,
    /// How many numbers are skipped after a fail-over; absent where `segment.failover_gap` says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    failover_gap: Option<String>,
    /// Whether the numbers ascend over all nodes; absent where they do not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    strict: bool,
}

/// A form of numbers as texts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Value")]
struct Form(TextForm);

impl TryFrom<Value> for Form {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => text.parse().map_err(|error: InvalidTextForm| error.to_string()),
            value => Err(format!(
                "invalid value: {}, expected a form, such as \"INV-{{n:06}}\", or no such key",
                found(&value)
            )),
        }
    }
}

impl FromStr for Form {
    type Err = InvalidTextForm;

    fn from_str(text: &str) -> Result<Self, InvalidTextForm> {
        text.parse().map(Self)
    }
}

impl Serialize for Form {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A number. JSON has it as a number or as a text, which is exact beyond 2^53.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct Number(pub(super) u64);

impl TryFrom<Value> for Number {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let number = match &value {
            Value::String(text) if is_digits(text) => text.parse().ok(),
            value => value.as_u64(),
        };
        number.map(Self).ok_or_else(|| {
            format!("invalid value: {}, expected a whole number, or a text of one", found(&value))
        })
    }
}

/// Returns what an error shows of a value.
fn found(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        value => value.to_string(),
    }
}

impl FromStr for Number {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl GivenSettings {
    /// Returns the body of a request with the given settings alone.
    pub(crate) fn body(self) -> Map<String, Value> {
        let Ok(Value::Object(mut body)) = serde_json::to_value(self) else { return Map::new() };
        body.retain(|_, value| !value.is_null());
        body
    }
}

impl From<GivenSettings> for SpecChange {
    fn from(given: GivenSettings) -> Self {
        let number = |given: Option<Number>| given.map(|Number(number)| number);
        Self {
            start: number(given.start),
            min_step: number(given.min_step),
            max_step: number(given.max_step),
            increment: number(given.increment),
            remainder: number(given.remainder),
            max: number(given.max),
            js_safe: given.js_safe,
            text: given.text.map(|Form(text)| text),
            failover_gap: number(given.failover_gap),
            strict: given.strict,
        }
    }
}

impl From<SegmentSpec> for ShownSettings {
    fn from(spec: SegmentSpec) -> Self {
        Self {
            start: spec.start.to_string(),
            min_step: spec.min_step,
            max_step: spec.max_step,
            increment: spec.increment,
            remainder: spec.remainder,
            max: spec.max.to_string(),
            js_safe: spec.max <= Id::MAX_JS_SAFE.get(),
            text: spec.text.map(|text| text.to_string()),
            failover_gap: spec.failover_gap.map(|gap| gap.to_string()),
            strict: spec.strict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::extract::parse_json;

    fn read(json: &str) -> Result<SpecChange, String> {
        let body: GivenSettings = parse_json(json.as_bytes())?;
        Ok(body.into())
    }

    #[test]
    fn settings_are_numbers_or_texts_of_numbers() {
        assert_eq!(read("{}"), Ok(SpecChange::default()));
        let all = r#"{"start":"9007199254740993","min_step":2,"max_step":3,"increment":4,
                      "remainder":5,"max":"6","js_safe":false,"text":"INV-{n:06}",
                      "failover_gap":"0","strict":true}"#;
        let change = SpecChange {
            start: Some(9_007_199_254_740_993),
            min_step: Some(2),
            max_step: Some(3),
            increment: Some(4),
            remainder: Some(5),
            max: Some(6),
            js_safe: Some(false),
            text: "INV-{n:06}".parse().ok(),
            failover_gap: Some(0),
            strict: Some(true),
        };
        assert_eq!(read(all), Ok(change));
        let given: GivenSettings = serde_json::from_str(all).expect("settings");
        let body = Value::Object(given.body()).to_string();
        assert_eq!(read(&body), Ok(change), "the body of a request has every setting: {body}");
        for (json, said) in [
            (r#"{"colour":1}"#, "colour"),
            (r#"{"start":"1x"}"#, "1x"),
            (r#"{"start":-1}"#, "-1"),
            (r#"{"start":1.5}"#, "1.5"),
            (r#"{"start":"99999999999999999999"}"#, "99999999999999999999"),
            (r#"{"text":"INV-{m}"}"#, "text: \"INV-{m}\" is no form"),
            (
                r#"{"text":""}"#,
                "text: \"\" is no form of numbers: it must be at most 64 characters",
            ),
            (r#"{"text":7}"#, "text: invalid value: 7, expected a form"),
            (r#"{"text":null}"#, "text: invalid value: null, expected a form"),
            (r#"{"start":null}"#, "start: invalid value: null, expected a whole number"),
            (r#"{"min_step":null}"#, "min_step: invalid value: null"),
            (r#"{"max_step":null}"#, "max_step: invalid value: null"),
            (r#"{"increment":null}"#, "increment: invalid value: null"),
            (r#"{"remainder":null}"#, "remainder: invalid value: null"),
            (r#"{"max":null}"#, "max: invalid value: null"),
            (r#"{"js_safe":null}"#, "js_safe: invalid type: null, expected a boolean"),
            (r#"{"failover_gap":null}"#, "failover_gap: invalid value: null"),
            (r#"{"strict":null}"#, "strict: invalid type: null, expected a boolean"),
            ("{} {}", "trailing characters"),
        ] {
            let error = read(json).expect_err(json);
            assert!(error.contains(said), "{json}: {error}");
        }
    }
}
