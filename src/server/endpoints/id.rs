//! `/id/{code}`: one ID.

use std::{fmt::Write, sync::Arc};

use axum::{
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, Uri},
    response::Response,
};

use super::ids::{Asked, Form, answer, head, refuse_unsafe};
use crate::server::{problem::Problem, state::AppState};

const PARAMETERS: [&str; 2] = ["format", "namespace"];

/// Answers one ID.
pub(in crate::server) async fn next_id(
    State(state): State<Arc<AppState>>,
    code: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asked = Asked::read(&state, code, &uri, &headers, &PARAMETERS)?;
    let id = asked.issuer.next_id(&asked.code).await?;
    let mut body = String::with_capacity(32);
    let written = match asked.form {
        Form::Text => writeln!(body, "{id}"),
        Form::Number => {
            refuse_unsafe(id)?;
            write!(body, r#"{{"id":{id}}}"#)
        }
        Form::String | Form::Range => write!(body, r#"{{"id":"{id}"}}"#),
    };
    written.expect("a string takes any text");
    Ok(answer(asked.form, body.into()))
}

/// Checks the request and claims nothing.
pub(in crate::server) async fn head_id(
    State(state): State<Arc<AppState>>,
    code: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Ok(head(Asked::read(&state, code, &uri, &headers, &PARAMETERS)?.form))
}
