//! `/id/{code}`: one ID.

use std::fmt::Write;

use axum::response::Response;

use super::{
    answer::answer,
    asked::{AskedOne, Form, refuse_unsafe},
};
use crate::server::problem::Problem;

/// Answers one ID.
pub(in crate::server) async fn next_id(asked: AskedOne) -> Result<Response, Problem> {
    let id = asked.issuer.next_id(&asked.code).await?;
    let prefix = asked.prefix.as_deref().unwrap_or_default();
    let mut body = String::with_capacity(32 + prefix.len());
    let written = match asked.form {
        Form::Text => writeln!(body, "{prefix}{id}"),
        Form::Number => {
            refuse_unsafe(id)?;
            write!(body, r#"{{"id":{id}}}"#)
        }
        Form::String | Form::Range => write!(body, r#"{{"id":"{prefix}{id}"}}"#),
    };
    written.expect("a string takes any text");
    Ok(answer(asked.form, body))
}
