//! Query parameters, read strictly: a typo must not silently mean the default.

use axum::{extract::Query, http::Uri};

use super::problem::{Problem, ProblemCode};

/// The query parameters of a request.
#[derive(Debug, Default)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads the query; unknown and repeated parameters are refused.
    pub(super) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        if uri.query().is_none_or(str::is_empty) {
            return Ok(Self::default());
        }
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| invalid(error.to_string()))?;
        for (index, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
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
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

pub(super) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(ProblemCode::InvalidParameter, detail)
}
