//! Reads the values of arguments.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::{
    config::{self, DURATION_FORM},
    core::{encoding::Encoding, instant::parse_unix_ms},
};

/// Reads an encoding by its name.
pub(super) fn encodings() -> impl TypedValueParser<Value = Encoding> {
    PossibleValuesParser::new(Encoding::ALL.map(Encoding::name))
        .map(|name| Encoding::by_name(&name).expect("a possible value"))
}

/// Reads a duration above zero.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration = config::parse_duration(text).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| format!("must be {DURATION_FORM}"))
}

/// Reads an instant in Unix ms.
pub(super) fn instant(text: &str) -> Result<i64, String> {
    let form = || "must be an RFC 3339 instant such as 2020-02-29T12:00:00Z".to_owned();
    parse_unix_ms(text).ok_or_else(form)
}
