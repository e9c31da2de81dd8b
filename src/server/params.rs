//! Query parameters, read strictly: a typo must not silently mean the default.

use std::borrow::Cow;

use axum::http::Uri;

use super::problem::{Problem, ProblemCode};

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
}

pub(super) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(ProblemCode::InvalidParameter, detail)
}
