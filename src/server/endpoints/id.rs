//! `/id/{code}`: one ID.

use std::fmt::Write;

use axum::response::Response;

use super::{
    answer::answer,
    asked::{AskedOne, Form, refuse_unsafe},
};
use crate::server::{issuer::NamespaceIssuer, problem::Problem};

/// Answers one ID.
pub(in crate::server) async fn next_id(asked: AskedOne) -> Result<Response, Problem> {
    let id = match (asked.past_ids().await?.as_deref(), &asked.issuer) {
        (Some([id, ..]), _) => *id,
        (_, NamespaceIssuer::Snowflake(issuer)) => issuer.next_id(&asked.code).await?,
        (_, NamespaceIssuer::Segment(issuer)) => issuer.next_id(&asked.code).await?,
    };
    let text = asked.texts().text(id);
    let mut body = String::with_capacity(32);
    let written = match asked.form {
        Form::Text => writeln!(body, "{text}"),
        Form::Number => {
            refuse_unsafe(id)?;
            write!(body, r#"{{"id":{id}}}"#)
        }
        Form::String | Form::Range => write!(body, r#"{{"id":"{text}"}}"#),
    };
    written.expect("a string takes any text");
    Ok(answer(asked.form, body))
}
