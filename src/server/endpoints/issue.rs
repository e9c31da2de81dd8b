//! `/id/{code}` and `/ids/{code}`: IDs.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, Method, request::Parts},
    response::Response,
};

use super::{
    answer::{Answer, without_ids},
    asked::{Asked, invalid_code},
    id::{OneId, write_one},
    ids::{Batch, ManyIds, write_batch},
};
use crate::server::{
    auth::Caller,
    issuer::NamespaceIssuer,
    openapi::{About, Kind, PLAIN_TEXT, shared, with},
    problem::Problem,
    state::AppState,
};

pub(in crate::server) static ONE: About = About {
    name: "id",
    summary: "One ID",
    description: "Claims one ID of a code. With `Accept: text/plain` the answer is the ID alone, \
                  on a line. GET and POST are the same, except that POST alone has `at`.",
    parameters: Asked::<false>::PARAMETERS,
    formats: Asked::<false>::FORMATS,
    answers: &[("application/json", shared::<OneId>), PLAIN_TEXT],
    schemas: with::<OneId>,
    kind: Kind::Issues,
};

pub(in crate::server) static MANY: About = About {
    name: "ids",
    summary: "IDs in ascending order",
    description: "Claims `n` IDs of a code at once. With `Accept: text/plain` each stands on a \
                  line. GET and POST are the same, except that POST alone has `at`.",
    parameters: Asked::<true>::PARAMETERS,
    formats: Asked::<true>::FORMATS,
    answers: &[("application/json", shared::<ManyIds>), PLAIN_TEXT],
    schemas: with::<ManyIds>,
    kind: Kind::Issues,
};

/// Answers one ID, or `n` of them in ascending order. HEAD claims nothing: it checks the request.
pub(in crate::server) async fn issue<const MANY: bool>(
    State(state): State<Arc<AppState>>,
    caller: Caller,
    code: Result<Path<String>, PathRejection>,
    head: Parts,
) -> Result<Response, Problem> {
    let Path(code) = code.map_err(|_| invalid_code("that is not UTF-8"))?;
    let asked = Asked::<MANY>::read(&code, &head, &caller, &state)?;
    if head.method == Method::HEAD {
        return Ok(without_ids(asked.form));
    }
    let answer = asked.answer().await?;
    Ok(answer.into_response(HeaderMap::new()).map(Body::from))
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
