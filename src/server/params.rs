//! Query parameters, read strictly: a typo must not silently mean the default.

use std::borrow::Cow;

use axum::http::Uri;
use serde::Deserialize;

use super::problem::{Problem, ProblemCode};
use crate::core::{encoding::Encoding, instant::parse_unix_ms};

/// The query parameters of a request.
#[derive(Debug, Default)]
pub(super) struct Params<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Params<'a> {
    /// Reads the query; unknown and repeated parameters are refused.
    pub(super) fn read(uri: &'a Uri, known: &[&str]) -> Result<Self, Problem> {
        let query = uri.query().unwrap_or_default();
        let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
        for (index, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&&**name) {
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                return Err(invalid(format!("unknown parameter {name:?}; known are: {known}")));
            }
            if pairs[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(invalid(format!("parameter {name} is given more than once")));
            }
        }
        Ok(Self(pairs))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// Parses a parameter, if it is given; `allowed` says what it must be.
    pub(super) fn parse<T>(
        &self,
        name: &str,
        allowed: impl FnOnce() -> String,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let refuse = || invalid(format!("{name} = {text:?}: must be {}", allowed()));
        parse(text).ok_or_else(refuse).map(Some)
    }

    /// The parameter `encoding`; decimal when it is missing.
    pub(super) fn encoding(&self) -> Result<Encoding, Problem> {
        let names = || format!("one of {}", Encoding::ALL.map(Encoding::name).join(", "));
        Ok(self.parse("encoding", names, Encoding::by_name)?.unwrap_or_default())
    }

    /// An instant, if it is given; Unix ms.
    pub(super) fn instant(&self, name: &str) -> Result<Option<i64>, Problem> {
        let form = "an RFC 3339 instant such as 2026-11-20T00:00:00Z; a + is written %2B in an \
                    address";
        self.parse(name, || form.into(), parse_unix_ms)
    }
}

/// Reads a body as a JSON object; an empty one is an object without fields.
pub(super) fn read_body<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    let body = if body.is_empty() { b"{}" } else { body };
    // An array would be read as the fields in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(invalid("the body: must be a JSON object"));
    }
    serde_json::from_slice(body).map_err(|error| invalid(format!("the body: {error}")))
}

pub(super) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(ProblemCode::InvalidParameter, detail)
}
