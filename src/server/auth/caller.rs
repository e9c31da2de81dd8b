//! Who sends a request, and what that one may use.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Request, State},
    http::request::Parts,
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::tokens::Rights;
use crate::{
    core::namespace::DEFAULT_NAMESPACE,
    server::{
        problem::{Problem, ProblemCode},
        state::AppState,
    },
};

/// What the bearer of a token that may not do this is told (RFC 6750).
const FORBIDDEN: &str = r#"Bearer realm="raindrop", error="insufficient_scope""#;

/// Who sends a request.
#[derive(Clone, Debug)]
pub(in crate::server) struct Caller(Option<Arc<Rights>>);

impl Caller {
    /// Of a service that needs no tokens.
    pub(super) const fn anybody() -> Self {
        Self(None)
    }

    pub(super) const fn with(rights: Arc<Rights>) -> Self {
        Self(Some(rights))
    }

    /// Refuses a code that this one may not use.
    pub(in crate::server) fn check_code(
        &self,
        code: &str,
        state: &AppState,
    ) -> Result<(), Problem> {
        match &self.0 {
            Some(rights) if !rights.has_code(code) => {
                Err(refuse(rights, &format!("code {code:?}"), rights.codes.as_ref(), state))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what belongs to a namespace that this one may not use, without telling which one it
    /// is, unless that was asked for.
    pub(in crate::server) fn check_namespace(
        &self,
        own: &str,
        asked: Option<&str>,
        state: &AppState,
    ) -> Result<(), Problem> {
        match &self.0 {
            Some(rights) if !rights.has_namespace(own) => {
                let is_told = asked == Some(own) || own == DEFAULT_NAMESPACE;
                let told = match is_told {
                    true => format!("namespace {own:?}"),
                    false => "what is asked for".into(),
                };
                Err(refuse(rights, &told, rights.namespaces.as_ref(), state))
            }
            _ => Ok(()),
        }
    }

    /// Whether this one may use a namespace.
    pub(in crate::server) fn may_use(&self, namespace: &str) -> bool {
        self.0.as_ref().is_none_or(|rights| rights.has_namespace(namespace))
    }
}

fn refuse(rights: &Rights, what: &str, allowed: Option<&Vec<String>>, state: &AppState) -> Problem {
    state.metrics.auth.forbidden.inc();
    let token = &rights.name;
    tracing::debug!(token, what, "a request was refused");
    let allowed = allowed.filter(|allowed| !allowed.is_empty());
    let allowed = allowed.map_or_else(|| "none".into(), |allowed| allowed.join(", "));
    let detail = format!("the token {token:?} may not use {what}, but: {allowed}");
    Problem::challenging(ProblemCode::Forbidden, detail, FORBIDDEN)
}

/// Marks the answer to a request of somebody whose token is known.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Known;

/// Lets only those in who are known, and tells the handlers who it is.
pub(in crate::server) async fn authenticate(
    State(state): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Response {
    match state.admit(request.headers()) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            let mut response = next.run(request).await;
            response.extensions_mut().insert(Known);
            response
        }
        Err(refused) => refused.into_response(),
    }
}

impl FromRequestParts<Arc<AppState>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(head: &mut Parts, state: &Arc<AppState>) -> Result<Self, Problem> {
        match head.extensions.get::<Self>() {
            Some(caller) => Ok(caller.clone()),
            None => state.admit(&head.headers),
        }
    }
}
