//! Who sends a request, and what that client may use.

use std::sync::Arc;

use axum::http::header;

use super::tokens::Rights;
use crate::{
    core::namespace::DEFAULT_NAMESPACE,
    server::problem::{Problem, ProblemCode},
};

/// The challenge to a token that may not do this (RFC 6750).
const FORBIDDEN: &str = r#"Bearer realm="raindrop", error="insufficient_scope""#;

/// Who sends a request; by default somebody who needs no token.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Caller(pub(super) Option<Arc<Rights>>);

impl Caller {
    /// The name of the token, if one was needed.
    pub(in crate::server) fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|rights| rights.name.as_str())
    }

    /// Refuses a code that the caller may not use.
    pub(in crate::server) fn check_code(&self, code: &str) -> Result<(), Problem> {
        if let Some(rights) = &self.0
            && !rights.has_code(code)
        {
            return Err(forbidden(rights, &format!("code {code:?}"), rights.codes.as_ref()));
        }
        Ok(())
    }

    /// Refuses what belongs to a namespace that the caller may not use. The namespace is named only
    /// if the caller named it.
    pub(in crate::server) fn check_namespace(
        &self,
        own: &str,
        requested: Option<&str>,
    ) -> Result<(), Problem> {
        if let Some(rights) = &self.0
            && !rights.has_namespace(own)
        {
            let is_named = requested == Some(own) || own == DEFAULT_NAMESPACE;
            let named = is_named.then(|| format!("namespace {own:?}"));
            let what = named.as_deref().unwrap_or("what is requested");
            return Err(forbidden(rights, what, rights.namespaces.as_ref()));
        }
        Ok(())
    }

    /// Whether the caller may use a namespace.
    pub(in crate::server) fn may_use(&self, namespace: &str) -> bool {
        self.0.as_ref().is_none_or(|rights| rights.has_namespace(namespace))
    }
}

fn forbidden(rights: &Rights, what: &str, allowed: Option<&Vec<String>>) -> Problem {
    let token = &rights.name;
    tracing::debug!(token, what, "request forbidden");
    let allowed = allowed.filter(|allowed| !allowed.is_empty());
    let allowed = allowed.map_or_else(|| "none".into(), |allowed| allowed.join(", "));
    let detail = format!("the token {token:?} may not use {what}; allowed: {allowed}");
    Problem::new(ProblemCode::Forbidden, detail).with_header(header::WWW_AUTHENTICATE, FORBIDDEN)
}
