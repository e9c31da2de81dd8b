//! `/id/{code}` and `/ids/{code}`: IDs.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, request::Parts},
    response::Response,
};

use super::{
    answer::{Answer, without_ids},
    asked::{Asked, invalid_code},
    id::write_one,
    ids::{Batch, write_batch},
};
use crate::server::{auth::Caller, issuer::NamespaceIssuer, problem::Problem, state::AppState};

/// Answers one ID, or `n` of them in ascending order.
pub(in crate::server) async fn issue<const MANY: bool>(
    State(state): State<Arc<AppState>>,
    caller: Caller,
    code: Result<Path<String>, PathRejection>,
    head: Parts,
) -> Result<Response, Problem> {
    let code = decoded(code)?;
    let answer = Asked::<MANY>::read(&code, &head, &caller, &state)?.answer().await?;
    Ok(answer.into_response(HeaderMap::new()).map(Body::from))
}

/// Answers HEAD: the request is checked, and nothing is claimed.
pub(in crate::server) async fn check<const MANY: bool>(
    State(state): State<Arc<AppState>>,
    caller: Caller,
    code: Result<Path<String>, PathRejection>,
    head: Parts,
) -> Result<Response, Problem> {
    let code = decoded(code)?;
    Ok(without_ids(Asked::<MANY>::read(&code, &head, &caller, &state)?.form))
}

fn decoded(code: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    code.map(|Path(code)| code).map_err(|_| invalid_code("that is not UTF-8"))
}

impl<const MANY: bool> Asked<'_, MANY> {
    /// Claims the IDs and writes them.
    pub(in crate::server) async fn answer(&self) -> Result<Answer, Problem> {
        let (code, count) = (self.code, self.count);
        match (&self.past, self.issuer) {
            // Boxed, so that every other request carries less from call to call.
            (Some(past), _) => self.write(Box::pin(past.ids(code, count)).await?.into_iter()),
            (None, NamespaceIssuer::Snowflake(issuer)) => {
                self.write(issuer.next_ids(code, count).await?)
            }
            (None, NamespaceIssuer::Segment(issuer)) => {
                self.write(issuer.next_ids(code, count).await?)
            }
        }
    }

    fn write(&self, mut ids: impl Batch) -> Result<Answer, Problem> {
        let body = if MANY {
            write_batch(self.form, self.texts, ids)?
        } else {
            let id = ids.next().expect("a claim of one has one ID");
            write_one(self.form, self.texts, id)?
        };
        Ok(Answer { form: self.form, body })
    }
}
