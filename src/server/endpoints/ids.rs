//! `/ids/{code}`: many IDs.

use std::fmt::Write;

use axum::response::Response;

use super::{
    answer::answer,
    asked::{AskedMany, Form, refuse_unsafe},
    texts::Texts,
};
use crate::{core::issue::Run, server::problem::Problem};

/// Answers `n` IDs, ascending.
pub(in crate::server) async fn next_ids(asked: AskedMany) -> Result<Response, Problem> {
    let run = asked.issuer.next_ids(&asked.code, asked.count).await?;
    Ok(answer(asked.form, write_run(asked.form, asked.texts(), run)?))
}

fn write_run(form: Form, texts: Texts<'_>, run: Run) -> Result<String, Problem> {
    // 19 digits, two quotes and a comma.
    let mut body = String::with_capacity(run.len() * (22 + texts.prefix.len()) + 16);
    let wrote = "a string takes any text";
    match form {
        Form::Text => {
            for id in run {
                writeln!(body, "{}", texts.text(id)).expect(wrote);
            }
            return Ok(body);
        }
        Form::Range => {
            body.push_str(r#"{"ranges":["#);
            for range in run.ranges() {
                let (first, last) = (range.first, range.last);
                let (step, count) = (range.step, range.count);
                let json = format_args!(
                    r#"{{"first":"{first}","last":"{last}","step":"{step}","count":{count}}},"#
                );
                body.write_fmt(json).expect(wrote);
            }
        }
        Form::String => {
            body.push_str(r#"{"ids":["#);
            for id in run {
                write!(body, r#""{}","#, texts.text(id)).expect(wrote);
            }
        }
        Form::Number => {
            body.push_str(r#"{"ids":["#);
            for id in run {
                refuse_unsafe(id)?;
                write!(body, "{id},").expect(wrote);
            }
        }
    }
    // A claim holds at least one ID, so a comma stands last.
    body.pop();
    body.push_str("]}");
    Ok(body)
}
