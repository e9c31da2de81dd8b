//! `?at=`: IDs for a past time.

use std::sync::Arc;

use axum::http::Method;

use super::bounds::read_instant;
use crate::{
    core::id::Id,
    keeper::Backfill,
    server::{
        issuer::NamespaceIssuer,
        params::invalid,
        problem::{Problem, ProblemCode},
        state::AppState,
    },
};

/// A past instant, and who hands out its IDs.
#[derive(Debug)]
pub(super) struct Past {
    backfill: Arc<Backfill>,
    /// Unix ms.
    pub(super) at_ms: i64,
}

impl Past {
    pub(super) fn read(
        at: &str,
        method: &Method,
        state: &AppState,
        issuer: &NamespaceIssuer,
    ) -> Result<Self, Problem> {
        // Each answer is a durable write of the store, and its IDs are gone for good.
        if method != Method::POST {
            return Err(invalid(format!("at = {at:?}: must be asked for with POST, not {method}")));
        }
        let at_ms = read_instant("at", at)?;
        let namespace = issuer.namespace();
        let backfill = state.backfill(namespace).ok_or_else(|| {
            let detail = format!(
                "namespace {namespace:?} has no IDs for a past time: it counts, or its store is memory:"
            );
            Problem::new(ProblemCode::OutOfRange, detail)
        })?;
        Ok(Self { backfill, at_ms })
    }

    /// All or none.
    pub(super) async fn ids(&self, code: &str, count: u32) -> Result<Vec<Id>, Problem> {
        Ok(self.backfill.ids(code, count, self.at_ms).await?)
    }
}
